//! A detector for text that is still being generated: its p-value holds at every moment.
//!
//! An ordinary p-value that is examined after each token will eventually be small by chance. Here the evidence is
//! wealth: a bet on each observation, fair in unmarked text, so that wealth is a martingale which reaches `1 / p` with
//! probability at most `p`, whenever one looks (Ville 1939; Ramdas et al., *Game-theoretic statistics and safe
//! anytime-valid inference*, 2023, section 3). The bets are likelihood ratios against several strengths of a mark, with
//! an equal share of the initial stake on each.

use std::sync::Arc;

use verdigris_logits::TokenId;

use crate::detect::{Detector, Evidence, Mark};
use crate::real::{exp, ln};
use crate::scheme::Scheme;
use crate::score_distribution::ScoreDistribution;

/// The strengths that are bet on: standard deviations by which a mark shifts the mean of an observation.
const STRENGTHS: [f64; 6] = [0.1, 0.2, 0.35, 0.6, 0.9, 1.3];

/// A detector whose p-value can be read at every moment.
pub struct Watcher {
    detector: Detector,
    wealth: Wealth,
}

impl Watcher {
    /// A watcher for `scheme`'s mark.
    pub fn new(scheme: Arc<dyn Scheme>) -> Self {
        let wealth = Wealth::new(&scheme.distribution());
        Self { detector: Detector::new(scheme), wealth }
    }

    /// Reads the next tokens of the text.
    pub fn push(&mut self, tokens: &[TokenId]) {
        for mark in self.detector.push(tokens) {
            if let Mark::Counted { score, .. } = mark {
                self.wealth.push(*score);
            }
        }
    }

    /// The logarithm of the p-value so far, which holds at any stopping time.
    pub fn ln_p(&self) -> f64 {
        self.wealth.ln_p()
    }

    /// The evidence of the text so far, if it ended here: its p-value holds for one look only.
    pub fn evidence(&self) -> Evidence {
        self.detector.evidence()
    }
}

/// The wealth of a bettor against 'this text is not marked'.
#[derive(Clone, Debug)]
pub struct Wealth {
    /// For each strength: the tilt, the cumulant there, and the logarithm of the winnings.
    bets: Vec<[f64; 3]>,
    observations: u64,
    most: f64,
}

impl Wealth {
    /// The initial stake, for scores of a distribution.
    pub fn new(distribution: &ScoreDistribution) -> Self {
        let [_, mean, variance] = distribution.cumulants(0.0);
        let bet = |tilt: f64| [tilt, distribution.cumulants(tilt)[0], 0.0];
        let bets = match distribution {
            ScoreDistribution::LikelihoodRatio { .. } => vec![bet(1.0)],
            _ => STRENGTHS.map(|s| bet(distribution.tilt(mean + s * variance.sqrt()))).to_vec(),
        };
        Self { bets, observations: 0, most: 0.0 }
    }

    /// Adds a counted observation.
    pub fn push(&mut self, score: f32) {
        for [tilt, cumulant, won] in &mut self.bets {
            *won += *tilt * f64::from(score) - *cumulant;
        }
        self.observations += 1;
        self.most = self.most.max(self.ln_wealth());
    }

    /// The logarithm of the wealth, which starts at 1.
    pub fn ln_wealth(&self) -> f64 {
        let best = self.bets.iter().map(|bet| bet[2]).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = self.bets.iter().map(|bet| exp(bet[2] - best)).sum();
        best + ln(sum / self.bets.len() as f64)
    }

    /// The logarithm of the p-value so far. It never rises, and holds at any stopping time.
    pub fn ln_p(&self) -> f64 {
        -self.most
    }

    /// The number of observations so far.
    pub fn observations(&self) -> u64 {
        self.observations
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score_distribution::Integer;
    use std::sync::Arc;
    use verdigris_logits::random::philox4x32;

    fn uniform(i: u32, seed: u32) -> f64 {
        (f64::from(philox4x32([i, 0, 0, 0], [seed, 2])[0]) + 0.5) / 4_294_967_296.0
    }

    /// Bets are fair: the expected wealth after some observations is the stake, by enumeration.
    #[test]
    fn bets_are_fair() {
        for gamma in [0.25, 0.5] {
            let distribution = ScoreDistribution::Green { gamma };
            let mut mean = 0.0;
            for way in 0..1u32 << 10 {
                let mut wealth = Wealth::new(&distribution);
                (0..10).for_each(|i| wealth.push((way >> i & 1) as f32));
                let green = way.count_ones() as i32;
                mean += gamma.powi(green) * (1.0 - gamma).powi(10 - green) * wealth.ln_wealth().exp();
            }
            assert!((mean - 1.0).abs() < 1e-9, "{mean}");
        }
        let probabilities = vec![0.2, 0.5, 0.0, 0.3];
        let distribution = ScoreDistribution::Integer(Arc::new(Integer::new(probabilities.clone(), 1.0)));
        let mean: f64 = (0..4)
            .map(|x| {
                let mut wealth = Wealth::new(&distribution);
                wealth.push(x as f32);
                probabilities[x] * wealth.ln_wealth().exp()
            })
            .sum();
        assert!((mean - 1.0).abs() < 1e-9, "{mean}");
    }

    /// Looking after each of 500 observations, at most one text in twenty ever has p <= .05.
    #[test]
    fn it_may_be_looked_at_always() {
        for (distribution, score) in [
            (ScoreDistribution::Green { gamma: 0.25 }, (|u| f64::from(u8::from(u < 0.25))) as fn(f64) -> f64),
            (ScoreDistribution::Exponential, |u: f64| -u.ln()),
        ] {
            let texts = 2000;
            let alarms = (0..texts)
                .filter(|&seed| {
                    let mut wealth = Wealth::new(&distribution);
                    (0..500).for_each(|i| wealth.push(score(uniform(i, seed)) as f32));
                    wealth.ln_p() <= 0.05f64.ln()
                })
                .count();
            assert!(alarms as f64 <= 0.05 * f64::from(texts), "{distribution:?}: {alarms}");
            assert!(alarms > 20, "{alarms}: a bettor that never bets");
        }
    }

    #[test]
    fn a_watcher_counts_repeats_once() {
        let gamma = crate::Gamma::new(0.25).unwrap();
        let context = crate::Context::new(crate::ContextFunction::All, 1).unwrap();
        let scheme: Arc<dyn Scheme> = Arc::new(crate::Native::new(&[1; 32], "", "", gamma, context, 500));
        let text: Vec<TokenId> = (0..300u32).map(|i| philox4x32([i, 0, 0, 0], [8, 8])[0] % 500).collect();
        let mut watcher = Watcher::new(scheme.clone());
        text.chunks(7).for_each(|piece| watcher.push(piece));
        let ln_p = watcher.ln_p();
        assert_eq!(watcher.evidence(), Evidence::of(scheme, &text));
        (0..20).for_each(|_| watcher.push(&text));
        assert_eq!(watcher.wealth.observations(), watcher.evidence().scored);
        assert!(watcher.ln_p() >= ln_p - 12.0, "repeats prove nothing");
    }

    #[test]
    fn a_mark_makes_rich() {
        let mut wealth = Wealth::new(&ScoreDistribution::Green { gamma: 0.25 });
        (0..150).for_each(|i| wealth.push(f32::from(u8::from(uniform(i, 1) < 0.6))));
        assert!(wealth.ln_p() < 1e-8f64.ln(), "{}", wealth.ln_p());
        let before = wealth.ln_p();
        (0..300).for_each(|_| wealth.push(0.0));
        assert_eq!(wealth.ln_p(), before, "what was proved stays proved");
    }
}
