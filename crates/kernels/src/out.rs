//! A result that several threads write, each to its own elements.

use std::marker::PhantomData;

use crate::simd::LANES;

/// A result with rows of `n`, of which each task writes some columns.
pub(crate) struct Out<'a> {
    to: *mut f32,
    length: usize,
    n: usize,
    of: PhantomData<&'a mut [f32]>,
}

// SAFETY: it is written only through the functions below, whose callers write disjoint elements.
unsafe impl Sync for Out<'_> {}

impl<'a> Out<'a> {
    pub(crate) fn new(out: &'a mut [f32], n: usize) -> Self {
        Self { to: out.as_mut_ptr(), length: out.len(), n, of: PhantomData }
    }

    /// # Safety
    /// No other thread writes or reads this element before all tasks have ended.
    #[inline(always)]
    pub(crate) unsafe fn set(&self, row: usize, column: usize, value: f32) {
        let at = row * self.n + column;
        assert!(at < self.length, "inside the result");
        // SAFETY: the element is inside the slice, which is borrowed as long as `self` lives; no other thread accesses
        // it.
        unsafe { *self.to.add(at) = value }
    }

    /// # Safety
    /// As [`Out::set`], for consecutive columns.
    #[inline(always)]
    pub(crate) unsafe fn set_some(&self, row: usize, column: usize, values: &[f32]) {
        let at = row * self.n + column;
        assert!(column + values.len() <= self.n && at + values.len() <= self.length, "inside the result");
        // SAFETY: the elements are inside the slice, which is borrowed as long as `self` lives; no other thread
        // accesses them.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), self.to.add(at), values.len()) }
    }

    /// # Safety
    /// As [`Out::set_some`], for the first `count` of sixteen columns.
    #[inline(always)]
    pub(crate) unsafe fn set_lanes(&self, row: usize, column: usize, values: &[f32; LANES], count: usize) {
        if count < LANES {
            // SAFETY: upheld by the caller.
            return unsafe { self.set_some(row, column, &values[..count]) };
        }
        let at = row * self.n + column;
        assert!(column + LANES <= self.n && at + LANES <= self.length, "inside the result");
        // SAFETY: as above; an array of numbers has the alignment of one.
        unsafe { *self.to.add(at).cast() = *values }
    }

    /// Prefetches some columns of a row, which will be written soon.
    #[cfg(amx)]
    #[inline(always)]
    pub(crate) fn prefetch<S: crate::simd::Simd>(&self, unit: S, row: usize, column: usize, count: usize) {
        let from = self.to.wrapping_add(row * self.n + column);
        (0..count).step_by(LANES).for_each(|i| unit.prefetch_to_write(from.wrapping_add(i).cast()));
    }
}
