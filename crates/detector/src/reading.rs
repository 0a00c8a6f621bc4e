//! One way to read a text.

use std::ops::Range;

use verdigris_constrain::{Constraint, Departure};
use verdigris_text::{ReadError, Tokenizer};
use verdigris_watermark::normalize::{Normalized, Repair};

use crate::tokens::{Tokens, extent};

/// One way to read the text.
pub(crate) struct Reading<'t> {
    repaired: Option<&'t Normalized>,
    pub(crate) skipped: usize,
    /// What was read; nothing where there are tokens alone.
    text: Option<&'t str>,
    pub(crate) tokens: Tokens,
}

impl Reading<'_> {
    /// Of a text that is known by its tokens.
    pub(crate) fn of_tokens(tokens: Tokens) -> Self {
        Self { repaired: None, skipped: 0, text: None, tokens }
    }

    /// The bytes of each token, of the text as it came, which has so many.
    pub(crate) fn spans(&self, tokenizer: &Tokenizer, bytes: usize) -> Result<Vec<Range<usize>>, ReadError> {
        let Some(text) = self.text else {
            let ends = self.tokens.ids().iter().scan(0, |end, &token| {
                let start = *end;
                *end += tokenizer.vocabulary().bytes(token).len();
                Some(start..*end)
            });
            return Ok(ends.collect());
        };
        let origin = |at: usize| match self.repaired {
            Some(normalized) => normalized.origin(at + self.skipped),
            None => at + self.skipped,
        };
        let spans = tokenizer.encode_with_offsets(text)?.into_iter();
        Ok(spans.map(|(_, range)| origin(range.start)..origin(range.end).min(bytes)).collect())
    }

    /// What was repaired, and how often.
    pub(crate) fn repairs(&self) -> Vec<(Repair, usize)> {
        self.repaired.map_or(Vec::new(), Normalized::summary)
    }
}

/// A text from each of its first characters; from none where it is not of its form, and then where it leaves that.
pub(crate) fn from_each_start<'t>(
    tokenizer: &Tokenizer,
    form: Option<&Constraint>,
    text: &'t str,
    repaired: Option<&'t Normalized>,
    offsets: usize,
) -> Result<Result<Vec<Reading<'t>>, Departure>, ReadError> {
    let Range { start, end } = form.map_or(0..text.len(), |form| extent(form, text));
    let starts = text[start..end].char_indices().map(|(at, _)| at).take(offsets.max(1));
    let mut readings = Vec::new();
    // An empty text is one reading, too.
    for skipped in std::iter::once(0).chain(starts.skip(1)).map(|at| start + at) {
        let (before, text) = (&text[start..skipped], &text[skipped..end]);
        match Tokens::new(tokenizer.encode_long(text)?, form, before.as_bytes()) {
            Ok(tokens) => readings.push(Reading { repaired, skipped, text: Some(text), tokens }),
            Err(Departure { at, explanation }) => return Ok(Err(Departure { at: start + at, explanation })),
        }
    }
    Ok(Ok(readings))
}
