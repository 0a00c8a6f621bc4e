//! Whether a model draws tokens where its rows are.

/// What is known of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draws {
    /// The length of its rows, as long as it may be that it draws.
    size: Option<usize>,
}

impl Draws {
    /// Of a model with rows of so many logits, nothing.
    pub(crate) fn new(size: usize) -> Self {
        Self { size: Some(size) }
    }

    /// It does not.
    pub(crate) fn never(&mut self) {
        self.size = None;
    }

    /// The length of its rows, if it may be that it draws.
    pub(crate) fn size(self) -> Option<usize> {
        self.size
    }
}
