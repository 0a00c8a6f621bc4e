//! The encoder of a tokenizer: our own, or that of the library.

use std::ops::Range;
use std::panic::catch_unwind;

use tokenizers::{AddedToken, ModelWrapper};
use verdigris_logits::TokenId;

use crate::bpe::{Bpe, ScoredToken};
use crate::chunks::ReadError;
use crate::error::TokenizerError;
use crate::lead::{Lead, tokens};
use crate::library::read;
use crate::parts::SmallParts;
use crate::vocabulary::Vocabulary;

/// An encoder of texts.
#[derive(Debug)]
pub(crate) struct Encoder {
    kind: Kind,
    lead: Lead,
}

#[derive(Debug)]
enum Kind {
    Own(Box<Bpe>),
    Library(Box<tokenizers::Tokenizer>),
}

impl Encoder {
    /// Reads a `tokenizer.json`, and its vocabulary.
    ///
    /// # Errors
    /// [`TokenizerError`] names the part that cannot be read.
    pub(crate) fn read(json: &[u8]) -> Result<(Self, Vocabulary), TokenizerError> {
        // Some of the parts are read by the library, too.
        match catch_unwind(|| Bpe::read(json)) {
            Ok(Some((own, vocabulary))) => {
                Ok((Self { kind: Kind::Own(own.into()), lead: Lead::default() }, vocabulary))
            }
            _ => Self::of_library(json),
        }
    }

    /// Reads a tokenizer whose merges follow from scores, and its vocabulary. `None` if our own encoder does not
    /// understand it.
    pub(crate) fn of_scores(json: &[u8], tokens: &[ScoredToken<'_>]) -> Option<(Self, Vocabulary)> {
        let (own, vocabulary) = catch_unwind(|| Bpe::read_scored(json, tokens)).ok()??;
        Some((Self { kind: Kind::Own(own.into()), lead: Lead::default() }, vocabulary))
    }

    /// Like [`Encoder::read`], by the library alone.
    pub(crate) fn of_library(json: &[u8]) -> Result<(Self, Vocabulary), TokenizerError> {
        // The library panics on faults in the small parts of the file, and some parts make a text grow without limit.
        // Parsing them here first finds both; any other panic is caught.
        SmallParts::check(json)?;
        let mut inner = catch_unwind(|| tokenizers::Tokenizer::from_bytes(json))
            .map_err(|_| TokenizerError::Panic)?
            .map_err(TokenizerError::Library)?;
        // Dropout of merges is for training: with it, a text would have different tokens each time.
        if let ModelWrapper::BPE(model) = inner.get_model()
            && model.dropout.is_some()
        {
            let mut model = model.clone();
            model.dropout = None;
            inner.with_model(model);
        }
        // Text stays text: `<|endoftext|>` in user input must not become the control token.
        inner.set_encode_special_tokens(true);
        inner.with_padding(None);
        inner.with_truncation(None).map_err(TokenizerError::Library)?;
        let vocabulary = Vocabulary::of(&inner)?;
        Ok((Self { kind: Kind::Library(inner.into()), lead: Lead::default() }, vocabulary))
    }

    /// Whether it is our own.
    #[cfg(test)]
    pub(crate) fn is_own(&self) -> bool {
        matches!(self.kind, Kind::Own(_))
    }

    /// The added tokens, with their ids.
    pub(crate) fn added(&self) -> Vec<(TokenId, AddedToken)> {
        match &self.kind {
            Kind::Own(own) => own.added().map(|(id, token)| (id, token.clone())).collect(),
            Kind::Library(inner) => inner.get_added_tokens_decoder().into_iter().collect(),
        }
    }

    /// The id of a token by its name.
    pub(crate) fn id(&self, name: &str) -> Option<TokenId> {
        match &self.kind {
            Kind::Own(own) => own.id(name),
            Kind::Library(inner) => inner.token_to_id(name),
        }
    }

    /// Whether the first token of a text may begin with a space that is not in the text.
    pub(crate) fn adds_space(&self, vocabulary: &Vocabulary) -> bool {
        match &self.kind {
            Kind::Own(own) => self.lead.adds_space(|text| Some(own.ids(text, true)), vocabulary),
            Kind::Library(inner) => self.lead.adds_space(|text| tokens(inner, text), vocabulary),
        }
    }

    /// Whether a space is added to the beginning of a text only, and not after control tokens.
    pub(crate) fn leads_only_first(&self) -> bool {
        match &self.kind {
            Kind::Own(own) => own.leads_only_first(),
            Kind::Library(inner) => inner.get_pre_tokenizer().is_some_and(Lead::is_only_first),
        }
    }

    /// Whether our own encoder reads a chunk of a text as one that begins a text.
    fn leads(&self, own: &Bpe, is_first: bool, vocabulary: &Vocabulary) -> bool {
        is_first || own.leads_inside(self.adds_space(vocabulary))
    }

    /// The tokenizer of the library for a chunk of a text.
    fn of_chunk<'t>(
        &'t self,
        inner: &'t tokenizers::Tokenizer,
        is_first: bool,
        vocabulary: &Vocabulary,
    ) -> &'t tokenizers::Tokenizer {
        if is_first { inner } else { self.lead.inside(inner, vocabulary) }
    }

    /// The tokens of a text, or of a chunk of it.
    pub(crate) fn ids(&self, text: &str, is_first: bool, vocabulary: &Vocabulary) -> Result<Vec<TokenId>, ReadError> {
        match &self.kind {
            Kind::Own(own) => Ok(own.ids(text, self.leads(own, is_first, vocabulary))),
            Kind::Library(inner) => {
                let inner = self.of_chunk(inner, is_first, vocabulary);
                Ok(read(|| inner.encode_fast(text, false))?.get_ids().to_vec())
            }
        }
    }

    /// The tokens of a text, or of a chunk of it, with their ranges.
    pub(crate) fn offsets(
        &self,
        text: &str,
        is_first: bool,
        vocabulary: &Vocabulary,
    ) -> Result<Vec<(TokenId, Range<usize>)>, ReadError> {
        match &self.kind {
            Kind::Own(own) => Ok(own.offsets(text, self.leads(own, is_first, vocabulary))),
            Kind::Library(inner) => {
                let inner = self.of_chunk(inner, is_first, vocabulary);
                let encoding = read(|| inner.encode(text, false))?;
                let ranges = encoding.get_offsets().iter().map(|&(start, end)| start..end);
                Ok(encoding.get_ids().iter().copied().zip(ranges).collect())
            }
        }
    }

    /// The tokens of a prompt, with those that the tokenizer's template adds.
    pub(crate) fn prompt(&self, text: &str) -> Result<Vec<TokenId>, ReadError> {
        match &self.kind {
            Kind::Own(own) => Ok(own.prompt(text)),
            Kind::Library(inner) => Ok(read(|| inner.encode_fast(text, true))?.get_ids().to_vec()),
        }
    }
}
