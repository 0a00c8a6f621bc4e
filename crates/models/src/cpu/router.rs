//! The choice of experts.

use crate::description::config::{Groups, Mixture, Router, Score};

/// An expert that a row uses, and the weight of its result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Choice {
    pub(super) expert: usize,
    pub(super) weight: f32,
}

/// Appends the experts of one row, the best first, from its scores, which become weights. Of equal experts the first is
/// chosen.
pub(super) fn choose(mixture: &Mixture, scores: &mut [f32], choice_bias: Option<&[f32]>, to: &mut Vec<Choice>) {
    let &Mixture { chosen, router: Router { score, groups, normalized, scale, .. }, .. } = mixture;
    match score {
        Score::Softmax => softmax(scores),
        Score::SoftmaxOfChosen => {}
        Score::Sigmoid => scores.iter_mut().for_each(|x| *x = 1.0 / (1.0 + libm::expf(-*x))),
    }
    let rank = |expert: usize| scores[expert] + choice_bias.map_or(0.0, |bias| bias[expert]);
    let kept = groups.map(|groups| kept_groups(groups, scores.len(), rank));
    let is_possible = |expert: usize| kept.as_ref().is_none_or(|kept| kept[expert / (scores.len() / kept.len())]);
    let first = to.len();
    for _ in 0..chosen {
        let free = |expert: &usize| is_possible(*expert) && to[first..].iter().all(|choice| choice.expert != *expert);
        let best = best((0..scores.len()).filter(free), rank).expect("more experts than are chosen");
        to.push(Choice { expert: best, weight: scores[best] });
    }
    let own = &mut to[first..];
    if score == Score::SoftmaxOfChosen {
        let mut weights: Vec<f32> = own.iter().map(|choice| choice.weight).collect();
        softmax(&mut weights);
        own.iter_mut().zip(weights).for_each(|(choice, weight)| choice.weight = weight);
    }
    if let Some(epsilon) = normalized {
        let total = own.iter().map(|choice| choice.weight).sum::<f32>() + epsilon as f32;
        own.iter_mut().for_each(|choice| choice.weight /= total);
    }
    own.iter_mut().for_each(|choice| choice.weight *= scale as f32);
}

/// The groups from which experts are chosen: those whose two best experts have the largest sums.
fn kept_groups(Groups { count, kept }: Groups, experts: usize, rank: impl Fn(usize) -> f32) -> Vec<bool> {
    let size = experts / count;
    let of_group = |group: usize| {
        let own = group * size..(group + 1) * size;
        let first = best(own.clone(), &rank).expect("a group has experts");
        let second = best(own.filter(|&expert| expert != first), &rank).expect("a group has two experts");
        rank(first) + rank(second)
    };
    let sums: Vec<f32> = (0..count).map(of_group).collect();
    let mut is_kept = vec![false; count];
    for _ in 0..kept {
        let next =
            best((0..count).filter(|&group| !is_kept[group]), |group| sums[group]).expect("more groups than are kept");
        is_kept[next] = true;
    }
    is_kept
}

/// The first of those with the largest value.
fn best(among: impl Iterator<Item = usize>, value: impl Fn(usize) -> f32) -> Option<usize> {
    among.reduce(|best, other| if value(other) > value(best) { other } else { best })
}

fn softmax(scores: &mut [f32]) {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    scores.iter_mut().for_each(|x| *x = libm::expf(*x - largest));
    let total: f32 = scores.iter().sum();
    scores.iter_mut().for_each(|x| *x /= total);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::config::{Activation, Dense};

    fn mixture(experts: usize, chosen: usize, router: Router) -> Mixture {
        let expert = Dense { width: 1, activation: Activation::Silu, gated: true, bias: false };
        Mixture { experts, chosen, expert, router, shared: None, latent: None }
    }

    fn chosen(mixture: &Mixture, scores: &[f32], bias: Option<&[f32]>) -> Vec<(usize, f32)> {
        let mut choices = Vec::new();
        choose(mixture, &mut scores.to_vec(), bias, &mut choices);
        choices.iter().map(|choice| (choice.expert, choice.weight)).collect()
    }

    fn close(got: &[(usize, f32)], expected: &[(usize, f64)]) {
        assert_eq!(got.len(), expected.len());
        for ((expert, weight), (other, exact)) in got.iter().zip(expected) {
            assert!(expert == other && (f64::from(*weight) - exact).abs() < 1e-6, "{got:?}, not {expected:?}");
        }
    }

    #[test]
    fn weights_are_those_of_each_kind_of_router() {
        let scores = [0.0f32, 3.0f32.ln(), 2.0f32.ln(), 2.0f32.ln()];
        let all = |router| chosen(&mixture(4, 2, router), &scores, None);
        // Of the two that are equal, the first.
        close(&all(Router::default()), &[(1, 3.0 / 8.0), (2, 2.0 / 8.0)]);
        close(&all(Router { normalized: Some(0.0), scale: 2.0, ..Router::default() }), &[(1, 1.2), (2, 0.8)]);
        close(&all(Router { score: Score::SoftmaxOfChosen, ..Router::default() }), &[(1, 0.6), (2, 0.4)]);
        let sigmoid = Router { score: Score::Sigmoid, ..Router::default() };
        close(&all(sigmoid), &[(1, 0.75), (2, 2.0 / 3.0)]);
        // A bias changes the choice, and no weight.
        let bias = [1.0, 0.0, 0.0, 0.0];
        close(&chosen(&mixture(4, 2, sigmoid), &scores, Some(&bias)), &[(0, 0.5), (1, 0.75)]);
    }

    #[test]
    fn experts_are_chosen_from_the_best_groups() {
        // The best expert is in a group whose two best are not the best.
        let groups = Some(Groups { count: 3, kept: 1 });
        let router = Router { score: Score::Sigmoid, groups, ..Router::default() };
        let scores = [4.0, -9.0, 2.0, 1.0, 0.0, 0.5];
        let got = chosen(&mixture(6, 2, router), &scores, None);
        assert_eq!(got.iter().map(|choice| choice.0).collect::<Vec<_>>(), [2, 3]);
        let two = Router { groups: Some(Groups { count: 3, kept: 2 }), ..router };
        let got = chosen(&mixture(6, 3, two), &scores, None);
        assert_eq!(got.iter().map(|choice| choice.0).collect::<Vec<_>>(), [2, 3, 5]);
    }
}
