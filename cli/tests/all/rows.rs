//! Rows of logits that are padded to different lengths, like those of Qwen2.5, or damaged.

use std::fs;
use std::path::Path;

use crate::support::Folder;
use serde_json::Value;

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models");

/// The header and the data of a file of weights.
fn weights(path: &Path) -> (Value, Vec<u8>) {
    let bytes = fs::read(path).unwrap();
    let (length, rest) = bytes.split_first_chunk().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    (serde_json::from_slice(header).unwrap(), data.to_vec())
}

fn write_weights(path: &Path, header: &Value, data: &[u8]) {
    let header = header.to_string().into_bytes();
    fs::write(path, [&header.len().to_le_bytes()[..], &header, data].concat()).unwrap();
}

/// A copy of a model with `rows` more rows of logits, copied from tokens that the model often writes.
fn padded(folder: &Folder, name: &str, rows: usize) -> String {
    let (from, to) = (Path::new(MODELS).join(name), format!("{name}-padded-{rows}"));
    folder.copy_model(from.to_str().unwrap(), &to);
    let path = |file: &str| folder.path(&to).join(file);
    let mut config: Value = serde_json::from_slice(&fs::read(path("config.json")).unwrap()).unwrap();
    let size = config["vocab_size"].as_u64().unwrap() as usize;
    config["vocab_size"] = (size + rows).into();
    fs::write(path("config.json"), config.to_string()).unwrap();

    let (mut header, data) = weights(&path("model.safetensors"));
    let embedding = header["model.embed_tokens.weight"].clone();
    let [begin, end] = [0, 1].map(|i| embedding["data_offsets"][i].as_u64().unwrap() as usize);
    let row = (end - begin) / size;
    let tokenizer: Value = serde_json::from_slice(&fs::read(path("tokenizer.json")).unwrap()).unwrap();
    let liked = [",", ".", "Ġthe", "Ġof"].map(|token| tokenizer["model"]["vocab"][token].as_u64().unwrap() as usize);
    let padding = (0..rows).flat_map(|i| &data[begin + liked[i % 4] * row..][..row]).copied();
    let data: Vec<u8> = data[..end].iter().copied().chain(padding).chain(data[end..].iter().copied()).collect();
    for (tensor, entry) in header.as_object_mut().unwrap() {
        if tensor == "__metadata__" {
            continue;
        }
        // Offsets at the end of the embedding or after it.
        for offset in entry["data_offsets"].as_array_mut().unwrap() {
            let old = offset.as_u64().unwrap() as usize;
            *offset = (old + if old >= end { rows * row } else { 0 }).into();
        }
    }
    header["model.embed_tokens.weight"]["shape"][0] = (size + rows).into();
    write_weights(&path("model.safetensors"), &header, &data);
    to
}

/// The tokens of each text.
fn written(folder: &Folder, arguments: &[&str]) -> Vec<Vec<u64>> {
    let common = ["generate", "The captain", "--json", "--seed", "3", "--max-tokens", "40"];
    let texts = folder.run(&[&common, arguments].concat()).succeeds().lines();
    let tokens =
        |text: &Value| -> Vec<u64> { text["tokens"].as_array().unwrap().iter().filter_map(Value::as_u64).collect() };
    texts.iter().map(tokens).collect()
}

#[test]
fn padding_is_never_written_and_changes_nothing() {
    let folder = Folder::with_key();
    let (tale, small, expert) =
        (padded(&folder, "tale", 64), padded(&folder, "tale-small", 128), padded(&folder, "tale-expert", 7));
    let original = |name: &str| format!("{MODELS}/{name}");
    let (tale0, small0, expert0) = (original("tale"), original("tale-small"), original("tale-expert"));
    let ways: [&[&str]; 9] = [
        &[],
        &["--temperature", "0"],
        &["--top-p", "0.9", "--key", "my.key"],
        &["--texts", "3"],
        &["--lookup", "--draft-tokens", "3"],
        &["--regex", "[a-z ,.]*"],
        &["--draft", "SMALL", "--draft-tokens", "4"],
        &["--draft", "SMALL"],
        &["--expert", "EXPERT", "--anti", "SMALL", "--alpha", "0.75"],
    ];
    for way in ways {
        let write = |tale: &str, small: &str, expert: &str| {
            let named = way.iter().map(|&word| match word {
                "SMALL" => small,
                "EXPERT" => expert,
                word => word,
            });
            written(&folder, &named.chain(["--model", tale]).collect::<Vec<_>>())
        };
        let expected = write(&tale0, &small0, &expert0);
        assert!(expected.iter().all(|tokens| tokens.len() > 5 && tokens.iter().all(|&token| token < 4096)));
        // Rows longer than those of the other models, and shorter.
        for (tale, small, expert) in [
            (&tale, &small, &expert),
            (&tale, &small0, &expert0),
            (&tale0, &small, &expert0),
            (&tale0, &small0, &expert),
        ] {
            assert_eq!(write(tale, small, expert), expected, "{way:?} of {tale}, {small}, {expert}");
        }
    }
}

/// Damaged weights are an error before anything is printed, with every way to generate.
#[test]
fn logits_that_are_no_numbers_are_an_error() {
    let folder = Folder::new();
    let damaged = |name: &str, half: u16| {
        folder.copy_model(&format!("{MODELS}/tale-small"), name);
        let path = folder.path(name).join("model.safetensors");
        let (header, mut data) = weights(&path);
        let [begin, end] = [0, 1].map(|i| header["model.norm.weight"]["data_offsets"][i].as_u64().unwrap() as usize);
        data[begin..end].as_chunks_mut().0.iter_mut().for_each(|bytes| *bytes = half.to_le_bytes());
        write_weights(&path, &header, &data);
    };
    damaged("nan", 0x7e00);
    damaged("infinite", 0x7c00);
    let small = format!("{MODELS}/tale-small");
    let ways: [&[&str]; 8] = [
        &[],
        &["--temperature", "0"],
        &["--top-k", "5", "--top-p", "0.9", "--min-p", "0.1"],
        &["--repetition-penalty", "1.2", "--regex", "[a-z ]{5,9}"],
        &["--texts", "3"],
        &["--lookup"],
        &["--draft", &small, "--draft-tokens", "3"],
        &["--draft", &small, "--temperature", "0", "--draft-tokens", "2"],
    ];
    for model in ["nan", "infinite"] {
        for way in ways {
            let run = folder.run(&[&["generate", "The captain", "--model", model, "--seed", "1"], way].concat());
            run.fails("is NaN or infinite: the model's weights are damaged");
        }
    }
    for steering in [["--expert", "nan", "--anti", &small], ["--expert", &small, "--anti", "infinite"]] {
        let run = folder.run(&[&["generate", "The captain", "--model", &small, "--seed", "1"], &steering[..]].concat());
        run.fails("is NaN or infinite");
    }
}
