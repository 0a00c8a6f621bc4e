//! Where a text that is there had a choice: what detectors of watermarks ask, for only a choice can be swayed.
//!
//! A text is read again, with the tokens that a tokenizer writes it with. Before each of them the machine says which
//! tokens could have come. Several of them may write one text: where `"name":` is forced, `"`, `"na` and `"name` are
//! all allowed, and leave no choice about the text. So it is not tokens that are counted but ways: allowed tokens that
//! are not the beginning of another allowed one, and the end, where the text may end.

use std::fmt;

use foldhash::{HashMap, HashMapExt};
use verdigris_logits::{TokenId, Transform};

use super::explain::Explanation;
use super::{Constraint, ConstraintState};
use crate::machine::{Machine, State};

/// Ways are counted up to so many.
pub const MANY: u32 = 64;

/// A text that is not of the form: where it leaves it, and what could have come there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The bytes before the token after which no text of the form goes on.
    pub at: usize,
    /// What that token is, and what was expected.
    pub explanation: Explanation,
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the text leaves the form at byte {}: {}", self.at, self.explanation)
    }
}

impl std::error::Error for Departure {}

impl Constraint {
    /// In how many ways the text could have gone on before each of its tokens, counted up to [`MANY`]: 1 where there was
    /// no choice. The text may be cut short anywhere; `before` is what stands before its first token.
    ///
    /// A space that the first token writes and the form does not know is passed over: tokenizers in the manner of
    /// SentencePiece begin every text with one, and take it away again.
    ///
    /// # Errors
    /// [`Departure`] where no text of the form begins so.
    pub fn choices(&self, before: &[u8], tokens: &[TokenId]) -> Result<Vec<u32>, Departure> {
        let machine = self.machine();
        let (mut at, mut read) = (machine.next(machine.start(), before), before.len());
        // States come again wherever a text is long.
        let mut known = HashMap::new();
        let mut choices = Vec::with_capacity(tokens.len());
        for (i, &token) in tokens.iter().enumerate() {
            let bytes = self.lexicon().bytes(token);
            let (next, length) = match i {
                0 if before.is_empty() => after_first(&machine, bytes),
                _ => (machine.advance(at, token, bytes), bytes.len()),
            };
            if !machine.goes_on(next) {
                return Err(Departure { at: read, explanation: Explanation::of(&machine, at, bytes) });
            }
            // Nothing is said where masks are over their budget: a choice, for all that is known.
            let ways = *known.entry(at).or_insert_with(|| match machine.fault() {
                Some(_) => MANY,
                None => machine.ways(at, MANY),
            });
            choices.push(ways);
            (at, read) = (next, read + length);
        }
        Ok(choices)
    }

    /// A text after its first token, as [`Constraint::choices`] reads it.
    pub fn after_first(&self, token: TokenId) -> ConstraintState {
        let mut state = self.start(&[]);
        let (at, _) = after_first(&state.machine, self.lexicon().bytes(token));
        self.advance(&mut state, token);
        ConstraintState { at, ..state }
    }

    /// Whether a text is the beginning of one of the form, or one of it as a whole.
    pub fn begins(&self, text: &[u8]) -> bool {
        let machine = self.machine();
        machine.goes_on(machine.next(machine.start(), text))
    }
}

/// Where the bytes of a first token lead, and how many of them are the text's.
fn after_first(machine: &Machine, bytes: &[u8]) -> (State, usize) {
    let next = machine.next(machine.start(), bytes);
    match bytes.strip_prefix(b" ") {
        Some(rest) if !machine.goes_on(next) => (machine.next(machine.start(), rest), rest.len()),
        _ => (next, bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lexicon, Style, Whitespace};
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use verdigris_text::Tokenizer;

    fn lexicon() -> Lexicon {
        let json = include_bytes!("../../../../fixtures/models/tale/tokenizer.json");
        Lexicon::new(Arc::new(Tokenizer::from_json(json).unwrap()), &[0])
    }

    /// The ways by their definition, from the mask alone.
    fn ways(lexicon: &Lexicon, constraint: &Constraint, text: &[u8]) -> u32 {
        let machine = constraint.machine();
        let mask = machine.mask(machine.next(machine.start(), text));
        let all: BTreeSet<&[u8]> = mask.tokens.iter().map(|token| lexicon.bytes(token)).collect();
        let last = all.iter().filter(|token| !all.iter().any(|other| other.starts_with(token) && other != *token));
        (last.count() as u32 + u32::from(mask.accepts)).min(MANY)
    }

    #[test]
    fn ways_are_what_they_are_defined_as() {
        let lexicon = lexicon();
        let schema = serde_json::json!({"type": "object", "additionalProperties": false, "required": ["name", "sea"],
            "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 120},
            "name": {"type": "string", "maxLength": 20}, "sea": {"enum": ["red", "black", "blank"]}}});
        let style = Style { whitespace: Whitespace::Spaced, ..Style::default() };
        let json = Constraint::json_schema(&lexicon, &schema, style).unwrap();
        let text = "{\"age\": 31, \"name\": \"The captain\", \"sea\": \"black\"}";
        let pattern = Constraint::regex(&lexicon, "The (captain|mate) of the ship( said)?[.!]{0,2}").unwrap();
        for (constraint, text) in [(&json, text), (&pattern, "The captain of the ship said!")] {
            let tokens = lexicon.tokenizer().encode(text).unwrap();
            let choices = constraint.choices(b"", &tokens).unwrap();
            let mut read = Vec::new();
            for (&token, &choices) in tokens.iter().zip(&choices) {
                assert_eq!(choices, ways(&lexicon, constraint, &read), "{}", String::from_utf8_lossy(&read));
                read.extend_from_slice(lexicon.bytes(token));
            }
            assert!(choices.contains(&1), "{choices:?}");
            assert!(choices.iter().any(|&ways| ways > 1), "{choices:?}");
        }
        // What is read later is what is read after all before it.
        let tokens = lexicon.tokenizer().encode(text).unwrap();
        let split = lexicon.bytes(tokens[0]).len() + lexicon.bytes(tokens[1]).len();
        let whole = json.choices(b"", &tokens).unwrap();
        assert_eq!(json.choices(&text.as_bytes()[..split], &tokens[2..]).unwrap(), whole[2..]);
    }

    /// Where the bytes are forced there is no choice, however many tokens write them.
    #[test]
    fn forced_text_leaves_no_choice() {
        let lexicon = lexicon();
        let constraint = Constraint::regex(&lexicon, "\\{\"captain\": \"(yes|no)\"\\}").unwrap();
        let tokens = lexicon.tokenizer().encode("{\"captain\": \"yes\"}").unwrap();
        let choices = constraint.choices(b"", &tokens).unwrap();
        let (mut cursor, mut spelled) = (constraint.cursor(&[]), 0);
        for (&token, &ways) in tokens.iter().zip(&choices) {
            spelled += usize::from(ways == 1 && cursor.mask().tokens.len() > 1);
            cursor.advance(token);
        }
        assert!(spelled > 0, "somewhere several tokens write what is forced");
        assert_eq!(choices.iter().filter(|&&ways| ways > 1).count(), 1, "{choices:?}");
    }

    #[test]
    fn a_text_of_another_form_is_an_error_that_says_where() {
        let lexicon = lexicon();
        let constraint = Constraint::regex(&lexicon, "The [a-z]+ ship").unwrap();
        let tokens = |text: &str| lexicon.tokenizer().encode(text).unwrap();
        let departure = constraint.choices(b"", &tokens("The 8 ships")).unwrap_err();
        assert!(departure.at >= 3, "{departure:?}");
        assert!(departure.to_string().contains("expected: a to z"), "{departure}");
        assert!(constraint.choices(b"", &tokens("The old")).is_ok(), "a text may be cut short");
        assert!(constraint.choices(b"", &tokens(" The old ship")).is_ok(), "the space of a tokenizer");
        assert!(constraint.begins(b"The old sh") && !constraint.begins(b"The old shi ") && !constraint.begins(b"An"));
    }
}
