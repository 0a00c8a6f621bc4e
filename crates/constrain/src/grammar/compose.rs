//! Grammars made of others: one after the other, one of several, one again and again.
//!
//! A tool call is a text, then JSON, then a text: `<tool>{"name": "clock"}</tool>`.

use crate::automata::automaton::Automaton;
use crate::grammar::{Grammar, Rule, Step, TooLarge};

impl Grammar {
    /// The grammar of one text as it is.
    pub fn text(text: &str) -> Self {
        match Automaton::literals([text]) {
            Ok(automaton) => Self::of(automaton),
            Err(_) => unreachable!("one text is a list of texts"),
        }
    }

    /// Texts of some grammars, one after the other. Of none it is the empty text.
    ///
    /// # Errors
    /// Together they are too large.
    pub fn sequence(parts: impl IntoIterator<Item = Self>) -> Result<Self, TooLarge> {
        let mut whole = Self::empty();
        let text = whole.rule();
        let parts: Vec<Rule> = parts.into_iter().map(|part| whole.take_in(part)).collect();
        let entry = parts.into_iter().rev().fold(Self::RETURN, |next, part| whole.call(part, next));
        whole.define(text, entry);
        whole.closed()
    }

    /// A text of one of some grammars, of which there is at least one.
    ///
    /// # Errors
    /// Together they are too large.
    pub fn one_of(first: Self, others: impl IntoIterator<Item = Self>) -> Result<Self, TooLarge> {
        let mut whole = Self::empty();
        let text = whole.rule();
        let parts: Vec<Rule> = std::iter::once(first).chain(others).map(|part| whole.take_in(part)).collect();
        let ways = parts.into_iter().map(|part| whole.call(part, Self::RETURN)).collect();
        let entry = whole.fork(ways);
        whole.define(text, entry);
        whole.closed()
    }

    /// Texts of this grammar, `least` to `most` of them one after the other; without an end to them where `most` is
    /// `None`. `most` is not smaller than `least`.
    ///
    /// # Errors
    /// It is too large.
    pub fn repeat(self, least: u32, most: Option<u32>) -> Result<Self, TooLarge> {
        if least > MAX_TIMES || most.is_some_and(|most| most > MAX_TIMES) {
            return Err(TooLarge);
        }
        let mut whole = Self::empty();
        let text = whole.rule();
        let part = whole.take_in(self);
        let mut entry = match most {
            None => {
                let again = whole.fork(vec![Self::RETURN]);
                let once_more = whole.call(part, again);
                whole.steps[again as usize] = Step::Fork(vec![Self::RETURN, once_more]);
                again
            }
            Some(most) => (least..most).fold(Self::RETURN, |next, _| {
                let once_more = whole.call(part, next);
                whole.fork(vec![Self::RETURN, once_more])
            }),
        };
        entry = (0..least).fold(entry, |next, _| whole.call(part, next));
        whole.define(text, entry);
        whole.closed()
    }

    fn closed(self) -> Result<Self, TooLarge> {
        // Every part has a text, so the whole has one.
        self.finish().map_err(|_| TooLarge)
    }

    /// Takes in all of a grammar that has not run yet; returns its first rule.
    fn take_in(&mut self, other: Self) -> Rule {
        let (steps, terminals) = (self.steps.len() as u32 - 1, self.terminals.len() as u32);
        let (rules, paths) = (self.entries.len() as u32, self.paths.len() as u32);
        let places = self.places.take_in(other.places, rules, terminals);
        // All ends are one.
        let at = |at: u32| if at == Self::RETURN { at } else { at + steps };
        for (step, origin) in other.steps.into_iter().zip(other.origins).skip(1) {
            self.here = origin + paths;
            self.step(match step {
                Step::Read { terminal, next } => Step::Read { terminal: terminal + terminals, next: at(next) },
                Step::Call { rule, next } => Step::Call { rule: rule + rules, next: at(next) },
                Step::Fork(ways) => Step::Fork(ways.into_iter().map(at).collect()),
                Step::Place(place) => Step::Place(place + places),
                Step::Return | Step::Name { .. } => unreachable!("made when the grammar runs, or left out"),
            });
        }
        self.terminals.extend(other.terminals);
        self.entries.extend(other.entries.into_iter().map(at));
        self.paths.extend(other.paths);
        rules
    }
}

/// The most times that something is repeated by count.
const MAX_TIMES: u32 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, Style, Trie};
    use serde_json::json;
    use std::sync::Arc;
    use verdigris_text::Tokenizer;

    fn accepts(grammar: Grammar, texts: &[(&str, bool)]) {
        let tokenizer = include_bytes!("../../../../fixtures/models/tale/tokenizer.json");
        let trie = Arc::new(Trie::new(Tokenizer::from_json(tokenizer).unwrap().vocabulary()));
        let machine = Machine::new(grammar, trie);
        for &(text, expected) in texts {
            let state = machine.next(machine.start(), text.as_bytes());
            assert_eq!(machine.accepts(state), expected, "{text}");
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
            Grammar::sequence([Grammar::text(&format!("<{name}>")), arguments, Grammar::text(&format!("</{name}>"))])
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
