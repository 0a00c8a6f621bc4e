//! The tokenizer in a GGUF file, as a `tokenizer.json`.

use serde_json::{Map, Value as Json, json};

use super::{Gguf, Value};

/// Token types, as ggml numbers them.
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const BYTE: i64 = 6;

/// How texts are split before tokens are looked for, by the name in the file.
fn split(pre: &str) -> Option<&'static str> {
    Some(match pre {
        "gpt-2" | "default" | "" => r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        "qwen2" | "deepseek-r1-qwen" => {
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        }
        "llama-bpe" | "llama3" | "llama-v3" | "smaug-bpe" | "dbrx" => {
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        }
        _ => return None,
    })
}

/// The `tokenizer.json`; what cannot be understood.
pub(crate) fn json(gguf: &Gguf) -> Result<Vec<u8>, String> {
    let list = |name: &str| gguf.get(&format!("tokenizer.ggml.{name}")).and_then(Value::list);
    let tokens: Vec<&str> =
        list("tokens").ok_or("it has no tokens")?.iter().map(|token| token.text().unwrap_or_default()).collect();
    let types: Vec<i64> = list("token_type").unwrap_or_default().iter().filter_map(Value::integer).collect();
    let kind = |id: usize| types.get(id).copied().unwrap_or(1);
    let vocabulary: Map<String, Json> =
        tokens.iter().enumerate().map(|(id, token)| ((*token).to_owned(), id.into())).collect();
    let added: Vec<Json> = (0..tokens.len())
        .filter(|&id| matches!(kind(id), CONTROL | UNKNOWN))
        .map(|id| {
            json!({"id": id, "content": tokens[id], "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true})
        })
        .collect();
    let begin = gguf.get("tokenizer.ggml.bos_token_id").and_then(Value::integer);
    let adds_begin = gguf.get("tokenizer.ggml.add_bos_token") == Some(&Value::Truth(true));
    let begin = begin.filter(|_| adds_begin).and_then(|id| Some((id, *tokens.get(usize::try_from(id).ok()?)?)));
    let post = begin.map(|(id, token)| {
        json!({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {token: {"id": token, "ids": [id], "tokens": [token]}}})
    });
    let model = gguf.text("tokenizer.ggml.model").unwrap_or_default();
    let parts = match model {
        "gpt2" => {
            let merges = list("merges").ok_or("it has no merges")?;
            let merges: Vec<&str> = merges.iter().filter_map(Value::text).collect();
            let pre = gguf.text("tokenizer.ggml.pre").unwrap_or_default();
            let pattern = split(pre).ok_or_else(|| format!("its way to split texts, {pre:?}, is not supported"))?;
            json!({
                "normalizer": null,
                "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                    {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
                    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
                "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
                "model": {"type": "BPE", "ignore_merges": pre.starts_with("llama"), "vocab": vocabulary, "merges": merges},
            })
        }
        "llama" => {
            let scores: Vec<f64> = list("scores").unwrap_or_default().iter().filter_map(Value::number).collect();
            let merges = merges(&tokens, &scores, |id| !matches!(kind(id), CONTROL | UNKNOWN | BYTE));
            let unknown = (0..tokens.len()).find(|&id| kind(id) == UNKNOWN).map(|id| tokens[id]);
            json!({
                "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u{2581}"},
                    {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"}]},
                "pre_tokenizer": null,
                "decoder": {"type": "Sequence", "decoders": [
                    {"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "}, {"type": "ByteFallback"},
                    {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
                "model": {"type": "BPE", "unk_token": unknown, "fuse_unk": true, "byte_fallback": true,
                    "vocab": vocabulary, "merges": merges},
            })
        }
        other => return Err(format!("its kind, {other:?}, is not supported; gpt2 and llama are")),
    };
    let Json::Object(mut whole) = parts else { unreachable!("it is an object") };
    whole.insert("version".into(), "1.0".into());
    whole.insert("added_tokens".into(), added.into());
    whole.insert("post_processor".into(), post.into());
    serde_json::to_vec(&Json::Object(whole)).map_err(|error| error.to_string())
}

/// What two tokens join to which, best first: by the scores of what they join to, then by the order of the two.
fn merges(tokens: &[&str], scores: &[f64], is_text: impl Fn(usize) -> bool) -> Vec<[String; 2]> {
    let ids: std::collections::HashMap<&str, usize> =
        tokens.iter().enumerate().filter(|(id, _)| is_text(*id)).map(|(id, token)| (*token, id)).collect();
    let mut merges = Vec::new();
    for (id, token) in tokens.iter().enumerate().filter(|(id, _)| is_text(*id)) {
        for (at, _) in token.char_indices().skip(1) {
            let (first, second) = token.split_at(at);
            if let (Some(&a), Some(&b)) = (ids.get(first), ids.get(second)) {
                merges.push((scores.get(id).copied().unwrap_or(0.0), a, b));
            }
        }
    }
    merges.sort_by(|x, y| y.0.total_cmp(&x.0).then((x.1, x.2).cmp(&(y.1, y.2))));
    merges.into_iter().map(|(_, a, b)| [tokens[a].to_owned(), tokens[b].to_owned()]).collect()
}
