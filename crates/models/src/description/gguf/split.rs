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

/// Names in files. The first name of each way is the one that is written.
const NAMES: [(&str, Split); 26] = [
    ("gpt-2", Split { pattern: GPT2, digits: false }),
    ("default", Split { pattern: GPT2, digits: false }),
    ("", Split { pattern: GPT2, digits: false }),
    ("phi-2", Split { pattern: GPT2, digits: false }),
    ("olmo", Split { pattern: GPT2, digits: false }),
    ("mpt", Split { pattern: GPT2, digits: false }),
    ("smollm", Split { pattern: GPT2, digits: true }),
    ("starcoder", Split { pattern: GPT2, digits: true }),
    ("refact", Split { pattern: GPT2, digits: true }),
    ("qwen2", Split { pattern: QWEN2, digits: false }),
    ("deepseek-r1-qwen", Split { pattern: QWEN2, digits: false }),
    ("stablelm2", Split { pattern: QWEN2, digits: false }),
    ("hunyuan", Split { pattern: QWEN2, digits: false }),
    ("llama-bpe", Split { pattern: LLAMA3, digits: false }),
    ("llama3", Split { pattern: LLAMA3, digits: false }),
    ("llama-v3", Split { pattern: LLAMA3, digits: false }),
    ("smaug-bpe", Split { pattern: LLAMA3, digits: false }),
    ("dbrx", Split { pattern: LLAMA3, digits: false }),
    ("falcon3", Split { pattern: LLAMA3, digits: false }),
    ("falcon-h1", Split { pattern: LLAMA3, digits: false }),
    ("pixtral", Split { pattern: LLAMA3, digits: false }),
    ("chatglm-bpe", Split { pattern: LLAMA3, digits: false }),
    ("glm4", Split { pattern: LLAMA3, digits: false }),
    ("gpt-4o", Split { pattern: GPT4O, digits: false }),
    ("llama4", Split { pattern: GPT4O, digits: false }),
    ("tekken", Split { pattern: TEKKEN, digits: false }),
];

/// Names for which a part of a text that is a token becomes that token, whatever the merges say; and for which a token
/// begins a text, unless the file says otherwise.
pub(super) fn is_of_llama3(name: &str) -> bool {
    matches!(name, "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "falcon-h1" | "pixtral" | "tekken")
}

/// The way to split with this name.
pub(super) fn named(name: &str) -> Option<Split> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, split)| *split)
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
                found.pattern = NAMES.iter().map(|(_, split)| split.pattern).find(|known| *known == pattern)?;
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
    let name = NAMES.iter().find(|(_, split)| *split == found).map(|(name, _)| *name);
    name.filter(|_| is_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_parts_belong_together() {
        for (name, split) in NAMES {
            let first = NAMES.iter().find(|(_, other)| *other == split).unwrap().0;
            assert_eq!(name_of(&split.json()), Some(first), "{name:?}");
        }
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
        assert_eq!(name_of(&bytes), Some("gpt-2"));
        for other in [json!({"type": "Metaspace"}), json!(null), json!({"type": "ByteLevel", "add_prefix_space": true})]
        {
            assert_eq!(name_of(&other), None, "{other}");
        }
    }
}
