//! The splitting of texts before tokens are looked up, by its names in files of llama.cpp.

use serde_json::{Value, json};

const GPT2: &str = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// A way to split texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    pattern: &'static str,
    /// Whether digits are split off one by one, whatever the pattern says.
    digits: bool,
}

/// The ways to split, each with its names in files. The first name is the one that is written.
const SPLITS: [(Split, &[&str]); 6] = [
    (Split { pattern: GPT2, digits: false }, &["gpt-2", "default", "", "phi-2", "olmo", "mpt"]),
    (Split { pattern: GPT2, digits: true }, &["smollm", "starcoder", "refact"]),
    (Split { pattern: QWEN2, digits: false }, &["qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan"]),
    (
        Split { pattern: LLAMA3, digits: false },
        &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "smaug-bpe",
            "dbrx",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "chatglm-bpe",
            "glm4",
        ],
    ),
    (Split { pattern: GPT4O, digits: false }, &["gpt-4o", "llama4"]),
    (Split { pattern: TEKKEN, digits: false }, &["tekken"]),
];

/// Names for which a part of a text that is a token becomes that token, whatever the merges say; and for which a token
/// begins a text, unless the file says otherwise.
pub(super) fn is_of_llama3(name: &str) -> bool {
    matches!(name, "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "falcon-h1" | "pixtral" | "tekken")
}

/// The way to split with this name.
pub(super) fn named(name: &str) -> Option<Split> {
    SPLITS.iter().find(|(_, names)| names.contains(&name)).map(|(split, _)| *split)
}

impl Split {
    /// As part of a `tokenizer.json`.
    pub(super) fn json(self) -> Value {
        let digits = json!({"type": "Digits", "individual_digits": true});
        let pattern =
            json!({"type": "Split", "pattern": {"Regex": self.pattern}, "behavior": "Isolated", "invert": false});
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
        let steps = if self.digits { vec![digits, pattern, bytes] } else { vec![pattern, bytes] };
        json!({"type": "Sequence", "pretokenizers": steps})
    }
}

/// The name of the way to split in a `tokenizer.json`; `None` if it has no name.
pub(super) fn name_of(pre_tokenizer: &Value) -> Option<&'static str> {
    let one = std::slice::from_ref(pre_tokenizer);
    let steps = pre_tokenizer["pretokenizers"].as_array().map_or(one, |steps| steps);
    let mut found = Split { pattern: "", digits: false };
    let mut is_bytes = false;
    for step in steps {
        match step["type"].as_str()? {
            "Digits" if step["individual_digits"] == true => found.digits = true,
            "Split" if step["invert"] != true => {
                let pattern = step["pattern"]["Regex"].as_str()?;
                found.pattern = SPLITS.iter().map(|(split, _)| split.pattern).find(|known| *known == pattern)?;
            }
            "ByteLevel" if step["add_prefix_space"] != true => {
                is_bytes = true;
                if step["use_regex"] != false {
                    found.pattern = GPT2;
                }
            }
            _ => return None,
        }
    }
    let name = SPLITS.iter().find(|(split, _)| *split == found).map(|(_, names)| names[0]);
    name.filter(|_| is_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_parts_belong_together() {
        for (split, names) in SPLITS {
            for name in names {
                assert_eq!(name_of(&named(name).unwrap().json()), Some(names[0]), "{name:?}");
            }
            assert_eq!(name_of(&split.json()), Some(names[0]), "{names:?}");
        }
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
        assert_eq!(name_of(&bytes), Some("gpt-2"));
        for other in [json!({"type": "Metaspace"}), json!(null), json!({"type": "ByteLevel", "add_prefix_space": true})]
        {
            assert_eq!(name_of(&other), None, "{other}");
        }
    }
}
