//! Searches of a real decoder against Hugging Face `transformers`: `fixtures/golden/search.json`, which `search.py`
//! makes.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use verdigris_decoding::search::{Contrast, Contrastive, Hypothesis};
use verdigris_decoding::{Beams, EarlyStopping, Limits, Stop, Target};
use verdigris_logits::{Chain, Forbid, MinTokens, NoRepeatNgram, Random, RepetitionPenalty, Sampler, TokenId};
use verdigris_models::{Device, Format, LanguageModel, ModelFolder};

fn golden() -> Value {
    serde_json::from_str(include_str!("../../../fixtures/golden/search.json")).unwrap()
}

fn model() -> Arc<dyn LanguageModel> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/architectures/llama");
    ModelFolder::at(folder).cached_as(Format::F32).model(&Device::Cpu).unwrap()
}

fn tokens(value: &Value) -> Vec<TokenId> {
    value.as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as TokenId).collect()
}

fn whole(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

/// The steps of a case, in the order of `transformers`.
fn transforms(options: &Value, end: &[TokenId], size: usize) -> Chain {
    let mut chain = Chain::new();
    if let Some(penalty) = options["repetition_penalty"].as_f64() {
        chain.push(RepetitionPenalty::new(penalty).unwrap());
    }
    if let Some(n) = options["no_repeat_ngram_size"].as_u64() {
        chain.push(NoRepeatNgram::new(n as usize).unwrap());
    }
    if let Some(least) = options["min_new_tokens"].as_u64() {
        chain.push(MinTokens::new(end, least as usize, size));
    }
    if options["suppress_tokens"].is_array() {
        chain.push(Forbid::new(&tokens(&options["suppress_tokens"]), size));
    }
    chain
}

#[test]
fn beams_find_what_transformers_finds() {
    let (golden, model) = (golden(), model());
    let cases = golden["beams"].as_array().unwrap();
    let mut lengths = std::collections::BTreeSet::new();
    for case in cases {
        let (options, end) = (&case["options"], tokens(&case["end"]));
        let limits = Limits { max_tokens: whole(&case["max_tokens"]), end: end.clone() };
        let transforms = transforms(options, &end, model.vocabulary_size());
        let target = Target { transforms, sampler: Sampler::Greedy, random: Random::new(0) };
        let early = match &options["early_stopping"] {
            Value::Bool(false) => EarlyStopping::False,
            Value::Bool(true) => EarlyStopping::True,
            _ => EarlyStopping::Never,
        };
        let beams = Beams::new(whole(&case["beams"])).unwrap().early_stopping(early);
        let beams = beams.length_penalty(options["length_penalty"].as_f64().unwrap()).unwrap();
        let found = beams.search(model.clone(), &target, &tokens(&case["prompt"]), &limits, &|_| false).unwrap();
        let theirs = case["texts"].as_array().unwrap();
        assert_eq!(found.len(), theirs.len(), "{case}");
        for (Hypothesis { tokens: ours, stop, score, .. }, theirs) in found.iter().zip(theirs) {
            let mut expected = tokens(&theirs["tokens"]);
            if *stop == Stop::End {
                assert!(end.contains(&expected.pop().unwrap()), "{case}");
            }
            assert_eq!(ours, &expected, "{case}\n{found:?}");
            let expected = theirs["score"].as_f64().unwrap();
            assert!((score - expected).abs() < 1e-4 * expected.abs().max(1.0), "{case}\n{score}");
            lengths.insert(ours.len());
        }
    }
    assert!(cases.len() >= 80 && lengths.len() > 10, "{} cases, {lengths:?}", cases.len());
}

#[test]
fn contrastive_search_is_that_of_its_definition() {
    let (golden, model) = (golden(), model());
    let cases = golden["contrastive"].as_array().unwrap();
    let mut stops = Vec::new();
    for case in cases {
        let limits = Limits { max_tokens: whole(&case["max_tokens"]), end: tokens(&case["end"]) };
        let target = Target { transforms: Chain::new(), sampler: Sampler::Greedy, random: Random::new(0) };
        let contrast = Contrast::new(case["alpha"].as_f64().unwrap(), whole(&case["top_k"])).unwrap();
        let prompt = tokens(&case["prompt"]);
        let mut writing = Contrastive::new(model.clone(), &target, &prompt, limits, contrast).unwrap();
        let text: Vec<TokenId> = writing.by_ref().map(Result::unwrap).collect();
        let mut expected = tokens(&case["tokens"]);
        let stop = verdigris_decoding::Writing::stop(&writing).unwrap();
        if stop == Stop::Context {
            // transformers goes on where the context is full.
            expected.truncate(model.context_length() - prompt.len());
        }
        assert_eq!(text, expected, "{case}");
        stops.push(stop);
    }
    assert!([Stop::End, Stop::Length, Stop::Context].iter().all(|stop| stops.contains(stop)), "{stops:?}");
    assert!(cases.len() >= 60, "{}", cases.len());
    assert!(Contrast::new(1.5, 4).is_err() && Contrast::new(0.5, 0).is_err());
}
