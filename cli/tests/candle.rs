//! Models computed by candle, through the built program. Needs the feature `candle`.
#![cfg(feature = "candle")]

mod support;

use serde_json::Value;
use support::checkpoint::checkpoint;
use support::{Folder, TALE_SMALL};

#[track_caller]
fn written(folder: &Folder, arguments: &[&str]) -> Value {
    folder.run(&[&["generate", "--json", "--quiet", "--seed", "3"][..], arguments].concat()).succeeds().json()
}

/// Marked text under a regular expression (plain, with drafts, in a conversation) with each architecture that only
/// candle supports. No option selects candle.
#[test]
fn all_of_generate_works_with_every_architecture() {
    for name in ["glm4", "mamba", "mixtral", "phi", "qwen2_moe", "qwen3_moe", "starcoder2", "t5"] {
        let folder = checkpoint(&format!("foreign/{name}"));
        folder.run(&["key", "new", "its.key", "--model", "model"]).done();
        let common = ["--model", "model", "--max-tokens", "40", "--key", "its.key", "--regex", "[a-z]{30}"];
        let plain = written(&folder, &[&common[..], &["ABC"]].concat());
        let text = plain["text"].as_str().unwrap();
        assert!(text.len() == 30 && text.chars().all(|c| c.is_ascii_lowercase()), "{name}: {plain}");
        let lookup = written(&folder, &[&common[..], &["--lookup", "--draft-tokens", "3", "ABC"]].concat());
        assert_eq!(lookup["text"], plain["text"], "{name}");
        // A draft model samples with its own random numbers, so the texts are compared at temperature 0.
        let [alone, drafted] = [&[][..], &["--draft", "model", "--draft-tokens", "2"]]
            .map(|more| written(&folder, &[&common[..], &["--temperature", "0", "ABC"], more].concat()));
        assert_eq!(alone["text"], drafted["text"], "{name}");
        let answer = written(&folder, &[&common[..], &["--chat", "ABC"]].concat());
        assert_eq!(answer["text"], plain["text"], "{name}");
        folder.write("text.txt", text);
        let found = folder.run(&["detect", "text.txt", "--key", "its.key", "--model", "model", "--json"]).json();
        assert!(found["verdict"].is_string(), "{name}: {found}");
    }
}

/// Models that our own decoders support give the same text with candle: plain, steered with experts on either backend,
/// and with a draft model. A GGUF file can be used too.
#[test]
fn candle_writes_what_our_own_decoders_write() {
    let folder = Folder::with_key();
    let common = ["--model", "tale", "--max-tokens", "24", "The captain"];
    let own = written(&folder, &common);
    let by_candle = written(&folder, &[&common[..], &["--backend", "candle"]].concat());
    assert_eq!(own["tokens"], by_candle["tokens"]);
    let steered = ["--expert", "tale-expert", "--anti", "tale-small", "--alpha", "0.5"];
    let own = written(&folder, &[&common[..], &steered].concat());
    for more in [
        &["--backend", "candle"][..],
        &["--expert-backend", "candle"],
        &["--backend", "candle", "--expert-backend", "auto"],
    ] {
        let mixed = written(&folder, &[&common[..], &steered, more].concat());
        assert_eq!(own["tokens"], mixed["tokens"], "{more:?}");
    }
    let drafted = ["--model", TALE_SMALL, "--draft", TALE_SMALL, "--max-tokens", "24", "The captain"];
    let own = written(&folder, &drafted);
    assert_eq!(own["tokens"], written(&folder, &[&drafted[..], &["--backend", "candle"]].concat())["tokens"]);
    folder.run(&["convert", TALE_SMALL, "--out", "small.gguf", "--format", "f16"]).done();
    let file = ["--model", "small.gguf", "--max-tokens", "12", "The captain"];
    let by_candle = written(&folder, &[&file[..], &["--backend", "candle"]].concat());
    assert_eq!(by_candle["tokens"].as_array().map(Vec::len), Some(12), "{by_candle}");
}

#[test]
fn what_there_is_not_is_said_in_one_line() {
    let folder = checkpoint("foreign/mixtral");
    let config = folder.read("model/config.json");
    folder.write("model/config.json", &config.replace("\"mixtral\"", "\"plover\""));
    for (arguments, words) in [
        (&["--model", "model", "x"][..], &["plover", "gpt_neox", "by candle", "mixtral"][..]),
        (&["--model", "model", "--backend", "candle", "x"], &["plover", "mixtral"]),
        (&["--backend", "candle", "--device", "cuda", "x"], &["built without candle's CUDA"]),
        (&["--backend", "candle", "--device", "tpu", "x"], &["a device is cpu, cuda"]),
    ] {
        let run = folder.run(&[&["generate"][..], arguments].concat());
        assert_eq!(run.status, 2, "{arguments:?}: {run:?}");
        assert!(words.iter().all(|word| run.err.contains(word)) && run.err.lines().count() == 1, "{run:?}");
    }
}
