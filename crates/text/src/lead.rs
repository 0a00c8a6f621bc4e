//! The space that some tokenizers add before a text.
//!
//! SentencePiece and its relatives add a space before every text, so that its first word is tokenized as it is anywhere
//! else. A part of a text that is read separately would get one too, where the text has none. So all parts but the
//! first are read by the same tokenizer without the step that adds it.

use std::sync::OnceLock;

use tokenizers::normalizers::Sequence as Normalizers;
use tokenizers::pre_tokenizers::metaspace::PrependScheme;
use tokenizers::pre_tokenizers::sequence::Sequence as PreTokenizers;
use tokenizers::{NormalizerWrapper, PreTokenizerWrapper};
use verdigris_logits::TokenId;

use crate::library::read;
use crate::vocabulary::Vocabulary;

/// Texts for which most vocabularies have tokens.
const PROBES: [&str; 4] = ["a", "the", ".", "1"];

/// Whether a tokenizer adds such a space, and the tokenizer for text that is not at the beginning; both are determined
/// on first use.
#[derive(Debug, Default)]
pub(crate) struct Lead {
    adds_space: OnceLock<bool>,
    /// The tokenizer without the space; `None` if that is impossible.
    without: OnceLock<Option<Box<tokenizers::Tokenizer>>>,
}

impl Lead {
    /// Whether a tokenizer, which must be the same in all calls, adds a space, judging by its output.
    pub(crate) fn adds_space(&self, tokens: impl Fn(&str) -> Option<Vec<TokenId>>, vocabulary: &Vocabulary) -> bool {
        let begins_with_space =
            |tokens: Vec<TokenId>| tokens.first().is_some_and(|&token| vocabulary.bytes(token).starts_with(b" "));
        let adds_space = || PROBES.iter().any(|probe| tokens(probe).is_some_and(begins_with_space));
        *self.adds_space.get_or_init(adds_space)
    }

    /// Whether this step adds the space to the beginning of a text only, and not after control tokens.
    pub(crate) fn is_only_first(step: &PreTokenizerWrapper) -> bool {
        match step {
            PreTokenizerWrapper::Metaspace(step) => step.get_prepend_scheme() == PrependScheme::First,
            PreTokenizerWrapper::Sequence(steps) => steps.as_ref().iter().any(Self::is_only_first),
            _ => false,
        }
    }

    /// The tokenizer of the library for parts of a text after its beginning.
    pub(crate) fn inside<'t>(
        &'t self,
        inner: &'t tokenizers::Tokenizer,
        vocabulary: &Vocabulary,
    ) -> &'t tokenizers::Tokenizer {
        if !self.adds_space(|text| tokens(inner, text), vocabulary) {
            return inner;
        }
        self.without.get_or_init(|| without_space(inner).map(Box::new)).as_deref().unwrap_or(inner)
    }
}

/// The tokens of a text, unless the library refuses it.
pub(crate) fn tokens(tokenizer: &tokenizers::Tokenizer, text: &str) -> Option<Vec<TokenId>> {
    read(|| tokenizer.encode_fast(text, false)).ok().map(|encoding| encoding.get_ids().to_vec())
}

/// The same tokenizer without the step that adds a space before a text; `None` if that step does more, such as marking
/// every word.
fn without_space(inner: &tokenizers::Tokenizer) -> Option<tokenizers::Tokenizer> {
    let mut without = inner.clone();
    without.with_normalizer(inner.get_normalizer().cloned().and_then(normalizer)).ok()?;
    without.with_pre_tokenizer(inner.get_pre_tokenizer().cloned().map(pre_tokenizer));
    let parts = [tokens(inner, "a")?, tokens(&without, " b")?].concat();
    (parts == tokens(inner, "a b")?).then_some(without)
}

fn normalizer(step: NormalizerWrapper) -> Option<NormalizerWrapper> {
    match step {
        NormalizerWrapper::Prepend(_) => None,
        NormalizerWrapper::Sequence(steps) => {
            Some(Normalizers::new(steps.into_iter().filter_map(normalizer).collect()).into())
        }
        step => Some(step),
    }
}

fn pre_tokenizer(step: PreTokenizerWrapper) -> PreTokenizerWrapper {
    match step {
        PreTokenizerWrapper::Metaspace(mut step) => {
            step.set_prepend_scheme(PrependScheme::Never);
            step.into()
        }
        PreTokenizerWrapper::ByteLevel(mut step) => {
            step.add_prefix_space = false;
            step.into()
        }
        PreTokenizerWrapper::Sequence(steps) => {
            PreTokenizers::new(steps.into_iter().map(pre_tokenizer).collect()).into()
        }
        step => step,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::Tokenizer;

    /// A tokenizer with the given steps before its model, and its character for a space.
    fn tokenizer(normalizer: Value, pre_tokenizer: Value, space: char) -> Tokenizer {
        let (ship, the) = (format!("{space}ship"), format!("{space}the"));
        let letters = ('a'..='z').chain("春夏秋冬".chars()).chain([space]).map(String::from);
        let joined = ["sh", "shi", "ship", &ship, "th", "the", &the].map(str::to_owned);
        let vocabulary: serde_json::Map<String, Value> =
            letters.chain(joined).enumerate().map(|(id, piece)| (piece, id.into())).collect();
        let merges = [["s", "h"], ["sh", "i"], ["shi", "p"], ["t", "h"], ["th", "e"]].map(|pair| pair.join(" "));
        let merges: Vec<String> =
            merges.into_iter().chain(["ship", "the"].map(|word| format!("{space} {word}"))).collect();
        let byte_level =
            json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
        let json = json!({
            "version": "1.0", "added_tokens": [], "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
            "decoder": if space == 'Ġ' { byte_level } else { Value::Null },
            "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
        });
        Tokenizer::from_json(&serde_json::to_vec(&json).unwrap()).unwrap()
    }

    /// Like Llama 2: a space before every text, even one that begins with a space.
    fn prepends() -> Tokenizer {
        let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        let prepend = json!({"type": "Prepend", "prepend": "▁"});
        tokenizer(json!({"type": "Sequence", "normalizers": [prepend, replace]}), Value::Null, '▁')
    }

    /// Checks that a text has the same tokens as a whole and in chunks, and that they decode to it.
    #[track_caller]
    fn is_read_as_a_whole(tokenizer: &Tokenizer, text: &str) {
        let whole = tokenizer.encode(text).unwrap();
        assert!(text.len() > 2 << 16 && tokenizer.encode_long(text).unwrap() == whole);
        let (tokens, places): (Vec<_>, Vec<_>) = tokenizer.encode_with_offsets(text).unwrap().into_iter().unzip();
        assert!(tokens == whole && places.last().unwrap().end == text.len());
        assert!(tokenizer.decode(&tokens).trim_start() == text);
    }

    #[test]
    fn a_space_before_a_text_stands_before_no_chunk_of_it() {
        let metaspace =
            |scheme| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true});
        let words = "the ship ".repeat(16_000) + "sea";
        for tokenizer in [
            prepends(),
            tokenizer(Value::Null, metaspace("always"), '▁'),
            tokenizer(Value::Null, metaspace("first"), '▁'),
            tokenizer(Value::Null, json!({"type": "Sequence", "pretokenizers": [metaspace("always")]}), '▁'),
        ] {
            assert!(tokenizer.adds_space());
            is_read_as_a_whole(&tokenizer, &words);
            // If no space is near, the cut is between two letters.
            is_read_as_a_whole(&tokenizer, &"春夏秋冬".repeat(20_000));
        }
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
        let bytes = tokenizer(Value::Null, bytes, 'Ġ');
        assert!(bytes.adds_space());
        assert!(bytes.encode_long(&words).unwrap() == bytes.encode(&words).unwrap());
        assert!(!tokenizer(Value::Null, metaspace("never"), '▁').adds_space());
    }

    /// A step that marks every word is not one that marks the beginning.
    #[test]
    fn words_that_are_all_marked_stay_marked() {
        let metaspace = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
        let steps = json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]});
        let tokenizer = tokenizer(Value::Null, steps, '▁');
        let words = "the ship ".repeat(16_000) + "sea";
        assert!(tokenizer.encode_long(&words).unwrap() == tokenizer.encode(&words).unwrap());
    }
}
