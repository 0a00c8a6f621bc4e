//! A model that is steered by small ones.

mod support;

use serde_json::Value;
use support::{Folder, TALE_SMALL};

/// At the strength that is used unless another is asked for, what comes is text: a difference of small models says
/// little of tokens that hardly ever come, such as bytes that are no characters.
#[test]
fn steered_texts_are_text() {
    let folder = Folder::new();
    let expert = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale-expert");
    let steer = |arguments: &[&str]| {
        let all = ["generate", "--expert", expert, "--anti", TALE_SMALL, "--max-tokens", "60", "--json"];
        let run = folder.run(&[&all, arguments].concat());
        assert_eq!((run.status, run.err.as_str()), (0, ""), "{arguments:?}");
        run.out
    };
    let texts = steer(&["--seed", "16", "--texts", "16"]);
    for (seed, line) in (16..).zip(texts.lines()) {
        let written: Value = serde_json::from_str(line).unwrap();
        let text = written["text"].as_str().unwrap();
        // The last token may end in the middle of a character.
        assert!(!text.trim_end_matches('\u{fffd}').contains('\u{fffd}'), "seed {seed}: {text}");
    }
    assert_eq!(texts.lines().count(), 16);
    // What is asked for is what is done.
    let tokens = |out: &str| serde_json::from_str::<Value>(out).unwrap()["tokens"].clone();
    let [default, same, other] = [&[][..], &["--alpha", "0.75"], &["--alpha", "1"]]
        .map(|alpha| tokens(&steer(&[&["--seed", "16"], alpha].concat())));
    assert!(default == same && default != other);
}
