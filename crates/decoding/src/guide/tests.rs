//! Guided texts compared with the definitions.

use super::*;
use crate::draft_length::DraftLength;
use crate::drafter::{Coupling, DraftModel};
use crate::enumerate;
use crate::limits::Limits;
use crate::plain::Plain;
use crate::speculative::Speculative;
use crate::table::Table;
use crate::target::{DecodeError, Target};
use crate::tree::TreeShape;
use verdigris_logits::{Chain, Random, Sampler};
use verdigris_models::{Batch, LanguageModel, Rows, Wanted};

const WEIGHT: f32 = 0.7;
const PROMPT: [TokenId; 2] = [4, 1];

/// The rows of a text, read as a whole and separately.
fn rows(table: &Arc<Table>, text: &[TokenId]) -> Vec<Vec<f64>> {
    let mut rows = Rows::default();
    table.clone().begin(text.len()).unwrap().forward(&Batch::chain(text, Wanted::All), &mut rows).unwrap();
    (0..rows.count()).map(|i| rows.row(i).iter().map(|&z| f64::from(z)).collect()).collect()
}

fn log_softmax(row: &[f64]) -> Vec<f64> {
    let sum: f64 = row.iter().map(|z| z.exp()).sum();
    row.iter().map(|z| z - sum.ln()).collect()
}

/// The first number of the row after a text.
fn reward(scorer: &Arc<Table>, text: &[TokenId]) -> f64 {
    rows(scorer, text).pop().unwrap()[0]
}

/// `ln p(c | text)` of the first class, by the formula of the paper.
fn posterior(classes: &[(Arc<Table>, Vec<TokenId>)], text: &[TokenId]) -> f64 {
    let mean = |(table, prompt): &(Arc<Table>, Vec<TokenId>)| -> f64 {
        let rows = rows(table, &[prompt, text].concat());
        let ln_p = |i: usize| log_softmax(&rows[prompt.len() + i - 1])[text[i] as usize];
        (0..text.len()).map(ln_p).sum::<f64>() / text.len() as f64
    };
    let means: Vec<f64> = classes.iter().map(mean).collect();
    means[0] - means.iter().map(|m| m.exp()).sum::<f64>().ln()
}

/// The score of a text whose last token is tried.
type Definition = Box<dyn Fn(&[TokenId]) -> f64>;

/// Scorers, each with its definition.
fn kinds() -> Vec<(&'static str, Arc<dyn Scorer>, Definition)> {
    let table = |seed| Table::deep(5, seed, 40);
    let of = |kind| -> Arc<dyn Scorer> { Arc::new(RewardScorer::new(table(2), kind, 20)) };
    let classes = |classes: &[(Arc<Table>, Vec<TokenId>)], begin| -> Arc<dyn Scorer> {
        let class = |(table, prompt): &(Arc<Table>, Vec<TokenId>)| TextClass {
            model: table.clone() as Arc<dyn LanguageModel>,
            prompt: prompt.clone(),
        };
        Arc::new(ClassScorer::new(classes.iter().map(class).collect(), begin, 20))
    };
    let codes = vec![(table(6), vec![0, 2]), (table(6), vec![3])];
    let one = table(6);
    let of_one = vec![(one.clone(), vec![0, 2]), (one.clone(), vec![3]), (one, vec![1, 1, 1])];
    let models = vec![(table(7), vec![0]), (table(8), vec![0])];
    let begun = vec![(table(7), vec![4, 0]), (table(8), vec![4])];
    let by_hand = |text: &[TokenId], token: TokenId| match text.iter().filter(|&&t| t == token).count() {
        3 => f32::NEG_INFINITY,
        count => -(count as f32) / (1 + token) as f32,
    };
    vec![
        ("a reward", of(ScoreKind::Reward), Box::new(move |text| reward(&table(2), text))),
        ("FUDGE", of(ScoreKind::Logit), Box::new(move |text| -(-reward(&table(2), text)).exp().ln_1p())),
        ("control codes", classes(&codes, None), Box::new(move |text| posterior(&codes, text))),
        ("of one model", classes(&of_one, None), Box::new(move |text| posterior(&of_one, text))),
        ("models of classes", classes(&models, Some(3)), Box::new(move |text| posterior(&models, text))),
        // The token that begins a prompt is read once.
        (
            "a beginning",
            classes(&begun, Some(4)),
            Box::new(move |text| posterior(&begun, text.strip_prefix(&[4]).unwrap_or(text))),
        ),
        (
            "a closure",
            Arc::new(by_hand),
            Box::new(move |text| {
                let (token, before) = text.split_last().unwrap();
                f64::from(by_hand(before, *token))
            }),
        ),
    ]
}

/// The distribution of the next token by the definition.
fn distribution_after(base: &Arc<Table>, score: &Definition, text: &[TokenId], top_k: usize) -> Vec<f64> {
    let distribution = log_softmax(&rows(base, text).pop().unwrap());
    let mut order: Vec<usize> = (0..distribution.len()).collect();
    order.sort_by(|&a, &b| distribution[b].total_cmp(&distribution[a]));
    let mut weights = vec![0f64; distribution.len()];
    for &token in &order[..top_k] {
        let p_of_attribute = score(&[text, &[token as TokenId]].concat()).exp();
        weights[token] = distribution[token].exp() * p_of_attribute.powf(WEIGHT.into());
    }
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

/// The distribution is `base * p(attribute | text + token)^weight` over the likeliest tokens, normalised. Drafts, whose
/// tokens are scored in another order, leave the distribution of whole texts unchanged, as chains and as trees.
#[test]
fn the_distribution_of_a_guided_text_is_that_of_the_definition() {
    let (base, draft) = (Table::deep(5, 1, 40), Table::deep(5, 3, 40));
    for (name, scorer, definition) in kinds() {
        for (top_k, length) in [
            (1, DraftLength::Fixed(0)),
            (3, DraftLength::Fixed(0)),
            (3, DraftLength::Fixed(2)),
            (5, DraftLength::Tree(TreeShape::levels(&[2, 1]))),
        ] {
            let transforms = Chain::new().then(Guide::new(scorer.clone(), WEIGHT, top_k));
            let target = Target { transforms, sampler: Sampler::Categorical, random: Random::new(0) };
            let limits = Limits { max_tokens: 3, end: Vec::new() };
            let distribution = enumerate::distribution(|branch| {
                let (transforms, sampler) = (&target.transforms, target.sampler);
                let drafter = DraftModel::new(draft.clone(), 20, transforms, sampler, Coupling::Independent).unwrap();
                let writing = Speculative::new(base.clone(), &target, &PROMPT, limits.clone(), drafter, length, branch);
                writing.unwrap().map(Result::unwrap).collect()
            });
            let total: f64 = distribution.values().sum();
            assert!((total - 1.0).abs() < 1e-9);
            for (text, p) in &distribution {
                let mut expected = 1.0;
                for i in 0..text.len() {
                    let before = [&PROMPT, &text[..i]].concat();
                    expected *= distribution_after(&base, &definition, &before, top_k)[text[i] as usize];
                }
                assert!((p - expected).abs() < 2e-6, "{name}, {top_k}, {text:?}: {p} and not {expected}");
            }
        }
    }
}

/// A scorer gives a text the same score whatever it has read before, as its contract and that of transforms require.
#[test]
fn what_is_remembered_changes_nothing() {
    let texts: [&[TokenId]; 7] = [&[4, 2, 3], &[4, 2, 3, 1], &[4, 2, 0], &[2], &[4, 2, 3, 1, 0, 0], &[4], &[4, 2, 3]];
    let all = kinds().len();
    for i in 0..all {
        let (name, old, definition) = kinds().swap_remove(i);
        for text in texts.iter().chain(texts.iter().rev()) {
            let (mut scores, mut anew) = ([0.0; 3], [0.0; 3]);
            old.score(text, &[0, 1, 3], &mut scores).unwrap();
            kinds()[i].1.score(text, &[0, 1, 3], &mut anew).unwrap();
            assert_eq!(scores, anew, "{name}, {text:?}");
            let mut one = [0.0];
            old.score(text, &[1], &mut one).unwrap();
            assert_eq!(one[0], scores[1], "{name}, {text:?}: one token alone");
            for (score, token) in scores.into_iter().zip([0, 1, 3]) {
                let expected = definition(&[text, &[token][..]].concat());
                assert!((f64::from(score) - expected).abs() < 1e-5 || f64::from(score) == expected, "{name}, {text:?}");
            }
        }
    }
}

#[test]
fn what_is_left_out_and_what_is_forbidden_stays_so() {
    const NO: f32 = f32::NEG_INFINITY;
    for (name, scorer, definition) in kinds() {
        let guide = Guide::new(scorer, -2.0, 3);
        let mut row = Row::from(vec![0.5, 0.1, 0.9, NO, -1.0]);
        guide.apply(&vec![4, 1, 2], &mut row);
        assert_eq!([row.logits()[3], row.logits()[4]], [NO; 2], "{name}");
        let expected = 0.9 - 2.0 * definition(&[4, 1, 2, 2]);
        assert!((f64::from(row.logits()[2]) - expected).abs() < 1e-5, "{name}");
        assert_eq!(row.logits().iter().filter(|z| z.is_finite()).count(), 3, "{name}");
    }
    // A forbidden token does not become certain with a negative weight, and a NaN score makes the row invalid.
    for (score, weight, expected) in [(NO, -1.0, NO), (NO, 0.0, NO), (f32::NAN, 1.0, f32::NAN)] {
        let guide = Guide::new(Arc::new(move |_: &[TokenId], _| score), weight, 1);
        let mut row = Row::from(vec![0.5, 0.1]);
        guide.apply(&vec![0], &mut row);
        assert_eq!(row.logits()[0].to_bits(), expected.to_bits());
    }
}

/// A token for which one of the class models has no row is not written.
#[test]
fn what_a_class_cannot_read_is_forbidden() {
    for short in [0, 1] {
        let class = |i: usize| TextClass {
            model: Table::deep(if i == short { 4 } else { 6 }, i as u64, 40) as Arc<dyn LanguageModel>,
            prompt: vec![0],
        };
        let scorer = ClassScorer::new(vec![class(0), class(1)], None, 20);
        let mut scores = [0.0; 3];
        scorer.score(&[1, 2], &[3, 4, 5], &mut scores).unwrap();
        assert!(scores[0].is_finite() && scores[1..] == [f32::NEG_INFINITY; 2], "{scores:?}");
    }
}

/// Near the end of its context there is only room for one token after the other, and past it the text ends with the
/// scorer's error.
#[test]
fn the_end_of_the_context_is_told() {
    let (base, scorer) = (Table::deep(5, 1, 40), Table::deep(5, 2, 8));
    let class = |prompt: &[TokenId]| TextClass { model: scorer.clone(), prompt: prompt.to_vec() };
    let ways: [(Arc<dyn Scorer>, _); 2] = [
        (Arc::new(RewardScorer::new(scorer.clone(), ScoreKind::Reward, 40)), 6),
        // Two tokens are before the text, and the last token is tried without being read.
        (Arc::new(ClassScorer::new(vec![class(&[0, 1]), class(&[2])], None, 40)), 5),
    ];
    for (scorer, tokens) in ways {
        let guide = Arc::new(Guide::new(scorer, WEIGHT, 3));
        let transforms = Chain::new().then(guide.clone());
        let target = Target { transforms, sampler: Sampler::Greedy, random: Random::new(0) };
        let limits = Limits { max_tokens: 12, end: Vec::new() };
        let written: Vec<_> = Plain::new(base.clone(), &target, &PROMPT, limits).unwrap().collect();
        assert_eq!(written.iter().filter(|token| token.is_ok()).count(), tokens, "eight tokens with the prompts");
        assert!(matches!(written.last(), Some(Err(DecodeError::NotNumbers { .. }))));
        assert!(matches!(guide.fault(), Some(ModelError::ContextFull { .. })));
        assert!(guide.fault().is_none());
    }
}
