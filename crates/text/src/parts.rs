//! Checks the small parts of a tokenizer's file before the library reads it: the steps before the model, which may make
//! a text longer, and the template around a text.
//!
//! The library follows the file without checks. So a file of some hundred bytes could turn a word into gigabytes, and
//! some faults cause a panic in the middle of a text.

use serde::Deserialize;
use serde_json::Value;
use tokenizers::normalizers::unicode::NFKD;
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{NormalizedString, Normalizer, NormalizerWrapper, PreTokenizerWrapper};

use crate::charsmap::Charsmap;
use crate::error::TokenizerError;
use crate::shown::shown;

/// The maximum factor by which all steps of a file together may make a text longer. Llama 2 has 12, T5 32, byte-level
/// tokenizers 3 or 6.
///
/// Unicode normalization (NFKD and similar) is not counted: however many such steps there are, they expand a character
/// only once, by at most 11. Lengths are measured after it.
const MOST_GROWTH: u64 = 64;

/// The parts other than the model, all of which are optional.
#[derive(Deserialize)]
pub(crate) struct SmallParts {
    #[allow(dead_code, reason = "read for its errors alone")]
    added_tokens: Option<Value>,
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    post_processor: Option<Value>,
    #[allow(dead_code, reason = "read for its errors alone")]
    decoder: Option<Value>,
}

impl SmallParts {
    /// Parses the parts, and checks what the library does not.
    pub(crate) fn check(json: &[u8]) -> Result<(), TokenizerError> {
        let parts: Self = serde_json::from_slice(json).map_err(TokenizerError::Json)?;
        let mut growth = 1u64;
        if let Some(value) = parts.normalizer {
            let tables = tables_growth(&value)?;
            let step = NormalizerWrapper::deserialize(value).map_err(TokenizerError::Json)?;
            growth = growth.saturating_mul(tables).saturating_mul(of_normalizer(&step));
        }
        if let Some(value) = parts.pre_tokenizer {
            let step = PreTokenizerWrapper::deserialize(value).map_err(TokenizerError::Json)?;
            growth = growth.saturating_mul(of_pre_tokenizer(&step));
        }
        if growth > MOST_GROWTH {
            return Err(TokenizerError::Growth { growth, most: MOST_GROWTH });
        }
        check_post_processor(parts.post_processor.as_ref())
    }
}

/// Checks a post-processor.
pub(crate) fn check_post_processor(value: Option<&Value>) -> Result<(), TokenizerError> {
    let Some(value) = value else { return Ok(()) };
    let step = PostProcessorWrapper::deserialize(value).map_err(TokenizerError::Json)?;
    let templates = templates(&step);
    if templates.len() > 1 {
        return Err(TokenizerError::Template("there are several of them".into()));
    }
    templates.into_iter().try_for_each(check_template)
}

/// The factor by which the replacement tables in a normalizer make a text longer. Each table is checked.
fn tables_growth(normalizer: &Value) -> Result<u64, TokenizerError> {
    let inner = normalizer.get("normalizers").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut growth = inner
        .iter()
        .try_fold(1u64, |growth, step| Ok::<_, TokenizerError>(growth.saturating_mul(tables_growth(step)?)))?;
    let table = normalizer.get("precompiled_charsmap");
    if table.is_some() || normalizer.get("type").is_some_and(|kind| kind == "Precompiled") {
        let table = table.and_then(Value::as_str).ok_or_else(|| "it is not text".to_owned()).and_then(Charsmap::parse);
        growth = growth.saturating_mul(table.map_err(TokenizerError::Charsmap)?.growth(expanded));
    }
    Ok(growth)
}

/// The factor by which a step makes a text longer, without replacement tables.
fn of_normalizer(step: &NormalizerWrapper) -> u64 {
    match step {
        NormalizerWrapper::Sequence(steps) => steps.as_ref().iter().map(of_normalizer).fold(1, u64::saturating_mul),
        // It is added before each part of a text between added tokens.
        NormalizerWrapper::Prepend(step) => 1 + expanded(&step.prepend) as u64,
        NormalizerWrapper::Replace(step) => {
            let pattern = serde_json::to_value(step).unwrap_or_default();
            let content = expanded(&step.content);
            match pattern.pointer("/pattern/String").and_then(Value::as_str).map(str::len) {
                Some(replaced @ 1..) => content.div_ceil(replaced).max(1) as u64,
                // An expression, like an empty text, may match the empty string between two characters.
                _ => 1 + content as u64,
            }
        }
        NormalizerWrapper::ByteLevel(_) => OF_BYTE,
        // It adds spaces around ideograms.
        NormalizerWrapper::BertNormalizer(_) => 2,
        _ => 1,
    }
}

/// The bytes of the longest character that represents a byte, after Unicode normalization.
const OF_BYTE: u64 = 3;

fn of_pre_tokenizer(step: &PreTokenizerWrapper) -> u64 {
    match step {
        PreTokenizerWrapper::Sequence(steps) => {
            steps.as_ref().iter().map(of_pre_tokenizer).fold(1, u64::saturating_mul)
        }
        PreTokenizerWrapper::Metaspace(step) => 1 + expanded(&step.get_replacement().to_string()) as u64,
        PreTokenizerWrapper::ByteLevel(step) => {
            if step.add_prefix_space {
                2 * OF_BYTE
            } else {
                OF_BYTE
            }
        }
        _ => 1,
    }
}

/// The number of bytes of a text after Unicode normalization, which expands what it can.
fn expanded(text: &str) -> usize {
    let mut form = NormalizedString::from(text);
    // It accepts every text.
    let _ = NFKD.normalize(&mut form);
    form.get().len().max(text.len())
}

/// The templates of a post-processor.
pub(crate) fn templates(step: &PostProcessorWrapper) -> Vec<&TemplateProcessing> {
    match step {
        PostProcessorWrapper::Template(template) => vec![template],
        PostProcessorWrapper::Sequence(steps) => steps.as_ref().iter().flat_map(templates).collect(),
        _ => Vec::new(),
    }
}

/// Checks that the tokens that a template adds to a text exist, and that the text occurs in it once.
fn check_template(template: &TemplateProcessing) -> Result<(), TokenizerError> {
    let written = serde_json::to_value(template).map_err(TokenizerError::Json)?;
    let pieces = written["single"].as_array().map_or(&[][..], Vec::as_slice);
    let mut texts = 0;
    for piece in pieces {
        match (piece.pointer("/SpecialToken/id").and_then(Value::as_str), piece.pointer("/Sequence/id")) {
            (Some(name), _) if written["special_tokens"].get(name).is_none() => {
                return Err(TokenizerError::Template(format!(
                    "it names {:?}, which its special_tokens lack",
                    shown(name)
                )));
            }
            (_, Some(sequence)) if sequence == "A" => texts += 1,
            (_, Some(_)) => {
                return Err(TokenizerError::Template("it has a second text ($B) where there is one".into()));
            }
            _ => {}
        }
    }
    match texts {
        1 => Ok(()),
        _ => Err(TokenizerError::Template(format!("it has the text ($A) {texts} times, but must have it once"))),
    }
}

#[cfg(test)]
mod tests {
    use data_encoding::BASE64;
    use serde_json::json;

    use super::*;
    use crate::Tokenizer;
    use crate::charsmap::tests::table;

    /// The tokenizer of `tale` with one part replaced.
    fn with(part: &str, value: Value) -> Result<Tokenizer, TokenizerError> {
        let json = include_bytes!("../../../fixtures/models/tale/tokenizer.json");
        let mut file: Value = serde_json::from_slice(json).unwrap();
        file[part] = value;
        Tokenizer::from_json(file.to_string().as_bytes())
    }

    fn replace(from: &str, to: &str) -> Value {
        json!({"type": "Replace", "pattern": {"String": from}, "content": to})
    }

    fn sequence(steps: Vec<Value>) -> Value {
        json!({"type": "Sequence", "normalizers": steps})
    }

    fn growth(normalizer: Value) -> u64 {
        match with("normalizer", normalizer) {
            Ok(_) => 1,
            Err(TokenizerError::Growth { growth, .. }) => growth,
            Err(other) => panic!("{other}"),
        }
    }

    /// The pre-tokenizer of `tale` is byte-level, which counts as 3.
    #[test]
    fn a_text_grows_within_a_bound() {
        let thousand = "a".repeat(1000);
        assert_eq!(growth(sequence(vec![replace("a", &thousand); 3])), 3_000_000_000);
        assert_eq!(growth(sequence(vec![replace("e", &"e".repeat(80)); 12])), u64::MAX);
        assert_eq!(growth(sequence(vec![json!({"type": "ByteLevel"}); 4])), 243);
        assert_eq!(growth(json!({"type": "Prepend", "prepend": thousand})), 3003);
        let regex = json!({"type": "Replace", "pattern": {"Regex": "x*"}, "content": "b".repeat(30)});
        assert_eq!(growth(regex), 93);
        assert_eq!(growth(replace("", &"b".repeat(30))), 93);
        assert_eq!(growth(json!({"type": "Precompiled", "precompiled_charsmap": table(b'a', &thousand, 0)})), 3000);
        // A character that Unicode normalization expands to 18 counts as those.
        assert_eq!(growth(sequence(vec![replace("aaa", "\u{FDFA}"), replace("a", "aa")])), 66);
        // Steps of families of models.
        let llama = vec![json!({"type": "Prepend", "prepend": "▁"}), replace(" ", "▁")];
        assert_eq!(growth(sequence(llama)), 1);
        let spaces = json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"});
        assert_eq!(growth(sequence(vec![json!({"type": "NFKD"}), json!({"type": "Lowercase"}), spaces])), 1);
        assert_eq!(growth(replace("hello world", "hi")), 1);
    }

    #[test]
    fn damaged_tables_are_errors() {
        for (table, said) in
            [(json!("!!!"), "not base64"), (json!("/////wAAAAA="), "shorter than"), (json!(7), "not text")]
        {
            let step = json!({"type": "Precompiled", "precompiled_charsmap": table});
            for step in [step.clone(), sequence(vec![sequence(vec![step])])] {
                let fault = with("normalizer", step).unwrap_err();
                assert!(matches!(&fault, TokenizerError::Charsmap(fault) if fault.contains(said)), "{fault}");
            }
        }
        assert!(matches!(with("normalizer", json!({"type": "Precompiled"})), Err(TokenizerError::Charsmap(_))));
        let changed = with("normalizer", json!({"type": "Precompiled", "precompiled_charsmap": table(b'a', "o\0", 0)}));
        let tokenizer = changed.unwrap();
        assert_eq!(tokenizer.decode(&tokenizer.encode("a ram").unwrap()), "o rom");
    }

    /// A table is either refused, or the library can read any text with it.
    #[test]
    fn no_table_makes_the_library_panic() {
        let words = |table: &[u8]| {
            let normalizer = json!({"type": "Precompiled", "precompiled_charsmap": BASE64.encode(table)});
            let json = json!({"version": "1.0", "added_tokens": [], "normalizer": normalizer,
                "model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}});
            Tokenizer::from_json(json.to_string().as_bytes())
        };
        let whole = BASE64.decode(table(b'a', "éx\0", 0).as_bytes()).unwrap();
        let text: String = ('\0'..'\u{180}').chain("ﷺ가\u{1F600}aaaaaéa".chars()).collect();
        let (mut state, mut refused) = (1u64, 0);
        let mut below = |limit: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % limit
        };
        // The positions of the first nodes, which every text reaches: the root, its children, and their successors.
        let places = [4, 4 + 4 * (256 ^ usize::from(b'a')), 4 + 4 * (512 ^ 256 ^ 256), whole.len() - 4];
        for _ in 0..20_000 {
            let mut damaged = whole.clone();
            for _ in 0..=below(3) {
                let at = places[below(4)] + below(4);
                damaged[at] = [below(256) as u8, damaged[at] ^ 1 << below(8)][below(2)];
            }
            if below(8) == 0 {
                damaged.truncate(below(whole.len()));
            }
            match words(&damaged) {
                Ok(tokenizer) => drop(tokenizer.encode(&text).unwrap()),
                Err(_) => refused += 1,
            }
        }
        assert!((2_000..18_000).contains(&refused), "{refused} are refused");
    }

    #[test]
    fn damaged_templates_are_errors() {
        let text = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
        let begin = json!({"SpecialToken": {"id": "<s>", "type_id": 0}});
        let tokens = json!({"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}});
        let template = |single: &[&Value], tokens: &Value| {
            json!({"type": "TemplateProcessing", "single": single, "pair": [text("A"), text("B")],
                "special_tokens": tokens})
        };
        let (a, b) = (text("A"), text("B"));
        let good = template(&[&begin, &a], &tokens);
        assert_eq!(with("post_processor", good.clone()).unwrap().encode_prompt("The").unwrap()[0], 0);
        let several = json!({"type": "Sequence", "processors": [good.clone(), good.clone()]});
        let inside = |step: Value| json!({"type": "Sequence", "processors": [step]});
        for (step, said) in [
            (template(&[&begin, &a], &json!({})), "it names \"<s>\", which its special_tokens lack"),
            (inside(template(&[&begin, &a], &json!({}))), "it names \"<s>\""),
            (template(&[&a, &b], &tokens), "a second text ($B)"),
            (template(&[&a, &a], &tokens), "the text ($A) 2 times"),
            (template(&[&begin], &tokens), "the text ($A) 0 times"),
            (several, "several of them"),
        ] {
            let fault = with("post_processor", step).unwrap_err();
            assert!(matches!(&fault, TokenizerError::Template(fault) if fault.contains(said)), "{fault}");
        }
    }
}
