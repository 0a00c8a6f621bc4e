//! Where tiles read the keys or values of one head: rows that were decoded before, or rows as they are stored.

use std::marker::PhantomData;

use crate::decode::Decode;
use crate::format::Format;
use crate::simd::{LANES, Simd};

/// Some rows of one head.
pub(super) trait Rows: Copy {
    /// Lanes of a part, which are read at once.
    const LANES: usize;
    type Part<S: Simd>: AsRef<[S::Lanes]>;

    /// Whether there are so many rows of `width` elements, which is whole parts.
    fn reach(self, rows: usize, width: usize) -> bool;

    /// Some elements of a row, from `part * LANES * 16` on.
    ///
    /// # Safety
    /// The rows reach that far.
    unsafe fn part<S: Simd>(self, unit: S, row: usize, part: usize) -> Self::Part<S>;
}

/// Rows of `width` numbers, or some elements of such.
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
        // SAFETY: the caller's promise; an array of numbers is aligned as they are.
        [unit.load(unsafe { &*self.numbers.as_ptr().add(at).cast() })]
    }
}

/// Rows as they are stored, each so many bytes after the one before it.
#[derive(Clone, Copy)]
pub(super) struct Stored<'a> {
    pub(super) format: Format,
    pub(super) bytes: &'a [u8],
    pub(super) stride: usize,
}

impl<'a> Stored<'a> {
    /// Whether a head of so many elements is read so: in steps of two lanes, as all formats of caches have them.
    pub(super) fn fits(head_dim: usize) -> bool {
        head_dim.is_multiple_of(2 * LANES)
    }

    pub(super) fn of<F: Decode>(self) -> StoredAs<'a, F> {
        const { assert!(F::STEP == 2 * LANES && F::PARTS == 1) };
        StoredAs(self, PhantomData)
    }
}

/// Rows in a format that is known when this is compiled.
pub(super) struct StoredAs<'a, F>(Stored<'a>, PhantomData<F>);

impl<F> Clone for StoredAs<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for StoredAs<'_, F> {}

impl<F: Decode> Rows for StoredAs<'_, F> {
    const LANES: usize = 2;
    type Part<S: Simd> = F::Part<S>;

    fn reach(self, rows: usize, width: usize) -> bool {
        let row = width / F::STEP * F::STEP_BYTES;
        width.is_multiple_of(F::STEP)
            && rows.checked_sub(1).is_none_or(|last| self.0.bytes.len() >= last * self.0.stride + row)
    }

    #[inline(always)]
    unsafe fn part<S: Simd>(self, unit: S, row: usize, part: usize) -> F::Part<S> {
        let at = row * self.0.stride + part * F::STEP_BYTES;
        debug_assert!(at + F::STEP_BYTES <= self.0.bytes.len());
        // SAFETY: the caller's promise.
        let bytes = unsafe { self.0.bytes.get_unchecked(at..at + F::STEP_BYTES) };
        F::part(unit, bytes, &F::header(unit, bytes), 0)
    }
}

/// Calls a function with rows of whichever format caches are stored in.
macro_rules! with_format {
    ($stored:expr, $rows:ident => $call:expr) => {
        match $stored.format {
            Format::F32 => {
                let $rows = $stored.of::<decode::F32>();
                $call
            }
            Format::F16 => {
                let $rows = $stored.of::<decode::F16>();
                $call
            }
            Format::Bf16 => {
                let $rows = $stored.of::<decode::Bf16>();
                $call
            }
            Format::Q8_0 => {
                let $rows = $stored.of::<decode::Q8_0>();
                $call
            }
            format => unreachable!("caches are not stored as {format:?}"),
        }
    };
}
pub(super) use with_format;
