//! The ends of texts with and without drafts: at the end of a context, in rows that allow nothing or are not
//! distributions, and with rows of different lengths in the two models.

use super::*;
use crate::drafter::drafts;

/// The returned tokens, and errors as their messages.
fn results(writing: impl Iterator<Item = Result<u32, DecodeError>>) -> Vec<Result<u32, String>> {
    writing.map(|token| token.map_err(|error| error.to_string())).collect()
}

/// A table in which 0 leads to 1, 1 to 2, and 2 to the row `last`.
fn leads_to(last: &[f32; 4]) -> Arc<Table> {
    const NO: f32 = f32::NEG_INFINITY;
    Table::new(vec![vec![NO, 2.0, NO, NO], vec![NO, NO, 2.0, NO], last.to_vec(), vec![1.0; 4]], 64)
}

/// Decided tokens come before the error, the error is that of plain decoding, and nothing follows it.
#[test]
fn an_error_comes_after_the_tokens_before_it() {
    const NO: f32 = f32::NEG_INFINITY;
    let lasts = [
        ([NO; 4], "no token is allowed at position 4"),
        ([0.0, f32::NAN, 1.0, 2.0], "a logit of the token at position 4 is NaN or infinite"),
        ([0.0, f32::INFINITY, 1.0, NO], "a logit of the token at position 4 is NaN or infinite"),
        ([f32::NAN; 4], "a logit of the token at position 4 is NaN or infinite"),
    ];
    // The drafter continues where the target cannot.
    let small = leads_to(&[1.0, 1.0, 1.0, NO]);
    for (last, message) in lasts {
        for sampler in [Sampler::Greedy, Sampler::Categorical] {
            let target = target(Chain::new(), sampler);
            for model in [leads_to(&last), leads_to(&last).drawing()] {
                let plain = Plain::new(model.clone(), &target, &PROMPT[..2], limits(9));
                let mut plain = plain.unwrap();
                let expected = results(plain.by_ref());
                let error = expected.last().unwrap().as_ref().unwrap_err();
                assert!(error.starts_with(message), "{error}");
                assert_eq!(expected.len(), 3, "two tokens and the error: {expected:?}");
                assert!(plain.next().is_none() && plain.stop().is_none());
                let batched: Arc<dyn LanguageModel> = model.clone();
                let mut text = [begun(&batched, &target, &PROMPT[..2], limits(9), None)];
                let (tokens, fault) = written(&batched, &mut text, |_, _| Part::Write).remove(0);
                assert_eq!(results(tokens.into_iter().map(Ok).chain(fault.map(Err))), expected);
                for length in 0..=4 {
                    for coupling in [Coupling::Independent, Coupling::Shared] {
                        let (length, chance) = (DraftLength::Fixed(length), Seeded(target.random));
                        let drafter = drafter(small.clone(), &target, coupling);
                        let (model, limits) = (model.clone(), limits(9));
                        let mut run =
                            Speculative::new(model, &target, &PROMPT[..2], limits, drafter, length, chance).unwrap();
                        assert_eq!(results(run.by_ref()), expected, "{length:?}, {coupling:?}");
                        assert!(run.next().is_none() && run.stop().is_none());
                        assert!(run.sequence.len() < run.text.len(), "no draft is left in the cache");
                    }
                }
            }
        }
    }
}

/// A twin's drafts are all accepted, so the calls can be counted: drafts fill the context to its last token, but not
/// beyond.
#[test]
fn drafts_fill_the_context_and_no_more() {
    for context in 4..24 {
        let model = Table::deep(5, 3, context);
        let target = target(Chain::new(), Sampler::Categorical);
        let limits = Limits { max_tokens: 50, end: Vec::new() };
        let mut plain = Plain::new(model.clone(), &target, &PROMPT, limits.clone()).unwrap();
        let written = plain.by_ref().map(Result::unwrap).count();
        // The last token is never read.
        assert_eq!((written, plain.stop()), (context + 1 - PROMPT.len(), Some(Stop::Context)));
        for drafts in 1..7 {
            // The drafter's own context is not the limit here.
            let drafter = drafter(Table::deep(5, 3, 64), &target, Coupling::Independent);
            let (length, chance) = (DraftLength::Fixed(drafts), Seeded(target.random));
            let mut run =
                Speculative::new(model.clone(), &target, &PROMPT, limits.clone(), drafter, length, chance).unwrap();
            assert_eq!(run.by_ref().map(Result::unwrap).count(), written, "{drafts} drafts in {context}");
            assert_eq!(run.stop(), Some(Stop::Context));
            let Acceptance { calls, drafted, accepted } = run.acceptance();
            assert_eq!((calls, drafted), (written.div_ceil(drafts + 1), accepted), "{drafts} drafts in {context}");
        }
    }
}

/// A twin of a target with stateful transforms: its cache and its states are those of the target at every draft.
#[test]
fn a_twin_is_never_rejected() {
    let model = Table::deep(8, 3, 200);
    let soft = watermark_of(8, Strength::soft(3.0).unwrap());
    let transforms = Chain::new().then(CountPenalty::new(0.5, 0.5).unwrap()).then(soft);
    let target = target(transforms, Sampler::Categorical);
    for coupling in [Coupling::Independent, Coupling::Shared] {
        let drafter = drafter(model.clone(), &target, coupling);
        let limits = Limits { max_tokens: 150, end: Vec::new() };
        let (length, chance) = (DraftLength::Fixed(4), Seeded(target.random));
        let mut run = Speculative::new(model.clone(), &target, &PROMPT, limits, drafter, length, chance).unwrap();
        assert_eq!(run.by_ref().map(Result::unwrap).count(), 150);
        assert_eq!(run.acceptance(), Acceptance { calls: 30, drafted: 120, accepted: 120 }, "{coupling:?}");
    }
}

/// Cut rows are those of a model without padding.
#[test]
fn a_padded_draft_model_drafts_what_it_drafts_without() {
    let rows = |padding: f32| {
        let row = |after: u32| [Table::noise(4, 2).row(after), &[padding; 3]].concat();
        Table::new((0..4).map(row).chain(vec![vec![0.0; 7]; 3]).collect(), 64)
    };
    let target = target(Chain::new(), Sampler::Categorical);
    let drafted = |model: Arc<Table>, coupling| {
        let state = target.transforms.start(&PROMPT);
        let mut drafter = drafter(model, &target, coupling).cut(4);
        drafts(&mut drafter, &PROMPT, &state, TreeShape::chain(8), &mut Seeded(target.random))
    };
    for coupling in [Coupling::Independent, Coupling::Shared] {
        assert_eq!(drafted(rows(9.0), coupling), drafted(Table::noise(4, 2), coupling));
    }
}

/// A draft model with other padding than the target: with longer rows some of its drafts are not tokens of the target,
/// and with shorter ones it cannot read all written tokens.
#[test]
fn rows_of_other_lengths_do_not_change_the_distribution() {
    let model = Table::noise(TOKENS, 1);
    let target = target(chain("top-p"), Sampler::Categorical);
    let plain = plain_distribution(&model, &target, 3);
    for size in [2, 3, 6] {
        for (length, coupling) in
            [(1, Coupling::Independent), (2, Coupling::Independent), (3, Coupling::Independent), (2, Coupling::Shared)]
        {
            let drafts = distribution(|chance| {
                let drafter = drafter(Table::noise(size, 2), &target, coupling);
                let length = DraftLength::Fixed(length);
                let run = Speculative::new(model.clone(), &target, &PROMPT, limits(3), drafter, length, chance);
                run.unwrap().map(Result::unwrap).collect()
            });
            assert!(distance(&plain, &drafts) < 1e-12, "rows of {size}, {length} drafts, {coupling:?}");
        }
    }
}
