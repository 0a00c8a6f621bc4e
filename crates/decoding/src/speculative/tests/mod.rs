//! Drafts change no distribution, no text that is determined by its seed, and no end or error of a text.

mod auto;
mod ends;
mod expert;
mod mutations;
mod seeded;
mod trees;

use super::*;
use std::collections::{BTreeMap, BTreeSet};

use crate::chance::Seeded;
use crate::drafter::{Coupling, DraftModel, Lookup};
use crate::enumerate::distribution;
use crate::pass::Part;
use crate::pass::tests::{begun, written};
use crate::plain::Plain;
use crate::steer::{Alpha, Pair, Steered};
use crate::table::Table;
use crate::tree::{DraftNode, DraftTree, Origin, TreeShape};
use verdigris_constrain::{Constraint, Lexicon};
use verdigris_logits::transform::ChainState;
use verdigris_logits::warp::{
    DynamicTemperature, EpsilonCutoff, EtaCutoff, MinP, Mirostat, Temperature, TopA, TopK, TopP, TypicalP, Xtc,
};
use verdigris_logits::{
    Chain, CountPenalty, Dry, ForcedToken, MinTokens, NoRepeatNgram, Random, RepetitionPenalty, Row, Sampler,
    SequenceBias, TokenSet, Transform,
};
use verdigris_models::{Batch, ModelError};
use verdigris_text::Tokenizer;
use verdigris_watermark::dialects::native_gumbel;
use verdigris_watermark::{Context, ContextFunction, Dialect, Embed, Gamma, Native, Strength};

type Texts = BTreeMap<Vec<u32>, f64>;

/// Whether a model that samples did so when it should. It cannot where logits are needed: a hard watermark must know
/// whether a green token is possible, some warpers need the distribution, and a noise watermark adds to logits, except
/// after contexts that it has already marked.
fn draws_where_it_can(name: &str, drawn: usize) -> bool {
    const LOOKING: [&str; 4] = ["hard watermark", "dynamic temperature", "mirostat", "constraint and mirostat"];
    ["noise watermark", "late noise watermark"].contains(&name) || (drawn == 0) == LOOKING.contains(&name)
}

const TOKENS: usize = 4;
const PROMPT: [u32; 3] = [1, 0, 1];

fn limits(max_tokens: usize) -> Limits {
    Limits { max_tokens, end: vec![3] }
}

fn target(transforms: Chain, sampler: Sampler) -> Target {
    Target { transforms, sampler, random: Random::new(0) }
}

fn watermark(strength: Strength) -> Embed {
    watermark_of(TOKENS, strength)
}

fn watermark_of(tokens: usize, strength: Strength) -> Embed {
    let context = Context::new(ContextFunction::All, 2).unwrap();
    let gamma = Gamma::new(0.5).unwrap();
    Embed::new(Arc::new(Native::new(&[1; 32], "", "", gamma, context, tokens)), strength)
}

/// A noise watermark, which leaves one token unless the context has been marked before.
fn noise() -> Embed {
    let context = Context::new(ContextFunction::All, 1).unwrap();
    let dialect = Dialect::NativeGumbel(native_gumbel::Parameters::new(context));
    Embed::new(dialect.scheme(&[1; 32], "", "", TOKENS).unwrap(), Strength::Hard).after(0.0)
}

/// Sequences of one to three tokens that are favoured, disfavoured or forbidden.
fn sequence_bias() -> SequenceBias {
    let bias = |bias: SequenceBias, sequence: &[u32], by| bias.bias(sequence, by).unwrap();
    bias(bias(SequenceBias::new(), &[2], 0.8), &[1, 0, 1], -1.5).forbid(&[0, 1]).forbid(&[2, 2, 0])
}

/// A constraint on texts of `a`, `b`, `ab` and the end.
fn constraint(pattern: &str) -> Constraint {
    let tokenizer = r#"{"version": "1.0", "added_tokens": [{"id": 3, "content": "<end>", "special": true, "single_word": false,
        "lstrip": false, "rstrip": false, "normalized": false}], "normalizer": null, "pre_tokenizer": null,
        "post_processor": null, "decoder": null, "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<end>": 3},
        "merges": [["a", "b"]]}}"#;
    let tokenizer = Arc::new(Tokenizer::from_json(tokenizer.as_bytes()).unwrap());
    Constraint::regex(&Lexicon::new(tokenizer, &[3]), pattern).unwrap()
}

/// Every kind of transform that a target can have, alone and together.
fn chains() -> Vec<(&'static str, Chain)> {
    let soft = || watermark(Strength::soft(1.5).unwrap());
    vec![
        ("none", Chain::new()),
        ("temperature", Chain::new().then(Temperature::new(0.6).unwrap())),
        ("top-k", Chain::new().then(TopK::new(2).unwrap())),
        ("top-p", Chain::new().then(TopP::new(0.7).unwrap())),
        ("min-p", Chain::new().then(MinP::new(0.3).unwrap())),
        ("typical", Chain::new().then(TypicalP::new(0.6).unwrap())),
        ("epsilon", Chain::new().then(EpsilonCutoff::new(0.2).unwrap())),
        ("eta", Chain::new().then(EtaCutoff::new(0.3).unwrap())),
        ("top-a", Chain::new().then(TopA::new(0.9).unwrap())),
        ("dynamic temperature", Chain::new().then(DynamicTemperature::new(1.0, 0.7, 0.5).unwrap())),
        ("XTC", Chain::new().then(Xtc::new(0.5, 0.1, Random::new(4)).unwrap())),
        ("XTC always", Chain::new().then(Xtc::new(1.0, 0.2, Random::new(4)).unwrap())),
        ("mirostat", Chain::new().then(Mirostat::new(1.1, 1.0).unwrap())),
        ("constraint and mirostat", Chain::new().then(constraint("(ab|b)*a?b")).then(Mirostat::new(0.9, 0.8).unwrap())),
        ("soft watermark", Chain::new().then(soft())),
        ("hard watermark", Chain::new().then(watermark(Strength::Hard))),
        ("noise watermark", Chain::new().then(Temperature::new(1.4).unwrap()).then(noise())),
        ("late noise watermark", Chain::new().then(Temperature::new(1.4).unwrap()).then(noise().after(1.2))),
        ("repetition penalty", Chain::new().then(RepetitionPenalty::new(1.7).unwrap())),
        ("count penalties", Chain::new().then(CountPenalty::new(0.9, 0.7).unwrap())),
        ("sequence bias", Chain::new().then(sequence_bias())),
        ("DRY", Chain::new().then(Dry::new(0.6, 2.0, 1, TokenSet::new(TOKENS)).unwrap())),
        ("no two tokens twice", Chain::new().then(NoRepeatNgram::new(2).unwrap())),
        ("least length", Chain::new().then(MinTokens::new(&[3], 2, TOKENS))),
        ("forced tokens", Chain::new().then(ForcedToken::new(2, 1, TOKENS)).then(ForcedToken::new(3, 9, TOKENS))),
        ("constraint", Chain::new().then(constraint("(ab|b)*a?b"))),
        ("constraint within three tokens", Chain::new().then(constraint("a(ab|b|a)*bb").within(3))),
        (
            "constraint and the rest",
            Chain::new()
                .then(CountPenalty::new(0.9, 0.7).unwrap())
                .then(constraint("(a|bb)+b?"))
                .then(soft())
                .then(Temperature::new(1.4).unwrap())
                .then(TopP::new(0.9).unwrap()),
        ),
        ("all", Chain::new().then(soft()).then(Temperature::new(1.4).unwrap()).then(TopP::new(0.9).unwrap())),
    ]
}

/// The distribution of texts by its definition: the product of the distributions of their tokens.
fn plain_distribution(model: &Arc<Table>, target: &Target, n: usize) -> Texts {
    fn go(
        model: &Table,
        target: &Target,
        state: &ChainState,
        text: &[u32],
        p: f64,
        left: usize,
        distribution: &mut Texts,
    ) {
        let written = &text[PROMPT.len()..];
        if left == 0 {
            *distribution.entry(written.to_vec()).or_default() += p;
            return;
        }
        let mut row = Row::from(model.row(text[text.len() - 1]).to_vec());
        target.transforms.apply(state, &mut row);
        for (token, share) in (0..).zip(target.sampler.distribution(&row)).filter(|&(_, share)| share > 0.0) {
            if limits(0).end.contains(&token) {
                *distribution.entry(written.to_vec()).or_default() += p * share;
                continue;
            }
            let mut state = state.clone();
            target.transforms.advance_from(&mut state, &row, token);
            go(model, target, &state, &[text, &[token]].concat(), p * share, left - 1, distribution);
        }
    }
    let mut distribution = Texts::new();
    go(model, target, &target.transforms.start(&PROMPT), &PROMPT, 1.0, n, &mut distribution);
    distribution
}

fn distance(a: &Texts, b: &Texts) -> f64 {
    let keys: BTreeSet<_> = a.keys().chain(b.keys()).collect();
    let at = |distribution: &Texts, key| distribution.get(key).copied().unwrap_or(0.0);
    keys.into_iter().map(|key| (at(a, key) - at(b, key)).abs()).sum::<f64>() / 2.0
}

/// The distribution of whole texts, by taking every branch of the code that runs, is the same with and without drafts.
#[test]
fn speculation_never_changes_the_distribution() {
    for name in chains().into_iter().map(|(name, _)| name) {
        for sampler in [Sampler::Categorical, Sampler::Greedy] {
            let target = target(chain(name), sampler);
            let model = Table::noise(TOKENS, 1);
            let plain = plain_distribution(&model, &target, 3);
            let total: f64 = plain.values().sum();
            assert!((total - 1.0).abs() < 1e-12);
            for length in [1, 2, 3].map(DraftLength::Fixed).into_iter().chain([DraftLength::Auto]) {
                for (seed, coupling) in [(2, Coupling::Independent), (3, Coupling::Independent), (2, Coupling::Shared)]
                {
                    let drafts = distribution(|chance| {
                        let drafter = drafter(Table::noise(TOKENS, seed), &target, coupling);
                        let run = Speculative::new(model.clone(), &target, &PROMPT, limits(3), drafter, length, chance);
                        run.unwrap().map(Result::unwrap).collect()
                    });
                    assert!(distance(&plain, &drafts) < 1e-12, "{name}, {length:?}, {coupling:?}");
                }
                let lookup = distribution(|chance| {
                    let lookup = Lookup::new(1);
                    let run = Speculative::new(model.clone(), &target, &PROMPT, limits(3), lookup, length, chance);
                    run.unwrap().map(Result::unwrap).collect()
                });
                assert!(distance(&plain, &lookup) < 1e-12, "{name}, lookup of {length:?}");
            }
        }
    }
}

/// If the model samples, texts are the same, token for token: plain, in batches, and with guesses.
#[test]
fn a_model_that_draws_writes_the_same_texts() {
    for name in chains().into_iter().map(|(name, _)| name) {
        for sampler in [Sampler::Categorical, Sampler::Greedy] {
            let model = Table::noise(TOKENS, 1);
            let mut drawn = [0; 3];
            for seed in 0..20 {
                let target = Target { random: Random::new(seed), ..target(chain(name), sampler) };
                let drawing = [(); 3].map(|()| model.drawing());
                let alone = |model: &Arc<Table>| -> Vec<u32> {
                    Plain::new(model.clone(), &target, &PROMPT, limits(12)).unwrap().map(Result::unwrap).collect()
                };
                let expected = alone(&model);
                assert_eq!(alone(&drawing[0]), expected, "{name}");
                let targets = [target];
                let batched: Arc<dyn LanguageModel> = drawing[1].clone();
                let mut text = [begun(&batched, &targets[0], &PROMPT, limits(12), None)];
                assert_eq!(written(&batched, &mut text, |_, _| Part::Write)[0].0, expected, "{name}");
                let (lookup, length) = (Lookup::new(1), DraftLength::Fixed(3));
                let (chance, model) = (Seeded(targets[0].random), drawing[2].clone());
                let run = Speculative::new(model, &targets[0], &PROMPT, limits(12), lookup, length, chance).unwrap();
                assert_eq!(run.map(Result::unwrap).collect::<Vec<u32>>(), expected, "{name} with guesses");
                drawn.iter_mut().zip(&drawing).for_each(|(drawn, model)| *drawn += model.drawn());
            }
            assert!(drawn.iter().all(|&drawn| draws_where_it_can(name, drawn)), "{name}: {drawn:?}");
        }
    }
}

fn drafter(model: Arc<Table>, target: &Target, coupling: Coupling) -> DraftModel {
    DraftModel::new(model, 1000, &target.transforms, target.sampler, coupling).unwrap()
}

fn chain(name: &str) -> Chain {
    chains().into_iter().find(|(other, _)| *other == name).unwrap().1
}

#[test]
fn a_steered_target_keeps_its_distribution_too() {
    let (base, expert, anti) = (Table::noise(TOKENS, 1), Table::noise(TOKENS, 5), Table::noise(TOKENS, 6));
    let pair = Pair::new(expert.clone(), anti, Alpha::constant(0.8).unwrap());
    let steered: Arc<dyn LanguageModel> = Arc::new(Steered::new(base, vec![pair]));
    let target = target(chain("all"), Sampler::Categorical);
    let write = |length| {
        let length = DraftLength::Fixed(length);
        distribution(|chance| {
            let drafter = drafter(expert.clone(), &target, Coupling::Independent);
            let run = Speculative::new(steered.clone(), &target, &PROMPT, limits(3), drafter, length, chance);
            run.unwrap().map(Result::unwrap).collect()
        })
    };
    assert!(distance(&write(0), &write(2)) < 1e-12);
}

/// A draft model that guesses the target's own sample: the text is that of plain decoding, for any number of drafts.
#[test]
fn shared_chance_gives_the_text_of_plain_decoding() {
    let model = Table::noise(8, 9);
    for seed in 0..100 {
        let transforms = Chain::new().then(Temperature::new(0.7).unwrap()).then(TopP::new(0.95).unwrap());
        let target = Target { transforms, sampler: Sampler::Categorical, random: Random::new(seed) };
        let limits = Limits { max_tokens: 30, end: vec![7] };
        let plain = Plain::new(model.clone(), &target, &PROMPT, limits.clone()).unwrap();
        let plain: Vec<u32> = plain.map(Result::unwrap).collect();
        for length in [DraftLength::Auto, DraftLength::Fixed(3)] {
            let drafter = drafter(Table::noise(8, 10), &target, Coupling::Shared);
            let chance = Seeded(target.random);
            let run = Speculative::new(model.clone(), &target, &PROMPT, limits.clone(), drafter, length, chance);
            assert_eq!(run.unwrap().map(Result::unwrap).collect::<Vec<_>>(), plain, "{length:?}");
        }
    }
}

/// Sample-and-match samples the tokens of plain decoding.
#[test]
fn lookup_gives_the_text_of_plain_decoding() {
    let model = Table::noise(8, 9);
    for seed in 0..200 {
        let target = Target {
            transforms: Chain::new().then(Temperature::new(0.4).unwrap()),
            sampler: Sampler::Categorical,
            random: Random::new(seed),
        };
        let (prompt, limits) = ([1, 2, 1, 2], Limits { max_tokens: 30, end: vec![7] });
        let mut plain = Plain::new(model.clone(), &target, &prompt, limits.clone()).unwrap();
        let expected: Vec<u32> = plain.by_ref().map(Result::unwrap).collect();
        let chance = Seeded(target.random);
        let lookup = Lookup::new(1);
        let length = DraftLength::Fixed(4);
        let mut run = Speculative::new(model.clone(), &target, &prompt, limits, lookup, length, chance).unwrap();
        let got: Vec<u32> = run.by_ref().map(Result::unwrap).collect();
        assert_eq!(got, expected);
        assert_eq!(run.stop(), plain.stop());
        let Acceptance { calls, drafted, accepted } = run.acceptance();
        assert!(accepted <= drafted && calls <= got.len() + 1 && calls + accepted >= got.len());
    }
}

#[test]
fn the_context_ends_both_at_one_place() {
    let model = Table::with_context(5, 3, 12);
    let target = target(Chain::new(), Sampler::Greedy);
    let limits = Limits { max_tokens: 50, end: Vec::new() };
    let mut plain = Plain::new(model.clone(), &target, &[1, 1], limits.clone()).unwrap();
    let expected: Vec<u32> = plain.by_ref().map(Result::unwrap).collect();
    let drafter = drafter(Table::with_context(5, 3, 7), &target, Coupling::Independent);
    let chance = Seeded(target.random);
    let mut run = Speculative::new(model, &target, &[1, 1], limits, drafter, DraftLength::Fixed(3), chance).unwrap();
    assert_eq!(run.by_ref().map(Result::unwrap).collect::<Vec<_>>(), expected);
    assert_eq!((run.stop(), plain.stop()), (Some(Stop::Context), Some(Stop::Context)));
    assert!(run.acceptance().calls < expected.len(), "a twin's drafts are accepted");
}
