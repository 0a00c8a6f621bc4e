//! The data that a pass exchanges with the other ranks of a decoder.

use verdigris_collective::Collective;

use crate::description::share::Split;
use crate::error::ModelError;

/// The other ranks, as a pass on one of them sees them; empty if the decoder is whole.
pub(crate) struct Peers<'a>(Option<(Split, &'a mut dyn Collective)>);

impl<'a> Peers<'a> {
    /// No other ranks.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    pub(crate) fn new(split: Split, collective: &'a mut dyn Collective) -> Self {
        Self(Some((split, collective)))
    }

    /// The other ranks, if each has some of the layers.
    fn in_line(&mut self) -> Option<&mut dyn Collective> {
        match &mut self.0 {
            Some((Split::Layers, all)) => Some(&mut **all),
            _ => None,
        }
    }

    /// The other ranks, if each has a part of every layer.
    fn of_each_layer(&mut self) -> Option<&mut dyn Collective> {
        match &mut self.0 {
            Some((Split::Tensor, all)) => Some(&mut **all),
            _ => None,
        }
    }

    /// Whether this rank needs the rows of this pass: only rank 0 does.
    pub(super) fn want_rows_here(&self) -> bool {
        self.0.as_ref().is_none_or(|(_, all)| all.rank() == 0)
    }

    /// Receives the hidden rows from the rank with the earlier layers. Returns `false` if there is no such rank: then
    /// they begin as embeddings.
    pub(super) fn take_hidden(&mut self, hidden: &mut [f32]) -> Result<bool, ModelError> {
        match self.in_line() {
            Some(all) if all.rank() > 0 => {
                all.receive(all.rank() - 1, hidden)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Sums the output of a part of a layer over all ranks.
    pub(super) fn sum(&mut self, y: &mut [f32]) -> Result<(), ModelError> {
        match self.of_each_layer() {
            Some(all) => Ok(all.all_reduce_sum(y)?),
            None => Ok(()),
        }
    }

    /// Sends the hidden rows to the rank with the next layers, if there is one.
    pub(super) fn hand_on(&mut self, hidden: &[f32]) -> Result<(), ModelError> {
        match self.in_line() {
            Some(all) if all.rank() + 1 < all.world() => Ok(all.send(all.rank() + 1, hidden)?),
            _ => Ok(()),
        }
    }

    /// Sends the last hidden rows to rank 0, which computes logits from them. Returns whether this rank computes
    /// logits.
    pub(super) fn bring_back(&mut self, hidden: &mut [f32]) -> Result<bool, ModelError> {
        let Some(all) = self.in_line() else { return Ok(true) };
        let (rank, last) = (all.rank(), all.world() - 1);
        if rank == last && rank > 0 {
            all.send(0, hidden)?;
        } else if rank == 0 && last > 0 {
            all.receive(last, hidden)?;
        }
        Ok(rank == 0)
    }

    /// The number of ranks that have a part of every layer and of every token's logits.
    pub(super) fn side_by_side(&self) -> usize {
        match &self.0 {
            Some((Split::Tensor, all)) => all.world(),
            _ => 1,
        }
    }

    /// Concatenates the logits of all ranks, on rank 0.
    pub(super) fn gather(&mut self, logits: &[f32], all_logits: &mut [f32]) -> Result<(), ModelError> {
        match self.of_each_layer() {
            Some(all) => Ok(all.gather(logits, all_logits)?),
            None => Ok(()),
        }
    }
}
