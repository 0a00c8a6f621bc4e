//! Sources of the keys or values of one head: decoded rows, or rows in their stored format.

use std::marker::PhantomData;

use crate::decode::{Decode, STEP};
use crate::format::Format;
use crate::simd::{LANES, Simd};

/// Some rows of one head.
pub(super) trait Rows: Copy {
    /// The number of registers of sixteen lanes in a part, which are read together.
    const LANES: usize;
    type Part<S: Simd>: AsRef<[S::Lanes]>;

    /// Whether there are `rows` rows of `width` elements, and `width` is whole parts.
    fn reach(self, rows: usize, width: usize) -> bool;

    /// Reads part `part` of a row: the elements from `part * LANES * 16`.
    ///
    /// # Safety
    /// The rows reach that far.
    unsafe fn part<S: Simd>(self, unit: S, row: usize, part: usize) -> Self::Part<S>;
}

/// Rows of `width` numbers, or some columns of them.
#[derive(Clone, Copy)]
pub(super) struct Numbers<'a> {
    pub(super) numbers: &'a [f32],
    pub(super) width: usize,
}

impl Rows for Numbers<'_> {
    const LANES: usize = 1;
    type Part<S: Simd> = [S::Lanes; 1];

    fn reach(self, rows: usize, width: usize) -> bool {
        width.is_multiple_of(LANES)
            && rows.checked_sub(1).is_none_or(|last| self.numbers.len() >= last * self.width + width)
    }

    #[inline(always)]
    unsafe fn part<S: Simd>(self, unit: S, row: usize, part: usize) -> [S::Lanes; 1] {
        let at = row * self.width + part * LANES;
        debug_assert!(at + LANES <= self.numbers.len());
        // SAFETY: upheld by the caller; an array of numbers has the alignment of one.
        [unit.load(unsafe { &*self.numbers.as_ptr().add(at).cast() })]
    }
}

/// Rows in their stored format, `stride` bytes apart.
#[derive(Clone, Copy)]
pub(super) struct StoredRows<'a> {
    pub(super) format: Format,
    pub(super) bytes: &'a [u8],
    pub(super) stride: usize,
}

impl<'a> StoredRows<'a> {
    /// Whether heads of `head_dim` elements are whole steps.
    pub(super) fn fits(head_dim: usize) -> bool {
        head_dim.is_multiple_of(STEP)
    }

    pub(super) fn of<F: Decode>(self) -> StoredRowsAs<'a, F> {
        StoredRowsAs(self, PhantomData)
    }
}

/// Rows in a format that is known at compile time.
#[derive(Clone, Copy)]
pub(super) struct StoredRowsAs<'a, F>(StoredRows<'a>, PhantomData<F>);

impl<F: Decode> Rows for StoredRowsAs<'_, F> {
    const LANES: usize = 2;
    type Part<S: Simd> = [S::Lanes; 2];

    fn reach(self, rows: usize, width: usize) -> bool {
        let row = width / STEP * F::STEP_BYTES;
        width.is_multiple_of(STEP)
            && rows.checked_sub(1).is_none_or(|last| self.0.bytes.len() >= last * self.0.stride + row)
    }

    #[inline(always)]
    unsafe fn part<S: Simd>(self, unit: S, row: usize, part: usize) -> [S::Lanes; 2] {
        let at = row * self.0.stride + part * F::STEP_BYTES;
        debug_assert!(at + F::STEP_BYTES <= self.0.bytes.len());
        // SAFETY: upheld by the caller.
        let bytes = unsafe { self.0.bytes.get_unchecked(at..at + F::STEP_BYTES) };
        F::step(unit, bytes)
    }
}

/// Evaluates an expression with `$kind` as the type of a format that caches are stored in.
macro_rules! with_format {
    ($format:expr, $kind:ident => $call:expr) => {
        with_format!(@ F32, F16, Bf16, Q8_0; $format, $kind => $call)
    };
    (@ $($name:ident),*; $format:expr, $kind:ident => $call:expr) => {
        match $format {
            $($crate::format::Format::$name => {
                type $kind = $crate::decode::$name;
                $call
            })*
            format => unreachable!("caches are not stored as {format:?}"),
        }
    };
}
pub(super) use with_format;
