//! The detector: tokens in, evidence out.

use std::sync::Arc;

use verdigris_logits::TokenId;

use crate::distinct::Distinct;
use crate::scheme::{Draw, Scheme};
use crate::statistics::{ln_p_value, z_score};

/// The p-value at or under which a text counts as marked: one false alarm in 100,000 unmarked texts.
pub const DEFAULT_LEVEL: f64 = 1e-5;

/// Draws that are looked up together.
const BATCH: usize = 32;

/// What the detector made of one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Too few tokens stand before it.
    Unscored,
    /// Its draw was counted before, or the text is so long that only a sample is counted.
    Repeated {
        /// The colour all the same.
        green: bool,
    },
    /// Counted, and green.
    Green,
    /// Counted, and red.
    Red,
}

/// Reads the tokens of one text, in as many pieces as they come, and counts green ones.
///
/// The work a token is constant under the native scheme (the KGW dialect needs `V * gamma` steps for each new
/// pair of tokens), and the memory is at most 16 MiB.
pub struct Detector {
    scheme: Arc<dyn Scheme>,
    /// The end of what was read, as context for what comes next.
    tail: Vec<TokenId>,
    tokens: u64,
    distinct: Distinct,
    draws: Vec<Draw>,
    marks: Vec<Mark>,
}

/// The evidence of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// Tokens read.
    pub tokens: u64,
    /// Distinct draws counted.
    pub scored: u64,
    /// Green ones among them.
    pub green: u64,
    /// The share that would be green without a watermark.
    pub gamma: f64,
    /// 1 where every distinct draw was counted; for very long texts the share that was sampled.
    pub sampled: f64,
    /// Standard deviations above the green count expected without a watermark. Shown because everyone knows
    /// it; the verdict rests on the p-value.
    pub z: f64,
    /// The natural logarithm of the exact binomial p-value: the chance that a text which knows nothing of the
    /// key has this many green tokens or more.
    pub ln_p: f64,
}

/// What the evidence says at a significance level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The p-value is at or under the level.
    Marked,
    /// It is not.
    NotMarked,
}

/// A text so short that even all-green tokens would not reach the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too short to decide: {scored} tokens can be scored, and at least {needed} are needed")]
pub struct TooShort {
    /// Distinct draws in the text.
    pub scored: u64,
    /// The fewest with which a verdict 'marked' is possible.
    pub needed: u64,
}

impl Detector {
    /// A detector for what `scheme` marks.
    pub fn new(scheme: Arc<dyn Scheme>) -> Self {
        let distinct = Distinct::new();
        Self { scheme, tail: Vec::new(), tokens: 0, distinct, draws: Vec::new(), marks: Vec::new() }
    }

    /// Reads the next tokens of the text; returns one mark for each of them.
    pub fn push(&mut self, tokens: &[TokenId]) -> &[Mark] {
        let width = self.scheme.context_width();
        self.draws.clear();
        let before = self.tail.len();
        self.tail.extend_from_slice(tokens);
        self.scheme.draws(&self.tail, &mut self.draws);
        self.marks.clear();
        self.marks.resize(tokens.len() - self.draws.len(), Mark::Unscored);
        for batch in self.draws.chunks(BATCH) {
            self.distinct.expect(batch);
            self.marks.extend(batch.iter().map(|&draw| match (self.distinct.insert(draw), draw.green) {
                (true, true) => Mark::Green,
                (true, false) => Mark::Red,
                (false, green) => Mark::Repeated { green },
            }));
        }
        debug_assert!(before <= width);
        self.tail.drain(..self.tail.len().saturating_sub(width));
        self.tokens += tokens.len() as u64;
        &self.marks
    }

    /// The evidence of all that was read.
    pub fn evidence(&self) -> Evidence {
        let (scored, green, gamma) = (self.distinct.len() as u64, self.distinct.green() as u64, self.scheme.gamma());
        Evidence {
            tokens: self.tokens,
            scored,
            green,
            gamma,
            sampled: 0.5f64.powi(self.distinct.level() as i32),
            z: z_score(scored, green, gamma),
            ln_p: ln_p_value(scored, green, gamma),
        }
    }
}

impl Evidence {
    /// The evidence of a whole text at once.
    pub fn of(scheme: Arc<dyn Scheme>, tokens: &[TokenId]) -> Self {
        let mut detector = Detector::new(scheme);
        detector.push(tokens);
        detector.evidence()
    }

    /// The p-value; may underflow to zero, unlike its logarithm.
    pub fn p(&self) -> f64 {
        self.ln_p.exp()
    }

    /// The verdict at a level such as [`DEFAULT_LEVEL`].
    pub fn verdict(&self, level: f64) -> Result<Verdict, TooShort> {
        let needed = (level.ln() / self.gamma.ln()).ceil().max(1.0) as u64;
        if self.scored < needed {
            return Err(TooShort { scored: self.scored, needed });
        }
        Ok(if self.ln_p <= level.ln() { Verdict::Marked } else { Verdict::NotMarked })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, ContextFunction, Gamma, KgwSimple1, Native};
    use verdigris_logits::random::philox4x32;

    fn schemes() -> Vec<Arc<dyn Scheme>> {
        let native = |function, width| {
            let context = Context { function, width };
            Arc::new(Native::new(&[9; 32], "id", "", Gamma::new(0.25).unwrap(), context, 1000).unwrap())
        };
        vec![
            native(ContextFunction::All, 1),
            native(ContextFunction::All, 6),
            native(ContextFunction::Min, 4),
            native(ContextFunction::SelfSalted, 3),
            Arc::new(KgwSimple1::new(15_485_863, 0.25, 1000).unwrap()),
        ]
    }

    fn noise(n: u32, seed: u32) -> Vec<TokenId> {
        (0..n).map(|i| philox4x32([i, 0, 0, 0], [seed, 0])[0] % 1000).collect()
    }

    #[test]
    fn pieces_give_what_the_whole_gives() {
        let tokens = noise(1000, 1);
        for scheme in schemes() {
            let whole = Evidence::of(scheme.clone(), &tokens);
            let mut marks_whole = Detector::new(scheme.clone());
            let marks_whole = marks_whole.push(&tokens).to_vec();
            for size in [1, 2, 7, 64, 65, 333] {
                let mut detector = Detector::new(scheme.clone());
                let marks: Vec<Mark> = tokens.chunks(size).flat_map(|piece| detector.push(piece).to_vec()).collect();
                assert_eq!(detector.evidence(), whole, "{scheme:?} in pieces of {size}");
                assert_eq!(marks, marks_whole);
            }
        }
    }

    #[test]
    fn repetition_is_no_evidence() {
        for scheme in schemes() {
            let once = noise(200, 2);
            let evidence = Evidence::of(scheme.clone(), &once.repeat(30));
            let width = scheme.context_width() as u64;
            assert!(evidence.scored <= 200 + width, "{scheme:?}: {evidence:?}");
            assert_eq!(evidence.tokens, 6000);
        }
    }

    /// p-values of unmarked texts are uniform (or larger, being discrete): checked over many keys.
    #[test]
    fn false_alarms_are_as_rare_as_claimed() {
        let (keys, length) = (4000u32, 120);
        for function in [ContextFunction::All, ContextFunction::Min, ContextFunction::SelfSalted] {
            let context = Context { function, width: 3 };
            let gamma = Gamma::new(0.25).unwrap();
            // A text full of repetition, the hard case.
            let tokens: Vec<TokenId> = noise(length, 3).iter().map(|t| t % 12).collect();
            let mut under = [0u32; 3];
            for key in 0..keys {
                let mut secret = [0; 32];
                secret[..4].copy_from_slice(&key.to_le_bytes());
                let scheme = Arc::new(Native::new(&secret, "", "", gamma, context, 1000).unwrap());
                let p = Evidence::of(scheme, &tokens).p();
                for (count, level) in under.iter_mut().zip([0.5, 0.1, 0.01]) {
                    *count += u32::from(p <= level);
                }
            }
            for (count, level) in under.into_iter().zip([0.5, 0.1, 0.01]) {
                let expected = f64::from(keys) * level;
                let bound = expected + 4.0 * (expected * (1.0 - level)).sqrt();
                assert!(f64::from(count) <= bound, "{function:?}: {count} of {keys} under {level}");
                assert!(f64::from(count) >= 0.5 * expected, "{function:?}: only {count} of {keys} under {level}");
            }
        }
    }

    #[test]
    fn short_texts_are_undecided() {
        let scheme = schemes().remove(0);
        for n in 0..10 {
            let short = Evidence::of(scheme.clone(), &noise(n, 4)).verdict(1e-5).unwrap_err();
            assert_eq!((short.scored, short.needed), (u64::from(n.saturating_sub(1)), 9));
        }
        assert_eq!(Evidence::of(scheme, &noise(100, 4)).verdict(1e-5), Ok(Verdict::NotMarked));
    }
}
