//! Top-p: the nucleus of the law.

use crate::Row;
use crate::row::{descending, weight};
use crate::steps::Step;
use crate::warp::{OutOfRange, check, first_to_reach, stateless};

/// Nucleus sampling (Holtzman et al. 2020, section 3.1): keeps the smallest set of the most probable tokens
/// whose mass reaches `p`. Among equal logits the lowest id goes first.
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

    /// Against the definition, written the slow way: sort, add up, cut.
    #[test]
    fn it_is_the_smallest_set_that_reaches_the_mass() {
        for logits in rows() {
            for p in [1e-9, 0.1, 0.5, 0.9, 0.999, 1.0] {
                let law = Row::from(logits.clone()).distribution();
                let mut order: Vec<usize> = (0..law.len()).filter(|&t| law[t] > 0.0).collect();
                order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
                let mut kept = vec![NO; logits.len()];
                let mut mass = 0.0;
                for t in order {
                    if mass >= p {
                        break;
                    }
                    kept[t] = logits[t];
                    mass += law[t];
                }
                let got = apply(TopP::new(p).unwrap(), &logits);
                let count = |row: &[f32]| row.iter().filter(|z| **z > NO).count();
                // A cut that falls on equal sums may round either way by one token.
                assert!(count(&got).abs_diff(count(&kept)) <= usize::from((mass - p).abs() < 1e-9), "{logits:?} {p}");
                if count(&got) == count(&kept) {
                    assert_eq!(got, kept, "{logits:?} at {p}");
                }
            }
        }
    }
}
