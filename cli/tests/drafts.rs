//! `train draft` and `train medusa` as their users meet them.

mod support;

use std::fs;

use support::{Folder, TALE_SMALL};

const PROMPTS: &str = "The captain was\nThe old house had\n\"My dear\nIt was a\nWhen she came\nA storm of\n";

/// Few steps, on short texts.
const SHORT: [&str; 11] = [
    "--target",
    TALE_SMALL,
    "--max-tokens",
    "12",
    "--steps",
    "6",
    "--batch",
    "4",
    "--learning-rate",
    "1e-2",
    "--warm-up=1",
];

fn train(folder: &Folder, head: &str, more: &[&str]) -> support::Run {
    folder.run(&[&["train", head], &SHORT[..], more].concat())
}

#[test]
fn heads_are_trained_and_not_trained_over() {
    let folder = Folder::new();
    folder.write("prompts.txt", PROMPTS);
    let prompts = ["--prompts", "prompts.txt", "--out", "drafter", "--inner", "32"];
    let run = train(&folder, "draft", &prompts);
    assert_eq!(run.status, 0, "{run:?}");
    assert!(run.out.contains("head           drafter (feature)") && run.out.contains("likeliest same"), "{run:?}");
    train(&folder, "draft", &prompts).fails("drafter holds a model already: choose another --out");
    let config: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path("drafter/config.json")).unwrap()).unwrap();
    assert_eq!((&config["target"], &config["intermediate_size"]), (&"tale-small".into(), &32.into()));
    // The same texts serve the other head.
    let texts = ["--texts", "drafter/texts.jsonl", "--heads", "2", "--out", "heads", "--json", "--quiet"];
    let without_max_tokens: Vec<&str> =
        ["train", "medusa"].iter().chain(&SHORT[..2]).chain(&SHORT[4..]).chain(&texts).copied().collect();
    let run = folder.run(&without_max_tokens);
    assert_eq!((run.status, run.err.as_str()), (0, ""), "{run:?}");
    let summary: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&summary["head"], &summary["texts"], &summary["steps"]), (&"medusa".into(), &5.into(), &6.into()));
    assert_eq!(summary["heldout"]["same"].as_array().unwrap().len(), 2);
    let kept = fs::read(folder.path("heads/training.json")).unwrap();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&kept).unwrap(), summary);
}

#[test]
fn what_is_wrong_is_one_line() {
    let folder = Folder::new();
    folder.write("prompts.txt", PROMPTS);
    folder.write("empty.txt", "\n");
    let out = ["--out", "out"];
    for (more, said) in [
        (&["--prompts", "none.txt"][..], "cannot read none.txt"),
        (&["--prompts", "empty.txt"], "empty.txt has no prompts: write one a line"),
        (&["--prompts", "prompts.txt", "--chat"], "leave out --chat"),
        (&["--prompts", "prompts.txt", "--heads", "0"], "--heads is 0, but must be 1 to 16"),
        (&["--prompts", "prompts.txt", "--draft-vocabulary", "1"], "--draft-vocabulary is 1"),
    ] {
        train(&folder, "medusa", &[more, &out].concat()).fails(said);
        assert!(!folder.path("out").exists(), "{said}");
    }
    folder.write("one.txt", "The captain\n");
    train(&folder, "medusa", &["--prompts", "one.txt", "--out", "out"]).fails("give more prompts");
}
