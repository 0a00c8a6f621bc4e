//! Lexicons of a few tokens.

use std::sync::Arc;

use serde_json::{Value, json};
use verdigris_constrain::Lexicon;
use verdigris_text::Tokenizer;

/// A lexicon in which token 0 ends a text and the others have these bytes.
pub(crate) fn lexicon_of(tokens: &[impl AsRef<str>]) -> Lexicon {
    let vocabulary: serde_json::Map<String, Value> =
        tokens.iter().enumerate().map(|(id, token)| (token.as_ref().to_owned(), json!(id + 1))).collect();
    let mut vocabulary = Value::Object(vocabulary);
    vocabulary["<end>"] = json!(0);
    let end = json!({"id": 0, "content": "<end>", "special": true, "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false});
    let tokenizer = json!({"version": "1.0", "added_tokens": [end], "normalizer": null, "pre_tokenizer": null,
        "post_processor": null, "decoder": null, "model": {"type": "BPE", "vocab": vocabulary, "merges": []}});
    Lexicon::new(Arc::new(Tokenizer::from_json(tokenizer.to_string().as_bytes()).expect("it is a tokenizer")), &[0])
}
