//! Warpers: steps that reshape a row whatever the text before it.
//!
//! Each keeps at least the most probable token. Their rules are those of Hugging Face `transformers` 5
//! (`generation/logits_process.py`), so a pipeline can be compared with it row by row.

use crate::row::descending;
use crate::steps::Step;
use crate::{Row, TokenId, Transform};

/// A parameter out of the range that its transform can use.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{name} is {value}, but must be {range}")]
pub struct OutOfRange {
    name: &'static str,
    value: f64,
    range: &'static str,
}

pub(crate) fn check(name: &'static str, value: f64, ok: bool, range: &'static str) -> Result<(), OutOfRange> {
    if ok { Ok(()) } else { Err(OutOfRange { name, value, range }) }
}

/// Divides every logit by a temperature.
#[doc(alias = "TemperatureLogitsWarper")]
#[derive(Clone, Copy, Debug)]
pub struct Temperature(f32);

impl Temperature {
    /// A positive, finite temperature. For the limit at zero use [`crate::Sampler::Greedy`].
    ///
    /// # Errors
    /// [`OutOfRange`] for any other number.
    pub fn new(temperature: f64) -> Result<Self, OutOfRange> {
        let ok = temperature.is_finite() && temperature as f32 > 0.0;
        check("temperature", temperature, ok, "above 0")?;
        Ok(Self(temperature as f32))
    }
}

/// Keeps the `k` tokens with the largest logits. Ties with the last of them are kept too.
#[doc(alias = "TopKLogitsWarper")]
#[doc(alias = "top_k")]
#[derive(Clone, Copy, Debug)]
pub struct TopK(usize);

impl TopK {
    /// `k` tokens, at least 1.
    ///
    /// # Errors
    /// [`OutOfRange`] for any other number.
    pub fn new(k: usize) -> Result<Self, OutOfRange> {
        check("top-k", k as f64, k >= 1, "at least 1")?;
        Ok(Self(k))
    }
}

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

/// Keeps the tokens whose probability is at least `p` times that of the most probable one.
#[doc(alias = "MinPLogitsWarper")]
#[doc(alias = "min_p")]
#[derive(Clone, Copy, Debug)]
pub struct MinP(f64);

impl MinP {
    /// A share in `[0, 1]`.
    ///
    /// # Errors
    /// [`OutOfRange`] for any other number.
    pub fn new(p: f64) -> Result<Self, OutOfRange> {
        check("min-p", p, (0.0..=1.0).contains(&p), "at least 0 and at most 1")?;
        Ok(Self(p))
    }
}

macro_rules! stateless {
    ($warper:ty, $apply:expr) => {
        impl Transform for $warper {
            type State = ();
            fn start(&self, _: &[TokenId]) {}
            fn apply(&self, _: &(), row: &mut Row) {
                let apply: fn(&$warper, &mut Row) = $apply;
                apply(self, row)
            }
            fn advance(&self, _: &mut (), _: TokenId) {}
        }
    };
}

stateless!(Temperature, |warper, row| {
    if warper.0 != 1.0 {
        row.divide(warper.0);
    }
});

stateless!(TopK, |warper, row| {
    if warper.0 < row.len() {
        row.top_k(warper.0);
    }
});

stateless!(TopP, |warper, row| {
    if warper.0 < 1.0 {
        row.top_p(warper.0);
    }
});

stateless!(MinP, |warper, row| row.min_p(warper.0));

impl Row {
    pub(crate) fn divide(&mut self, by: f32) {
        if let Some(steps) = self.recorded() {
            return steps.push(Step::Divide(by));
        }
        self.logits_mut().iter_mut().for_each(|z| *z /= by);
    }

    pub(crate) fn top_k(&mut self, k: usize) {
        if let Some(steps) = self.recorded() {
            return steps.push(Step::TopK(k));
        }
        self.with_allowed(|order, logits| {
            if k < order.len() {
                let (_, &mut kth, _) = order.select_nth_unstable_by(k - 1, |&a, &b| descending(logits, a, b));
                forbid_below(logits, logits[kth as usize]);
            }
        });
    }

    pub(crate) fn top_p(&mut self, mass: f64) {
        if let Some(steps) = self.recorded() {
            return steps.push(Step::TopP(mass));
        }
        let Some(max) = self.max() else { return };
        self.with_allowed(|order, logits| {
            let weight = |t: TokenId| f64::from(logits[t as usize] - max).exp();
            let total: f64 = order.iter().map(|&t| weight(t)).sum();
            // Quickselect on mass: each round halves the tokens still in question and decides one half whole.
            let (mut open, mut need) = (0..order.len(), mass * total);
            while open.len() > 1 {
                let part = &mut order[open.clone()];
                let middle = part.len() / 2;
                part.select_nth_unstable_by(middle, |&a, &b| descending(logits, a, b));
                let upper: f64 = part[..middle].iter().map(|&t| weight(t)).sum();
                if upper >= need {
                    open.end = open.start + middle;
                } else {
                    need -= upper;
                    open.start += middle;
                }
            }
            for &token in &order[open.start + 1..] {
                logits[token as usize] = f32::NEG_INFINITY;
            }
        });
    }

    pub(crate) fn min_p(&mut self, p: f64) {
        if let Some(steps) = self.recorded() {
            return steps.push(Step::MinP(p));
        }
        let Some(max) = self.max() else { return };
        // p >= min_p * p_max  <=>  z >= z_max + ln(min_p)
        let bound = f64::from(max) + p.ln();
        self.logits_mut().iter_mut().filter(|z| f64::from(**z) < bound).for_each(|z| *z = f32::NEG_INFINITY);
    }
}

fn forbid_below(logits: &mut [f32], bound: f32) {
    logits.iter_mut().filter(|z| **z < bound).for_each(|z| *z = f32::NEG_INFINITY);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Purpose, Random};

    const NO: f32 = f32::NEG_INFINITY;

    fn apply(step: impl Transform<State = ()>, logits: &[f32]) -> Vec<f32> {
        let mut row = Row::from(logits.to_vec());
        step.apply(&(), &mut row);
        row.logits().to_vec()
    }

    fn rows() -> impl Iterator<Item = Vec<f32>> {
        let random = Random::new(1);
        (1..60usize).map(move |n| {
            (0..n)
                .map(|i| {
                    let u = random.uniform((n * 1000 + i) as u64, Purpose::Token);
                    if u < 0.15 && i > 0 { NO } else { (u * 16.0).floor() as f32 / 2.0 }
                })
                .collect()
        })
    }

    #[test]
    fn top_k_keeps_ties() {
        assert_eq!(apply(TopK::new(2).unwrap(), &[1.0, 3.0, 2.0, 2.0, NO]), [NO, 3.0, 2.0, 2.0, NO]);
        assert_eq!(apply(TopK::new(9).unwrap(), &[1.0, NO]), [1.0, NO]);
    }

    /// Against the definition, written the slow way: sort, add up, cut.
    #[test]
    fn top_p_is_the_smallest_set_that_reaches_the_mass() {
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

    #[test]
    fn min_p_compares_with_the_best() {
        let logits = [0.0, -0.5f32.ln().abs() + 0.01, -1.0, NO];
        assert_eq!(apply(MinP::new(0.5).unwrap(), &logits), [0.0, logits[1], NO, NO]);
        assert_eq!(apply(MinP::new(0.0).unwrap(), &logits), logits);
        assert_eq!(apply(MinP::new(1.0).unwrap(), &[1.0, 2.0, 2.0]), [NO, 2.0, 2.0]);
    }

    #[test]
    fn every_warper_keeps_the_best_token_and_forbids_no_less() {
        for logits in rows() {
            let best = Row::from(logits.clone()).max().unwrap();
            for got in [
                apply(Temperature::new(0.7).unwrap(), &logits),
                apply(TopK::new(1).unwrap(), &logits),
                apply(TopP::new(1e-6).unwrap(), &logits),
                apply(MinP::new(1.0).unwrap(), &logits),
            ] {
                assert!(got.iter().zip(&logits).any(|(z, &raw)| *z > NO && raw == best));
                assert!(got.iter().zip(&logits).all(|(z, &raw)| raw > NO || *z == NO));
            }
        }
    }

    #[test]
    fn impossible_rows_pass_through() {
        for got in [
            apply(TopK::new(1).unwrap(), &[NO, NO]),
            apply(TopP::new(0.5).unwrap(), &[NO, NO]),
            apply(MinP::new(0.5).unwrap(), &[NO, NO]),
        ] {
            assert_eq!(got, [NO, NO]);
        }
    }

    #[test]
    fn parameters_out_of_range_are_named() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-60] {
            assert!(Temperature::new(bad).is_err(), "{bad}");
        }
        assert_eq!(TopP::new(1.5).unwrap_err().to_string(), "top-p is 1.5, but must be above 0 and at most 1");
        assert!(TopP::new(f64::NAN).is_err() && MinP::new(-0.1).is_err() && TopK::new(0).is_err());
    }
}
