//! Guidance of each token by language models of classes.

use crate::support::{Folder, Run, TALE_SMALL};
use serde_json::Value;

const EXPERT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale-expert");

fn generate(folder: &Folder, arguments: &[&str]) -> Run {
    let length: &[&str] = if arguments.contains(&"--max-tokens") { &[] } else { &["--max-tokens", "24"] };
    folder.run(&[&["generate", "The king", "--seed", "5"], length, arguments].concat())
}

/// The JSON line of each text.
#[track_caller]
fn texts(folder: &Folder, arguments: &[&str]) -> Vec<Value> {
    generate(folder, &[arguments, &["--json"]].concat()).succeeds().lines()
}

const MODELS: [&str; 4] = ["--class-model", EXPERT, "--class-model", TALE_SMALL];
const CODES: [&str; 6] =
    ["--class-model", TALE_SMALL, "--class-prompt", "It was a merry day.", "--class-prompt", "It was a sad day."];

/// The model of the wanted class predicts the texts better, and the model of the other class worse.
#[test]
#[cfg(feature = "train")]
fn texts_are_led_to_the_class_that_is_wanted() {
    let folder = Folder::new();
    let evidence = |weight: &str| {
        let texts = texts(&folder, &[&MODELS[..], &["--texts", "16", "--guide-weight", weight]].concat());
        let texts: Vec<&str> = texts.iter().map(|text| text["text"].as_str().unwrap()).collect();
        folder.write("texts.txt", &texts.join("<|endoftext|>"));
        let loss = |model: &str| {
            let bench = ["bench", "loss", "--text", "texts.txt", "--window", "24", "--model", model, "--json"];
            folder.run(&bench).json()["loss"].as_f64().unwrap()
        };
        loss(TALE_SMALL) - loss(EXPERT)
    };
    let [away, plain, towards] = ["-30", "0", "30"].map(evidence);
    assert!(away + 1.0 < plain && plain + 0.4 < towards, "{away}, {plain}, {towards}");
}

#[test]
fn a_text_guided_by_classes_is_the_same_however_it_is_written() {
    let folder = Folder::with_key();
    let plain = texts(&folder, &[]).remove(0)["tokens"].clone();
    for classes in [&MODELS[..], &CODES] {
        let tokens = |rest: &[&str]| texts(&folder, &[classes, rest].concat()).remove(0)["tokens"].clone();
        let guided = tokens(&[]);
        assert_ne!(guided, plain);
        assert_eq!(tokens(&["--guide-weight", "30", "--guide-top-k", "200"]), guided);
        assert_ne!(tokens(&["--guide-weight", "-30"]), guided);
        assert_eq!(tokens(&["--guide-weight", "0", "--guide-top-k", "4096"]), plain);
        let beside = texts(&folder, &[classes, &["--texts", "3"]].concat());
        assert_eq!(beside.iter().find(|text| text["index"] == 0).unwrap()["tokens"], guided);
        for drafts in [&["--lookup", "--draft-tokens", "3"][..], &["--draft", TALE_SMALL]] {
            assert_eq!(tokens(drafts), guided, "{drafts:?}");
        }
        let form = ["--key", "my.key", "--regex", "( [a-z]{1,9}){6}"];
        let run = generate(&folder, &[classes, &form].concat());
        assert_eq!((run.status, run.out.split_whitespace().count()), (0, 6), "{run:?}");
    }
}

#[test]
fn what_cannot_guide_is_told() {
    let folder = Folder::new();
    let of = |arguments: &[&str]| generate(&folder, arguments);
    of(&["--class-model", TALE_SMALL]).fails("one class is not enough: give --class-prompt for the wanted class");
    of(&["--class-model", TALE_SMALL, "--class-prompt", "a"]).fails("one class is not enough");
    let three = ["--class-prompt", "a", "--class-prompt", "b", "--class-prompt", "c"];
    of(&[&MODELS[..], &three].concat()).fails("--class-model is given 2 times, but --class-prompt 3 times");
    of(&["--guide-weight", "2"]).fails("--guide-weight needs a judge: --guide REWARD, or --class-model");
    of(&["--guide-top-k", "2"]).fails("--guide-top-k needs a judge");
    of(&[&CODES[..], &["--guide-top-k", "0"]].concat()).fails("the number of tokens that a guide tries is 0");
    of(&[&CODES[..], &["--guide-weight", "nan"]].concat()).fails("the weight of a guide is NaN");
    of(&["--class-model", "none", "--class-model", TALE_SMALL]).fails("none is not a model");
    let long = "word ".repeat(2100);
    let classes = ["--class-model", TALE_SMALL, "--class-prompt", &long, "--class-prompt", "b"];
    of(&classes).fails("but the context of the model that judges them is 2048: write fewer tokens");
}
