//! Guided decoding: a reward model has its say about every token.
//!
//! The likeliest tokens are tried, each as the end of the text so far, and what the reward model thinks of that is added
//! to their logits; all others are left out:
//!
//! ```text
//! z[t] += weight * reward(text + t)    for the k tokens with the largest z
//! z[t]  = -inf                         for all others
//! ```
//!
//! So it is in ARGS (Khanov et al., *ARGS: Alignment as Reward-Guided Search*, arXiv:2402.01694, equation 1) and, with a
//! classifier's log-probabilities as rewards, in FUDGE (Yang and Klein, arXiv:2104.05218).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use verdigris_logits::{Row, TokenId, Transform};
use verdigris_models::{Batch, LanguageModel, ModelError, Rows, Sequence, Wanted};

/// How many texts are remembered at a time, so that those that are written side by side are not read anew.
const TEXTS: usize = 64;

/// No more tokens are tried in one call: each is compared with all others there, which it does not see.
const BESIDE: usize = 64;

/// A reward model as a step of the law. It computes at every token, one call for up to 64 tokens that are tried, and
/// allocates.
///
/// What it remembers of texts that it has read changes nothing but the time that the next token takes.
#[doc(alias = "args")]
#[doc(alias = "fudge")]
pub struct Guide {
    scorer: Arc<dyn LanguageModel>,
    weight: f32,
    top_k: usize,
    capacity: usize,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// Those that were read last come last.
    texts: Vec<ReadText>,
    rows: Rows,
    fault: Option<ModelError>,
}

/// A text as the reward model has read it.
struct ReadText {
    tokens: Vec<TokenId>,
    sequence: Box<dyn Sequence>,
}

impl Guide {
    /// A guide whose rows begin with the score of the text up to their token
    /// ([`RewardModel::scorer`](verdigris_models::RewardModel::scorer)), for texts of up to `capacity` tokens, prompt
    /// included.
    ///
    /// # Panics
    /// If the weight is no finite number, or no token is to be tried.
    pub fn new(scorer: Arc<dyn LanguageModel>, weight: f32, top_k: usize, capacity: usize) -> Self {
        assert!(weight.is_finite() && top_k > 0, "{weight} for {top_k} tokens");
        // The tokens that are tried stand beside each other at the end of the text.
        let capacity = capacity.saturating_add(top_k).min(scorer.context_length());
        Self { scorer, weight, top_k, capacity, memory: Mutex::default() }
    }

    /// What went wrong in it, where a text has ended with an error: a step of the law cannot say so itself.
    pub fn fault(&self) -> Option<ModelError> {
        self.memory().fault.take()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rewards of some tokens after a text.
    fn rewards(&self, memory: &mut Memory, text: &[TokenId], tokens: &[TokenId]) -> Result<Vec<f32>, ModelError> {
        let mut read = self.recall(&mut memory.texts, text)?;
        let from = read.tokens.len();
        // All but the last: only those that are tried have rows that are of use.
        if from < text.len() {
            read.sequence.forward(&Batch::chain(&text[from..], Wanted::Last), &mut memory.rows)?;
            read.tokens.extend(&text[from..]);
        }
        let mut rewards = Vec::with_capacity(tokens.len());
        // Near the end of the reward model's context there is not room for all beside each other.
        let room = (self.capacity - text.len().min(self.capacity)).clamp(1, BESIDE);
        for tokens in tokens.chunks(room) {
            read.sequence.forward(&Batch::tree(tokens, &vec![None; tokens.len()]), &mut memory.rows)?;
            read.sequence.truncate(text.len());
            rewards.extend((0..tokens.len()).map(|i| memory.rows.row(i)[0]));
        }
        memory.texts.push(read);
        Ok(rewards)
    }

    /// The remembered text that begins most like this one, cut back to where they part.
    fn recall(&self, texts: &mut Vec<ReadText>, text: &[TokenId]) -> Result<ReadText, ModelError> {
        let common = |read: &ReadText| read.tokens.iter().zip(text).take_while(|(a, b)| a == b).count();
        let best = (0..texts.len()).max_by_key(|&i| common(&texts[i]));
        let Some((best, common)) = best.map(|best| (best, common(&texts[best]))).filter(|(_, common)| *common > 0)
        else {
            if texts.len() == TEXTS {
                texts.remove(0);
            }
            return Ok(ReadText { tokens: Vec::new(), sequence: self.scorer.clone().begin(self.capacity)? });
        };
        if common == texts[best].tokens.len() {
            return Ok(texts.remove(best));
        }
        // Another text goes on where that one parts from it.
        let mut sequence = texts[best].sequence.fork()?;
        sequence.truncate(common);
        let tokens = text[..common].to_vec();
        if texts.len() == TEXTS {
            texts.remove(0);
        }
        Ok(ReadText { tokens, sequence })
    }
}

impl Transform for Guide {
    /// The tokens so far.
    type State = Vec<TokenId>;

    fn start(&self, prompt: &[TokenId]) -> Vec<TokenId> {
        prompt.to_vec()
    }

    fn apply(&self, state: &Vec<TokenId>, row: &mut Row) {
        let mut best = row.with_best(self.top_k, |best, _| best.to_vec());
        if best.is_empty() {
            return;
        }
        best.sort_unstable();
        let mut memory = self.memory();
        let rewards = self.rewards(&mut memory, state, &best);
        let logits = row.logits_mut();
        let rewards = match rewards {
            Ok(rewards) => rewards,
            Err(fault) => {
                // A row that is no law ends the text.
                memory.fault = Some(fault);
                logits.fill(f32::NAN);
                return;
            }
        };
        let mut tried = best.iter().zip(rewards).peekable();
        for (token, logit) in (0..).zip(logits) {
            match tried.next_if(|(best, _)| **best == token) {
                Some((_, reward)) => *logit += self.weight * reward,
                None => *logit = f32::NEG_INFINITY,
            }
        }
    }

    fn advance(&self, state: &mut Vec<TokenId>, token: TokenId) {
        state.push(token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enumerate;
    use crate::table::Table;
    use verdigris_logits::{Chain, Random, Sampler};

    use crate::limits::Limits;
    use crate::plain::Plain;
    use crate::speculative::Speculative;
    use crate::target::Target;

    const WEIGHT: f32 = 0.7;

    /// The first number of the row after a text, read whole and by itself.
    fn reward(scorer: &Arc<Table>, text: &[TokenId]) -> f32 {
        let mut rows = Rows::default();
        let batch = Batch::chain(text, Wanted::Last);
        scorer.clone().begin(text.len()).unwrap().forward(&batch, &mut rows).unwrap();
        rows.last()[0]
    }

    /// The law of the next token by the definition.
    fn law_after(base: &Arc<Table>, scorer: &Arc<Table>, text: &[TokenId], top_k: usize) -> Vec<f64> {
        let mut rows = Rows::default();
        let batch = Batch::chain(text, Wanted::Last);
        base.clone().begin(text.len()).unwrap().forward(&batch, &mut rows).unwrap();
        let logits = rows.last();
        let mut order: Vec<usize> = (0..logits.len()).collect();
        order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
        let mut weights = vec![0f64; logits.len()];
        for &token in &order[..top_k] {
            let whole = [text, &[token as TokenId]].concat();
            weights[token] = f64::from(logits[token] + WEIGHT * reward(scorer, &whole)).exp();
        }
        let total: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / total).collect()
    }

    /// Drafts that the scorer reads in another order leave the law of whole texts as it is.
    #[test]
    fn the_law_of_a_guided_text_is_that_of_the_definition() {
        let (base, scorer, draft) = (Table::deep(5, 1, 40), Table::deep(5, 2, 40), Table::deep(5, 3, 40));
        for top_k in [1, 3, 5] {
            let guide = || Chain::new().then(Guide::new(scorer.clone(), WEIGHT, top_k, 20));
            let target = Target { transforms: guide(), sampler: Sampler::Categorical, random: Random::new(0) };
            let limits = Limits { max_tokens: 3, end: Vec::new() };
            let law = enumerate::law(|branch| {
                let drafter = crate::drafter::DraftModel::new(
                    draft.clone(),
                    20,
                    &target.transforms,
                    target.sampler,
                    crate::drafter::Coupling::Independent,
                )
                .unwrap();
                let length = crate::draft_length::DraftLength::Fixed(2);
                let writing =
                    Speculative::new(base.clone(), &target, &[4, 1], limits.clone(), drafter, length, branch).unwrap();
                writing.map(Result::unwrap).collect()
            });
            let total: f64 = law.values().sum();
            assert!((total - 1.0).abs() < 1e-9);
            for (text, p) in &law {
                let mut expected = 1.0;
                for i in 0..text.len() {
                    let before = [&[4, 1], &text[..i]].concat();
                    expected *= law_after(&base, &scorer, &before, top_k)[text[i] as usize];
                }
                assert!((p - expected).abs() < 1e-5, "{text:?}: {p} and not {expected}");
            }
        }
    }

    /// Whatever it has read before, it says the same of a text: as its own contract, and that of every step, has it.
    #[test]
    fn what_is_remembered_changes_nothing() {
        let scorer = Table::deep(6, 2, 40);
        let row = |guide: &Guide, text: &[TokenId]| {
            let mut row = Row::from(vec![0.5, 0.1, 0.9, f32::NEG_INFINITY, 0.7, -1.0]);
            guide.apply(&text.to_vec(), &mut row);
            row.logits().to_vec()
        };
        let texts: [&[TokenId]; 6] = [&[1, 2, 3], &[1, 2, 3, 4], &[1, 2, 5], &[2], &[1, 2, 3, 4, 0, 0], &[1]];
        let old = Guide::new(scorer.clone(), WEIGHT, 4, 10);
        for text in texts.iter().chain(texts.iter().rev()) {
            let new = Guide::new(scorer.clone(), WEIGHT, 4, 10);
            let (got, expected) = (row(&old, text), row(&new, text));
            assert_eq!(got, expected);
            assert_eq!(got[3], f32::NEG_INFINITY, "what was forbidden stays so");
            assert_eq!(got.iter().filter(|z| z.is_finite()).count(), 4);
            assert_eq!(got[2], 0.9 + WEIGHT * reward(&scorer, &[text, &[2][..]].concat()));
        }
    }

    /// Near the end of its context there is room for one token after the other, and past it the text ends with what
    /// went wrong.
    #[test]
    fn the_end_of_the_context_is_told() {
        let (base, scorer) = (Table::deep(5, 1, 40), Table::deep(5, 2, 8));
        let guide = Arc::new(Guide::new(scorer.clone(), WEIGHT, 3, 40));
        let transforms = Chain::new().then(guide.clone());
        let target = Target { transforms, sampler: Sampler::Greedy, random: Random::new(0) };
        let limits = Limits { max_tokens: 12, end: Vec::new() };
        let written: Vec<_> = Plain::new(base, &target, &[4, 1], limits).unwrap().collect();
        assert_eq!(written.iter().filter(|token| token.is_ok()).count(), 6, "eight tokens with the prompt");
        assert!(matches!(guide.fault(), Some(ModelError::ContextFull { .. })));
        assert!(guide.fault().is_none());
    }
}
