//! The contents of a `tokenizer.json`, read in one pass without copies.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokenizers::{AddedToken, DecoderWrapper, PaddingParams, TruncationParams};
use verdigris_logits::TokenId;

use super::merges::{Listed, Merges};
use super::names::Names;

/// A whole file. Parts that the library would refuse are errors, and so are parts that ours does not understand.
#[derive(Deserialize)]
pub(super) struct File {
    pub(super) version: Option<String>,
    #[allow(dead_code, reason = "read for its errors alone")]
    truncation: Option<TruncationParams>,
    #[allow(dead_code, reason = "read for its errors alone")]
    padding: Option<PaddingParams>,
    #[serde(default)]
    pub(super) added_tokens: Vec<Added>,
    pub(super) normalizer: Option<Value>,
    pub(super) pre_tokenizer: Option<Value>,
    pub(super) post_processor: Option<Value>,
    pub(super) decoder: Option<DecoderWrapper>,
    pub(super) model: Model,
}

/// A token that is added to those of the model.
#[derive(Deserialize)]
pub(super) struct Added {
    pub(super) id: TokenId,
    #[serde(flatten)]
    pub(super) token: AddedToken,
}

/// Byte-pair encoding without options for training, and without affixes.
pub(super) struct Model {
    pub(super) names: Names,
    pub(super) merges: Merges,
    /// Whether there is a token for characters that have none.
    pub(super) has_unknown: bool,
    pub(super) byte_fallback: bool,
    pub(super) ignore_merges: bool,
}

impl<'de> Deserialize<'de> for Model {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ModelVisitor)
    }
}

struct ModelVisitor;

impl<'de> Visitor<'de> for ModelVisitor {
    type Value = Model;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a model of byte-pair encoding")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Model, A::Error> {
        let (mut is_bpe, mut names, mut merges) = (false, None, None);
        let (mut has_unknown, mut byte_fallback, mut ignore_merges) = (false, false, false);
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                "type" => is_bpe = map.next_value::<Text<'_>>()?.0 == "BPE",
                "dropout" => map.next_value::<()>()?,
                "unk_token" => has_unknown = map.next_value::<Option<Text<'_>>>()?.is_some(),
                "continuing_subword_prefix" | "end_of_word_suffix" => {
                    if map.next_value::<Option<String>>()?.is_some_and(|affix| !affix.is_empty()) {
                        return Err(A::Error::custom("it has affixes"));
                    }
                }
                "fuse_unk" => drop(map.next_value::<Option<bool>>()?),
                "byte_fallback" => byte_fallback = map.next_value::<Option<bool>>()?.unwrap_or(false),
                "ignore_merges" => ignore_merges = map.next_value::<Option<bool>>()?.unwrap_or(false),
                "vocab" if names.is_none() => names = Some(map.next_value::<NamesInFile>()?.0),
                // They are looked up in the vocabulary, which comes first in files.
                "merges" if merges.is_none() => {
                    let names = names.as_ref().ok_or_else(|| A::Error::custom("merges before their vocabulary"))?;
                    merges = Some(map.next_value_seed(MergesInFile(names))?);
                }
                _ => return Err(A::Error::custom("an unknown part")),
            }
        }
        match (is_bpe, names, merges) {
            (true, Some(names), Some(merges)) => {
                let merges = Merges::Listed(merges);
                Ok(Model { names, merges, has_unknown, byte_fallback, ignore_merges })
            }
            _ => Err(A::Error::custom("a part is missing")),
        }
    }
}

/// A text, which is copied only if it has escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;
        impl<'de> Visitor<'de> for Texts {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(text.into()))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(text.to_owned().into()))
            }
        }
        deserializer.deserialize_str(Texts)
    }
}

struct NamesInFile(Names);

impl<'de> Deserialize<'de> for NamesInFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = NamesInFile;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("ids by tokens")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NamesInFile, A::Error> {
                let mut names = Names::default();
                while let Some((Text(name), id)) = map.next_entry()? {
                    names.push(&name, id).ok_or_else(|| A::Error::custom("a token twice"))?;
                }
                Ok(NamesInFile(names))
            }
        }
        deserializer.deserialize_map(All)
    }
}

/// Reads merges, whose tokens have these names.
struct MergesInFile<'n>(&'n Names);

impl<'de> DeserializeSeed<'de> for MergesInFile<'_> {
    type Value = Listed;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Listed, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for MergesInFile<'_> {
    type Value = Listed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("pairs of tokens")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Listed, A::Error> {
        let mut merges = Listed::with_capacity(self.0.len());
        let (mut both, mut next, mut kind) = (String::new(), 0, None);
        while let Some(pair) = seq.next_element::<Pair<'_>>()? {
            if *kind.get_or_insert(pair.is_one_text) != pair.is_one_text {
                return Err(A::Error::custom("pairs of two kinds"));
            }
            let (first, second) = (&*pair.first, &*pair.second);
            both.clear();
            both.push_str(first);
            both.push_str(second);
            let mut push = || merges.push(self.0.id(first)?, self.0.id(second)?, self.0.id_in_order(&both, &mut next)?);
            push().ok_or_else(|| A::Error::custom("an unknown token, or a pair twice"))?;
        }
        Ok(merges)
    }
}

/// Two tokens, as a list or as one text with a space between them.
struct Pair<'a> {
    first: Cow<'a, str>,
    second: Cow<'a, str>,
    is_one_text: bool,
}

impl<'de> Deserialize<'de> for Pair<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Pair<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a pair of tokens")
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Pair<'de>, E> {
                let (first, second) = parts(text)?;
                Ok(Pair { first: first.into(), second: second.into(), is_one_text: true })
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Pair<'de>, E> {
                let (first, second) = parts(text)?;
                Ok(Pair { first: first.to_owned().into(), second: second.to_owned().into(), is_one_text: true })
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Pair<'de>, A::Error> {
                let short = || A::Error::custom("a pair of one token");
                let Text(first) = seq.next_element()?.ok_or_else(short)?;
                let Text(second) = seq.next_element()?.ok_or_else(short)?;
                match seq.next_element::<IgnoredAny>()? {
                    None => Ok(Pair { first, second, is_one_text: false }),
                    Some(_) => Err(A::Error::custom("a pair of three tokens")),
                }
            }
        }
        deserializer.deserialize_any(Pairs)
    }
}

/// The tokens of a pair that is one text.
fn parts<E: Error>(text: &str) -> Result<(&str, &str), E> {
    let parts = text.split_once(' ').filter(|(_, second)| !second.contains(' ') && !text.starts_with("#version"));
    parts.ok_or_else(|| E::custom("not a pair"))
}
