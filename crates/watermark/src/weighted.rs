//! Detection with the help of the model: tokens that had few alternatives count less.
//!
//! A mark can only influence a choice. Where the model left none, a token's colour is chance and adds noise, so each
//! colour gets a weight from the model's distribution at its position. Weights do not depend on the key, so the p-value
//! of the weighted sum is exact ([`statistics::weighted`](crate::statistics::weighted)).
//!
//! | weight | of a token | source |
//! |---|---|---|
//! | [`Weighting::Sweet`] | 1 where the entropy is above a bound, else 0 | Lee et al., *Who wrote this code?*, ACL 2024 |
//! | [`Weighting::Ewd`] | the spike entropy, less the least in the text | Lu et al., *An entropy-based text watermarking detection method*, ACL 2024 |
//! | [`Weighting::LikelihoodRatio`] | how much the mark makes this very token likelier when it is green | Neyman and Pearson 1933, with the green share of all other tokens at its mean |

mod bias;
mod green_chance;

pub use self::bias::Bias;
use self::green_chance::{EXACT, green_chance};
use crate::detect::{Evidence, Mark};
use crate::real::{exp, exp_m1, ln};
use crate::score_distribution::ScoreDistribution;
use crate::statistics::weighted;

/// The largest weight; weights are integers.
pub const SCALE: u16 = 64;

/// Properties of the model's distribution at one position, before the mark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Surprise {
    /// The probability of the token at this position.
    pub probability: f64,
    /// The entropy of the distribution, in nats: of the one before the temperature where there is one, as in
    /// [`Embed::above_entropy`](crate::Embed::above_entropy).
    pub entropy: f64,
    /// The spike entropy of the distribution, `sum of p / (1 + z p)` with the `z` of [`spike_modulus`].
    pub spike_entropy: f64,
    /// The probability of a green token once the distribution is marked, on average over colourings. Exact where 64
    /// tokens or fewer are possible; otherwise a lower bound, with the colours of the 64 most likely taken exactly.
    pub green_chance: f64,
}

/// The method of weighting tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weighting {
    /// Counts only tokens with more entropy than this, in nats.
    Sweet(f64),
    /// Weights tokens by spike entropy.
    Ewd,
    /// Weights tokens by the likelihood ratio under a bias `delta`.
    LikelihoodRatio {
        /// The bias of the mark.
        delta: f64,
    },
}

/// `z = (1 - gamma)(a - 1) / (1 + (a - 1) gamma)` with `a = e^delta` (Kirchenbauer et al. 2023, definition 4.1).
pub fn spike_modulus(gamma: f64, delta: f64) -> f64 {
    (1.0 - gamma) * -exp_m1(-delta) / mean_gain(gamma, delta)
}

/// `(1 + (a - 1) gamma) / a` with `a = e^delta`: how a mark scales a distribution whose green share is the mean,
/// divided by how it scales a green token. Computed from `e^-delta`, which never overflows, since a bias over a low
/// temperature may be arbitrarily large.
fn mean_gain(gamma: f64, delta: f64) -> f64 {
    exp(-delta) - gamma * exp_m1(-delta)
}

impl Surprise {
    /// The values for `token` under `distribution`, which a mark with this bias would change.
    pub fn new(distribution: &[f64], token: usize, bias: Bias) -> Self {
        let spike_modulus = spike_modulus(bias.gamma, bias.delta);
        let entropy = -distribution.iter().filter(|&&p| p > 0.0).map(|&p| p * ln(p)).sum::<f64>();
        let spike_entropy = distribution.iter().map(|&p| p / (1.0 + spike_modulus * p)).sum();
        let green_chance = green_chance(distribution, bias, EXACT);
        Self { probability: distribution.get(token).copied().unwrap_or(0.0), entropy, spike_entropy, green_chance }
    }

    /// The values where the distribution is unknown: no mark can be expected.
    pub fn unknown(bias: Bias) -> Self {
        Self { probability: 0.0, entropy: 0.0, spike_entropy: 1.0, green_chance: bias.gamma }
    }
}

impl Weighting {
    /// The weight of a token, between 0 and 1.
    fn weight(self, gamma: f64, least_spike: f64, at: &Surprise) -> f64 {
        match self {
            Self::Sweet(bound) => f64::from(u8::from(at.entropy > bound)),
            Self::Ewd => ((at.spike_entropy - least_spike) / (1.0 - least_spike)).clamp(0.0, 1.0),
            Self::LikelihoodRatio { delta } => {
                // ln P(token | green) - ln P(token | red), with the green share of the other tokens at its mean.
                let p = at.probability.clamp(0.0, 1.0);
                let rest = (1.0 - p) * mean_gain(gamma, delta);
                let ratio = delta + ln((p * exp(-delta) + rest) / (p + rest));
                (ratio / delta).clamp(0.0, 1.0)
            }
        }
    }
}

/// The weight of a token that was one of `ways`, where nothing else is known: the logarithm of the likelihood ratio of
/// a green one under a bias `delta`, if the ways are equally probable and each is green with probability `gamma`. Near
/// 1 for very many ways, and 0 for one.
pub fn weight_of_ways(gamma: f64, delta: f64, ways: u32) -> f64 {
    let (n, loss) = (f64::from(ways), exp(-delta));
    // The sum over the number of green ways of the probability of a green token.
    let mut share = 0.0;
    let mut greens = exp(n * ln(1.0 - gamma));
    for green in 0..ways {
        greens *= (n - f64::from(green)) / (f64::from(green) + 1.0) * gamma / (1.0 - gamma);
        let k = f64::from(green) + 1.0;
        share += greens * k / ((n - k) * loss + k);
    }
    let ratio = ln(share * (1.0 - gamma) / (gamma * (1.0 - share)));
    (ratio / delta).clamp(0.0, 1.0)
}

/// The evidence of counted colours where the number of possible tokens at each position is known but not the model:
/// tokens count by [`weight_of_ways`]. `None` if the scheme has no colours.
pub fn evidence_of_ways(
    distribution: &ScoreDistribution,
    marks: &[Mark],
    ways: &[u32],
    delta: f64,
) -> Option<Evidence> {
    let &ScoreDistribution::Green { gamma } = distribution else { return None };
    let most = ways.iter().copied().max().unwrap_or(1);
    let known: Vec<f64> = (0..=most).map(|ways| weight_of_ways(gamma, delta, ways.max(1))).collect();
    Some(weighed(distribution, gamma, marks, ways.iter().map(|&ways| (known[ways as usize], None))))
}

/// The evidence of counted colours with the model's surprise at each position: `marks` and `surprises` are parallel to
/// the tokens of one text. `None` if the scheme has no colours.
pub fn evidence(
    distribution: &ScoreDistribution,
    marks: &[Mark],
    surprises: &[Surprise],
    weighting: Weighting,
) -> Option<Evidence> {
    let &ScoreDistribution::Green { gamma } = distribution else { return None };
    let least_spike = least_spike(surprises);
    Some(weighed(
        distribution,
        gamma,
        marks,
        surprises.iter().map(|at| (weighting.weight(gamma, least_spike, at), None)),
    ))
}

/// The mean over keys of [`evidence`] if the writer had marked each token, as far as the distribution at each position
/// allows ([`Surprise::green_chance`]). If this does not prove a mark, no text with these choices could be expected to.
/// `None` if the scheme has no colours.
pub fn expected(
    distribution: &ScoreDistribution,
    marks: &[Mark],
    surprises: &[Surprise],
    weighting: Weighting,
) -> Option<Evidence> {
    let &ScoreDistribution::Green { gamma } = distribution else { return None };
    let least_spike = least_spike(surprises);
    let places = surprises.iter().map(|at| (weighting.weight(gamma, least_spike, at), Some(at.green_chance)));
    Some(weighed(distribution, gamma, marks, places))
}

fn least_spike(surprises: &[Surprise]) -> f64 {
    surprises.iter().map(|at| at.spike_entropy).fold(1.0, f64::min)
}

/// The evidence of counted colours, each with a weight between 0 and 1 that does not depend on the key, and with the
/// probability of green to be used instead of the colour itself, if any.
fn weighed(
    distribution: &ScoreDistribution,
    gamma: f64,
    marks: &[Mark],
    places: impl Iterator<Item = (f64, Option<f64>)>,
) -> Evidence {
    let (mut weights, mut sum) = (Vec::new(), 0.0);
    for (mark, (weight, green)) in marks.iter().zip(places) {
        if let Mark::Counted { score, .. } = mark {
            let weight = (weight * f64::from(SCALE)).round() as u16;
            if weight > 0 {
                weights.push(weight);
                sum += f64::from(weight) * green.unwrap_or(f64::from(*score));
            }
        }
    }
    let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
    let squares: f64 = weights.iter().map(|&w| f64::from(w) * f64::from(w)).sum();
    let deviation = (gamma * (1.0 - gamma) * squares).sqrt();
    let z = if deviation > 0.0 { (sum - gamma * total) / deviation } else { 0.0 };
    let ln_p = weighted::ln_tail(&weights, gamma, sum.round() as u64);
    let scale = f64::from(SCALE);
    let plain = Evidence::from_sum(distribution, weights.len() as u64, 0.0);
    let (tokens, score, expected) = (marks.len() as u64, sum / scale, gamma * total / scale);
    plain.with_sum(tokens, score, expected, z, ln_p)
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdigris_logits::random::philox4x32;

    const BIAS: Bias = Bias { gamma: 0.25, delta: 2.0 };

    fn uniform(i: u32, seed: u32) -> f64 {
        (f64::from(philox4x32([i, 0, 0, 0], [seed, 3])[0]) + 0.5) / 4_294_967_296.0
    }

    /// Half of the tokens are certain and have random colours; of the others 60 % are green.
    fn text(n: u32, seed: u32, marked: bool) -> (Vec<Mark>, Vec<Surprise>) {
        let [sure, open] = [&[0.999, 0.001][..], &[0.1; 10]].map(|distribution| Surprise::new(distribution, 0, BIAS));
        (0..n)
            .map(|i| {
                let certain = i % 2 == 0;
                let share = if marked && !certain { 0.6 } else { 0.25 };
                let green = uniform(i, seed) < share;
                let mark = Mark::Counted { green, score: f32::from(u8::from(green)) };
                (mark, if certain { sure } else { open })
            })
            .unzip()
    }

    const ALL: [Weighting; 3] = [Weighting::Sweet(0.5), Weighting::Ewd, Weighting::LikelihoodRatio { delta: 2.0 }];

    #[test]
    fn certain_tokens_do_not_dilute() {
        let distribution = ScoreDistribution::Green { gamma: 0.25 };
        let (marks, surprises) = text(400, 1, true);
        let green = marks.iter().filter(|mark| matches!(mark, Mark::Counted { green: true, .. })).count();
        let plain = Evidence::from_sum(&distribution, 400, green as f64);
        for weighting in ALL {
            let weighted = evidence(&distribution, &marks, &surprises, weighting).unwrap();
            assert!(weighted.ln_p < plain.ln_p - 5.0 && weighted.z > plain.z, "{weighting:?}: {weighted:?} {plain:?}");
        }
    }

    #[test]
    fn unmarked_text_has_honest_p_values() {
        let distribution = ScoreDistribution::Green { gamma: 0.25 };
        for weighting in ALL {
            let alarms = (0..3000)
                .filter(|&seed| {
                    let (marks, surprises) = text(80, seed, false);
                    evidence(&distribution, &marks, &surprises, weighting).unwrap().p() <= 0.05
                })
                .count();
            assert!((50..=190).contains(&alarms), "{weighting:?}: {alarms} of 3000 at .05");
        }
    }

    /// A green token among many ways is more evidence than one among two, and a red one is less.
    #[test]
    fn few_ways_weigh_less() {
        let distribution = ScoreDistribution::Green { gamma: 0.25 };
        let of = |greens: [bool; 2]| {
            let marks = greens.map(|green| Mark::Counted { green, score: f32::from(green) });
            evidence_of_ways(&distribution, &marks, &[2, 1_000], 2.0).unwrap().ln_p
        };
        assert!(of([false, true]) < of([true, false]), "{} {}", of([false, true]), of([true, false]));
    }

    /// Compared with the enumeration of all colourings.
    #[test]
    fn weights_of_ways_are_likelihood_ratios() {
        for (gamma, delta) in [(0.25f64, 2.0f64), (0.5, 1.0), (0.25, 10.0)] {
            let mut last = 0.0;
            for ways in 1..=12u32 {
                let mut green = 0.0;
                for colouring in 0..1u32 << ways {
                    let greens = f64::from(colouring.count_ones());
                    let reds = f64::from(ways) - greens;
                    let chance = gamma.powf(greens) * (1.0 - gamma).powf(reds);
                    green += chance * greens * delta.exp() / (greens * delta.exp() + reds);
                }
                let ratio = (green / gamma).ln() - ((1.0 - green) / (1.0 - gamma)).ln();
                let weight = weight_of_ways(gamma, delta, ways);
                assert!((weight - (ratio / delta).min(1.0)).abs() < 1e-9, "{gamma} {delta} {ways}: {weight} {ratio}");
                assert!(weight >= last, "more choice counts more");
                last = weight;
            }
            assert!(weight_of_ways(gamma, delta, 1) < 1e-9);
            assert!(weight_of_ways(gamma, delta, 64) > 0.9, "{}", weight_of_ways(gamma, delta, 64));
        }
    }

    /// For tokens of equal weight it is the sum of their chances.
    #[test]
    fn what_is_expected_is_the_mean_over_colours() {
        let distribution = ScoreDistribution::Green { gamma: 0.25 };
        let marks = [Mark::Counted { green: false, score: 0.0 }; 50];
        let surprises = [Surprise::new(&[0.9, 0.1], 0, BIAS); 50];
        let found = expected(&distribution, &marks, &surprises, Weighting::Sweet(-1.0)).unwrap();
        assert!((found.score - 50.0 * surprises[0].green_chance).abs() < 1e-9 && found.z > 0.0, "{found:?}");
        assert!(expected(&ScoreDistribution::Exponential, &[], &[], Weighting::Ewd).is_none());
    }

    /// With the bias over a low temperature, open positions count in full and certain ones not at all: at every low
    /// temperature, and for hard lists too.
    #[test]
    fn low_temperatures_overflow_nothing() {
        let distribution = ScoreDistribution::Green { gamma: 0.25 };
        let hard = 10.0;
        for delta in [2.0, hard, 100.0] {
            let of = |temperature: f64| {
                let bias = Bias { gamma: 0.25, delta: delta / temperature };
                let place = |i: u32| {
                    let open = uniform(i, 9) < 0.5;
                    let p = if open { vec![0.1; 10] } else { vec![1.0] };
                    let green = uniform(i, 10) < if open { 0.9 } else { 0.25 };
                    let mark = Mark::Counted { green, score: f32::from(u8::from(green)) };
                    (mark, Surprise::new(&p, 0, bias))
                };
                let (marks, surprises): (Vec<_>, Vec<_>) = (0..100).map(place).unzip();
                assert!(surprises.iter().all(|at| at.spike_entropy.is_finite()));
                let weightings = [Weighting::LikelihoodRatio { delta: bias.delta }, Weighting::Ewd];
                let found = weightings.map(|by| evidence(&distribution, &marks, &surprises, by).unwrap());
                let expected = expected(&distribution, &marks, &surprises, Weighting::Sweet(0.5)).unwrap();
                let open = surprises.iter().filter(|at| at.entropy > 0.5).count() as u64;
                assert_eq!(found.map(|evidence| evidence.scored), [open; 2], "{delta} at {temperature}");
                (found.map(|evidence| evidence.ln_p), expected.score)
            };
            let ([ratio, ewd], least) = of(0.05);
            assert!(ratio < -20.0 && ewd < -20.0 && least > 10.0, "{ratio} {ewd} {least}");
            for temperature in [0.014, 0.003, 0.002, 0.001, 1e-6] {
                let ([low_ratio, low_ewd], low_least) = of(temperature);
                assert!((low_ratio / ratio - 1.0).abs() < 0.05, "{delta} at {temperature}: {low_ratio} {ratio}");
                assert!((low_ewd / ewd - 1.0).abs() < 0.05, "{delta} at {temperature}: {low_ewd} {ewd}");
                assert!((low_least / least - 1.0).abs() < 1e-6, "{delta} at {temperature}: {low_least} {least}");
            }
        }
        for ways in [1, 2, 10, 64] {
            let [usual, strong] = [100.0, 800.0].map(|delta| delta * weight_of_ways(0.25, delta, ways));
            assert!((usual - strong).abs() < 1e-6, "{ways}: the ratio has a limit: {usual} {strong}");
        }
    }

    /// Compared with the definition by the exponential of the bias, where that is finite.
    #[test]
    fn usual_weights_are_their_definition() {
        for delta in [0.1, 1.0, 2.0, 10.0, 100.0] {
            let gain = f64::exp(delta);
            for gamma in [0.25, 0.5] {
                let modulus = (1.0 - gamma) * (gain - 1.0) / (1.0 + (gain - 1.0) * gamma);
                assert!((spike_modulus(gamma, delta) / modulus - 1.0).abs() < 1e-12, "{gamma} {delta}");
                for p in [0.0, 0.01, 0.3, 0.9, 0.999, 1.0] {
                    let at = Surprise { probability: p, entropy: 1.0, spike_entropy: 0.5, green_chance: gamma };
                    let rest = (1.0 - p) * (1.0 + gamma * (gain - 1.0));
                    // The ratio of a green token to a red one.
                    let ratio = (p * gain / (p * gain + rest) / (p / (p + rest))).ln();
                    let weight = Weighting::LikelihoodRatio { delta }.weight(gamma, 0.0, &at);
                    let expected = if p == 0.0 { 1.0 } else { ratio / delta };
                    assert!((weight - expected).abs() < 1e-9, "{gamma} {delta} {p}: {weight} {expected}");
                }
            }
        }
    }

    #[test]
    fn weights_are_what_they_are_called() {
        let certain = Surprise::new(&[1.0, 0.0], 0, BIAS);
        let open = Surprise::new(&[0.001; 1000], 5, BIAS);
        for weighting in ALL {
            let of = |at| weighting.weight(0.25, certain.spike_entropy, at);
            assert!(of(&certain) < 1e-9 && of(&open) > 0.9, "{weighting:?} {} {}", of(&certain), of(&open));
        }
        assert!(evidence(&ScoreDistribution::Exponential, &[], &[], Weighting::Ewd).is_none());
    }
}
