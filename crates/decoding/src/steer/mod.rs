//! Steering: a model whose rows are moved by what small models have learned.
//!
//! Proxy-tuning (Liu et al., *Tuning Language Models by Proxy*, 2024, equation 1) adds to the base model's logits the
//! difference between an expert and the anti-expert it was tuned from:
//!
//! ```text
//! z = z_base + sum over pairs of alpha * (z_expert - z_anti)
//! ```
//!
//! A steered model is a [`LanguageModel`] like any other, so everything above it works as it is. Its expert can draft for
//! it ([`Steered::drafted_by_expert`]): what it has read as drafts it need not read again.

mod ahead;
mod expert;

use std::sync::Arc;

use verdigris_logits::{Chain, Sampler};
use verdigris_models::{Batch, LanguageModel, ModelError, Rows, Sequence};

use crate::drafter::Coupling;

use ahead::{Ahead, SharedAhead};

pub use expert::ExpertDrafter;

/// An expert, the anti-expert it is compared with, and how strongly their difference counts.
#[derive(Clone)]
pub struct Pair {
    /// The small model that was tuned.
    pub expert: Arc<dyn LanguageModel>,
    /// The same model before it was tuned.
    pub anti: Arc<dyn LanguageModel>,
    /// The weight of the difference; 0 is no steering, and negative steers away.
    pub alpha: f32,
}

/// A base model with any number of pairs. All must have the same tokens under the same ids, but their rows may be
/// padded differently: rows are as long as the base's, and a token that one of the experts could not read is never
/// written.
#[doc(alias = "proxy_tuning")]
#[doc(alias = "contrastive_decoding")]
pub struct Steered {
    base: Arc<dyn LanguageModel>,
    pairs: Vec<Pair>,
}

impl Steered {
    /// Steers `base`. Pairs whose alpha is 0 are left out: they cost nothing and change no bit.
    ///
    /// # Panics
    /// If an alpha is not a finite number.
    pub fn new(base: Arc<dyn LanguageModel>, mut pairs: Vec<Pair>) -> Self {
        pairs.iter().for_each(|Pair { alpha, .. }| assert!(alpha.is_finite(), "alpha is {alpha}"));
        pairs.retain(|pair| pair.alpha != 0.0);
        Self { base, pairs }
    }

    /// The expert of the first pair that counts.
    pub fn first_expert(&self) -> Option<&Arc<dyn LanguageModel>> {
        self.pairs.first().map(|pair| &pair.expert)
    }

    /// This model, and its first expert as a drafter for the first text that is begun with it. `None`: there is no
    /// expert.
    pub fn drafted_by_expert<'a>(
        self: &Arc<Self>,
        transforms: &'a Chain,
        sampler: Sampler,
        coupling: Coupling,
    ) -> Option<(Arc<dyn LanguageModel>, ExpertDrafter<'a>)> {
        let size = self.vocabulary_size();
        let first = self.first_expert()?;
        let shared = SharedAhead::default();
        let drafter = ExpertDrafter::new(shared.clone(), first.vocabulary_size(), size, transforms, sampler, coupling);
        Some((Arc::new(Drafted { steered: self.clone(), expert: shared }), drafter))
    }

    fn sequence(&self, capacity: usize, shared: Option<&SharedAhead>) -> Result<SteeredSequence, ModelError> {
        let mut pairs = Vec::with_capacity(self.pairs.len());
        for (i, Pair { expert, anti, alpha }) in self.pairs.iter().enumerate() {
            let expert = Ahead::new(expert.clone().begin(capacity)?);
            let expert = match shared.filter(|_| i == 0) {
                Some(shared) => shared.fill(expert),
                None => SharedAhead::of(expert),
            };
            pairs.push((expert, Member::new(anti.clone().begin(capacity)?), *alpha));
        }
        Ok(SteeredSequence { base: self.base.clone().begin(capacity)?, pairs })
    }
}

impl LanguageModel for Steered {
    fn vocabulary_size(&self) -> usize {
        self.base.vocabulary_size()
    }

    fn context_length(&self) -> usize {
        let experts = self.pairs.iter().flat_map(|pair| [&pair.expert, &pair.anti]);
        experts.map(|model| model.context_length()).fold(self.base.context_length(), usize::min)
    }

    fn hidden_size(&self) -> Option<usize> {
        self.base.hidden_size()
    }

    fn begin(self: Arc<Self>, capacity: usize) -> Result<Box<dyn Sequence>, ModelError> {
        Ok(Box::new(self.sequence(capacity, None)?))
    }
}

/// A steered model whose first text shares its first expert with a drafter.
struct Drafted {
    steered: Arc<Steered>,
    expert: SharedAhead,
}

impl LanguageModel for Drafted {
    fn vocabulary_size(&self) -> usize {
        self.steered.vocabulary_size()
    }

    fn context_length(&self) -> usize {
        self.steered.context_length()
    }

    fn hidden_size(&self) -> Option<usize> {
        self.steered.hidden_size()
    }

    fn begin(self: Arc<Self>, capacity: usize) -> Result<Box<dyn Sequence>, ModelError> {
        Ok(Box::new(self.steered.sequence(capacity, Some(&self.expert))?))
    }
}

struct SteeredSequence {
    base: Box<dyn Sequence>,
    pairs: Vec<(SharedAhead, Member, f32)>,
}

struct Member {
    sequence: Box<dyn Sequence>,
    rows: Rows,
}

impl Member {
    fn new(sequence: Box<dyn Sequence>) -> Self {
        Self { sequence, rows: Rows::default() }
    }
}

impl SteeredSequence {
    /// Forgets of every member what is past a length.
    fn cut(&mut self, length: usize) {
        for (expert, anti, _) in &mut self.pairs {
            expert.get().truncate(length);
            anti.sequence.truncate(anti.sequence.len().min(length));
        }
        self.base.truncate(self.base.len().min(length));
    }
}

impl Sequence for SteeredSequence {
    fn len(&self) -> usize {
        self.base.len()
    }

    fn capacity(&self) -> usize {
        self.base.capacity()
    }

    fn forward(&mut self, batch: &Batch<'_>, rows: &mut Rows) -> Result<(), ModelError> {
        let before = self.len();
        let result = (|| {
            self.base.forward(batch, rows)?;
            for (expert, anti, alpha) in &mut self.pairs {
                let mut expert = expert.get();
                expert.forward(batch)?;
                anti.sequence.forward(batch, &mut anti.rows)?;
                for i in 0..rows.count() {
                    mix(rows.row_mut(i), expert.row(i), anti.rows.row(i), *alpha);
                }
            }
            Ok(())
        })();
        if result.is_err() {
            // All members or none.
            self.cut(before);
        }
        result
    }

    fn truncate(&mut self, length: usize) {
        assert!(length <= self.len(), "truncating {} tokens to {length}", self.len());
        self.cut(length);
    }

    fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError> {
        self.base.keep(from, path)?;
        for (expert, anti, _) in &mut self.pairs {
            expert.get().keep(from, path)?;
            anti.sequence.keep(from, path)?;
        }
        Ok(())
    }

    fn fork(&self) -> Result<Box<dyn Sequence>, ModelError> {
        let mut pairs = Vec::with_capacity(self.pairs.len());
        for (expert, anti, alpha) in &self.pairs {
            pairs.push((SharedAhead::of(expert.get().fork()?), Member::new(anti.sequence.fork()?), *alpha));
        }
        Ok(Box::new(Self { base: self.base.fork()?, pairs }))
    }
}

/// Adds one pair's difference to a row.
///
/// A token that the base forbids (`-inf`) stays forbidden. One that an expert or an anti-expert forbids is forbidden
/// where the formula says `-inf`; where it says `+inf`, or nothing at all, for both forbid it, the pair says nothing of
/// that token. A token past the end of one of their rows cannot be read by it, and is forbidden.
fn mix(row: &mut [f32], expert: &[f32], anti: &[f32], alpha: f32) {
    const NO: f32 = f32::NEG_INFINITY;
    for ((z, &e), &a) in row.iter_mut().zip(expert).zip(anti).filter(|((z, _), _)| **z != NO) {
        *z += match (e == NO, a == NO) {
            (false, false) => alpha * (e - a),
            (true, false) if alpha > 0.0 => NO,
            (false, true) if alpha < 0.0 => NO,
            _ => 0.0,
        };
    }
    let read = expert.len().min(anti.len()).min(row.len());
    row[read..].fill(NO);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;
    use verdigris_models::Wanted;

    const NO: f32 = f32::NEG_INFINITY;

    fn rows(model: Arc<dyn LanguageModel>, tokens: &[u32]) -> Vec<Vec<f32>> {
        let mut rows = Rows::default();
        model.begin(tokens.len()).unwrap().forward(&Batch::chain(tokens, Wanted::All), &mut rows).unwrap();
        (0..rows.count()).map(|i| rows.row(i).to_vec()).collect()
    }

    fn pair(expert: Arc<Table>, anti: Arc<Table>, alpha: f32) -> Pair {
        Pair { expert, anti, alpha }
    }

    #[test]
    fn rows_are_those_of_the_formula() {
        let (base, expert, anti) = (Table::noise(3, 1), Table::noise(3, 2), Table::noise(3, 3));
        let other = Table::noise(5, 4);
        let pairs = vec![pair(expert.clone(), anti.clone(), 0.5), pair(other.clone(), anti.clone(), -2.0)];
        let steered = Arc::new(Steered::new(base.clone(), pairs));
        for (i, row) in rows(steered, &[0, 2, 1]).iter().enumerate() {
            let token = [0, 2, 1][i];
            let of = |table: &Table| table.row(token).to_vec();
            let (base, expert, anti, other) = (of(&base), of(&expert), of(&anti), of(&other));
            for (v, got) in row.iter().enumerate() {
                let expected = base[v] + 0.5 * (expert[v] - anti[v]) - 2.0 * (other[v] - anti[v]);
                assert!((got - expected).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn alpha_zero_and_twins_change_no_bit() {
        let (base, expert, anti) = (Table::noise(4, 1), Table::noise(4, 2), Table::noise(4, 3));
        let plain = rows(base.clone(), &[0, 3, 1]);
        for pair in [pair(expert.clone(), anti, 0.0), pair(expert.clone(), expert, 1.5)] {
            assert_eq!(rows(Arc::new(Steered::new(base.clone(), vec![pair])), &[0, 3, 1]), plain);
        }
    }

    /// What the base forbids stays so; what an expert or an anti-expert forbids never makes a token certain.
    #[test]
    fn what_is_forbidden_stays_so() {
        let mixed = |alpha| {
            let mut row = [NO, NO, NO, 1.0, 1.0, 1.0, 1.0];
            mix(&mut row, &[9.0, NO, 9.0, NO, NO, 0.0, 2.0], &[0.0, 0.0, NO, NO, 0.0, NO, 1.0], alpha);
            row
        };
        assert_eq!(mixed(1.0), [NO, NO, NO, 1.0, NO, 1.0, 2.0]);
        assert_eq!(mixed(-1.0), [NO, NO, NO, 1.0, 1.0, NO, 0.0]);
    }

    /// A model whose logits are no numbers is an error, not a preference.
    #[test]
    fn what_is_no_number_shows() {
        for (expert, anti) in [(f32::NAN, 0.0), (0.0, f32::NAN), (f32::INFINITY, 0.0), (f32::INFINITY, f32::INFINITY)] {
            let mut row = [1.0, 1.0];
            mix(&mut row, &[expert, 0.0], &[anti, 0.0], 1.0);
            assert!(!row[0].is_finite() && row[0] != NO && row[1] == 1.0, "{row:?}");
        }
    }

    /// Padding differs between models of one tokenizer: a row is as long as the base's, and what an expert could not
    /// read is not written.
    #[test]
    fn rows_may_be_padded_differently() {
        for (expert, anti) in [(5, 3), (3, 5), (3, 3)] {
            let pair = pair(Table::noise(expert, 2), Table::noise(anti, 3), 1.0);
            let steered = Arc::new(Steered::new(Table::noise(4, 1), vec![pair]));
            for row in rows(steered.clone(), &[0, 2, 1]) {
                assert!(row.len() == 4 && row[3] == NO && row[..3].iter().all(|z| z.is_finite()), "{row:?}");
            }
        }
    }

    /// What is kept of a tree is kept by all: the next row is the one of the path alone.
    #[test]
    fn every_member_keeps_the_same_path() {
        let (base, expert, anti) = (Table::deep(4, 1, 20), Table::deep(4, 2, 20), Table::deep(4, 3, 20));
        let steered = Arc::new(Steered::new(base, vec![pair(expert, anti, 0.7)]));
        let expected = rows(steered.clone(), &[3, 1, 0, 2, 1]);
        let (mut sequence, mut rows) = (steered.begin(20).unwrap(), Rows::default());
        sequence.forward(&Batch::chain(&[3, 1, 2, 0, 3, 2, 0], Wanted::Last), &mut rows).unwrap();
        sequence.keep(2, &[1, 3]).unwrap();
        assert_eq!(sequence.len(), 4);
        sequence.forward(&Batch::chain(&[1], Wanted::Last), &mut rows).unwrap();
        assert_eq!(rows.last(), expected[4]);
    }

    #[test]
    fn sequences_keep_step_when_one_fails() {
        let base = Table::noise(4, 1);
        // The expert's context is shorter than the base's.
        let (expert, anti) = (Table::with_context(4, 2, 3), Table::noise(4, 3));
        let steered = Arc::new(Steered::new(base, vec![pair(expert, anti, 1.0)]));
        assert_eq!(steered.context_length(), 3);
        // More room than the expert has: it fails after the base has gone ahead.
        let mut sequence = steered.begin(10).unwrap();
        let mut rows = Rows::default();
        sequence.forward(&Batch::chain(&[0, 1], Wanted::Last), &mut rows).unwrap();
        assert!(sequence.forward(&Batch::chain(&[2, 3], Wanted::Last), &mut rows).is_err());
        assert_eq!(sequence.len(), 2);
        let mut fork = sequence.fork().unwrap();
        sequence.forward(&Batch::chain(&[2], Wanted::Last), &mut rows).unwrap();
        let expected = rows.last().to_vec();
        sequence.truncate(1);
        sequence.forward(&Batch::chain(&[1, 2], Wanted::Last), &mut rows).unwrap();
        assert_eq!(rows.last(), expected);
        fork.forward(&Batch::chain(&[2], Wanted::Last), &mut rows).unwrap();
        assert_eq!(rows.last(), expected);
    }
}
