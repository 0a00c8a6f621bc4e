//! The arithmetic of one row.

use verdigris_logits::Row;

use super::alpha::Weight;
use super::budget::Family;
use super::filter::BaseFilter;

const NO: f32 = f32::NEG_INFINITY;

/// The row of one side of a pair for the next token.
#[derive(Clone, Copy)]
pub(super) enum Said<'a> {
    /// The base's row, before it is filtered.
    AsTheBase,
    /// The side's own row.
    Row(&'a [f32]),
}

/// A pair of rows, and the weight of their difference.
#[derive(Clone, Copy)]
pub(super) struct Term<'a> {
    pub(super) expert: Said<'a>,
    pub(super) anti: Said<'a>,
    pub(super) weight: Weight<'a>,
    /// Whether log-probabilities are compared, and those of the base are moved.
    pub(super) is_normalized: bool,
}

/// Scratch space for mixing rows.
#[derive(Default)]
pub(super) struct Mixer {
    /// The original row of the base.
    base: Vec<f32>,
    /// The row of an anti-expert as log-probabilities.
    anti: Vec<f32>,
    direction: Vec<f32>,
    /// The weight of each token, if they differ.
    alphas: Vec<f32>,
    row: Row,
    family: Family,
}

impl Mixer {
    /// Moves a row by some terms, at most `budget` nats from the filtered row. Returns the divergence, or 0 without a
    /// budget, when it is not computed.
    pub(super) fn mix(&mut self, row: &mut [f32], terms: &[Term<'_>], filter: &BaseFilter, budget: Option<f64>) -> f64 {
        let Self { base, anti, direction, alphas, row: space, family } = self;
        if terms.iter().any(|term| term.is_normalized) {
            normalize(row, space);
        }
        base.clear();
        if terms.iter().any(|term| matches!((term.expert, term.anti), (Said::AsTheBase, _) | (_, Said::AsTheBase))) {
            base.extend_from_slice(row);
        }
        filter.apply(row, space);
        if budget.is_some() {
            direction.clear();
            direction.extend(row.iter().map(|&z| if z == NO { NO } else { 0.0 }));
        }
        for term in terms {
            let expert = match term.expert {
                Said::AsTheBase => &base[..],
                Said::Row(row) => row,
            };
            let of_anti = match term.anti {
                Said::AsTheBase => &base[..],
                Said::Row(row) if term.is_normalized => {
                    anti.clear();
                    anti.extend_from_slice(row);
                    normalize(anti, space);
                    &anti[..]
                }
                Said::Row(row) => row,
            };
            let row: &mut [f32] = if budget.is_some() { &mut *direction } else { &mut *row };
            if term.weight.of_tokens.is_empty() {
                add(row, expert, of_anti, 0.0, std::iter::repeat(term.weight.alpha));
            } else {
                // Logits are defined up to a constant, which does not cancel if weights differ.
                let apart = normalizer(expert, space) - normalizer(of_anti, space);
                term.weight.write(alphas, row.len());
                add(row, expert, of_anti, apart as f32, alphas.iter().copied());
            }
        }
        let Some(budget) = budget else { return 0.0 };
        let (t, kl) = family.load(row, direction).map_or((1.0, 0.0), |family| family.within(budget));
        for (z, d) in row.iter_mut().zip(direction) {
            *z = if *d == NO { NO } else { *z + t as f32 * *d };
        }
        kl
    }
}

/// The difference between logits and log-probabilities, or NaN if the logits are not a distribution.
fn normalizer(logits: &[f32], space: &mut Row) -> f64 {
    space.load(logits);
    space.log_sum_exp().unwrap_or(f64::NAN)
}

/// Converts logits to log-probabilities, if they are a distribution.
fn normalize(logits: &mut [f32], space: &mut Row) {
    let normalizer = normalizer(logits, space);
    if !normalizer.is_nan() {
        logits.iter_mut().for_each(|z| *z = (f64::from(*z) - normalizer) as f32);
    }
}

/// Adds one pair's difference, minus a constant, to a row, with a weight for each token.
///
/// A token that the base forbids (`-inf`) stays forbidden. One that an expert or an anti-expert forbids is forbidden if
/// the formula gives `-inf`. If it gives `+inf`, or is undefined because both forbid the token, the pair has no effect
/// on it. A token past the end of the expert's or anti-expert's row cannot be read by that model, and is forbidden.
fn add(row: &mut [f32], expert: &[f32], anti: &[f32], apart: f32, alphas: impl Iterator<Item = f32>) {
    for (((z, &e), &a), alpha) in row.iter_mut().zip(expert).zip(anti).zip(alphas).filter(|(((z, _), _), _)| **z != NO)
    {
        *z += match (e == NO, a == NO) {
            (false, false) => alpha * (e - a - apart),
            (true, false) if alpha > 0.0 => NO,
            (false, true) if alpha < 0.0 => NO,
            _ => 0.0,
        };
    }
    let read = expert.len().min(anti.len()).min(row.len());
    row[read..].fill(NO);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixed(row: &[f32], terms: &[Term<'_>], filter: &BaseFilter, budget: Option<f64>) -> (Vec<f32>, f64) {
        let mut row = row.to_vec();
        let kl = Mixer::default().mix(&mut row, terms, filter, budget);
        (row, kl)
    }

    fn term<'a>(expert: &'a [f32], anti: &'a [f32], alpha: f32) -> Term<'a> {
        let weight = Weight { alpha, of_tokens: &[], written: 0 };
        Term { expert: Said::Row(expert), anti: Said::Row(anti), weight, is_normalized: false }
    }

    /// Tokens that the base forbids stay forbidden, and no token becomes certain because an expert or an anti-expert
    /// forbids it.
    #[test]
    fn what_is_forbidden_stays_so() {
        let row = [NO, NO, NO, 1.0, 1.0, 1.0, 1.0];
        let (expert, anti) = ([9.0, NO, 9.0, NO, NO, 0.0, 2.0], [0.0, 0.0, NO, NO, 0.0, NO, 1.0]);
        for budget in [None, Some(f64::INFINITY)] {
            let of = |alpha| mixed(&row, &[term(&expert, &anti, alpha)], &BaseFilter::default(), budget).0;
            assert_eq!(of(1.0), [NO, NO, NO, 1.0, NO, 1.0, 2.0]);
            assert_eq!(of(-1.0), [NO, NO, NO, 1.0, 1.0, NO, 0.0]);
        }
    }

    /// Invalid logits of a model result in an error, not a preference.
    #[test]
    fn what_is_no_number_shows() {
        for (expert, anti) in [(f32::NAN, 0.0), (0.0, f32::NAN), (f32::INFINITY, 0.0), (f32::INFINITY, f32::INFINITY)] {
            for budget in [None, Some(0.1)] {
                let (expert, anti) = ([expert, 0.0], [anti, 0.0]);
                let row = mixed(&[1.0, 1.0], &[term(&expert, &anti, 1.0)], &BaseFilter::default(), budget).0;
                assert!(!row[0].is_finite() && row[0] != NO && row[1] == 1.0, "{row:?}");
            }
        }
    }

    /// The filter only sees the base, and no expert brings back what it excludes. A side that is the base uses the row
    /// before filtering.
    #[test]
    fn the_base_is_filtered_before_it_is_moved() {
        let row = [3.0, 2.0, 1.0, 0.0];
        let expert = [0.0, 0.0, 0.0, 50.0];
        let filter = BaseFilter::new(Some(2), None, None).unwrap();
        assert_eq!(mixed(&row, &[term(&expert, &[0.0; 4], 1.0)], &filter, None).0, [3.0, 2.0, NO, NO]);
        let anti = [1.0, 3.0, 1.0, 9.0];
        let away = Term { expert: Said::AsTheBase, ..term(&[], &anti, 0.5) };
        assert_eq!(mixed(&row, &[away], &filter, None).0, [4.0, 1.5, NO, NO]);
        let towards = Term { anti: Said::AsTheBase, ..term(&anti, &[], 0.5) };
        assert_eq!(mixed(&row, &[towards], &filter, None).0, [2.0, 2.5, NO, NO]);
        for filter in [BaseFilter::new(None, Some(0.7), None), BaseFilter::new(None, None, Some(0.3))] {
            let row = mixed(&row, &[term(&expert, &[0.0; 4], 1.0)], &filter.unwrap(), None).0;
            assert_eq!(row, [3.0, 2.0, NO, NO]);
        }
    }

    /// All terms are scaled by one factor as far as the budget allows; terms too weak to reach the budget apply in
    /// full.
    #[test]
    fn a_budget_shortens_all_terms_alike() {
        let row = [0.3, -1.0, 2.0, 0.1];
        let (e, a, f) = ([1.0, 2.0, -1.0, 0.5], [0.0, -1.0, 1.0, 0.0], [0.0, 1.0, 0.0, 3.0]);
        let terms = [term(&e, &a, 0.8), term(&f, &a, -0.4)];
        let none = BaseFilter::default();
        let far = mixed(&row, &terms, &none, Some(f64::INFINITY));
        let plain = mixed(&row, &terms, &none, None);
        assert!(plain.1 == 0.0 && far.1 > 0.2);
        assert!(far.0.iter().zip(&plain.0).all(|(a, b)| (a - b).abs() < 1e-5));
        let (near, kl) = mixed(&row, &terms, &none, Some(0.1));
        assert!((kl - 0.1).abs() < 1e-9);
        let share = |v: usize| (near[v] - row[v]) / (far.0[v] - row[v]);
        assert!((0..4).all(|v| (share(v) - share(0)).abs() < 1e-4 && share(v) < 1.0));
        let distribution = |row: &[f32]| Row::from(row.to_vec()).distribution();
        let distance: f64 = distribution(&near).iter().zip(distribution(&row)).map(|(q, p)| q * (q / p).ln()).sum();
        assert!((distance - 0.1).abs() < 1e-6);
        assert_eq!(mixed(&row, &terms, &none, Some(0.0)), (row.to_vec(), 0.0));
    }
}
