//! Top-p: nucleus sampling.

use crate::Row;
use crate::blocks::{BLOCK, SUM_ERROR, SumOfWeights};
use crate::dispatch::dispatch;
use crate::row::{descending, weight};
use crate::steps::Step;
use crate::warp::{OutOfRange, check, first_to_reach, stateless};

/// The fewest best tokens that are worth examining alone.
const LEAST: usize = 32;

/// Nucleus sampling (Holtzman et al. 2020, section 3.1): keeps the smallest set of the most probable tokens whose mass
/// reaches `p`. Ties go to the lowest id.
#[doc(alias = "TopPLogitsWarper")]
#[doc(alias = "nucleus")]
#[doc(alias = "top_p")]
#[derive(Clone, Copy, Debug)]
pub struct TopP(f64);

impl TopP {
    /// A mass in `(0, 1]`; 1 keeps everything.
    ///
    /// # Errors
    /// [`OutOfRange`] for any other number.
    pub fn new(p: f64) -> Result<Self, OutOfRange> {
        check("top-p", p, p > 0.0 && p <= 1.0, "above 0 and at most 1")?;
        Ok(Self(p))
    }
}

stateless!(TopP, |warper, row| {
    if warper.0 < 1.0 {
        row.top_p(warper.0);
    }
});

impl Row {
    pub(crate) fn top_p(&mut self, mass: f64) {
        if let Some(steps) = self.recorded() {
            return steps.push(Step::TopP(mass));
        }
        if !self.nucleus_of_the_best(mass) {
            self.nucleus_of_all(mass);
        }
    }

    /// Examines only the best tokens, if that suffices: they have the mass, and it is clear where it is reached
    /// although the total mass is only approximate. Returns `false` if nothing has been done.
    fn nucleus_of_the_best(&mut self, mass: f64) -> bool {
        // Nuclei are small; and a short row, or one with few allowed tokens, is quickly sorted.
        let blocks = self.len() / BLOCK;
        let count = (blocks / 4).max(LEAST).min(blocks / 2);
        if count < LEAST {
            return false;
        }
        let (least, max) = self.reached_by(count);
        if least.is_infinite() {
            return false;
        }
        let share = mass * dispatch(SumOfWeights(self.logits(), max));
        let edge = self.with_those_from(least, |order, logits| {
            if order.len() > 8 * count {
                return None;
            }
            order.sort_unstable_by(|&a, &b| descending(logits, a, b));
            let mut sum = 0.0;
            let last = order.iter().position(|&token| {
                sum += weight(logits[token as usize], max);
                sum >= share * (1.0 - SUM_ERROR)
            })?;
            let edge = logits[order[last] as usize];
            (sum >= share * (1.0 + SUM_ERROR)).then(|| {
                // Of equal logits those with higher ids are forbidden.
                order[last + 1..].iter().for_each(|&token| logits[token as usize] = f32::NEG_INFINITY);
                edge
            })
        });
        edge.map(|edge| self.forbid_below(edge.into())).is_some()
    }

    fn nucleus_of_all(&mut self, mass: f64) {
        let Some(max) = self.max() else { return };
        self.with_allowed(|order, logits| {
            let weight = |token| weight(logits[token as usize], max);
            let last = first_to_reach(order, mass, weight, |a, b| descending(logits, a, b));
            for &token in &order[last + 1..] {
                logits[token as usize] = f32::NEG_INFINITY;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warp::tests::{NO, apply, rows};
    use crate::{Purpose, Random};

    /// Long rows, of which only the best tokens are examined if they have the mass: peaked, flat, with ties and with
    /// forbidden tokens.
    #[test]
    fn long_rows_keep_what_short_ones_would() {
        let random = Random::new(5);
        let (mut alone, mut all) = (0, 0);
        for (number, &size) in
            [4_096, 6_001, 16_384, 20_001, 32_000, 49_152, 60_000, 128_256].iter().cycle().take(64).enumerate()
        {
            let uniform = |at: usize, purpose| random.uniform((number * 1_000_000 + at) as u64, purpose);
            let logit = |token: usize| match number / 16 {
                0 => -9.0 * (uniform(token, Purpose::Token) as f32).sqrt(),
                1 => 14.0 * (uniform(token, Purpose::Token) as f32).powi(40),
                // Steps of a half, so that many tokens are equal.
                2 => (22.0 * uniform(token, Purpose::Token).powi(60)).round() as f32 / 2.0,
                _ if uniform(token, Purpose::Draft) < 0.99 => NO,
                _ => 10.0 * uniform(token, Purpose::Token).powi(8) as f32,
            };
            let logits: Vec<f32> = (0..size).map(logit).collect();
            for mass in [0.05, 0.5, 0.9, 0.95, 0.999] {
                let (mut fast, mut slow) = (Row::from(logits.clone()), Row::from(logits.clone()));
                slow.nucleus_of_all(mass);
                match fast.nucleus_of_the_best(mass) {
                    true => {
                        alone += 1;
                        assert!(fast.logits() == slow.logits(), "{size} tokens of kind {}, {mass}", number / 16);
                    }
                    false => {
                        all += 1;
                        assert!(fast.logits() == logits, "nothing is done");
                    }
                }
            }
        }
        assert!(alone > 40 && all > 20, "{alone} of the best alone, {all} of all");
    }

    /// Compared with the definition, written naively: sort, add up, cut.
    #[test]
    fn it_is_the_smallest_set_that_reaches_the_mass() {
        for logits in rows() {
            for p in [1e-9, 0.1, 0.5, 0.9, 0.999, 1.0] {
                let distribution = Row::from(logits.clone()).distribution();
                let mut order: Vec<usize> = (0..distribution.len()).filter(|&t| distribution[t] > 0.0).collect();
                order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
                let mut kept = vec![NO; logits.len()];
                let mut mass = 0.0;
                for t in order {
                    if mass >= p {
                        break;
                    }
                    kept[t] = logits[t];
                    mass += distribution[t];
                }
                let got = apply(TopP::new(p).unwrap(), &logits);
                let count = |row: &[f32]| row.iter().filter(|z| **z > NO).count();
                // A cut at nearly equal sums may be rounded either way by one token.
                assert!(count(&got).abs_diff(count(&kept)) <= usize::from((mass - p).abs() < 1e-9), "{logits:?} {p}");
                if count(&got) == count(&kept) {
                    assert_eq!(got, kept, "{logits:?} at {p}");
                }
            }
        }
    }
}
