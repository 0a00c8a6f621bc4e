//! Whether a model samples tokens itself, where its rows are.

/// What is known of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceSampling {
    /// The length of the model's rows, as long as it may be that it samples.
    row: Option<usize>,
}

impl DeviceSampling {
    /// Nothing is known yet of a model with rows of so many logits.
    pub(crate) fn untried(row: usize) -> Self {
        Self { row: Some(row) }
    }

    /// Records that this model cannot sample.
    pub(crate) fn off(&mut self) {
        self.row = None;
    }

    /// The length of the model's rows, if it may be that it samples.
    pub(crate) fn row(self) -> Option<usize> {
        self.row
    }
}
