//! The rows are those of `transformers` (`fixtures/golden/architectures.py`), however they are asked for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::Device;
use verdigris::models::{Batch, LanguageModel, Rows, Sequence, Wanted};
use verdigris::text::Tokenizer;
use verdigris::{Engine, Key, Marking};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

fn model() -> Arc<dyn LanguageModel> {
    Arc::new(verdigris_candle_transformers::load(&fixtures().join("golden/foreign/starcoder2")).unwrap())
}

fn read(sequence: &mut dyn Sequence, batch: Batch<'_>) -> Vec<f32> {
    let mut rows = Rows::default();
    sequence.forward(&batch, &mut rows).unwrap();
    (0..rows.count()).flat_map(|i| rows.row(i).to_vec()).collect()
}

fn near(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    let worst = got.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
    assert!(worst <= 1e-4, "{worst}");
}

#[test]
fn rows_are_those_of_transformers() {
    let golden = fixtures().join("golden/foreign/starcoder2/logits.safetensors");
    let golden = candle_core::safetensors::load(golden, &Device::Cpu).unwrap();
    let ids: Vec<u32> = golden["ids"].to_vec1::<i64>().unwrap().iter().map(|&id| id as u32).collect();
    let logits: Vec<f32> = golden["logits"].flatten_all().unwrap().to_vec1().unwrap();
    let mut whole = model().begin(64).unwrap();
    near(&read(&mut *whole, Batch::chain(&ids, Wanted::All)), &logits);
    // Cut back, and on by a tree of a wrong branch and the right one.
    whole.truncate(9);
    let tokens: Vec<u32> = [1, 2].into_iter().chain(ids[9..].iter().copied()).collect();
    let parent = |i: usize| if i == 0 || i == 2 { None } else { Some(i - 1) };
    let parents: Vec<Option<usize>> = (0..tokens.len()).map(parent).collect();
    near(&read(&mut *whole, Batch::tree(&tokens, &parents))[2 * 61..], &logits[9 * 61..]);
    whole.keep(9, &[2, 3, 4]).unwrap();
    near(&read(&mut *whole, Batch::chain(&ids[12..], Wanted::All)), &logits[12 * 61..]);
}

/// Marked, under an expression and with drafts, as any other model.
#[test]
fn everything_works_with_it() {
    let vocabulary: serde_json::Map<String, serde_json::Value> =
        (0..60u8).map(|i| (char::from(b'A' + i).to_string(), i.into())).collect();
    let tokenizer = serde_json::json!({"version": "1.0", "added_tokens": [{"id": 60,
        "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}], "normalizer": null, "post_processor": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []}});
    let tokenizer = Tokenizer::from_json(tokenizer.to_string().as_bytes()).unwrap();
    let engine = Engine::new(model(), tokenizer, vec![60]);
    let key = Key::generate(Marking::default(), engine.reader().vocabulary());
    let request = || engine.request("ABC").watermark(&key).regex("[a-z]{30}").max_tokens(40).seed(3);
    let plain = request().text().unwrap();
    assert!(plain.text.len() == 30 && plain.text.chars().all(|c| c.is_ascii_lowercase()), "{plain:?}");
    assert_eq!(request().lookup().draft_tokens(3).text().unwrap().text, plain.text);
    assert_eq!(request().texts(3).unwrap()[0].text, plain.text);
}
