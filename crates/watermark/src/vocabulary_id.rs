//! The vocabulary that a key was made for.

use serde::{Deserialize, Serialize};

/// The most bytes of a fingerprint, or of a model's name.
const MAX_NAME: usize = 1000;

/// The most tokens of a vocabulary.
pub const MAX_VOCABULARY: usize = 1 << 24;

/// The vocabulary that a key was made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "VocabularyFields")]
pub struct VocabularyId {
    size: usize,
    fingerprint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
}

/// A vocabulary that no key can be made for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadVocabulary {
    /// The size is zero or too large.
    #[error("a vocabulary has 1 to {MAX_VOCABULARY} tokens, not {0}")]
    Size(usize),
    /// The fingerprint or the model's name is too long.
    #[error("a vocabulary has a fingerprint and a model's name of at most {MAX_NAME} bytes, not {0}")]
    Long(usize),
}

impl VocabularyId {
    /// A vocabulary of `size` tokens that are split into green and red, 1 to [`MAX_VOCABULARY`], with a digest of all
    /// tokens in order, which distinguishes vocabularies of the same size.
    ///
    /// # Errors
    /// [`BadVocabulary`] if there are no tokens or too many, or the digest is too long.
    pub fn new(size: usize, fingerprint: impl Into<String>) -> Result<Self, BadVocabulary> {
        Self { size, fingerprint: fingerprint.into(), model: None }.checked()
    }

    fn checked(self) -> Result<Self, BadVocabulary> {
        if !(1..=MAX_VOCABULARY).contains(&self.size) {
            return Err(BadVocabulary::Size(self.size));
        }
        let longest = self.fingerprint.len().max(self.model.as_ref().map_or(0, String::len));
        if longest > MAX_NAME { Err(BadVocabulary::Long(longest)) } else { Ok(self) }
    }

    /// The same vocabulary with the name of the model whose tokenizer it is, for display. A long name is truncated.
    #[must_use]
    pub fn with_model(mut self, name: &str) -> Self {
        let name: String = name.chars().filter(|c| !c.is_control()).take(MAX_NAME / 4).collect();
        self.model = Some(name).filter(|name| !name.is_empty());
        self
    }

    /// The same vocabulary with another size: other systems split the size that they assume, which may be larger or
    /// smaller than the number of tokens.
    ///
    /// # Errors
    /// [`BadVocabulary::Size`] if the size is out of range.
    pub fn with_size(mut self, size: usize) -> Result<Self, BadVocabulary> {
        self.size = size;
        self.checked()
    }

    /// The number of tokens that are split into green and red.
    pub fn size(&self) -> usize {
        self.size
    }

    /// A digest of all tokens in order.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The name of the model whose tokenizer it is, where known.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }
}

/// A vocabulary of a key file, before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VocabularyFields {
    size: usize,
    fingerprint: String,
    model: Option<String>,
}

impl TryFrom<VocabularyFields> for VocabularyId {
    type Error = BadVocabulary;
    fn try_from(VocabularyFields { size, fingerprint, model }: VocabularyFields) -> Result<Self, BadVocabulary> {
        Self { size, fingerprint, model }.checked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vocabulary_has_tokens() {
        assert_eq!(VocabularyId::new(0, "f"), Err(BadVocabulary::Size(0)));
        assert_eq!(VocabularyId::new(usize::MAX, "f"), Err(BadVocabulary::Size(usize::MAX)));
        assert_eq!(VocabularyId::new(1, "f".repeat(5000)), Err(BadVocabulary::Long(5000)));
        let named = VocabularyId::new(1, "f").unwrap().with_model(&"\u{1b}[1mö".repeat(5000));
        assert!(named.clone().checked().is_ok() && named.model().unwrap().starts_with("[1mö["));
    }
}
