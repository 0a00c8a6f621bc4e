//! Best-of-n: picks the text with the highest reward among several.
//!
//! This is the simplest way to align a model, and hard to beat: the distribution of the chosen text is never further
//! from the model's own than [`kl_bound`], whatever the rewards are. The soft variant (Verdun et al., *Soft Best-of-n
//! Sampling for Model Alignment*, arXiv:2505.03156) samples the text with a probability proportional to `exp(reward /
//! temperature)`, and so interpolates between the model's own distribution (a high temperature) and the best text (0).

/// Picks one of several texts by their rewards: at temperature 0 the best (the first of equals), above 0 the one that
/// `number` in [0, 1) selects. A NaN reward counts as the worst. Returns `None` if there are no texts.
#[doc(alias = "best_of_n")]
pub fn choose(rewards: &[f32], temperature: f64, number: f64) -> Option<usize> {
    let rewards: Vec<f64> = rewards.iter().map(|&r| if r.is_nan() { f64::NEG_INFINITY } else { r.into() }).collect();
    let best = (0..rewards.len()).rev().max_by(|&a, &b| rewards[a].total_cmp(&rewards[b]))?;
    let is_soft = temperature > 0.0 && rewards[best].is_finite();
    if !is_soft {
        return Some(best);
    }
    let weights: Vec<f64> = rewards.iter().map(|r| ((r - rewards[best]) / temperature).exp()).collect();
    let mut left = number * weights.iter().sum::<f64>();
    let mut chosen = best;
    for (i, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
        chosen = i;
        left -= weight;
        if left < 0.0 {
            break;
        }
    }
    Some(chosen)
}

/// The largest Kullback-Leibler divergence, in nats, of the distribution of the best of `n` texts from that of a single
/// text: `ln n - (n - 1) / n` (Beirami et al., *Theoretical guarantees on the best-of-n alignment policy*,
/// arXiv:2401.01879, theorem 3.1). The bound also holds for the soft variant: it puts less mass above any given reward,
/// and the divergence is convex in how much more probable a text becomes.
pub fn kl_bound(n: usize) -> f64 {
    let n = n.max(1) as f64;
    n.ln() - (n - 1.0) / n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_taken_and_of_equals_the_first() {
        assert_eq!(choose(&[0.5, 2.0, -1.0, 2.0], 0.0, 0.9), Some(1));
        assert_eq!(choose(&[f32::NAN, f32::NEG_INFINITY, -3.0], 0.0, 0.0), Some(2));
        assert_eq!(choose(&[f32::NAN; 3], 1.0, 0.5), Some(0));
        assert_eq!(choose(&[1.0, f32::INFINITY], 1.0, 0.1), Some(1));
        assert_eq!(choose(&[], 0.0, 0.0), None);
    }

    /// The distribution of the chosen text matches the definition and is within the bound, over all sequences of four
    /// possible texts and with the share of numbers that pick each text.
    #[test]
    fn the_distribution_of_the_chosen_text_is_that_of_the_definition() {
        const NUMBERS: usize = 4000;
        let (distribution, rewards) = ([0.4f64, 0.3, 0.2, 0.1], [0.1f32, -0.7, 1.5, 0.9]);
        for temperature in [0.0, 0.2, 1.0, 50.0] {
            for n in 1..=3usize {
                let (mut got, mut expected) = ([0f64; 4], [0f64; 4]);
                for sequence in 0..4usize.pow(n as u32) {
                    let texts: Vec<usize> = (0..n).map(|i| sequence / 4usize.pow(i as u32) % 4).collect();
                    let p: f64 = texts.iter().map(|&text| distribution[text]).product();
                    let of: Vec<f32> = texts.iter().map(|&text| rewards[text]).collect();
                    for i in 0..NUMBERS {
                        let number = (i as f64 + 0.5) / NUMBERS as f64;
                        got[texts[choose(&of, temperature, number).unwrap()]] += p / NUMBERS as f64;
                    }
                    let weight = |text: usize| match temperature {
                        0.0 => f64::from(of.iter().all(|&r| r <= rewards[text])),
                        _ => (f64::from(rewards[text]) / temperature).exp(),
                    };
                    let total: f64 = texts.iter().map(|&text| weight(text)).sum();
                    texts.iter().for_each(|&text| expected[text] += p * weight(text) / total);
                }
                let worst = got.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(worst < 1e-3, "{temperature}, {n}: {got:?} {expected:?}");
                let divergence: f64 = expected.iter().zip(&distribution).map(|(q, p)| q * (q / p).ln()).sum();
                assert!(divergence <= kl_bound(n) + 1e-9, "{temperature}, {n}: {divergence} of {}", kl_bound(n));
                assert!(n == 1 || divergence > 0.0, "something is chosen");
            }
        }
    }
}
