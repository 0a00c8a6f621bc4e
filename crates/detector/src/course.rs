//! The growth of the evidence along a text.

use verdigris_watermark::{Evidence, Key, Mark, ScoreDistribution, weighted};

/// The most points where tokens have weights: each needs a sum of its own, and this many are still computed quickly.
const WEIGHTED: usize = 64;

/// Returns the evidence of at most `most` prefixes of a text, each of which ends with a counted token; the last is that
/// of the whole. `marks` are the marks of the text's tokens, `ways` the number of ways in which the text could have
/// continued before each of them, if its constraint is known.
pub(crate) fn course(
    distribution: &ScoreDistribution,
    key: &Key,
    marks: &[Mark],
    ways: Option<&[u32]>,
    whole: Evidence,
    most: usize,
) -> Vec<Evidence> {
    let ways = ways.filter(|_| distribution.is_of_colours());
    let most = if ways.is_some() { most.min(WEIGHTED) } else { most };
    let counted = marks.iter().filter(|mark| matches!(mark, Mark::Counted { .. })).count();
    if most == 0 || counted == 0 {
        return Vec::new();
    }
    let step = counted.div_ceil(most);
    let (mut points, mut count, mut sum) = (Vec::with_capacity(most), 0, 0.0);
    for (place, mark) in (1..).zip(marks) {
        let Mark::Counted { score, .. } = mark else { continue };
        count += 1;
        sum += f64::from(*score);
        if count % step != 0 || count == counted {
            continue;
        }
        let weighed = ways
            .and_then(|ways| weighted::evidence_of_ways(distribution, &marks[..place], &ways[..place], key.delta()));
        let evidence =
            weighed.unwrap_or_else(|| Evidence::from_sum(distribution, count as u64, sum).of_tokens(place as u64));
        points.push(evidence.best_of(whole.tried));
    }
    points.push(whole);
    points
}
