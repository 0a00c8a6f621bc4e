//! The tokens of a text, and where its constraint left a choice.

use verdigris_constrain::Departure;
use verdigris_logits::TokenId;
use verdigris_text::{ReadError, Tokenizer};
use verdigris_watermark::payload::PayloadReader;
use verdigris_watermark::{Detector, Mark};

use crate::obeyed::Obeyed;

/// The number of tokens that a detector gets at once, since it needs a multiple of their memory while it reads them.
const AT_ONCE: usize = 1 << 16;

/// The tokens of a text or of its end.
pub(crate) struct Tokens {
    ids: Vec<TokenId>,
    /// The number of ways in which the text could have continued before each token, if its constraint is known.
    choices: Option<Vec<u32>>,
}

impl Tokens {
    /// Creates tokens that come after `before` in a text whose constraints may be known.
    pub(crate) fn new(ids: Vec<TokenId>, obeyed: Option<&Obeyed>, before: &[u8]) -> Result<Self, Departure> {
        let choices = obeyed.map(|obeyed| obeyed.of(before, &ids)).transpose()?.map(|(_, choices)| choices);
        Ok(Self { ids, choices })
    }

    /// Tokenizes a whole text, except white space around the part that obeys a constraint.
    pub(crate) fn of(
        tokenizer: &Tokenizer,
        obeyed: Option<&Obeyed>,
        text: &str,
    ) -> Result<Result<Self, Departure>, ReadError> {
        let range = obeyed.map_or(0..text.len(), |obeyed| obeyed.extent(text));
        Ok(Self::new(tokenizer.encode_long(&text[range])?, obeyed, b""))
    }

    /// The number of ways in which the text could have continued before each token, if its constraint is known.
    pub(crate) fn choices(&self) -> Option<&[u32]> {
        self.choices.as_deref()
    }

    /// The ids of the tokens.
    pub(crate) fn ids(&self) -> &[TokenId] {
        &self.ids
    }

    /// The number of tokens.
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

    /// Passes all tokens to a detector, and its marks to `each`.
    pub(crate) fn read(&self, detector: &mut Detector, mut each: impl FnMut(&[TokenId], &[Mark])) {
        for (tokens, choices) in self.pieces() {
            let marks = match choices {
                Some(choices) => detector.push_choices(tokens, choices),
                None => detector.push(tokens),
            };
            each(tokens, marks);
        }
    }

    /// Passes all tokens to a reader of payloads.
    pub(crate) fn read_payload(&self, reader: &mut PayloadReader) {
        for (tokens, choices) in self.pieces() {
            match choices {
                Some(choices) => reader.push_choices(tokens, choices),
                None => reader.push(tokens),
            }
        }
    }
}
