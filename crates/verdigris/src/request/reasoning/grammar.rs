//! The constraint of an answer after a thought.

use verdigris_constrain::{Grammar, TooLarge};
use verdigris_text::reasoning::Position;
use verdigris_text::{Reasoning, Section};

/// The grammar of texts that begin at a position: thoughts, in which everything is allowed, and an answer.
pub(super) fn whole(reasoning: &Reasoning, start: &Position, answer: Grammar) -> Result<Grammar, TooLarge> {
    if start.is_answer() {
        return Ok(answer);
    }
    if start.is_thought() {
        return thought(reasoning, answer);
    }
    if !start.is_begin() {
        return after(reasoning, answer);
    }
    let begun = reasoning.begin().iter().map(|(marker, section)| {
        let rest = match section {
            Section::Thought => thought(reasoning, answer.clone())?,
            Section::Answer => answer.clone(),
        };
        Grammar::sequence([Grammar::text(marker), rest])
    });
    let begun = begun.collect::<Result<Vec<_>, _>>()?;
    // The answer may also come at once, unless it has a marker.
    let is_marked = reasoning.begin().iter().any(|(_, section)| *section == Section::Answer);
    let mut ways = begun.into_iter().chain((!is_marked).then(|| answer.clone()));
    let first = ways.next().expect("a syntax has a begin marker");
    Grammar::one_of(first, ways)
}

/// The rest of a thought, and the answer.
fn thought(reasoning: &Reasoning, answer: Grammar) -> Result<Grammar, TooLarge> {
    let to_end = || Grammar::up_to(reasoning.close()).ok_or(TooLarge);
    let again = reasoning.next().iter().filter(|(_, section)| *section == Section::Thought);
    let again = again.map(|(marker, _)| Grammar::sequence([to_end()?, Grammar::text(marker)]));
    let mut parts = Vec::new();
    for again in again {
        parts.push(again?.repeat(0, None)?);
    }
    parts.extend([to_end()?, after(reasoning, answer)?]);
    Grammar::sequence(parts)
}

/// The text after a thought: the marker of the answer, or at most two line breaks, and the answer.
fn after(reasoning: &Reasoning, answer: Grammar) -> Result<Grammar, TooLarge> {
    let mut markers = reasoning.next().iter().filter(|(_, section)| *section == Section::Answer);
    let between = match markers.next() {
        Some((marker, _)) => Grammar::text(marker),
        None if reasoning.drops_breaks() => Grammar::text("\n").repeat(0, Some(2))?,
        None => return Ok(answer),
    };
    Grammar::sequence([between, answer])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use verdigris_constrain::{Lexicon, Machine};
    use verdigris_text::{ReasoningSyntax, Tokenizer};

    use super::*;

    fn tokenizer() -> Tokenizer {
        let mut file: Value =
            serde_json::from_slice(include_bytes!("../../../../../fixtures/models/tale/tokenizer.json")).unwrap();
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
            let grammar = whole(&reasoning, &start, Grammar::regex("[0-9]{2}").unwrap()).unwrap();
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
}
