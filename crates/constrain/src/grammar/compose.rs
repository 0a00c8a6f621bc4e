//! Grammars composed of others: sequences, alternatives, repetitions.
//!
//! A tool call is a text, then JSON, then a text: `<tool>{"name": "clock"}</tool>`.

use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::grammar::builder::GrammarBuilder;
use crate::grammar::step::{RETURN, Rule};
use crate::grammar::{Grammar, TooLarge};
use crate::terminal::Terminal;

impl Grammar {
    /// The grammar of one automaton.
    pub(crate) fn of(automaton: Automaton) -> Self {
        Self::of_terminal(Terminal::Table(Box::new(automaton)))
    }

    /// The grammar of one terminal.
    pub(crate) fn of_terminal(terminal: Terminal) -> Self {
        let mut grammar = GrammarBuilder::new();
        let (rule, terminal) = (grammar.rule(), grammar.terminal(terminal));
        let entry = grammar.read(terminal, RETURN);
        grammar.define(rule, entry);
        grammar.finish().expect("a terminal accepts something")
    }

    /// Creates the grammar of a list of texts, any one of which is accepted.
    ///
    /// # Errors
    /// The list is empty, or too long.
    pub fn choice<T: AsRef<str>>(texts: &[T]) -> Result<Self, BadChoice> {
        match Automaton::literals(texts.iter().map(|text| text.as_ref().as_bytes())) {
            Ok(automaton) => Ok(Self::of(automaton)),
            Err(NoAutomaton::Empty) => Err(BadChoice::Empty),
            Err(NoAutomaton::TooLarge) => Err(BadChoice::TooLarge),
        }
    }

    /// Creates the grammar of exactly one text. [`Tokenizer::spell`](verdigris_text::Tokenizer::spell) returns the
    /// bytes of one with control tokens.
    pub fn text(text: impl AsRef<[u8]>) -> Self {
        match Automaton::literals([text]) {
            Ok(automaton) => Self::of(automaton),
            Err(_) => unreachable!("one text is a list of texts"),
        }
    }

    /// Creates the grammar of texts of several grammars in sequence. Without parts, it accepts the empty text.
    ///
    /// # Errors
    /// Together they are too large.
    pub fn sequence(parts: impl IntoIterator<Item = Self>) -> Result<Self, TooLarge> {
        let mut whole = GrammarBuilder::new();
        let text = whole.rule();
        let parts: Vec<Rule> = parts.into_iter().map(|part| whole.take_in(&part)).collect();
        let entry = parts.into_iter().rev().fold(RETURN, |next, part| whole.call(part, next));
        whole.define(text, entry);
        closed(whole)
    }

    /// Creates the grammar of texts of any one of several grammars.
    ///
    /// # Errors
    /// Together they are too large.
    pub fn one_of(first: Self, others: impl IntoIterator<Item = Self>) -> Result<Self, TooLarge> {
        let mut whole = GrammarBuilder::new();
        let text = whole.rule();
        let parts: Vec<Rule> = std::iter::once(first).chain(others).map(|part| whole.take_in(&part)).collect();
        let ways = parts.into_iter().map(|part| whole.call(part, RETURN)).collect();
        let entry = whole.fork(ways);
        whole.define(text, entry);
        closed(whole)
    }

    /// Creates the grammar of `least` to `most` texts of this one in sequence, unlimited if `most` is `None`. `most`
    /// must not be smaller than `least`.
    ///
    /// # Errors
    /// It is too large.
    pub fn repeat(self, least: u32, most: Option<u32>) -> Result<Self, TooLarge> {
        if least > MAX_TIMES || most.is_some_and(|most| most > MAX_TIMES) {
            return Err(TooLarge);
        }
        let mut whole = GrammarBuilder::new();
        let text = whole.rule();
        let part = whole.take_in(&self);
        let mut entry = match most {
            None => {
                let again = whole.fork(vec![RETURN]);
                let once_more = whole.call(part, again);
                whole.set_fork(again, vec![RETURN, once_more]);
                again
            }
            Some(most) => (least..most).fold(RETURN, |next, _| {
                let once_more = whole.call(part, next);
                whole.fork(vec![RETURN, once_more])
            }),
        };
        entry = (0..least).fold(entry, |next, _| whole.call(part, next));
        whole.define(text, entry);
        closed(whole)
    }
}

fn closed(whole: GrammarBuilder) -> Result<Grammar, TooLarge> {
    // Every part has a text, so the whole has one.
    whole.finish().map_err(|_| TooLarge)
}

/// The reason why a list of texts does not make a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadChoice {
    /// The list is empty.
    #[error("a choice needs at least one text")]
    Empty,
    /// The texts together are too long.
    #[error("the texts to choose from are too many or too long")]
    TooLarge,
}

/// The maximum count of a repetition.
const MAX_TIMES: u32 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Style, fixture};
    use serde_json::json;

    fn accepts(grammar: Grammar, texts: &[(&str, bool)]) {
        let machine = fixture::machine_of(grammar);
        for &(text, expected) in texts {
            assert_eq!(fixture::accepts(&machine, text), expected, "{text}");
        }
    }

    fn json(schema: serde_json::Value) -> Grammar {
        Grammar::json_schema(&schema, Style::default()).unwrap()
    }

    #[test]
    fn tool_calls() {
        let clock = json(
            json!({"type": "object", "required": ["zone"], "properties": {"zone": {"enum": ["UTC", "CET"]}}, "additionalProperties": false}),
        );
        let numbers = json(
            json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true, "contains": {"minimum": 5}, "maxItems": 1}),
        );
        let call = |name: &str, arguments| {
            Grammar::sequence([Grammar::text(format!("<{name}>")), arguments, Grammar::text(format!("</{name}>"))])
                .unwrap()
        };
        let calls = Grammar::one_of(call("clock", clock), [call("sum", numbers)]).unwrap();
        let grammar =
            Grammar::sequence([Grammar::regex("[a-z ]{0,9}:").unwrap(), calls.repeat(1, Some(2)).unwrap()]).unwrap();
        accepts(
            grammar,
            &[
                ("now:<clock>{\"zone\":\"CET\"}</clock>", true),
                (":<sum>[7]</sum><clock>{\"zone\": \"UTC\"}</clock>", true),
                (":<sum>[4]</sum>", false),
                (":<sum>[7]</clock>", false),
                ("now:", false),
                (":<sum>[7]</sum><sum>[7]</sum><sum>[7]</sum>", false),
            ],
        );
    }

    #[test]
    fn as_often_as_is_said() {
        let x = || Grammar::text("ab");
        accepts(x().repeat(0, None).unwrap(), &[("", true), ("ab", true), ("ababab", true), ("aba", false)]);
        accepts(
            x().repeat(2, Some(3)).unwrap(),
            &[("ab", false), ("abab", true), ("ababab", true), ("abababab", false)],
        );
        accepts(x().repeat(2, None).unwrap(), &[("ab", false), ("abab", true), ("abababab", true)]);
        accepts(Grammar::text("").repeat(3, None).unwrap(), &[("", true), ("a", false)]);
        accepts(Grammar::sequence([]).unwrap(), &[("", true), ("a", false)]);
        assert!(x().repeat(0, Some(1 << 30)).is_err());
    }
}
