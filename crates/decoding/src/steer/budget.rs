//! A bound on the divergence from the base, in nats: finds the largest weight of each token within it.
//!
//! A distribution moved in a direction `d` by a weight `t` is an exponential family,
//!
//! ```text
//! p_t = p_0 exp(t d) / Z(t),    Z(t) = sum of p_0 exp(t d),
//! ```
//!
//! and its divergence from the start, with mean and variance taken under `p_t`, is
//!
//! ```text
//! KL(p_t || p_0) = t E_t[d] - ln Z(t),    with the derivative  t Var_t(d)
//! ```
//!
//! in `t`. The derivative is never negative, so the divergence grows with the weight, and the largest weight within a
//! budget is a single root. Near 0 the divergence is `t^2 Var_0(d) / 2`: its square root is almost linear, so Newton's
//! method needs three or four steps on it.

/// The search ends when the divergence is within the budget by at most this many nats.
const NEAR: f64 = 1e-11;

/// A distribution and a direction in which it is moved, over the possible tokens: scratch space that is reused for each
/// row.
#[derive(Clone, Debug, Default)]
pub(super) struct Family {
    /// For each token, the logit minus the greatest logit, and the direction minus that of the token with the greatest
    /// logit.
    tokens: Vec<(f64, f64)>,
}

/// The properties of a family at a weight.
struct At {
    kl: f64,
    /// The variance of the direction.
    variance: f64,
}

impl Family {
    /// Loads the distribution of a row, moved in a direction. A token for which either is `-inf` is impossible at any
    /// weight. Returns `None` if a number is NaN or positive infinity, or if no token is possible.
    pub(super) fn load(&mut self, row: &[f32], direction: &[f32]) -> Option<&Self> {
        const NO: f32 = f32::NEG_INFINITY;
        let is_number = |z: &f32| z.is_finite() || *z == NO;
        if !row.iter().chain(direction).all(is_number) {
            return None;
        }
        self.tokens.clear();
        let pairs = row.iter().zip(direction).filter(|(z, d)| **z != NO && **d != NO);
        self.tokens.extend(pairs.map(|(&z, &d)| (f64::from(z), f64::from(d))));
        let (top, at_top) = self.tokens.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0))?;
        self.tokens.iter_mut().for_each(|(z, d)| (*z, *d) = (*z - top, *d - at_top));
        Some(self)
    }

    /// The properties of the family at a weight. Adding a constant to all logits does not change a distribution, so
    /// sums are taken relative to the greatest.
    fn at(&self, t: f64) -> At {
        let (from, to) = (|&(z, _): &(f64, f64)| z, |&(z, d): &(f64, f64)| z + t * d);
        let top = self.tokens.iter().map(to).fold(f64::NEG_INFINITY, f64::max);
        let (mut before, mut after, mut sum, mut squares) = (0.0, 0.0, 0.0, 0.0);
        for token in &self.tokens {
            let (z, d) = (to(token), token.1);
            before += from(token).exp();
            let w = (z - top).exp();
            after += w;
            sum += w * d;
            squares += w * d * d;
        }
        let mean = sum / after;
        let ln_z = top + after.ln() - before.ln();
        At { kl: (t * mean - ln_z).max(0.0), variance: (squares / after - mean * mean).max(0.0) }
    }

    /// The divergence of the distribution at a weight from that at 0, in nats.
    pub(super) fn kl(&self, t: f64) -> f64 {
        self.at(t).kl
    }

    /// The largest weight from 0 to 1 whose distribution is at most `budget` nats from that at 0, and its divergence.
    pub(super) fn within(&self, budget: f64) -> (f64, f64) {
        let whole = self.kl(1.0);
        if whole <= budget {
            return (1.0, whole);
        }
        if budget == 0.0 {
            return (0.0, 0.0);
        }
        // `low` is within the budget, `high` beyond it.
        let (mut low, mut high, mut spent) = (0.0, 1.0, 0.0);
        let goal = budget.sqrt();
        let mut t = (goal / whole.sqrt()).min(0.5);
        // At least every eighth round halves the interval, so the search ends.
        for round in 0..200 {
            let At { kl, variance } = self.at(t);
            if kl <= budget {
                (low, spent) = (t, kl);
            } else {
                high = t;
            }
            let off = kl.sqrt() - goal;
            if off <= 0.0 && budget - kl <= NEAR || high - low <= f64::EPSILON * high {
                break;
            }
            // Aim slightly short of the root, to stay within the budget.
            let step = (off + 0.25 * NEAR / goal) * 2.0 * kl.sqrt() / (t * variance);
            let next = t - step;
            let middle = (low + high) / 2.0;
            t = if next > low && next < high && round % 8 != 7 { next } else { middle };
        }
        (low, spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdigris_logits::{Purpose, Random};

    const NO: f32 = f32::NEG_INFINITY;

    fn noise(seed: u64, size: usize, scale: f64) -> Vec<f32> {
        let random = Random::new(seed);
        (0..size).map(|i| (scale * (random.uniform(i as u64, Purpose::Weight) - 0.5)) as f32).collect()
    }

    /// The divergence by its definition, with sums in another order.
    fn kl_by_definition(row: &[f32], direction: &[f32], t: f64) -> f64 {
        let distribution = |t: f64| -> Vec<f64> {
            let weights: Vec<f64> = row
                .iter()
                .zip(direction)
                .map(|(&z, &d)| if z == NO || d == NO { 0.0 } else { (f64::from(z) + t * f64::from(d)).exp() })
                .collect();
            let total: f64 = weights.iter().rev().sum();
            weights.iter().map(|w| w / total).collect()
        };
        let (before, after) = (distribution(0.0), distribution(t));
        after.iter().zip(&before).filter(|(q, _)| **q > 0.0).map(|(q, p)| q * (q / p).ln()).sum()
    }

    #[test]
    fn the_distance_is_that_of_the_definition_and_its_slope_the_variance() {
        for seed in 0..40 {
            let (mut row, mut direction) = (noise(seed, 30, 8.0), noise(seed + 100, 30, 6.0));
            (row[3], direction[7]) = (NO, NO);
            let mut family = Family::default();
            let family = family.load(&row, &direction).unwrap();
            for t in [0.0, 0.1, 0.5, 1.0] {
                let expected = kl_by_definition(&row, &direction, t);
                assert!((family.kl(t) - expected).abs() < 1e-12, "{} and not {expected}", family.kl(t));
                let slope = (family.kl(t + 1e-5) - family.kl((t - 1e-5).max(0.0))) / (t + 1e-5 - (t - 1e-5).max(0.0));
                assert!((slope - t * family.at(t).variance).abs() < 1e-4);
            }
        }
    }

    /// The budget is used up to 1e-9 nats and never exceeded, and a bisection that does not use slopes finds the same
    /// weight.
    #[test]
    fn the_budget_is_used_up_and_not_exceeded() {
        let mut spent_up = 0;
        for seed in 0..200 {
            let size = 2 + seed as usize % 60;
            let scale = [0.01, 1.0, 10.0, 80.0][seed as usize % 4];
            let (row, direction) = (noise(seed, size, 10.0), noise(seed + 1000, size, scale));
            let mut family = Family::default();
            let family = family.load(&row, &direction).unwrap();
            for budget in [0.0, 1e-6, 0.01, 0.1, 0.5, 2.0, f64::INFINITY] {
                let (t, kl) = family.within(budget);
                assert!((0.0..=1.0).contains(&t) && kl <= budget && (kl - family.kl(t)).abs() < 1e-15);
                if t == 1.0 {
                    continue;
                }
                assert!((kl - budget).abs() < 1e-9, "{kl} of {budget}");
                let (mut low, mut high) = (0.0, 1.0);
                for _ in 0..60 {
                    let middle = (low + high) / 2.0;
                    let is_within = kl_by_definition(&row, &direction, middle) <= budget;
                    (low, high) = if is_within { (middle, high) } else { (low, middle) };
                }
                assert!(budget < 1e-3 || (t - low).abs() < 1e-6 * low, "{t} and not {low}");
                spent_up += 1;
            }
        }
        assert!(spent_up > 400, "{spent_up}");
    }

    #[test]
    fn weights_that_are_no_distribution_have_no_family() {
        let mut family = Family::default();
        for bad in [f32::NAN, f32::INFINITY] {
            assert!(family.load(&[bad, 0.0], &[0.0, 0.0]).is_none() && family.load(&[0.0; 2], &[0.0, bad]).is_none());
        }
        assert!(family.load(&[NO, 0.0], &[0.0, NO]).is_none());
    }
}
