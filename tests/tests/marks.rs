//! Marks on text that a model wrote, through everything that lies between writer and reader.

use std::path::Path;
use std::sync::LazyLock;

use verdigris::logits::{Purpose, Random};
use verdigris::watermark::{Context, ContextFunction};
use verdigris::{Engine, Evidence, Gamma, Key, Marking, Strength};

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    Engine::load(Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/models/tale-small")).unwrap()
});

fn key(gamma: f64, strength: Strength, function: ContextFunction, width: usize) -> Key {
    let marking = Marking { gamma: Gamma::new(gamma).unwrap(), strength, context: Context { function, width } };
    Key::from_secret([11; 32], "test", marking, ENGINE.reader().vocabulary())
}

fn soft(gamma: f64, function: ContextFunction, width: usize) -> Key {
    key(gamma, Strength::soft(2.0).unwrap(), function, width)
}

fn write(key: Option<&Key>, seed: u64) -> String {
    let request = ENGINE.request("").max_tokens(200).through_end().seed(seed);
    match key {
        Some(key) => request.watermark(key),
        None => request,
    }
    .text()
    .unwrap()
    .text
}

fn judge(key: &Key, text: &str) -> Evidence {
    ENGINE.reader().detect(key, text.as_bytes()).unwrap()
}

#[test]
fn every_scheme_marks_and_is_found_through_the_text() {
    let vocabulary = ENGINE.reader().vocabulary();
    for key in [
        soft(0.25, ContextFunction::All, 1),
        soft(0.25, ContextFunction::All, 6),
        soft(0.5, ContextFunction::Min, 4),
        soft(0.25, ContextFunction::SelfSalted, 3),
        key(0.5, Strength::Hard, ContextFunction::Min, 4),
        Key::kgw_simple_1(15_485_863, 0.25, Strength::soft(2.0).unwrap(), vocabulary).unwrap(),
    ] {
        for seed in 0..3 {
            let marked = judge(&key, &write(Some(&key), seed));
            assert!(marked.z > 5.0 && marked.ln_p < -12.0, "{key:?}: {marked:?}");
            let plain = judge(&key, &write(None, seed));
            assert!(plain.p() > 1e-3, "{key:?}: {plain:?}");
        }
    }
}

/// A tenth of the words taken out, and text of nobody's put before and after.
#[test]
fn a_mark_survives_edits() {
    let key = soft(0.25, ContextFunction::Min, 4);
    let random = Random::new(3);
    for seed in 0..5 {
        let text = write(Some(&key), seed);
        let whole = judge(&key, &text);
        let words = text.split(' ').enumerate();
        let kept: Vec<&str> = words
            .filter(|&(i, _)| random.uniform(seed * 1000 + i as u64, Purpose::Token) > 0.1)
            .map(|(_, word)| word)
            .collect();
        let edited = judge(&key, &kept.join(" "));
        assert!(edited.ln_p < -12.0 && edited.z < whole.z, "{edited:?}");
        let framed = format!("{} {text} {}", write(None, seed + 50), write(None, seed + 60));
        assert!(judge(&key, &framed).ln_p < -12.0);
    }
}

/// The mark is put on what the constraint allows, and the text obeys.
#[test]
fn a_constrained_text_is_marked_too() {
    let pattern = "([A-Z][a-z]{1,9}( [a-z]{1,10}){5,9}\\. ){12}";
    let judge_pattern = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
    let key = soft(0.25, ContextFunction::Min, 4);
    let write = |marked: bool| {
        let request = ENGINE.request("").regex(pattern).max_tokens(1500).seed(4);
        let request = if marked { request.watermark(&key) } else { request };
        request.text().unwrap()
    };
    let (marked, plain) = (write(true), write(false));
    for written in [&marked, &plain] {
        assert_eq!(written.stop, Some(verdigris::Stop::End));
        assert!(judge_pattern.is_match(&written.text), "{}", written.text);
    }
    assert!(judge(&key, &marked.text).z > 6.0, "{:?}", judge(&key, &marked.text));
    assert!(judge(&key, &plain.text).p() > 1e-3, "{:?}", judge(&key, &plain.text));
}
