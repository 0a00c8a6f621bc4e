//! The punctuation of objects and arrays.

/// The terminals of JSON punctuation, with the white space around it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Punctuation {
    pub(crate) open_object: u32,
    pub(crate) open_array: u32,
    /// Right after the opening bracket, and later.
    pub(crate) close_object: [u32; 2],
    pub(crate) close_array: [u32; 2],
    pub(crate) comma: u32,
    pub(crate) colon: u32,
    /// The fewest bytes of a comma, and of a colon.
    pub(crate) width: u64,
}

impl Punctuation {
    /// Adds an offset to the indices of the terminals.
    pub(super) fn renumber(&mut self, terminals: u32) {
        let pairs = self.close_object.iter_mut().chain(&mut self.close_array);
        let single = [&mut self.open_object, &mut self.open_array, &mut self.comma, &mut self.colon];
        pairs.chain(single).for_each(|number| *number += terminals);
    }
}
