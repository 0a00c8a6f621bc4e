//! Answers after a thought.

use verdigris_text::reasoning::Position;
use verdigris_text::{Reasoning, ReasoningSyntax, Section};

use crate::grammar::{Grammar, TooLarge};

impl Grammar {
    /// The grammar of texts from a position on: thoughts, in which everything is allowed, and an answer that obeys this
    /// grammar.
    ///
    /// # Errors
    /// [`TooLarge`]
    pub fn after_thought(self, reasoning: &Reasoning, start: &Position) -> Result<Self, TooLarge> {
        if start.is_answer() {
            return Ok(self);
        }
        if start.is_thought() {
            return self.after_end(reasoning);
        }
        if !start.is_begin() {
            return self.after_gap(reasoning);
        }
        let begun = reasoning.begin().iter().map(|(marker, section)| {
            let rest = match section {
                Section::Thought => self.clone().after_end(reasoning)?,
                Section::Answer => self.clone(),
            };
            Self::sequence([Self::text(marker), rest])
        });
        let begun = begun.collect::<Result<Vec<_>, _>>()?;
        // The answer may also come at once, unless it has a marker.
        let mut ways = begun.into_iter().chain((!marks_answer(reasoning)).then(|| self.clone()));
        let first = ways.next().expect("a syntax has a begin marker");
        Self::one_of(first, ways)
    }

    /// The grammar of delivered texts that still have a thought, with its markers as plain text, and of those that have
    /// none; the answer obeys this grammar. The begin marker may be missing, as some templates write it.
    ///
    /// # Errors
    /// [`TooLarge`]
    pub fn with_thought(self, syntax: &'static ReasoningSyntax) -> Result<Self, TooLarge> {
        let [begun, opened] = self.readings_with_thought(syntax)?;
        Self::one_of(begun, [opened])
    }

    /// The two grammars of [`Grammar::with_thought`]: of texts that begin with a thought or the answer, and of texts
    /// whose thought has no begin marker. The second allows any text, as a thought without its end, and so says nothing
    /// about a text that obeys the first.
    ///
    /// # Errors
    /// [`TooLarge`]
    pub fn readings_with_thought(self, syntax: &'static ReasoningSyntax) -> Result<[Self; 2], TooLarge> {
        let reasoning = Reasoning::of_text(syntax);
        let after = |start| self.clone().after_thought(&reasoning, &start);
        let mut begun = after(Position::begin())?;
        if marks_answer(&reasoning) {
            // A delivered answer may lack its marker.
            begun = Self::one_of(self.clone(), [begun])?;
        }
        Ok([begun, after(Position::thought())?])
    }

    /// The rest of a thought, and the answer.
    fn after_end(self, reasoning: &Reasoning) -> Result<Self, TooLarge> {
        let to_end = || Self::up_to(reasoning.close()).ok_or(TooLarge);
        let again = reasoning.next().iter().filter(|(_, section)| *section == Section::Thought);
        let again = again.map(|(marker, _)| Self::sequence([to_end()?, Self::text(marker)]));
        let mut parts = Vec::new();
        for again in again {
            parts.push(again?.repeat(0, None)?);
        }
        parts.extend([to_end()?, self.after_gap(reasoning)?]);
        Self::sequence(parts)
    }

    /// The text after a thought: the marker of the answer, or at most two line breaks, and the answer.
    fn after_gap(self, reasoning: &Reasoning) -> Result<Self, TooLarge> {
        let mut markers = reasoning.next().iter().filter(|(_, section)| *section == Section::Answer);
        let between = match markers.next() {
            Some((marker, _)) => Self::text(marker),
            None if reasoning.drops_breaks() => Self::text("\n").repeat(0, Some(2))?,
            None => return Ok(self),
        };
        Self::sequence([between, self])
    }
}

/// Whether a syntax has a marker before an answer without a thought.
fn marks_answer(reasoning: &Reasoning) -> bool {
    reasoning.begin().iter().any(|(_, section)| *section == Section::Answer)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use verdigris_text::Tokenizer;

    use super::*;
    use crate::fixture::{accepts, machine_of};
    use crate::{Lexicon, Machine};

    fn tokenizer() -> Tokenizer {
        let mut file: Value =
            serde_json::from_slice(include_bytes!("../../../fixtures/models/tale/tokenizer.json")).unwrap();
        let controls = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|channel>", "<channel|>"];
        for (id, name) in (4096..).zip(controls) {
            file["added_tokens"].as_array_mut().unwrap().push(json!({"id": id, "content": name, "single_word": false,
                "lstrip": false, "rstrip": false, "normalized": false, "special": true}));
        }
        Tokenizer::from_json(file.to_string().as_bytes()).unwrap()
    }

    /// Each family, after a prompt: texts that are allowed, and texts that are not.
    #[test]
    fn answers_obey_after_any_thought() {
        let tokenizer = Arc::new(tokenizer());
        let lexicon = Lexicon::new(tokenizer.clone(), &[0]);
        for (name, prompt, yes, no) in [
            (
                "think",
                "Hi",
                &["42", "<think>a 1</think>42", "<think></think>\n\n42"][..],
                &["", "a", "<think>42", "</think>42"][..],
            ),
            (
                "think",
                "<think>\n",
                &["</think>42", "a <think> 7</think>\n42"],
                &["42", "a</think>b", "a</think>\n\n\n42"],
            ),
            ("think", "</think>\n\n", &["42"], &["<think></think>42"]),
            ("gemma4", "Hi", &["42", "<|channel>thought\na<channel|>42"], &["<|channel>42", "a<channel|>42"]),
            (
                "harmony",
                "<|start|>",
                &[
                    "<|channel|>final<|message|>42",
                    "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>42",
                    "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b<|end|>\
                     <|start|>assistant<|channel|>final<|message|>42",
                ],
                &[
                    "42",
                    "<|channel|>final<|message|>a",
                    "<|channel|>analysis<|message|>a<|end|>42",
                    "<|channel|>analysis<|message|>a<|start|>b<|end|><|start|>assistant<|channel|>final<|message|>42",
                ],
            ),
        ] {
            let reasoning = Reasoning::new(ReasoningSyntax::named(name).unwrap(), &tokenizer).unwrap();
            let prompt: Vec<u32> = tokenizer.encode(prompt).unwrap();
            let start = reasoning.after_prompt(tokenizer.vocabulary(), &prompt);
            let grammar = Grammar::regex("[0-9]{2}").unwrap().after_thought(&reasoning, &start).unwrap();
            let machine = Machine::new(grammar, lexicon.index().clone());
            for (texts, expected) in [(yes, true), (no, false)] {
                for text in texts {
                    let state = machine.next(machine.start(), &tokenizer.spell(text));
                    assert_eq!(machine.accepts(state), expected, "{name}: {text}");
                }
            }
            // Control tokens are allowed where the marker has them.
            let end = (0..4102).find(|&token| tokenizer.vocabulary().spelling(token) == reasoning.close());
            if let Some(end) = end {
                let in_thought = tokenizer.spell("<|channel|>analysis<|message|>a").len();
                let begun = &tokenizer.spell(yes[1])[..if name == "harmony" { in_thought } else { 21 }];
                let mask = machine.mask(machine.next(machine.start(), begun));
                assert!(mask.tokens.contains(end) && !mask.tokens.contains(4096), "{name}");
            }
        }
    }

    #[test]
    fn delivered_texts_may_have_a_thought() {
        for (name, yes, no) in [
            (
                "think",
                &["42", "<think>a</think>42", "a 1</think>\n\n42", "</think>42"][..],
                &["a42", "<think>42", "a</think>a"][..],
            ),
            (
                "harmony",
                &[
                    "42",
                    "<|channel|>final<|message|>42",
                    "a<|end|><|start|>assistant<|channel|>final<|message|>42",
                    "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>42",
                ],
                &["a<|end|>42", "<|channel|>analysis<|message|>42"],
            ),
        ] {
            let answer = Grammar::regex("[0-9]{2}").unwrap();
            let machine = machine_of(answer.with_thought(ReasoningSyntax::named(name).unwrap()).unwrap());
            yes.iter().for_each(|text| assert!(accepts(&machine, text), "{name} must accept {text:?}"));
            no.iter().for_each(|text| assert!(!accepts(&machine, text), "{name} must not accept {text:?}"));
        }
    }
}
