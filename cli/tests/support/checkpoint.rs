//! Random checkpoints with 61 tokens, completed with a tokenizer of characters and a chat template so that the program
//! can use them.

use std::path::Path;

use serde_json::{Value, json};

use super::Folder;

/// The characters of most checkpoints.
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|";

/// Characters that JSON can be written with.
pub const OF_JSON: &str = "{}[]\":,.-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNO";

/// A folder with a random checkpoint from `fixtures/golden` as `model`, and a key.
pub fn checkpoint(name: &str) -> Folder {
    let folder = Folder::with_key();
    add_checkpoint(&folder, "model", name, LETTERS);
    folder
}

/// Adds a checkpoint with the given sixty characters as a folder of this name.
pub fn add_checkpoint(folder: &Folder, to: &str, name: &str, characters: &str) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/golden").join(name);
    std::fs::create_dir(folder.path(to)).unwrap();
    std::fs::copy(from.join("model.safetensors"), folder.path(&format!("{to}/model.safetensors"))).unwrap();
    let mut config: Value = serde_json::from_slice(&std::fs::read(from.join("config.json")).unwrap()).unwrap();
    config["eos_token_id"] = 60.into();
    config["bos_token_id"] = 60.into();
    folder.write(&format!("{to}/config.json"), &config.to_string());
    let vocabulary: serde_json::Map<String, Value> =
        characters.chars().zip(0..60).map(|(letter, i)| (letter.to_string(), i.into())).collect();
    assert_eq!(vocabulary.len(), 60);
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let end = json!([{"id": 60, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": true}]);
    // The prompts of an encoder-decoder are sources, which end with an end token.
    let is_source = config["is_encoder_decoder"] == true;
    let post = json!({"type": "TemplateProcessing", "pair": [],
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<end>", "type_id": 0}}],
        "special_tokens": {"<end>": {"id": "<end>", "ids": [60], "tokens": ["<end>"]}}});
    let post = if is_source { post } else { Value::Null };
    let tokenizer = json!({"version": "1.0", "added_tokens": end, "normalizer": null, "post_processor": post,
        "pre_tokenizer": bytes, "decoder": bytes, "model": {"type": "BPE", "vocab": vocabulary, "merges": []}});
    folder.write(&format!("{to}/tokenizer.json"), &tokenizer.to_string());
    let end = if is_source { "<end>" } else { "" };
    let template = format!("{{% for m in messages %}}{{{{ m.content }}}}{{% endfor %}}{end}");
    folder.write(&format!("{to}/tokenizer_config.json"), &json!({"chat_template": template}).to_string());
}
