//! Speculation on real models: the same text where it must be, the same law elsewhere, with everything at once.

use std::path::Path;
use std::sync::LazyLock;

use verdigris::decoding::{Coupling, DraftModel, Drafter, Seeded};
use verdigris::logits::{Chain, Random, Sampler, Transform};
use verdigris::{Device, Engine, Key, Marking, ModelFolder, Request};

fn load(name: &str) -> Engine {
    Engine::load(Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/models").join(name)).unwrap()
}

static TALE: LazyLock<Engine> = LazyLock::new(|| load("tale"));
static SMALL: LazyLock<Engine> = LazyLock::new(|| load("tale-small"));

const PROMPTS: [&str; 8] = [
    "The captain",
    "",
    "\"Where is the key?\" she asked. \"Where is the",
    "one two three one two three one two",
    "It was the best of times,",
    "In the morning the snow lay deep, and the children",
    "'No,' said the",
    "Chapter",
];

/// Kernels give a row the same bits whatever is computed beside it, so not one token may differ.
#[test]
fn greedy_speculation_is_greedy_decoding() {
    for prompt in PROMPTS {
        let request = || TALE.request(prompt).temperature(0.0).max_tokens(60);
        let plain = request().text().unwrap();
        for tokens in [1, 3, 6] {
            for drafted in [request().draft(&SMALL), request().lookup()] {
                let written = drafted.draft_tokens(tokens).text().unwrap();
                assert_eq!(written.tokens, plain.tokens, "{prompt:?}");
                assert_eq!(written.stop, plain.stop);
            }
        }
    }
}

#[test]
fn lookup_writes_what_plain_decoding_writes_under_one_seed() {
    for (seed, prompt) in PROMPTS.into_iter().enumerate() {
        let request = || TALE.request(prompt).temperature(0.7).top_p(0.9).max_tokens(60).seed(seed as u64);
        let (plain, lookup) = (request().text().unwrap(), request().lookup().draft_tokens(4).text().unwrap());
        assert_eq!(lookup.tokens, plain.tokens, "{prompt:?}");
    }
}

/// A model that drafts for itself is always right: its cache and its transforms are those of the target.
#[test]
fn a_twin_is_never_rejected() {
    let key = Key::from_secret([6; 32], "test", Marking::default(), SMALL.reader().vocabulary());
    for (seed, prompt) in PROMPTS.into_iter().enumerate() {
        let request = SMALL.request(prompt).watermark(&key).temperature(0.8).top_p(0.9).max_tokens(80);
        let written = request.seed(seed as u64).draft(&SMALL).draft_tokens(5).text().unwrap();
        let acceptance = written.acceptance.unwrap();
        // The drafts after the end of a text are no longer looked at.
        assert!(acceptance.drafted - acceptance.accepted < 5, "{acceptance:?}");
        assert!(acceptance.accepted >= written.tokens.len() * 4 / 5, "{acceptance:?}");
    }
}

/// What a drafter remembers of texts that were not gone on with does not show.
#[test]
fn a_drafter_forgets_what_was_rejected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/models/tale-small");
    let model = ModelFolder::at(folder).load(&Device::Cpu).unwrap().decoder;
    let chain = Chain::new();
    let state = chain.start(&[]);
    let drafter = || DraftModel::new(model.clone(), 100, &chain, Sampler::Categorical, Coupling::Independent).unwrap();
    let mut used = drafter();
    for text in [&[5, 6, 7][..], &[5, 6, 7, 8, 9], &[5, 6, 10, 11], &[5, 6, 10, 11, 12, 13, 14], &[1], &[5, 6]] {
        let draft = |drafter: &mut DraftModel<'_>| drafter.draft(text, &state, 4, &mut Seeded(Random::new(3))).unwrap();
        let again = draft(&mut used);
        assert_eq!(again.len(), 4);
        assert!(again == draft(&mut drafter()), "{text:?}");
    }
}

/// A text that obeys a pattern, carries a mark, is steered and speculative; and the detector proves it.
#[test]
fn everything_at_once() {
    let pattern = "([A-Z]{3,8}:\n([A-Z][a-z ,]{10,40}[.;!?]\n){3}\n){6}";
    let judge = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
    let (expert, anti) = (load("tale-expert"), load("tale-small"));
    let key = Key::from_secret([4; 32], "test", Marking::default(), TALE.reader().vocabulary());
    let steered = load("tale").steered(&[(&expert, &anti, 1.0)]).unwrap();
    let with = |request: Request<'_>| request.regex(pattern).max_tokens(1500).seed(2).text().unwrap();
    let marked = with(steered.request("").watermark(&key).draft(&expert).draft_tokens(3));
    let plain = with(steered.request("").draft(&expert).draft_tokens(3));
    for written in [&marked, &plain] {
        assert!(judge.is_match(&written.text), "{}", written.text);
        let acceptance = written.acceptance.unwrap();
        assert!(acceptance.accepted > acceptance.drafted / 5, "{acceptance:?}");
    }
    let judge = |text: &str| steered.reader().detect(&key, text.as_bytes()).unwrap();
    assert!(judge(&marked.text).ln_p < -14.0, "{:?}", judge(&marked.text));
    assert!(judge(&plain.text).p() > 1e-3, "{:?}", judge(&plain.text));
}
