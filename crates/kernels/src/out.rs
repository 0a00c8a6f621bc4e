//! A result that several threads write, each at places of its own.

use std::marker::PhantomData;

/// A result of rows of `n`, of which each task writes some columns.
pub(crate) struct Out<'a> {
    to: *mut f32,
    length: usize,
    n: usize,
    of: PhantomData<&'a mut [f32]>,
}

// SAFETY: it is written through `set` and `set_some` alone, whose callers write at places of their own.
unsafe impl Sync for Out<'_> {}

impl<'a> Out<'a> {
    pub(crate) fn new(out: &'a mut [f32], n: usize) -> Self {
        Self { to: out.as_mut_ptr(), length: out.len(), n, of: PhantomData }
    }

    /// # Safety
    /// No other thread writes or reads there before all tasks have ended.
    #[inline(always)]
    pub(crate) unsafe fn set(&self, row: usize, column: usize, value: f32) {
        let at = row * self.n + column;
        assert!(at < self.length, "inside the result");
        // SAFETY: it is inside the slice, which is borrowed as long as this lives; nobody else uses this place.
        unsafe { *self.to.add(at) = value }
    }

    /// # Safety
    /// As [`Out::set`], for columns that follow each other.
    #[inline(always)]
    pub(crate) unsafe fn set_some(&self, row: usize, column: usize, values: &[f32]) {
        let at = row * self.n + column;
        assert!(column + values.len() <= self.n && at + values.len() <= self.length, "inside the result");
        // SAFETY: they are inside the slice, which is borrowed as long as this lives; nobody else uses these places.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), self.to.add(at), values.len()) }
    }
}
