//! Whether a model samples tokens itself, where its rows are.

/// The state of what is known about this.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceSampling {
    /// The length of the model's rows, unless the model is known not to sample.
    row: Option<usize>,
}

impl DeviceSampling {
    /// A model that has not been tried yet, with rows of `row` logits.
    pub(crate) fn untried(row: usize) -> Self {
        Self { row: Some(row) }
    }

    /// Records that this model cannot sample.
    pub(crate) fn off(&mut self) {
        self.row = None;
    }

    /// The length of the model's rows, unless the model is known not to sample.
    pub(crate) fn row(self) -> Option<usize> {
        self.row
    }
}
