//! DRY: repeating a run of tokens costs more the longer it is.

use crate::no_repeat_ngram::History;
use crate::warp::{OutOfRange, check};
use crate::{Row, TokenId, TokenSet, Transform};

/// Don't Repeat Yourself: subtracts `multiplier * base^(n - allowed)` from the logit of a token that would continue a
/// repeated run, if the last `n` tokens already preceded that token once and `n` is at least `allowed`. Of several such
/// runs the longest counts. Runs end at tokens that break them, such as line ends, and are compared for at most
/// [`Dry::LONGEST`] tokens. The rule is that of text-generation-webui and llama.cpp.
///
/// After each token all tokens so far are scanned, which takes about a nanosecond per token.
#[doc(alias = "dry_multiplier")]
#[doc(alias = "DontRepeatYourself")]
#[derive(Clone, Debug)]
pub struct Dry {
    multiplier: f64,
    base: f64,
    allowed: usize,
    breakers: TokenSet,
}

impl Dry {
    /// The length that longer runs count as.
    pub const LONGEST: usize = 50;

    /// The usual base.
    pub const BASE: f64 = 1.75;

    /// The usual length from which runs are penalized.
    pub const ALLOWED_LENGTH: usize = 2;

    /// A multiplier from 0, for no penalty, to 100; a base from 1 to 10; `allowed` from 1 to [`Dry::LONGEST`] tokens,
    /// since longer runs count as that long; and the tokens that break runs.
    ///
    /// # Errors
    /// [`OutOfRange`] for other numbers.
    pub fn new(multiplier: f64, base: f64, allowed: usize, breakers: TokenSet) -> Result<Self, OutOfRange> {
        check("DRY multiplier", multiplier, (0.0..=100.0).contains(&multiplier), "from 0 to 100")?;
        check("DRY base", base, (1.0..=10.0).contains(&base), "from 1 to 10")?;
        check("DRY allowed length", allowed as f64, (1..=Self::LONGEST).contains(&allowed), "from 1 to 50")?;
        Ok(Self { multiplier, base, allowed, breakers })
    }

    fn penalty(&self, run: usize) -> f32 {
        (self.multiplier * self.base.powi((run - self.allowed) as i32)).min(f64::from(f32::MAX)) as f32
    }

    /// Finds the tokens that would continue a repeated run.
    fn look(&self, state: &mut Repeats) {
        let Repeats { tokens, longest } = state;
        longest.clear();
        let length = tokens.len();
        let breaks = |at: usize| self.breakers.contains(tokens.get(at));
        // Compares the run that ends before `next` with the one at the end.
        for next in self.allowed..length {
            let is_same = |back: &usize| {
                let (before, last) = (next - back, length - back);
                tokens.get(before) == tokens.get(last) && !breaks(last)
            };
            let run = (1..=next.min(Self::LONGEST)).take_while(is_same).count();
            let token = tokens.get(next);
            if run < self.allowed || breaks(next) {
                continue;
            }
            match longest.binary_search_by_key(&token, |&(token, _)| token) {
                Ok(at) => longest[at].1 = longest[at].1.max(run),
                Err(at) => longest.insert(at, (token, run)),
            }
        }
    }
}

/// All tokens so far, and the tokens that would continue a repeated run, with its length, in the order of tokens.
#[derive(Clone, Debug)]
pub struct Repeats {
    tokens: History,
    longest: Vec<(TokenId, usize)>,
}

impl Transform for Dry {
    type State = Repeats;

    fn start(&self, prompt: &[TokenId]) -> Repeats {
        let mut state = Repeats { tokens: History::new(prompt), longest: Vec::new() };
        self.look(&mut state);
        state
    }

    fn apply(&self, state: &Repeats, row: &mut Row) {
        if !state.longest.is_empty() {
            row.subtract(state.longest.iter().map(|&(token, run)| (token, self.penalty(run))));
        }
    }

    fn advance(&self, state: &mut Repeats, token: TokenId) {
        state.tokens.push(token);
        self.look(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The penalties of eight tokens, of which the last breaks runs, with a base of 2.
    fn taken(allowed: usize, prompt: &[TokenId], output: &[TokenId]) -> Vec<f32> {
        let mut breakers = TokenSet::new(8);
        breakers.insert(7);
        let dry = Dry::new(0.5, 2.0, allowed, breakers).unwrap();
        let mut state = dry.start(prompt);
        output.iter().for_each(|&token| dry.advance(&mut state, token));
        let mut row = Row::from(vec![0.0; 8]);
        dry.apply(&state, &mut row);
        row.logits().iter().map(|z| -z).collect()
    }

    #[test]
    fn longer_runs_cost_more() {
        let none = [0.0; 8];
        assert_eq!(taken(2, &[1, 2, 3], &[4, 1]), none, "a run of one token is allowed");
        assert_eq!(taken(2, &[1, 2, 3], &[4, 1, 2]), [0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(taken(1, &[1, 2, 3], &[4, 1, 2]), [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(taken(2, &[5, 1, 2, 3, 6, 5, 1, 2], &[])[3], 1.0);
        // The longest of two runs before one token, and another token after a shorter run.
        assert_eq!(taken(2, &[5, 1, 2, 3, 1, 2, 3, 1, 2, 4, 5, 1, 2], &[]), [0.0, 0.0, 0.0, 1.0, 0.5, 0.0, 0.0, 0.0]);
        // A run overlaps itself.
        assert_eq!(taken(2, &[1, 1, 1], &[1])[1], 1.0);
    }

    #[test]
    fn runs_end_at_breakers_and_at_their_longest() {
        assert_eq!(taken(2, &[1, 7, 2, 3, 4, 1, 7, 2], &[]), [0.0; 8], "the run after the breaker is one token");
        assert_eq!(taken(2, &[1, 7, 2, 3, 4, 1, 7, 2, 3], &[])[4], 0.5);
        assert_eq!(taken(2, &[1, 2, 7, 4, 1, 2], &[]), [0.0; 8], "a breaker is never taken from");
        let long: Vec<TokenId> = (0..60).map(|i| i * i % 7).collect();
        let twice = [&long[..], &[6], &long[..]].concat();
        let cost = taken(2, &twice, &[])[6];
        assert_eq!(cost, 0.5 * 2f32.powi(Dry::LONGEST as i32 - 2));
    }

    #[test]
    fn parameters_out_of_range_are_named() {
        let dry = |multiplier, base, allowed| Dry::new(multiplier, base, allowed, TokenSet::new(8));
        assert!(dry(f64::NAN, 2.0, 2).is_err() && dry(-1.0, 2.0, 2).is_err());
        assert!(dry(1.0, 0.5, 2).is_err() && dry(1.0, 2.0, 0).is_err());
        assert!(dry(1.0, 2.0, Dry::LONGEST).is_ok() && dry(1.0, 2.0, Dry::LONGEST + 1).is_err());
        assert!(dry(100.0, 10.0, 1).unwrap().penalty(Dry::LONGEST).is_finite());
    }
}
