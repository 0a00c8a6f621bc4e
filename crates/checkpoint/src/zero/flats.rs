//! Several one-dimensional tensors as one.

use crate::torch_file::tensor::Tensor;

pub(super) struct Flats {
    parts: Vec<Tensor>,
    /// The start of each part, and the end of the last.
    starts: Vec<usize>,
}

impl Flats {
    /// Returns `None` if there is no tensor, or one has more than one axis.
    pub(super) fn new(parts: Vec<Tensor>) -> Option<Self> {
        let (mut starts, mut end) = (vec![0], 0usize);
        parts.first()?;
        for part in &parts {
            end = end.checked_add(part.narrow(0, part.numel())?.numel())?;
            starts.push(end);
        }
        Some(Self { parts, starts })
    }

    pub(super) fn numel(&self) -> usize {
        *self.starts.last().expect("the first part begins somewhere")
    }

    /// The numbers `from..to`, as slices of the parts; at least one, which may be empty. `None` if they reach past the
    /// end.
    pub(super) fn take(&self, from: usize, to: usize) -> Option<Vec<Tensor>> {
        if from > to || to > self.numel() {
            return None;
        }
        // A range that starts at the very end belongs to the last part.
        let first = (self.starts.partition_point(|&start| start <= from) - 1).min(self.parts.len() - 1);
        let mut taken = Vec::new();
        for (part, bounds) in self.parts.iter().zip(self.starts.windows(2)).skip(first) {
            if bounds[0] >= to && !taken.is_empty() {
                break;
            }
            taken.push(part.narrow(from.max(bounds[0]) - bounds[0], to.clamp(bounds[0], bounds[1]) - bounds[0])?);
        }
        Some(taken)
    }
}
