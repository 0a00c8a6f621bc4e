//! The sections of a text, token by token.

use smallvec::SmallVec;
use verdigris_logits::TokenId;

use super::syntax::{ReasoningSyntax, Section};
use crate::chunks::ReadError;
use crate::tokenizer::Tokenizer;
use crate::vocabulary::Vocabulary;

/// A syntax of thoughts with the markers of one tokenizer. It finds the sections of texts; a text's [`Position`] is the
/// only state.
///
/// A marker is found in any tokens, also if a token has a part of it and more. The first end marker ends a thought,
/// even if the model only quotes it.
#[derive(Clone, Debug)]
pub struct Reasoning {
    syntax: &'static ReasoningSyntax,
    begin: Vec<(Vec<u8>, Section)>,
    close: Vec<u8>,
    next: Vec<(Vec<u8>, Section)>,
    close_tokens: Vec<TokenId>,
    /// Whether line breaks between a thought and the answer belong to neither.
    drops_breaks: bool,
}

/// A position in a text with sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    at: At,
    /// Bytes that may belong to a marker.
    held: SmallVec<[u8; 64]>,
    thought_tokens: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// The message has not shown yet whether it begins with a thought.
    Begin,
    Thought,
    /// After the end of a thought, where another marker may follow.
    Next,
    /// Before the first character of an answer that follows a thought.
    Gap,
    Answer,
}

impl Reasoning {
    /// The syntax over the tokens of a tokenizer.
    ///
    /// # Errors
    /// [`ReadError`] if the tokenizer has no tokens for the end marker.
    pub fn new(syntax: &'static ReasoningSyntax, tokenizer: &Tokenizer) -> Result<Self, ReadError> {
        let spelled = |markers: &[(&str, Section)]| -> Vec<(Vec<u8>, Section)> {
            markers.iter().map(|&(marker, section)| (tokenizer.spell(marker), section)).collect()
        };
        Ok(Self {
            syntax,
            begin: spelled(syntax.begin),
            close: tokenizer.spell(syntax.close),
            next: spelled(syntax.next),
            close_tokens: tokenizer.encode_with_controls(syntax.close, '\u{FDD0}')?,
            drops_breaks: true,
        })
    }

    /// The syntax in delivered texts, in which markers are plain text. No thought can be ended.
    pub fn of_text(syntax: &'static ReasoningSyntax) -> Self {
        let plain = |markers: &[(&str, Section)]| -> Vec<(Vec<u8>, Section)> {
            markers.iter().map(|&(marker, section)| (marker.into(), section)).collect()
        };
        Self {
            syntax,
            begin: plain(syntax.begin),
            close: syntax.close.into(),
            next: plain(syntax.next),
            close_tokens: Vec::new(),
            drops_breaks: true,
        }
    }

    /// Keeps line breaks between a thought and the answer as part of the answer, which may begin with one.
    #[must_use]
    pub fn keep_breaks(self) -> Self {
        Self { drops_breaks: false, ..self }
    }

    /// The syntax itself.
    pub fn syntax(&self) -> &'static ReasoningSyntax {
        self.syntax
    }

    /// The [spellings](Vocabulary::spelling) of the markers that may begin a message, with the section that each
    /// begins.
    pub fn begin(&self) -> &[(Vec<u8>, Section)] {
        &self.begin
    }

    /// The spelling of the marker that ends a thought.
    pub fn close(&self) -> &[u8] {
        &self.close
    }

    /// The tokens of the marker that ends a thought.
    pub fn close_tokens(&self) -> &[TokenId] {
        &self.close_tokens
    }

    /// The spellings of the markers that may follow the end of a thought; empty if the answer follows at once.
    pub fn next(&self) -> &[(Vec<u8>, Section)] {
        &self.next
    }

    /// Whether line breaks between a thought and the answer belong to neither.
    pub fn drops_breaks(&self) -> bool {
        self.drops_breaks && self.next.is_empty()
    }

    /// The position after a prompt: templates may open a thought, or end an empty one.
    pub fn after_prompt(&self, vocabulary: &Vocabulary, prompt: &[TokenId]) -> Position {
        let markers = || self.begin.iter().map(|(marker, section)| (&marker[..], Some(*section)));
        let markers = || markers().chain([(&self.close[..], None)]);
        let longest = markers().map(|(marker, _)| marker.len()).max().unwrap_or(0);
        // Trailing spaces and line breaks do not count, so the end of the text must have more bytes than the markers.
        let (mut end, mut bytes) = (Vec::new(), 0);
        for &token in prompt.iter().rev() {
            let spelling = vocabulary.spelling(token);
            end.push(spelling);
            bytes += spelling.trim_ascii().len();
            if bytes > longest || end.len() > 64 {
                break;
            }
        }
        let end: Vec<u8> = end.into_iter().rev().flatten().copied().collect();
        let last = markers().find(|(marker, _)| end.trim_ascii_end().ends_with(marker.trim_ascii_end()));
        Position::new(match last {
            Some((_, Some(Section::Thought))) => At::Thought,
            Some((_, Some(Section::Answer))) => At::Answer,
            Some((_, None)) if self.next.is_empty() => At::Answer,
            Some((_, None)) => At::Next,
            None => At::Begin,
        })
    }

    /// Whether another thought may follow the one that has ended.
    pub fn may_think_again(&self, position: &Position) -> bool {
        position.at == At::Next && self.next.iter().any(|(_, section)| *section == Section::Thought)
    }

    /// Whether a token, given by its [spelling](Vocabulary::spelling), continues the marker of another thought, and not
    /// that of the answer.
    pub fn thinks_again(&self, position: &Position, spelling: &[u8]) -> bool {
        let held = position.held.trim_ascii_start();
        let continues = |wanted: Section| {
            self.next.iter().filter(|(_, section)| *section == wanted).any(|(marker, _)| {
                let rest = marker.strip_prefix(held);
                rest.is_some_and(|rest| rest.starts_with(spelling) || spelling.starts_with(rest))
            })
        };
        position.at == At::Next && !spelling.is_empty() && continues(Section::Thought) && !continues(Section::Answer)
    }

    /// Adds a token, given by its [spelling](Vocabulary::spelling), and passes the text of sections to `each` in order.
    /// Bytes that may belong to a marker are held back. Control tokens that are not part of a marker are passed on
    /// in their spelling.
    pub fn push(&self, position: &mut Position, spelling: &[u8], mut each: impl FnMut(Section, &[u8])) {
        position.thought_tokens += usize::from(position.at == At::Thought);
        for &byte in spelling {
            position.held.push(byte);
            while self.step(position, &mut each) {}
        }
    }

    /// Ends the text: passes on what was held back.
    pub fn finish(&self, mut position: Position, mut each: impl FnMut(Section, &[u8])) {
        let section = if position.at == At::Thought { Section::Thought } else { Section::Answer };
        let all = position.held.len();
        position.release(all, section, &mut each);
    }

    /// Takes a step if the held bytes allow one; returns whether there may be another.
    fn step(&self, position: &mut Position, each: &mut impl FnMut(Section, &[u8])) -> bool {
        let held = &position.held;
        if held.is_empty() {
            return false;
        }
        match position.at {
            At::Begin | At::Next => {
                let markers = if position.at == At::Begin { &self.begin } else { &self.next };
                // White space before a marker is not text.
                let begun = held.trim_ascii_start();
                if let Some((_, section)) = markers.iter().find(|(marker, _)| marker[..] == *begun) {
                    position.held.clear();
                    position.at = match section {
                        Section::Thought => At::Thought,
                        Section::Answer => At::Answer,
                    };
                    return false;
                }
                if markers.iter().any(|(marker, _)| marker.starts_with(begun)) {
                    return false;
                }
                position.at = if position.at == At::Begin { At::Answer } else { At::Gap };
                true
            }
            At::Gap if self.drops_breaks && held[0] == b'\n' => {
                position.held.remove(0);
                true
            }
            At::Gap => {
                position.at = At::Answer;
                true
            }
            At::Thought | At::Answer => {
                let is_thought = position.at == At::Thought;
                let section = if is_thought { Section::Thought } else { Section::Answer };
                // Only where another section may follow is the end of an answer of interest.
                let ends = is_thought || !self.next.is_empty();
                if ends && **held == *self.close {
                    position.held.clear();
                    position.at = if self.next.is_empty() { At::Gap } else { At::Next };
                    return false;
                }
                if ends && self.close.starts_with(held) {
                    return false;
                }
                position.release(1, section, each);
                true
            }
        }
    }
}

impl Position {
    fn new(at: At) -> Self {
        Self { at, held: SmallVec::new(), thought_tokens: 0 }
    }

    /// The position before a message.
    pub fn begin() -> Self {
        Self::new(At::Begin)
    }

    /// The position in a thought.
    pub fn thought() -> Self {
        Self::new(At::Thought)
    }

    /// The position of a text that is an answer from here on.
    pub fn answer() -> Self {
        Self::new(At::Answer)
    }

    /// Whether the next token is part of a thought.
    pub fn is_thought(&self) -> bool {
        self.at == At::Thought
    }

    /// Whether the answer has begun.
    pub fn is_answer(&self) -> bool {
        self.at == At::Answer
    }

    /// Whether the message has not shown yet whether it begins with a thought.
    pub fn is_begin(&self) -> bool {
        self.at == At::Begin
    }

    /// The number of tokens of thoughts so far, with those of their end markers.
    pub fn thought_tokens(&self) -> usize {
        self.thought_tokens
    }

    /// Passes on the first held bytes.
    fn release(&mut self, bytes: usize, section: Section, each: &mut impl FnMut(Section, &[u8])) {
        each(section, &self.held[..bytes]);
        self.held.drain(..bytes);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The fixture's tokenizer with the control tokens of a family.
    fn tokenizer(controls: &[&str]) -> Tokenizer {
        let mut file: Value =
            serde_json::from_slice(include_bytes!("../../../../fixtures/models/tale/tokenizer.json")).unwrap();
        for (id, name) in (4096..).zip(controls) {
            file["added_tokens"].as_array_mut().unwrap().push(json!({"id": id, "content": name, "single_word": false,
                "lstrip": false, "rstrip": false, "normalized": false, "special": true}));
        }
        Tokenizer::from_json(file.to_string().as_bytes()).unwrap()
    }

    const HARMONY: [&str; 5] = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>"];

    fn reasoning(name: &str, tokenizer: &Tokenizer) -> Reasoning {
        Reasoning::new(ReasoningSyntax::named(name).unwrap(), tokenizer).unwrap()
    }

    /// The thought and the answer of a text that is cut into pieces of some bytes, after a prompt.
    fn read(reasoning: &Reasoning, tokenizer: &Tokenizer, prompt: &str, text: &str, piece: usize) -> (String, String) {
        let prompt = tokenizer.encode_with_controls(prompt, '\u{FDD0}').unwrap();
        let mut position = reasoning.after_prompt(tokenizer.vocabulary(), &prompt);
        let (mut thought, mut answer) = (Vec::new(), Vec::new());
        let is_text = |byte: &&u8| !Vocabulary::CONTROL.contains(byte);
        let mut each = |section, bytes: &[u8]| match section {
            Section::Thought => thought.extend(bytes.iter().filter(is_text)),
            Section::Answer => answer.extend(bytes.iter().filter(is_text)),
        };
        tokenizer.spell(text).chunks(piece).for_each(|bytes| reasoning.push(&mut position, bytes, &mut each));
        reasoning.finish(position, each);
        (String::from_utf8(thought).unwrap(), String::from_utf8(answer).unwrap())
    }

    #[test]
    fn thoughts_are_found_wherever_tokens_are_cut() {
        let (plain, harmony) = (tokenizer(&[]), tokenizer(&HARMONY));
        let gemma = tokenizer(&["<|channel>", "<channel|>"]);
        for (name, tokenizer, prompt, text, thought, answer) in [
            // The model opens the thought, or the template does.
            ("think", &plain, "Hi", "<think>\nOne.\n</think>\n\nTwo.", "\nOne.\n", "Two."),
            ("think", &plain, "Hi<think>\n", "One.</think>\n\nTwo.", "One.", "Two."),
            ("think", &plain, "Hi", "\n<think></think>Two", "", "Two"),
            // The template ends an empty thought: a marker is text from here on.
            ("think", &plain, "Hi<think>\n\n</think>\n\n", "a <think> b</think>", "", "a <think> b</think>"),
            ("think", &plain, "Hi", "Two </think> or <think>.", "", "Two </think> or <think>."),
            ("think", &plain, "Hi", "<thin ice", "", "<thin ice"),
            ("think", &plain, "Hi", " \n", "", " \n"),
            // Almost a marker, a quoted one, and a thought without an end.
            ("think", &plain, "<think>", "a </thin</think>b</think>", "a </thin", "b</think>"),
            ("think", &plain, "<think>", "a </think", "a </think", ""),
            ("mistral", &plain, "", "[THINK]Eins.[/THINK]Zwei.", "Eins.", "Zwei."),
            ("gemma4", &gemma, "", "<|channel>thought\nOne.<channel|>Two.", "One.", "Two."),
            ("gemma4", &gemma, "<|channel>thought\n<channel|>", "Two.", "", "Two."),
            (
                "harmony",
                &harmony,
                "<|start|>assistant",
                "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>analysis<|message|>More.<|end|>\
                 <|start|>assistant<|channel|>final<|message|>Two.<|return|>",
                "One.More.",
                "Two.<|return|>",
            ),
            ("harmony", &harmony, "<|start|>assistant", "<|channel|>final<|message|>Two.", "", "Two."),
            // A channel that is unknown belongs to the answer, with its control tokens.
            (
                "harmony",
                &harmony,
                "<|start|>assistant<|channel|>analysis<|message|>",
                "One.<|end|><|start|>assistant<|channel|>commentary<|message|>So:",
                "One.",
                "<|start|>assistant<|channel|>commentary<|message|>So:",
            ),
        ] {
            let reasoning = reasoning(name, tokenizer);
            for piece in [1, 2, 3, 7, 1000] {
                let read = read(&reasoning, tokenizer, prompt, text, piece);
                assert_eq!(read, (thought.to_owned(), answer.to_owned()), "{text:?} by {piece}");
            }
        }
    }

    #[test]
    fn breaks_can_be_part_of_the_answer() {
        let tokenizer = tokenizer(&[]);
        let reasoning = reasoning("think", &tokenizer).keep_breaks();
        assert_eq!(read(&reasoning, &tokenizer, "<think>", "a</think>\n\nb", 3), ("a".into(), "\n\nb".into()));
    }

    #[test]
    fn tokens_of_thoughts_are_counted() {
        let tokenizer = tokenizer(&[]);
        let reasoning = reasoning("think", &tokenizer);
        let mut position = reasoning.after_prompt(tokenizer.vocabulary(), &[]);
        for (token, thought_tokens) in
            [("<th", 0), ("ink>", 0), ("a", 1), (" b", 2), ("</thi", 3), ("nk>c", 4), ("d", 4)]
        {
            reasoning.push(&mut position, token.as_bytes(), |_, _| ());
            assert_eq!(position.thought_tokens(), thought_tokens, "{token}");
        }
        assert!(position.is_answer());
    }

    #[test]
    fn another_thought_has_a_marker_of_its_own() {
        let tokenizer = tokenizer(&HARMONY);
        let reasoning = reasoning("harmony", &tokenizer);
        let mut position = Position::thought();
        let mut after = |text: &str| {
            reasoning.push(&mut position, &tokenizer.spell(text), |_, _| ());
            let again = |text: &str| reasoning.thinks_again(&position, &tokenizer.spell(text));
            (reasoning.may_think_again(&position), again("a"), again("analysis"), again("f"), again("commentary"))
        };
        assert_eq!(after("x"), (false, false, false, false, false));
        assert_eq!(after("<|end|>"), (true, false, false, false, false));
        // Both markers continue with `assistant`.
        assert_eq!(after("<|start|>"), (true, false, false, false, false));
        assert_eq!(after("assistant<|channel|>"), (true, true, true, false, false));
        assert_eq!(after("anal"), (true, false, false, false, false));
    }

    #[test]
    fn templates_show_their_syntax() {
        let of = |source: &str| ReasoningSyntax::of(source).map(|syntax| syntax.name);
        assert_eq!(of("{{ '<think>\\n' + m.reasoning_content + '\\n</think>\\n\\n' }}"), Some("think"));
        assert_eq!(of("{{ '<|start|>assistant<|channel|>analysis<|message|>' }}"), Some("harmony"));
        assert_eq!(of("{{ '<|channel>thought\\n<channel|>' }}"), Some("gemma4"));
        assert_eq!(of("{{ m.content }}"), None);
        assert!(ReasoningSyntax::names().all(|name| ReasoningSyntax::named(name).is_some()));
    }
}
