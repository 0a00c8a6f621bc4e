//! Marked passages inside a longer text.
//!
//! Windows of increasing length, each `sqrt 2` times the previous one, slide over the counted observations in steps of
//! an eighth of their length. A window's p-value is that of its sum, corrected for all windows of its length and for
//! all lengths, so that the probability of finding *any* passage in unmarked text is at most the level (Bonferroni,
//! with an equal share for each length). There are fewer windows in total than three times the observations.
//!
//! A window proves that there is a mark; its bounds are then estimated as the stretch with the largest likelihood ratio
//! between the distribution of the window's own strength and that of unmarked text.

use crate::detect::Scored;
use crate::real::{exp2, ln};
use crate::score_distribution::ScoreDistribution;

/// The shortest window, in counted observations.
const SHORTEST: usize = 16;

/// A marked passage of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passage {
    /// The first token.
    pub start: usize,
    /// The token after the last one.
    pub end: usize,
    /// The number of counted observations in it.
    pub scored: u64,
    /// Standard deviations of their sum above that of unmarked text.
    pub z: f64,
    /// The logarithm of the p-value of the window that found it, corrected for all windows.
    pub ln_p: f64,
}

/// The passages whose family-wise p-value is at or under `level`, in order.
pub fn passages(distribution: &ScoreDistribution, record: &[Scored], level: f64) -> Vec<Passage> {
    let sums = prefix_sums(record);
    let mut found: Vec<(f64, usize, usize)> = Vec::new();
    let lengths = lengths(record.len());
    for &length in &lengths {
        let step = step(length);
        let windows = (record.len() - length) / step + 1;
        let price = ln(windows as f64) + ln(lengths.len() as f64);
        let least = critical(distribution, length, ln(level) - price);
        for start in (0..windows).map(|i| i * step) {
            let sum = sums[start + length] - sums[start];
            if sum >= least {
                let ln_p = distribution.ln_tail(length as u64, sum) + price;
                if ln_p <= ln(level) {
                    found.push((ln_p, start, start + length));
                }
            }
        }
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut taken: Vec<(usize, usize, f64)> = Vec::new();
    for (ln_p, start, end) in found {
        if taken.iter().all(|&(from, to, _)| end <= from || to <= start) {
            let (start, end) = refine(distribution, &sums, start, end, &taken);
            // A window that touches a passage extends it.
            match taken.iter_mut().find(|(from, to, _)| end == *from || start == *to) {
                Some(neighbour) => {
                    (neighbour.0, neighbour.1) = (neighbour.0.min(start), neighbour.1.max(end));
                }
                None => taken.push((start, end, ln_p)),
            }
        }
    }
    taken.sort_by_key(|passage| passage.0);
    let token = |observation: usize| record[observation].token as usize;
    taken
        .into_iter()
        .map(|(start, end, ln_p)| {
            let scored = (end - start) as u64;
            let z = distribution.z_score(scored, sums[end] - sums[start]);
            Passage { start: token(start), end: token(end - 1) + 1, scored, z, ln_p }
        })
        .collect()
}

/// The logarithm of the p-value that there is a mark anywhere: that of the most significant window, corrected.
pub fn ln_p_anywhere(distribution: &ScoreDistribution, record: &[Scored]) -> f64 {
    let sums = prefix_sums(record);
    let lengths = lengths(record.len());
    let best = lengths.iter().map(|&length| {
        let step = step(length);
        let windows = (record.len() - length) / step + 1;
        // The largest sum of a length has the smallest p-value.
        let sums = (0..windows).map(|i| sums[i * step + length] - sums[i * step]);
        let largest = sums.fold(f64::NEG_INFINITY, f64::max);
        distribution.ln_tail(length as u64, largest) + ln(windows as f64) + ln(lengths.len() as f64)
    });
    best.fold(0.0, f64::min)
}

fn prefix_sums(record: &[Scored]) -> Vec<f64> {
    let mut sums = Vec::with_capacity(record.len() + 1);
    sums.push(0.0);
    sums.extend(record.iter().scan(0.0, |sum, observation| {
        *sum += f64::from(observation.score);
        Some(*sum)
    }));
    sums
}

fn lengths(observations: usize) -> Vec<usize> {
    let all = (0..).map(|i| (SHORTEST as f64 * exp2(f64::from(i) / 2.0)).round() as usize);
    all.take_while(|&length| length <= observations).collect()
}

fn step(length: usize) -> usize {
    (length / 8).max(1)
}

/// The least sum of a window of `length` whose `ln p` is at or under `bound`, up to a thousandth of a deviation too
/// low.
fn critical(distribution: &ScoreDistribution, length: usize, bound: f64) -> f64 {
    let n = length as f64;
    let [_, mean, variance] = distribution.cumulants(0.0);
    if mean.is_nan() {
        return -bound;
    }
    let sd = (n * variance).sqrt();
    let (mut low, mut high) = (n * mean, n * mean + sd);
    let ceiling = match distribution {
        ScoreDistribution::Green { .. } | ScoreDistribution::OneList { .. } => n,
        _ => n * mean + 1e4 * sd,
    };
    while high < ceiling && distribution.ln_tail(length as u64, high) > bound {
        (low, high) = (high, high + (high - low) * 2.0);
    }
    high = high.min(ceiling);
    while high - low > 1e-3 * sd {
        let middle = (low + high) / 2.0;
        if distribution.ln_tail(length as u64, middle) > bound { low = middle } else { high = middle }
    }
    low
}

/// Moves both ends of a window to where the likelihood ratio between its own strength and no mark is largest, without
/// overlapping passages that were found.
fn refine(
    distribution: &ScoreDistribution,
    sums: &[f64],
    start: usize,
    end: usize,
    taken: &[(usize, usize, f64)],
) -> (usize, usize) {
    let mean = (sums[end] - sums[start]) / (end - start) as f64;
    let tilt = distribution.tilt(mean);
    let value = distribution.cumulants(tilt)[0];
    // The ratio of a stretch is the difference of this value at its ends.
    let ratio = |at: usize| tilt * sums[at] - value * at as f64;
    let middle = (start + end) / 2;
    let floor = taken.iter().map(|taken| taken.1).filter(|&to| to <= start).max().unwrap_or(0);
    let ceiling = taken.iter().map(|taken| taken.0).filter(|&from| from >= end).min().unwrap_or(sums.len() - 1);
    // Extends by at most twice the window to each side; farther parts have their own windows.
    let floor = floor.max(start.saturating_sub(2 * (end - start)));
    let ceiling = ceiling.min(end + 2 * (end - start));
    let start = (floor..middle).min_by(|&a, &b| ratio(a).total_cmp(&ratio(b))).unwrap_or(start);
    let end = (middle + 1..=ceiling).max_by(|&a, &b| ratio(a).total_cmp(&ratio(b))).unwrap_or(end);
    (start, end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdigris_logits::random::philox4x32;

    fn uniform(i: u32, seed: u32) -> f64 {
        f64::from(philox4x32([i, 0, 0, 0], [seed, 1])[0]) / 4_294_967_296.0
    }

    /// Colours of an unmarked text with a marked passage in which 60 % are green.
    fn colours(n: u32, seed: u32, marked: std::ops::Range<u32>) -> Vec<Scored> {
        let green = |i| uniform(i, seed) < if marked.contains(&i) { 0.6 } else { 0.25 };
        (0..n).map(|i| Scored { token: i, score: f32::from(u8::from(green(i))) }).collect()
    }

    #[test]
    fn a_marked_passage_is_found_where_it_is() {
        let distribution = ScoreDistribution::Green { gamma: 0.25 };
        for seed in 0..20 {
            let record = colours(20_000, seed, 5000..5400);
            let found = passages(&distribution, &record, 1e-5);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].start.abs_diff(5000) < 80 && found[0].end.abs_diff(5400) < 80, "{found:?}");
            assert!(found[0].z > 8.0 && (found[0].ln_p - ln_p_anywhere(&distribution, &record)).abs() < 1e-9);
        }
    }

    #[test]
    fn two_passages_are_two() {
        let mut record = colours(30_000, 3, 4000..4500);
        record[20_000..20_300]
            .iter_mut()
            .for_each(|observation| observation.score = f32::from(u8::from(observation.token % 3 > 0)));
        let found = passages(&ScoreDistribution::Green { gamma: 0.25 }, &record, 1e-5);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].start.abs_diff(20_000) < 20 && found[1].end.abs_diff(20_300) < 20, "{found:?}");
    }

    /// Of many unmarked texts, at most a share of `level` have any window under it.
    #[test]
    fn unmarked_texts_rarely_have_a_passage() {
        for (distribution, scores) in [
            (ScoreDistribution::Green { gamma: 0.25 }, (|u| f64::from(u8::from(u < 0.25))) as fn(f64) -> f64),
            (ScoreDistribution::Exponential, |u: f64| -(-u).ln_1p()),
        ] {
            let (texts, level) = (3000, 0.05);
            let alarms = (0..texts)
                .filter(|&seed| {
                    let observation = |i| Scored { token: i, score: scores(uniform(i, seed)) as f32 };
                    let record: Vec<Scored> = (0..600).map(observation).collect();
                    let p = ln_p_anywhere(&distribution, &record).exp();
                    assert_eq!(p <= level, !passages(&distribution, &record, level).is_empty());
                    p <= level
                })
                .count();
            assert!(alarms as f64 <= level * f64::from(texts), "{distribution:?}: {alarms} of {texts}");
            assert!(alarms > 0, "a bound that is never met says nothing");
        }
    }

    #[test]
    fn short_texts_have_no_windows() {
        assert!(passages(&ScoreDistribution::Green { gamma: 0.5 }, &colours(15, 1, 0..15), 0.99).is_empty());
        assert_eq!(ln_p_anywhere(&ScoreDistribution::Green { gamma: 0.5 }, &[]), 0.0);
    }
}
