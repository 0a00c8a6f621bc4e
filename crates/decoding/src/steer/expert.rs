//! The expert of a steered model as its drafter.

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Chain, Row, Sampler, TokenId};
use verdigris_models::{Batch, Rows};

use super::ahead::{Ahead, SharedAhead};
use crate::chance::Chance;
use crate::drafter::Drafter;
use crate::drafter::children::{Children, Coupling};
use crate::drafter::grow::{Network, grow};
use crate::target::DecodeError;
use crate::tree::{DraftTree, TreeShape};

/// The first expert of a steered model, drafting from the same sequence that steers: drafts that it has read are not
/// read again for steering. Its rows are needed anyway, so a draft costs almost nothing beyond its verification.
pub struct ExpertDrafter {
    expert: SharedAhead,
    size: usize,
    cut: usize,
    children: Children,
    row: Vec<f32>,
}

impl ExpertDrafter {
    pub(super) fn new(
        expert: SharedAhead,
        size: usize,
        of_target: usize,
        transforms: &Chain,
        sampler: Sampler,
        coupling: Coupling,
    ) -> Self {
        let children = Children::new(transforms, sampler, coupling);
        Self { expert, size, cut: size.min(of_target), children, row: Vec::new() }
    }
}

/// The expert while it drafts.
struct Reading<'a> {
    expert: &'a mut Ahead,
    size: usize,
    cut: usize,
    /// The rows requested last.
    rows: Vec<f32>,
}

impl Network for Reading<'_> {
    fn reads(&self, token: TokenId) -> bool {
        (token as usize) < self.size
    }

    fn len(&self) -> usize {
        self.expert.all()
    }

    fn capacity(&self) -> usize {
        self.expert.capacity()
    }

    fn read(&mut self, batch: &Batch<'_>) -> Result<(), DecodeError> {
        self.rows.clear();
        match batch.parents {
            None => self.rows.extend_from_slice(self.expert.read_ahead(batch.tokens)?),
            Some(_) => {
                let rows: &Rows = self.expert.look_ahead(batch)?;
                (0..rows.count()).for_each(|i| self.rows.extend_from_slice(rows.row(i)));
            }
        }
        Ok(())
    }

    fn load(&self, i: usize, row: &mut Row) {
        row.load(&self.rows[i * self.size..][..self.cut]);
    }

    fn truncate(&mut self, _: usize) {
        // A tree is not kept.
    }
}

impl Drafter for ExpertDrafter {
    fn draft(
        &mut self,
        _: usize,
        text: &[TokenId],
        state: &ChainState,
        shape: &TreeShape,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError> {
        let Some(mut expert) = self.expert.begun() else { return Ok(()) };
        expert.truncate(usize::MAX);
        if expert.member().is_in_prompt() {
            // It has not read its own prompt yet, which is read with the text's.
            return Ok(());
        }
        let unseen = &text[expert.len()..];
        let mut reading =
            Reading { expert: &mut expert, size: self.size, cut: self.cut, rows: std::mem::take(&mut self.row) };
        if unseen.iter().all(|&token| reading.reads(token)) {
            grow(&mut reading, &mut self.children, unseen, state, shape, chance, tree)?;
        }
        self.row = reading.rows;
        Ok(())
    }
}
