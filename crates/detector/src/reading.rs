//! One way to read a text.

use std::ops::Range;

use verdigris_logits::TokenId;
use verdigris_text::{ReadError, Tokenizer};
use verdigris_watermark::normalize::{Normalized, Repair};

/// One way to read the text.
pub(crate) struct Reading<'t> {
    repaired: Option<&'t Normalized>,
    pub(crate) skipped: usize,
    text: &'t str,
    pub(crate) tokens: Vec<TokenId>,
}

impl Reading<'_> {
    /// The bytes of each token, of the text as it came.
    pub(crate) fn spans(&self, tokenizer: &Tokenizer, original: &str) -> Result<Vec<Range<usize>>, ReadError> {
        let origin = |at: usize| match self.repaired {
            Some(normalized) => normalized.origin(at + self.skipped),
            None => at + self.skipped,
        };
        let spans = tokenizer.encode_with_offsets(self.text)?.into_iter();
        Ok(spans.map(|(_, range)| origin(range.start)..origin(range.end).min(original.len())).collect())
    }

    /// What was repaired, and how often.
    pub(crate) fn repairs(&self) -> Vec<(Repair, usize)> {
        self.repaired.map_or(Vec::new(), Normalized::summary)
    }
}

/// A text from each of its first characters.
pub(crate) fn from_each_start<'t>(
    tokenizer: &Tokenizer,
    text: &'t str,
    repaired: Option<&'t Normalized>,
    offsets: usize,
) -> Result<Vec<Reading<'t>>, ReadError> {
    let starts = text.char_indices().map(|(at, _)| at).skip(1).take(offsets.max(1) - 1);
    let read = |skipped| {
        let text = &text[skipped..];
        Ok(Reading { repaired, skipped, text, tokens: tokenizer.encode_long(text)? })
    };
    std::iter::once(0).chain(starts).map(read).collect()
}
