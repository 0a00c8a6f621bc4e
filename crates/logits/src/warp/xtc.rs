//! XTC: occasionally excludes the most probable tokens.

use crate::row::descending;
use crate::steps::Step;
use crate::warp::{OutOfRange, check};
use crate::{Purpose, Random, Row, TokenId, Transform};

/// Exclude Top Choices: with some probability, excludes all but the least probable of the tokens that are at least as
/// probable as a threshold, as in llama.cpp. Among equals, the one with the highest id is kept.
///
/// Whether this happens at a position depends only on the seed and the position, so for one seed it is a function of
/// the preceding tokens, like every step.
#[doc(alias = "exclude_top_choices")]
#[derive(Clone, Copy, Debug)]
pub struct Xtc {
    probability: f64,
    threshold: f64,
    random: Random,
}

impl Xtc {
    /// Excludes tokens with this `probability`, in `[0, 1]`, at each position; those with a probability of `threshold`
    /// or more, in `(0, 1]`. Above one half there cannot be two such tokens.
    ///
    /// # Errors
    /// [`OutOfRange`] for other numbers.
    pub fn new(probability: f64, threshold: f64, random: Random) -> Result<Self, OutOfRange> {
        let is_share = |p: f64| (0.0..=1.0).contains(&p);
        check("XTC probability", probability, is_share(probability), "at least 0 and at most 1")?;
        check("XTC threshold", threshold, is_share(threshold) && threshold > 0.0, "above 0 and at most 1")?;
        Ok(Self { probability, threshold, random })
    }
}

impl Transform for Xtc {
    /// The number of tokens so far.
    type State = u64;

    fn start(&self, prompt: &[TokenId]) -> u64 {
        prompt.len() as u64
    }

    fn apply(&self, position: &u64, row: &mut Row) {
        if self.random.uniform(*position, Purpose::Exclude) >= self.probability {
            return;
        }
        row.exclude_top_choices(self.threshold);
    }

    fn advance(&self, position: &mut u64, _: TokenId) {
        *position += 1;
    }
}

impl Row {
    pub(crate) fn exclude_top_choices(&mut self, threshold: f64) {
        if let Some(steps) = self.recorded() {
            return steps.push(Step::Xtc(threshold));
        }
        let Some(normalizer) = self.log_sum_exp() else { return };
        let bound = normalizer + threshold.ln();
        let is_top = |z: f32| f64::from(z) >= bound;
        let tops = (0..).zip(self.logits()).filter(|&(_, &z)| is_top(z)).map(|(token, _)| token);
        let Some(last) = tops.max_by(|&a, &b| descending(self.logits(), a, b)) else { return };
        for (token, z) in (0..).zip(self.logits_mut()) {
            if token != last && is_top(*z) {
                *z = f32::NEG_INFINITY;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO: f32 = f32::NEG_INFINITY;

    fn after(xtc: &Xtc, position: u64, distribution: &[f64]) -> Vec<bool> {
        let mut row = Row::from(distribution.iter().map(|p| p.ln() as f32).collect::<Vec<f32>>());
        xtc.apply(&position, &mut row);
        row.logits().iter().map(|&z| z > NO).collect()
    }

    #[test]
    fn all_but_the_last_of_the_top_choices_are_left_out() {
        let always = |threshold| Xtc::new(1.0, threshold, Random::new(1)).unwrap();
        let distribution = [0.3, 0.05, 0.25, 0.25, 0.15, 0.0];
        assert_eq!(after(&always(0.1), 0, &distribution), [false, true, false, false, true, false]);
        assert_eq!(
            after(&always(0.2), 0, &distribution),
            [false, true, false, true, true, false],
            "of equals the highest id"
        );
        assert_eq!(after(&always(0.29), 0, &distribution), [true, true, true, true, true, false], "one alone stays");
        assert_eq!(after(&always(0.5), 0, &distribution), [true, true, true, true, true, false]);
        let mut impossible = Row::from(vec![NO; 3]);
        always(0.1).apply(&0, &mut impossible);
        assert_eq!(impossible.logits(), [NO; 3]);
    }

    /// Happens as often as requested, depending on seed and position.
    #[test]
    fn it_happens_with_its_probability() {
        let xtc = Xtc::new(0.3, 0.1, Random::new(5)).unwrap();
        let distribution = [0.5, 0.5];
        let happens = |position| after(&xtc, position, &distribution) != [true, true];
        let count = (0..10_000).filter(|&position| happens(position)).count();
        // Six standard deviations.
        assert!(count.abs_diff(3000) < 275, "{count}");
        assert!((0..100).all(|position| happens(position) == happens(position)));
        let mut state = xtc.start(&[0; 7]);
        xtc.advance(&mut state, 1);
        assert_eq!(state, 8, "positions count the prompt");
        for (probability, is_ever) in [(0.0, false), (1.0, true)] {
            let xtc = Xtc::new(probability, 0.1, Random::new(5)).unwrap();
            assert!((0..1000).all(|position| (after(&xtc, position, &distribution) != [true, true]) == is_ever));
        }
    }

    #[test]
    fn parameters_out_of_range_are_named() {
        for (probability, threshold) in [(-0.1, 0.1), (1.1, 0.1), (f64::NAN, 0.1), (0.5, 0.0), (0.5, f64::NAN)] {
            assert!(Xtc::new(probability, threshold, Random::new(1)).is_err());
        }
    }
}
