//! Searches of tables small enough to enumerate all texts.

use std::collections::BTreeMap;
use std::sync::Arc;

use verdigris_logits::warp::Temperature;
use verdigris_logits::{Chain, Random, RepetitionPenalty, Row, Sampler, TokenId, Transform};
use verdigris_models::{Batch, LanguageModel, Rows, Wanted};

use super::{Beams, Contrast, Contrastive, Draws, EarlyStopping};
use crate::limits::{Limits, Stop};
use crate::plain::Plain;
use crate::table::Table;
use crate::target::{DecodeError, Target};

const NEVER: fn(&[TokenId]) -> bool = |_| false;

fn target(seed: u64, transforms: Chain) -> Target {
    Target { transforms, sampler: Sampler::Categorical, random: Random::new(seed) }
}

fn limits(max_tokens: usize, end: &[TokenId]) -> Limits {
    Limits { max_tokens, end: end.to_vec() }
}

/// The probabilities of the tokens after a text.
fn distribution(model: &Arc<Table>, target: &Target, prompt: &[TokenId], text: &[TokenId]) -> Vec<f64> {
    let (mut rows, tokens) = (Rows::default(), [prompt, text].concat());
    let mut sequence = model.clone().begin(tokens.len()).unwrap();
    sequence.forward(&Batch::chain(&tokens, Wanted::Last), &mut rows).unwrap();
    let (mut row, mut state) = (Row::from(rows.last().to_vec()), target.transforms.start(prompt));
    text.iter().for_each(|&token| target.transforms.advance(&mut state, token));
    target.transforms.apply(&state, &mut row);
    row.distribution()
}

/// All texts and their probabilities. A text that ends has no end token, and is shorter than those that do not.
fn texts(model: &Arc<Table>, target: &Target, prompt: &[TokenId], limits: &Limits) -> BTreeMap<Vec<TokenId>, f64> {
    let (mut all, mut open) = (BTreeMap::new(), vec![(Vec::new(), 1.0)]);
    while let Some((text, p)) = open.pop() {
        if text.len() == limits.max_tokens {
            all.insert(text, p);
            continue;
        }
        for (token, q) in distribution(model, target, prompt, &text).into_iter().enumerate().filter(|(_, q)| *q > 0.0) {
            match limits.end.contains(&(token as TokenId)) {
                true => drop(all.insert(text.clone(), p * q)),
                false => open.push(([&text[..], &[token as TokenId]].concat(), p * q)),
            }
        }
    }
    all
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-5
}

/// With a beam for every prefix all texts are found, in the order of their probabilities.
#[test]
fn as_many_beams_as_prefixes_find_the_most_probable_text() {
    let exhaustive = Beams::new(200).unwrap().length_penalty(0.0).unwrap().early_stopping(EarlyStopping::Never);
    let mut missed = 0;
    for seed in 0..12 {
        let model = Table::deep(4, seed, 64);
        let (target, limits) = (target(0, Chain::new()), limits(4, &[3]));
        let mut all: Vec<(Vec<TokenId>, f64)> = texts(&model, &target, &[1], &limits).into_iter().collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        assert_eq!(all.len(), 1 + 3 + 9 + 27 + 81);
        let found = exhaustive.search(model.clone(), &target, &[1], &limits, &NEVER).unwrap();
        assert_eq!(found.len(), all.len());
        let mut each_once = BTreeMap::from_iter(all.clone());
        // Texts of equal probability may come in any order.
        for (found, (_, in_place)) in found.iter().zip(&all) {
            let p = each_once.remove(&found.tokens).expect("each text once");
            assert!(is_near(p.ln(), in_place.ln()) && is_near(found.score, p.ln()), "{found:?} {p} {in_place}");
            assert!(is_near(found.logprob, p.ln()));
            assert_eq!(found.stop, if found.tokens.len() == 4 { Stop::Length } else { Stop::End });
        }
        let narrow = Beams::new(1).unwrap().length_penalty(0.0).unwrap();
        missed +=
            usize::from(narrow.search(model, &target, &[1], &limits, &NEVER).unwrap()[0].score < found[0].score - 1e-3);
    }
    assert!(missed > 3, "one beam finds it too: {missed}");
}

/// Every hypothesis has its own state, its score is the sum of the transformed log-probabilities of the model, and its
/// log-probability is the model's.
#[test]
fn scores_are_those_of_the_transforms() {
    let model = Table::deep(6, 5, 64);
    let penalised = || target(0, Chain::new().then(RepetitionPenalty::new(1.7).unwrap()));
    let (target, limits, prompt) = (penalised(), limits(7, &[]), [2, 0]);
    let found = Beams::new(4).unwrap().search(model.clone(), &target, &prompt, &limits, &NEVER).unwrap();
    assert_eq!(found.len(), 4);
    let plain = self::target(0, Chain::new());
    for text in &found {
        let (mut score, mut logprob) = (0.0, 0.0);
        for (i, &token) in text.tokens.iter().enumerate() {
            let own = distribution(&model, &plain, &prompt, &text.tokens[..i])[token as usize].ln();
            let seen = [&prompt, &text.tokens[..i]].concat().contains(&token);
            score += if seen { 1.7 * own } else { own };
            logprob += own;
        }
        assert!(is_near(text.score, score / 7.0) && is_near(text.logprob, logprob), "{text:?} {score} {logprob}");
    }
}

/// With a single beam and no end token, beam search is greedy.
#[test]
fn one_beam_without_an_end_is_greedy() {
    let model = Table::deep(9, 1, 20);
    let greedy = Target { sampler: Sampler::Greedy, ..target(0, Chain::new()) };
    for max_tokens in [0, 1, 8, 30] {
        let mut plain = Plain::new(model.clone(), &greedy, &[1, 2], limits(max_tokens, &[])).unwrap();
        let text: Vec<TokenId> = plain.by_ref().map(Result::unwrap).collect();
        let limits = limits(max_tokens, &[]);
        let found = Beams::new(1).unwrap().search(model.clone(), &greedy, &[1, 2], &limits, &NEVER).unwrap();
        assert_eq!((&found[0].tokens, Some(found[0].stop), found.len()), (&text, plain.stop(), 1));
    }
}

#[test]
fn texts_end_where_one_says_so_and_errors_are_told() {
    let model = Table::deep(5, 3, 64);
    let (target, limits) = (target(0, Chain::new()), limits(9, &[]));
    let ends = |text: &[TokenId]| text.ends_with(&[2]);
    let found = Beams::new(3).unwrap().search(model.clone(), &target, &[1], &limits, &ends).unwrap();
    assert!(found.iter().all(|text| (text.stop == Stop::StopString) == ends(&text.tokens)), "{found:?}");
    assert!(found.iter().any(|text| text.stop == Stop::StopString));
    let dead = Table::new(vec![vec![f32::NEG_INFINITY; 5]; 5], 10);
    let error = Beams::new(2).unwrap().search(dead.clone(), &target, &[1], &limits, &NEVER).unwrap_err();
    assert!(matches!(error, DecodeError::DeadEnd { position: 1 }), "{error}");
    assert!(matches!(Draws::new(dead, &target, &[1], &limits, 2, &NEVER), Err(DecodeError::DeadEnd { position: 1 })));
    let broken = Table::new(vec![vec![f32::NAN; 5]; 5], 10);
    let error = Beams::new(2).unwrap().search(broken, &target, &[1], &limits, &NEVER).unwrap_err();
    assert!(matches!(error, DecodeError::NotNumbers { position: 1 }), "{error}");
    assert!(Beams::new(2).unwrap().search(model.clone(), &target, &[], &limits, &NEVER).is_err());
    let contrast = Contrast::new(0.5, 2).unwrap();
    let hidden = Contrastive::new(model, &target, &[1], limits, contrast);
    assert!(matches!(hidden.err(), Some(DecodeError::NoHiddenStates)), "a table has no hidden states");
    assert!(Beams::new(0).is_err() && Beams::new(1).unwrap().length_penalty(f64::NAN).is_err());
}

/// Checks that counts follow a distribution, with a chi-square test at a level of about one in a million.
#[track_caller]
fn have_distribution<K: Ord + std::fmt::Debug>(counts: &BTreeMap<K, f64>, distribution: &BTreeMap<K, f64>) {
    let total: f64 = counts.values().sum();
    assert!((distribution.values().sum::<f64>() - 1.0).abs() < 1e-9, "{distribution:?}");
    assert!(counts.keys().all(|key| distribution.contains_key(key)), "{counts:?} {distribution:?}");
    let cell = |(key, p): (&K, &f64)| (counts.get(key).copied().unwrap_or(0.0) - total * p).powi(2) / (total * p);
    let chi2: f64 = distribution.iter().map(cell).sum();
    let freedom = distribution.len() as f64 - 1.0;
    assert!(chi2 < freedom + 5.0 * (2.0 * freedom).sqrt() + 12.0, "{chi2} with {freedom} degrees of freedom");
}

/// The two texts of a step are two samples without replacement, and of two samples the better one is continued.
#[test]
fn beam_sampling_draws_without_replacement() {
    let model = Table::deep(5, 8, 64);
    let warm = || Chain::new().then(Temperature::new(1.4).unwrap());
    let first = distribution(&model, &target(0, warm()), &[1], &[]);
    let (mut pairs, mut two) = (BTreeMap::new(), BTreeMap::new());
    let (mut pair_distribution, mut two_distribution) = (BTreeMap::new(), BTreeMap::new());
    for (a, b) in (0..5).flat_map(|a| (0..5).map(move |b| (a, b))).filter(|(a, b)| a != b) {
        let p = first[a] * first[b] / (1.0 - first[a]);
        *pair_distribution.entry((a.min(b), a.max(b))).or_insert(0.0) += p;
        let better = if first[a] > first[b] { a } else { b };
        for (then, q) in distribution(&model, &target(0, warm()), &[1], &[better as TokenId]).into_iter().enumerate() {
            *two_distribution.entry((better, then)).or_insert(0.0) += p * q;
        }
    }
    for seed in 0..20_000 {
        let target = target(seed, warm());
        let search = |count, most| {
            let beams = Beams::new(count).unwrap().sampled();
            beams.search(model.clone(), &target, &[1], &limits(most, &[]), &NEVER).unwrap()
        };
        let [a, b] = [0, 1].map(|i| search(2, 1)[i].tokens[0] as usize);
        *pairs.entry((a.min(b), a.max(b))).or_insert(0.0) += 1.0;
        let text = &search(1, 2)[0].tokens;
        *two.entry((text[0] as usize, text[1] as usize)).or_insert(0.0) += 1.0;
    }
    have_distribution(&pairs, &pair_distribution);
    have_distribution(&two, &two_distribution);
}

/// The first text follows the distribution, the second that distribution without the first, for texts of any length;
/// and the estimate is unbiased.
#[test]
fn stochastic_beams_draw_texts_without_replacement() {
    const SEEDS: u64 = 30_000;
    let model = Table::deep(3, 2, 64);
    let (prompt, limits) = ([1], limits(3, &[2]));
    let transforms = || {
        let steps = Chain::new().then(RepetitionPenalty::new(1.5).unwrap());
        steps.then(Temperature::new(1.3).unwrap())
    };
    let all = texts(&model, &target(0, transforms()), &prompt, &limits);
    assert_eq!(all.len(), 1 + 2 + 4 + 8);
    let value = |text: &[TokenId]| 1.0 + text.iter().map(|&token| f64::from(token)).sum::<f64>();
    let mean: f64 = all.iter().map(|(text, p)| p * value(text)).sum();
    let mut ordered = BTreeMap::new();
    for (a, p) in &all {
        for (b, q) in all.iter().filter(|(b, _)| *b != a) {
            ordered.insert((a.clone(), b.clone()), p * q / (1.0 - p));
        }
    }
    let (mut counts, mut estimates, mut masses) = (BTreeMap::new(), Vec::new(), Vec::new());
    for seed in 0..SEEDS {
        let target = target(seed, transforms());
        let draws = Draws::new(model.clone(), &target, &prompt, &limits, 3, &NEVER).unwrap();
        assert_eq!(draws.texts.len(), 3);
        for drawn in &draws.texts {
            assert!(is_near(drawn.sampling_logprob, all[&drawn.text.tokens].ln()), "{drawn:?}");
            assert!(drawn.text.score > draws.threshold && 0.0 < drawn.inclusion && drawn.inclusion <= 1.0);
        }
        let [a, b] = [0, 1].map(|i| draws.texts[i].text.tokens.clone());
        *counts.entry((a, b)).or_insert(0.0) += 1.0;
        estimates.push(draws.estimate(|drawn| value(&drawn.text.tokens)));
        masses.push(draws.estimate(|_| 1.0));
    }
    have_distribution(&counts, &ordered);
    for (estimates, mean) in [(estimates, mean), (masses, 1.0)] {
        let n = SEEDS as f64;
        let average: f64 = estimates.iter().sum::<f64>() / n;
        let deviation = (estimates.iter().map(|x| (x - average).powi(2)).sum::<f64>() / n).sqrt();
        assert!(deviation > 0.0 && (average - mean).abs() < 4.5 * deviation / n.sqrt(), "{average} of {mean}");
    }
    // If all texts are sampled, the estimate is exact.
    let draws = Draws::new(model, &target(1, transforms()), &prompt, &limits, 99, &NEVER).unwrap();
    assert_eq!((draws.texts.len(), draws.threshold), (all.len(), f64::NEG_INFINITY));
    assert!(is_near(draws.estimate(|drawn| value(&drawn.text.tokens)), mean));
}
