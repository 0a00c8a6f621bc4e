//! Models that candle computes, through the built program. Needs the feature `candle`.
#![cfg(feature = "candle")]

mod support;

use std::path::Path;

use serde_json::{Value, json};
use support::{Folder, TALE_SMALL};

/// A random checkpoint that candle alone has, with a tokenizer of 61 characters and a chat template.
fn with_checkpoint(name: &str) -> Folder {
    let folder = Folder::with_key();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/golden/foreign").join(name);
    std::fs::create_dir(folder.path("model")).unwrap();
    std::fs::copy(from.join("model.safetensors"), folder.path("model/model.safetensors")).unwrap();
    let mut config: Value = serde_json::from_slice(&std::fs::read(from.join("config.json")).unwrap()).unwrap();
    config["eos_token_id"] = 60.into();
    config["bos_token_id"] = 60.into();
    folder.write("model/config.json", &config.to_string());
    let vocabulary: serde_json::Map<String, Value> =
        (0..60u8).map(|i| (char::from(b'A' + i).to_string(), i.into())).collect();
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let end = json!([{"id": 60, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": true}]);
    // An encoder-decoder's prompts are sources, which end with a token.
    let is_source = name == "t5";
    let post = json!({"type": "TemplateProcessing", "pair": [],
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<end>", "type_id": 0}}],
        "special_tokens": {"<end>": {"id": "<end>", "ids": [60], "tokens": ["<end>"]}}});
    let post = if is_source { post } else { Value::Null };
    let tokenizer = json!({"version": "1.0", "added_tokens": end, "normalizer": null, "post_processor": post,
        "pre_tokenizer": bytes, "decoder": bytes, "model": {"type": "BPE", "vocab": vocabulary, "merges": []}});
    folder.write("model/tokenizer.json", &tokenizer.to_string());
    let end = if is_source { "<end>" } else { "" };
    let template = format!("{{% for m in messages %}}{{{{ m.content }}}}{{% endfor %}}{end}");
    folder.write("model/tokenizer_config.json", &json!({"chat_template": template}).to_string());
    folder
}

#[track_caller]
fn written(folder: &Folder, arguments: &[&str]) -> Value {
    let run = folder.run(&[&["generate", "--json", "--seed", "3"][..], arguments].concat());
    assert_eq!((run.status, run.err.as_str()), (0, ""), "{arguments:?}: {run:?}");
    serde_json::from_str(&run.out).unwrap()
}

/// Marked, under an expression, with drafts, in a conversation, several at a time: each architecture that only candle
/// has, without a word about it.
#[test]
fn all_of_generate_works_with_every_architecture() {
    for name in ["glm4", "mamba", "mixtral", "phi", "qwen2_moe", "qwen3_moe", "starcoder2", "t5"] {
        let folder = with_checkpoint(name);
        let run = folder.run(&["key", "new", "its.key", "--model", "model"]);
        assert_eq!(run.status, 0, "{run:?}");
        let common = ["--model", "model", "--max-tokens", "40", "--key", "its.key", "--regex", "[a-z]{30}"];
        let plain = written(&folder, &[&common[..], &["ABC"]].concat());
        let text = plain["text"].as_str().unwrap();
        assert!(text.len() == 30 && text.chars().all(|c| c.is_ascii_lowercase()), "{name}: {plain}");
        let lookup = written(&folder, &[&common[..], &["--lookup", "--draft-tokens", "3", "ABC"]].concat());
        assert_eq!(lookup["text"], plain["text"], "{name}");
        // A draft model has draws of its own; without draws there is one text.
        let [alone, drafted] = [&[][..], &["--draft", "model", "--draft-tokens", "2"]]
            .map(|more| written(&folder, &[&common[..], &["--temperature", "0", "ABC"], more].concat()));
        assert_eq!(alone["text"], drafted["text"], "{name}");
        let answer = written(&folder, &[&common[..], &["--chat", "ABC"]].concat());
        assert_eq!(answer["text"], plain["text"], "{name}");
        folder.write("text.txt", text);
        let found = folder.run(&["detect", "text.txt", "--key", "its.key", "--model", "model", "--json"]);
        let found: Value = serde_json::from_str(&found.out).unwrap();
        assert!(found["verdict"].is_string(), "{name}: {found}");
    }
}

/// What our own decoders compute too is the same text by candle: steered, by experts on the one or the other, as a
/// draft, from a folder and from a GGUF file.
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
    let run = folder.run(&["convert", TALE_SMALL, "--out", "small.gguf", "--format", "f16"]);
    assert_eq!(run.status, 0, "{run:?}");
    let file = ["--model", "small.gguf", "--max-tokens", "12", "The captain"];
    let by_candle = written(&folder, &[&file[..], &["--backend", "candle"]].concat());
    assert_eq!(by_candle["tokens"].as_array().map(Vec::len), Some(12), "{by_candle}");
}

#[test]
fn what_there_is_not_is_said_in_one_line() {
    let folder = with_checkpoint("mixtral");
    let config = std::fs::read_to_string(folder.path("model/config.json")).unwrap();
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
