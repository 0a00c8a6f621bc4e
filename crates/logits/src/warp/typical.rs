//! Locally typical sampling: tokens with about the expected information content.

use crate::row::weight;
use crate::steps::Step;
use crate::warp::{OutOfRange, check, first_to_reach, stateless};
use crate::{Row, TokenId};

/// Locally typical sampling (Meister, Pimentel, Wiher and Cotterell 2023, section 3.3): keeps the tokens whose
/// information content is nearest to the entropy, until their mass reaches `p`. Ties with the last of them are kept
/// too. The most probable token may be excluded, unlike with other warpers.
#[doc(alias = "TypicalLogitsWarper")]
#[doc(alias = "typical_p")]
#[doc(alias = "locally_typical")]
#[derive(Clone, Copy, Debug)]
pub struct TypicalP(f64);

impl TypicalP {
    /// A mass in `(0, 1]`; 1 keeps everything.
    ///
    /// # Errors
    /// [`OutOfRange`] for any other number.
    pub fn new(p: f64) -> Result<Self, OutOfRange> {
        check("typical-p", p, p > 0.0 && p <= 1.0, "above 0 and at most 1")?;
        Ok(Self(p))
    }
}

stateless!(TypicalP, |warper, row| {
    if warper.0 < 1.0 {
        row.typical_p(warper.0);
    }
});

impl Row {
    pub(crate) fn typical_p(&mut self, mass: f64) {
        if let Some(steps) = self.recorded() {
            return steps.push(Step::TypicalP(mass));
        }
        let (Some(max), Some(normalizer), Some(entropy)) = (self.max(), self.log_sum_exp(), self.entropy()) else {
            return;
        };
        // |-ln p - entropy|, with ln p = z - normalizer.
        let distance = |z: f32| (normalizer - entropy - f64::from(z)).abs();
        self.with_allowed(|order, logits| {
            let distance_of = |token: TokenId| distance(logits[token as usize]);
            let nearer = |a, b| distance_of(a).total_cmp(&distance_of(b)).then(a.cmp(&b));
            let last = first_to_reach(order, mass, |token| weight(logits[token as usize], max), nearer);
            let bound = distance_of(order[last]);
            logits.iter_mut().filter(|z| distance(**z) > bound).for_each(|z| *z = f32::NEG_INFINITY);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Row;
    use crate::warp::tests::{NO, apply, rows};

    /// Compared with the definition, written naively.
    #[test]
    fn tokens_near_the_entropy_are_kept() {
        let mut without_best = 0;
        for logits in rows() {
            for p in [1e-9, 0.2, 0.5, 0.9, 0.999, 1.0] {
                let distribution = Row::from(logits.clone()).distribution();
                let information = |t: usize| -distribution[t].ln();
                let allowed: Vec<usize> = (0..distribution.len()).filter(|&t| distribution[t] > 0.0).collect();
                let entropy: f64 = allowed.iter().map(|&t| distribution[t] * information(t)).sum();
                let distance = |t: usize| (information(t) - entropy).abs();
                let got = apply(TypicalP::new(p).unwrap(), &logits);
                let (mut mass, mut farthest) = (0.0, 0.0f64);
                for &t in allowed.iter().filter(|&&t| got[t] > NO) {
                    (mass, farthest) = (mass + distribution[t], farthest.max(distance(t)));
                    assert_eq!(got[t], logits[t]);
                }
                assert!(mass >= p - 1e-9, "{logits:?} at {p}: {mass}");
                let nearer: f64 =
                    allowed.iter().filter(|&&t| distance(t) < farthest - 1e-9).map(|&t| distribution[t]).sum();
                assert!(nearer < p + 1e-9, "{logits:?} at {p}: without the last {nearer}");
                assert!(p == 1.0 || allowed.iter().all(|&t| got[t] > NO || distance(t) > farthest - 1e-9));
                let max = Row::from(logits.clone()).max().unwrap();
                without_best += usize::from(got.iter().all(|&z| z < max));
            }
        }
        assert!(without_best > 10, "{without_best}");
    }
}
