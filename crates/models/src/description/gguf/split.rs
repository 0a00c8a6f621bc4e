//! The splitting of texts before tokens are looked up, by its names in files of llama.cpp.

use serde_json::{Value, json};

const GPT2: &str = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Qwen 3.5: marks belong to letters.
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const SEED: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";

/// DeepSeek-V3: first numbers, then Chinese and Japanese letters, then the rest.
const DEEPSEEK3: &[&str] = &[
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
];

/// A way to split texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    /// The patterns, one after the other.
    patterns: &'static [&'static str],
    /// Whether digits are split off one by one, whatever the patterns say.
    digits: bool,
}

impl Split {
    const fn by(patterns: &'static [&'static str]) -> Self {
        Self { patterns, digits: false }
    }
}

/// The ways to split, each with its names in files. The first name is the one that is written.
const SPLITS: [(Split, &[&str]); 9] = [
    (
        Split::by(&[GPT2]),
        &[
            "gpt-2",
            "default",
            "",
            "phi-2",
            "olmo",
            "mpt",
            "exaone4",
            "a.x-4.0",
            "mellum",
            "gigachat",
            "trillion",
            "granite-docling",
        ],
    ),
    (
        Split { patterns: &[GPT2], digits: true },
        &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"],
    ),
    (
        Split::by(&[QWEN2]),
        &["qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "kormo", "f2llmv2", "solar-open", "grok-2"],
    ),
    (Split::by(&[QWEN35]), &["qwen35"]),
    (
        Split::by(&[LLAMA3]),
        &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "smaug-bpe",
            "dbrx",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "chatglm-bpe",
            "glm4",
            "glm5",
        ],
    ),
    (Split::by(&[GPT4O]), &["gpt-4o", "llama4", "kanana2", "minimax-m2"]),
    (Split::by(&[TEKKEN]), &["tekken"]),
    (Split::by(&[SEED]), &["seed-coder"]),
    (Split::by(DEEPSEEK3), &["deepseek-v3", "hunyuan-dense", "joyai-llm"]),
];

/// All names.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SPLITS.iter().flat_map(|(_, names)| names.iter().copied())
}

/// Names for which a token begins a text, unless the file says otherwise.
pub(super) fn is_of_llama3(name: &str) -> bool {
    matches!(
        name,
        "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0" | "lfm2" | "tekken"
    )
}

/// Names for which a part of a text that is a token becomes that token, whatever the merges say.
pub(super) fn ignores_merges(name: &str) -> bool {
    is_of_llama3(name) || matches!(name, "glm4" | "glm5")
}

/// The way to split with this name.
pub(super) fn named(name: &str) -> Option<Split> {
    SPLITS.iter().find(|(_, names)| names.contains(&name)).map(|(split, _)| *split)
}

impl Split {
    /// As part of a `tokenizer.json`.
    pub(super) fn json(self) -> Value {
        let digits = json!({"type": "Digits", "individual_digits": true});
        let split = |pattern: &&str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
        let steps = self.digits.then_some(digits).into_iter().chain(self.patterns.iter().map(split)).chain([bytes]);
        let steps: Vec<Value> = steps.collect();
        json!({"type": "Sequence", "pretokenizers": steps})
    }
}

/// The name of the way to split in a `tokenizer.json`; `None` if it has no name.
pub(super) fn name_of(pre_tokenizer: &Value) -> Option<&'static str> {
    let one = std::slice::from_ref(pre_tokenizer);
    let steps = pre_tokenizer["pretokenizers"].as_array().map_or(one, |steps| steps);
    let (mut patterns, mut digits) = (Vec::new(), false);
    let mut is_bytes = false;
    for step in steps {
        match step["type"].as_str()? {
            "Digits" if step["individual_digits"] == true => digits = true,
            "Split" if step["invert"] != true => {
                patterns.push(step["pattern"]["Regex"].as_str()?);
            }
            "ByteLevel" if step["add_prefix_space"] != true => {
                is_bytes = true;
                if step["use_regex"] != false {
                    patterns.push(GPT2);
                }
            }
            _ => return None,
        }
    }
    let is_it = |split: &Split| split.patterns == patterns && split.digits == digits;
    let name = SPLITS.iter().find(|(split, _)| is_it(split)).map(|(_, names)| names[0]);
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
