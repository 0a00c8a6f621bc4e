//! Log-probabilities of the tokens of a text.

use std::sync::{Arc, Mutex, PoisonError};

use verdigris_decoding::{DecodeError, Target};
use verdigris_logits::{Chain, Row, TokenId, Transform};
use verdigris_schedule::RowReader;
use verdigris_text::Tokenizer;

use crate::request::Request;
use crate::request::options::LogprobsMode;

/// The log-probabilities at the position of a token.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TokenLogprobs {
    /// The token that was written.
    pub chosen: Logprob,
    /// The most probable tokens, the best first; fewer than requested if no more are possible.
    pub top: Vec<Logprob>,
}

/// The probability of a token.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Logprob {
    /// The token.
    pub token: TokenId,
    /// Its text. Bytes that are not a valid character become U+FFFD.
    pub text: String,
    /// The natural logarithm of its probability; minus infinity if it was impossible.
    pub logprob: f64,
    /// Its rank: 1 plus the number of tokens that were more probable.
    pub rank: usize,
}

/// Computes log-probabilities from the rows of a text.
pub(super) struct LogprobsReader {
    top: usize,
    mode: LogprobsMode,
    tokenizer: Arc<Tokenizer>,
    target: Target,
    state: <Chain as Transform>::State,
    row: Row,
    read: ReadLogprobs,
}

/// The log-probabilities so far.
#[derive(Clone, Default)]
pub(super) struct ReadLogprobs(Arc<Mutex<Vec<TokenLogprobs>>>);

impl ReadLogprobs {
    pub(super) fn take(&self) -> Vec<TokenLogprobs> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Request<'_> {
    /// Returns a reader of the rows of a text after a prompt, if log-probabilities are requested.
    pub(super) fn logprobs_reader(&self, target: &Target, prompt: &[TokenId]) -> Option<LogprobsReader> {
        let (top, tokenizer) = (self.reported.logprobs?, self.engine.reader().tokenizer().clone());
        let (mode, state) = (self.reported.logprobs_mode, target.transforms.start(prompt));
        let (target, row, read) = (target.clone(), Row::default(), ReadLogprobs::default());
        Some(LogprobsReader { top, mode, tokenizer, target, state, row, read })
    }
}

impl LogprobsReader {
    /// Returns the log-probabilities.
    pub(super) fn finish(self) -> Vec<TokenLogprobs> {
        self.read.take()
    }

    /// Returns a callback that receives the rows of a schedule, and the log-probabilities that it collects.
    pub(super) fn shared(mut self) -> (RowReader, ReadLogprobs) {
        let read = self.read.clone();
        (Box::new(move |token, position, logits: &[f32]| self.row(token, position, logits)), read)
    }

    /// Reads the row that a token was sampled from, after `position` other tokens.
    pub(super) fn row(&mut self, token: TokenId, position: usize, logits: &[f32]) -> Result<(), DecodeError> {
        self.row.load(logits);
        if self.mode == LogprobsMode::Processed {
            self.target.transforms.apply(&self.state, &mut self.row);
        }
        let expected = expected_in(&mut self.row, token, self.top, |token| self.tokenizer.decode(&[token]));
        let expected = expected.ok_or(DecodeError::NotNumbers { position })?;
        self.read.0.lock().unwrap_or_else(PoisonError::into_inner).push(expected);
        if self.mode == LogprobsMode::Processed {
            self.target.transforms.advance_from(&mut self.state, &self.row, token);
        }
        Ok(())
    }
}

/// The log-probabilities of a token and of the best ones in a row; `text` returns the text of a token. `None` if the
/// row is not a distribution.
pub(super) fn expected_in(
    row: &mut Row,
    token: TokenId,
    top: usize,
    text: impl Fn(TokenId) -> String,
) -> Option<TokenLogprobs> {
    let normalizer = row.log_sum_exp()?;
    let best = row.with_best(top, |best, logits| {
        let mut best: Vec<(TokenId, f32)> = best.iter().map(|&token| (token, logits[token as usize])).collect();
        best.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        best
    });
    let known = |token: TokenId, logit: f32, better: usize| Logprob {
        token,
        text: text(token),
        logprob: f64::from(logit) - normalizer,
        rank: better + 1,
    };
    let own = row.logits()[token as usize];
    Some(TokenLogprobs {
        chosen: known(token, own, row.logits().iter().filter(|&&z| z > own).count()),
        top: best.iter().map(|&(token, z)| known(token, z, best.partition_point(|&(_, other)| other > z))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_was_expected() {
        let mut row = Row::from([0.5f64, 0.125, 0.25, 0.125].map(|p| p.ln() as f32 + 3.0).to_vec());
        let mut expected = |token, top| expected_in(&mut row, token, top, |token| format!("<{token}>")).unwrap();
        let is = |of: &Logprob, token: TokenId, p: f64, rank| {
            assert!((of.logprob - p.ln()).abs() < 1e-6, "{of:?}");
            assert_eq!((of.token, of.text.as_str(), of.rank), (token, format!("<{token}>").as_str(), rank));
        };
        let two = expected(3, 2);
        is(&two.chosen, 3, 0.125, 3);
        assert_eq!(two.top.len(), 2);
        is(&two.top[0], 0, 0.5, 1);
        is(&two.top[1], 2, 0.25, 2);
        let all = expected(0, 9);
        is(&all.chosen, 0, 0.5, 1);
        assert_eq!(all.top.iter().map(|of| (of.token, of.rank)).collect::<Vec<_>>(), [(0, 1), (2, 2), (1, 3), (3, 3)]);
        assert!(expected(0, 0).top.is_empty());
        let mut broken = Row::from(vec![f32::NAN, 1.0]);
        assert_eq!(expected_in(&mut broken, 1, 1, |_| String::new()), None);
    }
}
