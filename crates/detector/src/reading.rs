//! One way to read a text.

use std::ops::Range;

use verdigris_constrain::Departure;
use verdigris_text::{ReadError, Tokenizer};
use verdigris_watermark::normalize::Repair;

use crate::obeyed::Obeyed;
use crate::tokens::Tokens;
use crate::versions::Version;

/// One way to read the text.
pub(crate) struct Reading<'t> {
    /// The version that is read; `None` for a text given as tokens.
    version: Option<Version<'t>>,
    /// The bytes of the version that are read.
    range: Range<usize>,
    /// The number of bytes before them, in the text without its manifests.
    pub(crate) skipped: usize,
    pub(crate) tokens: Tokens,
}

impl Reading<'_> {
    /// Creates a reading of a text given as tokens.
    pub(crate) fn of_tokens(tokens: Tokens) -> Self {
        Self { version: None, range: 0..0, skipped: 0, tokens }
    }

    /// Returns the bytes of each token in the text without its manifests, which has `bytes` bytes.
    pub(crate) fn spans(&self, tokenizer: &Tokenizer, bytes: usize) -> Result<Vec<Range<usize>>, ReadError> {
        let Some(version) = self.version else {
            let ends = self.tokens.ids().iter().scan(0, |end, &token| {
                let start = *end;
                *end += tokenizer.vocabulary().bytes(token).len();
                Some(start..*end)
            });
            return Ok(ends.collect());
        };
        let origin = |at: usize| version.origin(at + self.range.start);
        let spans = tokenizer.encode_with_offsets(&version.text[self.range.clone()])?.into_iter();
        Ok(spans.map(|(_, range)| origin(range.start)..origin(range.end).min(bytes)).collect())
    }

    /// The repairs, each with the number of times it was made.
    pub(crate) fn repairs(&self) -> Vec<(Repair, usize)> {
        self.version.map_or(Vec::new(), |version| version.repairs())
    }
}

/// Returns the readings of a text from each of its first characters, or where the text breaks the constraint.
pub(crate) fn from_each_start<'t>(
    tokenizer: &Tokenizer,
    obeyed: Option<&Obeyed>,
    version: Version<'t>,
    offsets: usize,
) -> Result<Result<Vec<Reading<'t>>, Departure>, ReadError> {
    let text = version.text;
    let Range { start, end } = obeyed.map_or(0..text.len(), |obeyed| obeyed.extent(text));
    let starts = text[start..end].char_indices().map(|(at, _)| at).take(offsets.max(1));
    let mut readings = Vec::new();
    // An empty text has one reading, too.
    for from in std::iter::once(0).chain(starts.skip(1)).map(|at| start + at) {
        let before = &text[start..from];
        match Tokens::new(tokenizer.encode_long(&text[from..end])?, obeyed, before.as_bytes()) {
            Ok(tokens) => {
                let skipped = version.origin(from);
                readings.push(Reading { version: Some(version), range: from..end, skipped, tokens });
            }
            Err(Departure { at, explanation }) => return Ok(Err(Departure { at: start + at, explanation })),
        }
    }
    Ok(Ok(readings))
}
