//! Where an existing text had a choice. Detectors of watermarks need this, since only a choice can be biased.
//!
//! A text is read again, with the tokens that a tokenizer splits it into. Before each token, the machine determines
//! which tokens were allowed. Several of them may spell the same text: where `"name":` is forced, `"`, `"na` and
//! `"name` are all allowed, and yet leave no choice about the text. So the count is not of tokens but of ways: the
//! allowed tokens that are not a prefix of another allowed token, and the end, if the text may end.

use std::fmt;

use foldhash::{HashMap, HashMapExt};
use verdigris_logits::{TokenId, Transform};

use super::explain::Explanation;
use super::{Constraint, ConstraintState};
use crate::machine::Machine;
use crate::machine::mask::OverBudget;

/// The number up to which ways are counted.
pub const MANY: u32 = 64;

/// A text that does not match its constraint, or whose constraint is too expensive to follow: the position, and what
/// was allowed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The number of bytes before the token after which no matching text continues, or at which the constraint takes
    /// too much work.
    pub at: usize,
    /// The token and what was expected, or the reason why that is not known
    /// ([`over_budget`](field@Explanation::over_budget)).
    pub explanation: Explanation,
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.explanation.over_budget {
            None => write!(f, "the text breaks the constraint at byte {}: {}", self.at, self.explanation),
            Some(_) => write!(f, "the constraint cannot be followed from byte {} on: {}", self.at, self.explanation),
        }
    }
}

impl std::error::Error for Departure {}

impl Constraint {
    /// Returns the number of ways in which the text could have continued before each of its tokens, counted up to
    /// [`MANY`]; 1 means that the text was forced. The text may be cut short anywhere; `before` is the text before its
    /// first token.
    ///
    /// A leading space of the first token that the constraint does not allow is skipped: SentencePiece-style tokenizers
    /// put one before every text that they encode, and remove it when they decode.
    ///
    /// The result does not depend on texts that were read earlier.
    ///
    /// # Errors
    /// [`Departure`] if no matching text begins like this one, or if it takes too much work to find what else was
    /// allowed.
    pub fn choices(&self, before: &[u8], tokens: &[TokenId]) -> Result<Vec<u32>, Departure> {
        match self.choices_by(&self.machine(), before, tokens) {
            // Memory is counted for all texts of a machine, so on a machine of its own this text may have enough.
            Err(Departure {
                explanation: Explanation { over_budget: Some(OverBudget::Memory { .. }), .. }, ..
            }) => self.choices_by(&self.machines.another(self.lexicon().index()), before, tokens),
            read => read,
        }
    }

    fn choices_by(&self, machine: &Machine, before: &[u8], tokens: &[TokenId]) -> Result<Vec<u32>, Departure> {
        let mut farthest: Option<Departure> = None;
        // If the text can continue after both readings of the first token, later tokens decide between them.
        for first in self.firsts(tokens.first().copied()) {
            match self.choices_from(machine, before, first, tokens) {
                Err(departure) if departure.explanation.over_budget.is_none() => {
                    if farthest.as_ref().is_none_or(|other| other.at < departure.at) {
                        farthest = Some(departure);
                    }
                }
                read => return read,
            }
        }
        Err(farthest.expect("there is a way to read the first token"))
    }

    fn choices_from(
        &self,
        machine: &Machine,
        before: &[u8],
        first: First<'_>,
        tokens: &[TokenId],
    ) -> Result<Vec<u32>, Departure> {
        let (mut at, mut read) = (machine.next(machine.start(), before), before.len() + first.passed_over);
        // States recur in long texts.
        let mut known = HashMap::new();
        let mut choices = Vec::with_capacity(tokens.len());
        for (i, &token) in tokens.iter().enumerate() {
            let (next, bytes) = match i {
                0 => (machine.next(at, first.bytes), first.bytes),
                _ => {
                    let bytes = self.lexicon().bytes(token);
                    (machine.advance(at, token, bytes), bytes)
                }
            };
            if !machine.goes_on(next) {
                return Err(Departure { at: read, explanation: Explanation::of(machine, at, bytes) });
            }
            let ways = match known.get(&at) {
                Some(&ways) => ways,
                None => {
                    if let Some(fault) = machine.fault_at(at) {
                        return Err(Departure { at: read, explanation: Explanation::over_budget(bytes, fault) });
                    }
                    *known.entry(at).or_insert(machine.ways(at, MANY))
                }
            };
            choices.push(ways);
            (at, read) = (next, read + bytes.len());
        }
        Ok(choices)
    }

    /// The state after the first token of a text, as [`Constraint::choices`] reads it when `before` is empty.
    pub fn after_first(&self, token: TokenId) -> ConstraintState {
        let mut state = self.start(&[]);
        let machine = state.machine.clone();
        let after = self.firsts(Some(token)).into_iter().map(|first| machine.next(machine.start(), first.bytes));
        let at = after.reduce(|one, other| if machine.goes_on(one) { one } else { other });
        self.advance(&mut state, token);
        ConstraintState { at: at.unwrap_or(state.at), ..state }
    }

    /// The ways to read the first token, the likelier one first: without a space that the tokenizer may have added, and
    /// with it.
    fn firsts(&self, token: Option<TokenId>) -> Vec<First<'_>> {
        let bytes = token.map_or(&[][..], |token| self.lexicon().bytes(token));
        let adds_space = self.lexicon().tokenizer().adds_space();
        let with = First { bytes, passed_over: 0 };
        let without = bytes.strip_prefix(b" ").map(|bytes| First { bytes, passed_over: usize::from(!adds_space) });
        match without {
            Some(without) if adds_space => vec![without, with],
            without => std::iter::once(with).chain(without).collect(),
        }
    }

    /// Whether a text is a matching text or a prefix of one.
    pub fn begins(&self, text: &[u8]) -> bool {
        let machine = self.machine();
        machine.goes_on(machine.next(machine.start(), text))
    }
}

/// A way to read the first token of a text.
#[derive(Clone, Copy)]
struct First<'a> {
    /// The bytes that the constraint reads.
    bytes: &'a [u8],
    /// The number of bytes of the text before them.
    passed_over: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::LEXICON;
    use crate::{Lexicon, Style, Whitespace};
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use verdigris_text::Tokenizer;

    /// The ways by definition, from the mask alone.
    fn ways(constraint: &Constraint, text: &[u8]) -> u32 {
        let machine = constraint.machine();
        let mask = machine.mask(machine.next(machine.start(), text));
        let all: BTreeSet<&[u8]> = mask.tokens.iter().map(|token| LEXICON.bytes(token)).collect();
        let last = all.iter().filter(|token| !all.iter().any(|other| other.starts_with(token) && other != *token));
        (last.count() as u32 + u32::from(mask.accepts)).min(MANY)
    }

    #[test]
    fn ways_are_what_they_are_defined_as() {
        let schema = serde_json::json!({"type": "object", "additionalProperties": false, "required": ["name", "sea"],
            "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 120},
            "name": {"type": "string", "maxLength": 20}, "sea": {"enum": ["red", "black", "blank"]}}});
        let style = Style { whitespace: Whitespace::Spaced, ..Style::default() };
        let json = Constraint::json_schema(&LEXICON, &schema, style).unwrap();
        let text = "{\"age\": 31, \"name\": \"The captain\", \"sea\": \"black\"}";
        let pattern = Constraint::regex(&LEXICON, "The (captain|mate) of the ship( said)?[.!]{0,2}").unwrap();
        for (constraint, text) in [(&json, text), (&pattern, "The captain of the ship said!")] {
            let tokens = LEXICON.tokenizer().encode(text).unwrap();
            let choices = constraint.choices(b"", &tokens).unwrap();
            let mut read = Vec::new();
            for (&token, &choices) in tokens.iter().zip(&choices) {
                assert_eq!(choices, ways(constraint, &read), "{}", String::from_utf8_lossy(&read));
                read.extend_from_slice(LEXICON.bytes(token));
            }
            assert!(choices.contains(&1), "{choices:?}");
            assert!(choices.iter().any(|&ways| ways > 1), "{choices:?}");
        }
        // Reading the rest after a prefix gives the same result as reading the whole text.
        let tokens = LEXICON.tokenizer().encode(text).unwrap();
        let split = LEXICON.bytes(tokens[0]).len() + LEXICON.bytes(tokens[1]).len();
        let whole = json.choices(b"", &tokens).unwrap();
        assert_eq!(json.choices(&text.as_bytes()[..split], &tokens[2..]).unwrap(), whole[2..]);
    }

    /// Forced bytes leave no choice, however many tokens could spell them.
    #[test]
    fn forced_text_leaves_no_choice() {
        let constraint = Constraint::regex(&LEXICON, "\\{\"captain\": \"(yes|no)\"\\}").unwrap();
        let tokens = LEXICON.tokenizer().encode("{\"captain\": \"yes\"}").unwrap();
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
        let constraint = Constraint::regex(&LEXICON, "The [a-z]+ ship").unwrap();
        let tokens = |text: &str| LEXICON.tokenizer().encode(text).unwrap();
        let departure = constraint.choices(b"", &tokens("The 8 ships")).unwrap_err();
        assert!(departure.at >= 3, "{departure:?}");
        assert!(departure.to_string().contains("expected: a to z"), "{departure}");
        assert!(constraint.choices(b"", &tokens("The old")).is_ok(), "a text may be cut short");
        assert!(constraint.choices(b"", &tokens(" The old ship")).is_ok(), "the space of a tokenizer");
        assert!(constraint.begins(b"The old sh") && !constraint.begins(b"The old shi ") && !constraint.begins(b"An"));
    }

    /// A tokenizer like that of Llama 2, which puts a space before every text.
    fn prepending() -> Lexicon {
        let pieces = (0x20..0x7f).map(|byte: u8| char::from(byte).to_string().replace(' ', "▁"));
        let pieces = pieces.chain(["▁t", "▁th", "▁the", "▁s", "▁se", "▁sea", "▁sh"].map(str::to_owned));
        let vocabulary: serde_json::Map<String, serde_json::Value> =
            pieces.enumerate().map(|(id, piece)| (piece, id.into())).collect();
        let replace = serde_json::json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        let json = serde_json::json!({
            "version": "1.0", "added_tokens": [], "pre_tokenizer": null,
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace]},
            "model": {"type": "BPE", "vocab": vocabulary,
                "merges": ["▁ t", "▁t h", "▁th e", "▁ s", "▁s e", "▁se a", "▁s h"]},
        });
        let tokenizer = Tokenizer::from_json(&serde_json::to_vec(&json).unwrap()).unwrap();
        Lexicon::new(Arc::new(tokenizer), &[])
    }

    #[test]
    fn the_space_of_a_tokenizer_is_passed_over_wherever_it_begins_to_read() {
        let lexicon = prepending();
        let tokenizer = lexicon.tokenizer();
        let schema = serde_json::json!({"type": "object", "additionalProperties": false, "required": ["name"],
            "properties": {"name": {"type": "string", "maxLength": 15}}});
        let constraint = Constraint::json_schema(&lexicon, &schema, Style::default()).unwrap();
        let text = r#"{"name":"the sea and sh"}"#;
        // Also from inside the string, which is of the maximum length.
        for skipped in 0..text.len() {
            let tokens = tokenizer.encode(&text[skipped..]).unwrap();
            assert!(lexicon.bytes(tokens[0]).starts_with(b" "));
            let choices = constraint.choices(&text.as_bytes()[..skipped], &tokens);
            assert_eq!(choices.map(|choices| choices.len()), Ok(tokens.len()), "from {skipped} on");
        }
        // A text of several chunks.
        let constraint = Constraint::regex(&lexicon, "(the ship )+").unwrap();
        let after = constraint.after_first(tokenizer.encode("the ship").unwrap()[0]);
        assert_eq!(after.at, after.machine.next(after.machine.start(), b"the"));
        let long = tokenizer.encode_long(&"the ship ".repeat(8000)).unwrap();
        assert_eq!(constraint.choices(b"", &long).map(|choices| choices.len()), Ok(long.len()));
        let wrong = tokenizer.encode_long(&("the ship ".repeat(8000) + "sea")).unwrap();
        let departure = constraint.choices(b"", &wrong).unwrap_err();
        assert_eq!(departure.at, 71_999, "{departure}");
    }

    /// A space of the text is one of its bytes; if both readings allow it, what comes after decides.
    #[test]
    fn a_space_that_is_in_the_text_is_counted() {
        let tokens = |text: &str| LEXICON.tokenizer().encode(text).unwrap();
        let constraint = Constraint::regex(&LEXICON, "The [a-z]+ ship").unwrap();
        let leaves = |text: &str| constraint.choices(b"", &tokens(text)).unwrap_err().at;
        assert_eq!(leaves(" The 8 ships"), leaves("The 8 ships") + 1);
        let constraint = Constraint::regex(&LEXICON, "a( b|b c)").unwrap();
        assert!(constraint.choices(b"a", &tokens(" b")).is_ok());
        let (space, rest) = (tokens(" b"), tokens(" c"));
        assert!(constraint.choices(b"a", &[space, rest].concat()).is_ok(), "the first space is the tokenizer's");
    }
}
