//! Plain decoding: one token per model call. Tokens decided without the model are read together with the next one that
//! is not.

use std::sync::Arc;

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Purpose, Row, Steps, TokenId, Transform};
use verdigris_models::{Batch, LanguageModel, Rows, SampleRequest, Sequence, Wanted};

use crate::device_sampling::DeviceSampling;
use crate::limits::{Limits, Stop};
use crate::provenance::Provenance;
use crate::target::{DecodeError, Target};

/// A text being written, token by token. The iterator ends with the text, for the reason that [`Plain::stop`] returns,
/// or with the first error.
pub struct Plain {
    target: Target,
    limits: Limits,
    sequence: Box<dyn Sequence>,
    state: ChainState,
    row: Row,
    rows: Rows,
    /// The transforms of the next row, for a model that samples.
    steps: Steps,
    device: DeviceSampling,
    /// Tokens that the model has not read yet: the prompt, later the last token written and decided ones.
    unseen: Vec<TokenId>,
    written: usize,
    /// The provenance of the last token.
    provenance: Provenance,
    stop: Option<Stop>,
    failed: bool,
}

impl Plain {
    /// Begins a text after `prompt`, which must leave room for a token in the model's context.
    ///
    /// # Errors
    /// [`DecodeError::EmptyPrompt`], and the model's error if the prompt does not fit into its context.
    pub fn new(
        model: Arc<dyn LanguageModel>,
        target: &Target,
        prompt: &[TokenId],
        limits: Limits,
    ) -> Result<Self, DecodeError> {
        let size = model.vocabulary_size();
        let sequence = limits.begin(model, prompt)?;
        Ok(Self {
            target: target.clone(),
            limits,
            state: target.transforms.start(prompt),
            row: Row::default(),
            rows: Rows::default(),
            steps: Steps::default(),
            device: DeviceSampling::untried(size),
            unseen: prompt.to_vec(),
            sequence,
            written: 0,
            provenance: Provenance::default(),
            stop: None,
            failed: false,
        })
    }

    /// The reason that the text ended, or `None` while it continues.
    pub fn stop(&self) -> Option<Stop> {
        self.stop
    }

    /// The provenance of the token returned last.
    pub fn provenance(&self) -> Provenance {
        self.provenance
    }

    /// Whether the text is at its end.
    fn is_over(&mut self) -> bool {
        if self.stop.is_none() {
            self.stop = if self.written >= self.limits.max_tokens {
                Some(Stop::Length)
            } else if self.sequence.len() + self.unseen.len() > self.sequence.capacity() {
                Some(Stop::Context)
            } else {
                None
            };
        }
        self.stop.is_some()
    }

    /// The next token as sampled by the model. `None` if the model does not sample, or finds no token: the row itself
    /// then shows why.
    fn sampled_by_model(&mut self) -> Result<Option<TokenId>, DecodeError> {
        let position = self.sequence.len() + self.unseen.len();
        let Some(size) = self.device.row() else { return Ok(None) };
        if !self.target.record(&self.state, &mut self.row, size, &mut self.steps) {
            return Ok(None);
        }
        let number = self.target.random.uniform(position as u64, Purpose::Token);
        let (steps, sampler) = (&self.steps, self.target.sampler);
        let mut requests = [SampleRequest { item: 0, row: 0, steps, sampler, number, token: None }];
        if !self.sequence.draw(&Batch::chain(&self.unseen, Wanted::Last), &mut requests)? {
            self.device.off();
            return Ok(None);
        }
        let token = requests[0].token;
        if token.is_none() {
            self.sequence.truncate(position - self.unseen.len());
        }
        Ok(token)
    }

    /// Computes the next token by a call of the model. Also returns whether it was sampled from `self.row` rather than
    /// by the model.
    fn computed(&mut self) -> Result<(TokenId, bool), DecodeError> {
        if let Some(token) = self.sampled_by_model()? {
            self.unseen.clear();
            return Ok((token, false));
        }
        self.sequence.forward(&Batch::chain(&self.unseen, Wanted::Last), &mut self.rows)?;
        self.unseen.clear();
        self.row.load(self.rows.last());
        let token = self.target.draw(&self.state, &mut self.row, self.sequence.len())?;
        Ok((token, true))
    }

    /// Writes the next token, if there is one.
    fn step(&mut self) -> Result<Option<TokenId>, DecodeError> {
        if self.is_over() {
            return Ok(None);
        }
        let (token, is_from_row) = match self.target.decided(&self.state, &mut self.row) {
            Some(token) => {
                self.provenance = Provenance::Decided;
                (token, false)
            }
            None => {
                self.provenance = Provenance::Computed;
                self.computed()?
            }
        };
        if self.limits.end.contains(&token) {
            self.stop = Some(Stop::End);
            return Ok(None);
        }
        match is_from_row {
            true => self.target.transforms.advance_from(&mut self.state, &self.row, token),
            false => self.target.transforms.advance(&mut self.state, token),
        }
        self.unseen.push(token);
        self.written += 1;
        Ok(Some(token))
    }
}

impl Iterator for Plain {
    type Item = Result<TokenId, DecodeError>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let token = self.step();
        self.failed = token.is_err();
        token.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Cycle, Table, Without};
    use verdigris_logits::{Chain, Purpose, Random, Sampler};

    fn table(context: usize) -> Arc<Table> {
        let rows = (0..5).map(|i| (0..5).map(|j| ((i * 3 + j * j) % 7) as f32 / 2.0).collect()).collect();
        Table::new(rows, context)
    }

    fn target(seed: u64, sampler: Sampler) -> Target {
        Target { transforms: Chain::new(), sampler, random: Random::new(seed) }
    }

    fn limits(max_tokens: usize) -> Limits {
        Limits { max_tokens, end: Vec::new() }
    }

    #[test]
    fn tokens_follow_the_distribution_of_the_table() {
        let model = table(64);
        let n = 20_000u64;
        let mut counts = [[0f64; 5]; 2];
        for seed in 0..n {
            let target = target(seed, Sampler::Categorical);
            let text: Vec<u32> =
                Plain::new(model.clone(), &target, &[2], limits(2)).unwrap().map(Result::unwrap).collect();
            counts[0][text[0] as usize] += 1.0;
            if text[0] == 1 {
                counts[1][text[1] as usize] += 1.0;
            }
        }
        for (counts, after) in counts.iter().zip([2, 1]) {
            let total: f64 = counts.iter().sum();
            let distribution = Row::from(model.row(after).to_vec()).distribution();
            let chi2: f64 = counts.iter().zip(&distribution).map(|(c, p)| (c - total * p).powi(2) / (total * p)).sum();
            assert!(chi2 < 30.0, "{chi2} with 4 degrees of freedom");
        }
    }

    #[test]
    fn a_draw_depends_on_seed_and_position_alone() {
        let model = table(64);
        let target = target(5, Sampler::Categorical);
        let write = |prompt: &[u32], n| -> Vec<u32> {
            Plain::new(model.clone(), &target, prompt, limits(n)).unwrap().map(Result::unwrap).collect()
        };
        let text = write(&[1, 2], 20);
        // Continuing from a longer prompt at the same positions gives the same tokens.
        let longer = [&[1, 2], &text[..7]].concat();
        assert_eq!(write(&longer, 13), text[7..]);
        let first = Random::new(5).uniform(2, Purpose::Token);
        assert_eq!(Sampler::Categorical.sample(&Row::from(model.row(2).to_vec()), first), Some(text[0]));
    }

    #[test]
    fn every_end_is_told_apart() {
        let greedy = target(0, Sampler::Greedy);
        let write = |context, limits| {
            let mut plain = Plain::new(table(context), &greedy, &[0, 1], limits).unwrap();
            let n = plain.by_ref().count();
            (n, plain.stop().unwrap())
        };
        assert_eq!(write(100, limits(7)), (7, Stop::Length));
        assert_eq!(write(100, limits(0)), (0, Stop::Length));
        // The model reads ten tokens, and the eleventh is written from the tenth's row.
        assert_eq!(write(10, limits(50)), (9, Stop::Context));
        let first = Plain::new(table(100), &greedy, &[0, 1], limits(1)).unwrap().next().unwrap().unwrap();
        assert_eq!(write(100, Limits { max_tokens: 50, end: vec![first] }), (0, Stop::End));
    }

    /// Decided tokens are the same as sampled ones, and cost no call.
    #[test]
    fn what_is_decided_is_not_computed() {
        let model = Table::noise(7, 3);
        let write = |tells, without| {
            let transforms = Chain::new().then(Cycle { tokens: 7, tells }).then(Without(without));
            let target = Target { transforms, ..target(9, Sampler::Categorical) };
            let calls = model.calls();
            let mut plain = Plain::new(model.clone(), &target, &[1], limits(30)).unwrap();
            let text: Result<Vec<u32>, _> = plain.by_ref().collect();
            (text.map_err(|error| error.to_string()), plain.stop(), model.calls() - calls)
        };
        // The last value is not a token.
        for without in 0..=7 {
            let ((text, stop, calls), (told, told_stop, told_calls)) = (write(false, without), write(true, without));
            assert_eq!((&text, stop), (&told, told_stop), "what another step forbids is a dead end either way");
            assert!(without < 7 || text.is_ok());
            if let Ok(text) = text {
                assert_eq!((text.len(), calls, told_calls), (30, 30, 10));
                assert!(text.chunks(3).all(|w| w[1] == (w[0] + 1) % 7 && w[2] == (w[1] + 1) % 7), "{text:?}");
            }
        }
    }

    #[test]
    fn impossible_beginnings_are_refused() {
        let greedy = target(0, Sampler::Greedy);
        assert!(matches!(Plain::new(table(10), &greedy, &[], limits(1)), Err(DecodeError::EmptyPrompt)));
        let error = Plain::new(table(3), &greedy, &[1; 3], limits(1)).err().unwrap();
        assert!(error.to_string().contains("4 tokens do not fit"), "{error}");
        let dead = Table::new(vec![vec![f32::NEG_INFINITY; 5]; 5], 10);
        let error = Plain::new(dead, &greedy, &[1], limits(1)).unwrap().next().unwrap().unwrap_err();
        assert!(error.to_string().contains("no token is allowed at position 1"), "{error}");
    }
}
