//! The tokens of a text, and where it had a choice.

use std::ops::Range;

use verdigris_constrain::{Constraint, Departure};
use verdigris_logits::TokenId;
use verdigris_text::{ReadError, Tokenizer};
use verdigris_watermark::payload::PayloadReader;
use verdigris_watermark::{Detector, Mark};

/// Tokens that a detector gets at once: while it reads one it holds many times its bytes.
const AT_ONCE: usize = 1 << 16;

/// The tokens of a text or of its end.
pub(crate) struct Tokens {
    ids: Vec<TokenId>,
    /// In how many ways the text could have gone on before each token, where its form is known.
    choices: Option<Vec<u32>>,
}

impl Tokens {
    /// Some tokens, which come after `before` in a text of a form, if that is known.
    pub(crate) fn new(ids: Vec<TokenId>, form: Option<&Constraint>, before: &[u8]) -> Result<Self, Departure> {
        let choices = form.map(|form| form.choices(before, &ids)).transpose()?;
        Ok(Self { ids, choices })
    }

    /// The tokens of a text as a whole, but for white space around its form.
    pub(crate) fn of(
        tokenizer: &Tokenizer,
        form: Option<&Constraint>,
        text: &str,
    ) -> Result<Result<Self, Departure>, ReadError> {
        let range = form.map_or(0..text.len(), |form| extent(form, text));
        Ok(Self::new(tokenizer.encode_long(&text[range])?, form, b""))
    }

    /// In how many ways the text could have gone on before each of them, where its form is known.
    pub(crate) fn choices(&self) -> Option<&[u32]> {
        self.choices.as_deref()
    }

    /// They themselves.
    pub(crate) fn ids(&self) -> &[TokenId] {
        &self.ids
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    fn pieces(&self) -> impl Iterator<Item = (&[TokenId], Option<&[u32]>)> {
        let piece = |(i, ids): (usize, _)| {
            let at = i * AT_ONCE;
            (ids, self.choices.as_ref().map(|choices| &choices[at..choices.len().min(at + AT_ONCE)]))
        };
        self.ids.chunks(AT_ONCE).enumerate().map(piece)
    }

    /// Hands all of them to a detector, and what it makes of them to `each`.
    pub(crate) fn read(&self, detector: &mut Detector, mut each: impl FnMut(&[TokenId], &[Mark])) {
        for (tokens, choices) in self.pieces() {
            let marks = match choices {
                Some(choices) => detector.push_choices(tokens, choices),
                None => detector.push(tokens),
            };
            each(tokens, marks);
        }
    }

    /// Hands all of them to a reader of payloads.
    pub(crate) fn read_payload(&self, reader: &mut PayloadReader) {
        for (tokens, choices) in self.pieces() {
            match choices {
                Some(choices) => reader.push_choices(tokens, choices),
                None => reader.push(tokens),
            }
        }
    }
}

/// The part of a text that is of a form: all of it, or all but the line end or the white space around it, which files
/// and programs add. Where none of these is of the form it is all, for an error to be told.
pub(crate) fn extent(form: &Constraint, text: &str) -> Range<usize> {
    let from = text.len() - text.trim_start().len();
    let to = text.trim_end().len().max(from);
    let line = text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text));
    let parts = [0..text.len(), 0..line.len(), 0..to, from..text.len(), from..to];
    let mut parts = parts.into_iter();
    parts.find(|part| form.begins(text[part.clone()].as_bytes())).unwrap_or(0..text.len())
}
