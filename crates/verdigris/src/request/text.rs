//! A text assembled from tokens.

use std::sync::Arc;

use verdigris_decoding::{Provenance, Stop};
use verdigris_logits::TokenId;
use verdigris_schedule::Ended;
use verdigris_text::{Section, TextStream, Tokenizer, Vocabulary};

use crate::request::healing::Healing;
use crate::request::piece::{Piece, Ready};
use crate::request::reasoning::{SectionPosition, Sections};
use crate::request::stop::StopStrings;
use crate::request::structure::Structure;
use crate::request::{Request, Written};

/// The text written so far.
pub(super) struct Text {
    written: Written,
    tokenizer: Arc<Tokenizer>,
    /// The syntax of sections, and the position in the text.
    sections: Option<(Sections, SectionPosition)>,
    thought: TextStream<Arc<Tokenizer>>,
    characters: TextStream<Arc<Tokenizer>>,
    stops: StopStrings,
    /// The number of bytes left of the prompt's end, which the text begins with, for a text without sections.
    rest: usize,
    /// The number of control tokens that were passed on.
    passed_controls: usize,
    /// Whether the answer after a thought has begun.
    has_answer: bool,
    /// Whether the provenance of tokens is kept.
    is_explained: bool,
    max_tokens: usize,
}

impl Text {
    /// A text without tokens.
    pub(super) fn new(request: &Request<'_>, structure: &Structure, prompt_tokens: usize, seed: u64) -> Self {
        let written = Written {
            text: String::new(),
            controls: Vec::new(),
            reasoning: None,
            reasoning_tokens: 0,
            answer_start: 0,
            tokens: Vec::new(),
            prompt_tokens,
            stop: None,
            stop_string: None,
            complete: None,
            closed: false,
            seed,
            acceptance: None,
            lossy: None,
            logprobs: None,
            explained: None,
            provenance: Vec::new(),
            constraint: None,
            steering_kl: None,
        };
        let tokenizer = request.engine.reader().tokenizer().clone();
        Self {
            written,
            sections: structure.sections.as_ref().map(|sections| (sections.clone(), sections.start.clone())),
            thought: TextStream::new(tokenizer.clone()),
            characters: TextStream::new(tokenizer.clone()),
            tokenizer,
            stops: StopStrings::new(&request.ends.stops),
            rest: structure.healing.as_ref().map_or(0, Healing::rest),
            passed_controls: 0,
            has_answer: false,
            is_explained: request.reported.explain,
            max_tokens: request.ends.max_tokens,
        }
    }

    /// Takes a token. Passes the pieces that are ready to `each`, with their sections.
    pub(super) fn push(&mut self, token: TokenId, provenance: Provenance, each: &mut dyn FnMut(Section, Ready<'_>)) {
        self.written.tokens.push(token);
        if self.is_explained {
            self.written.provenance.push(provenance);
        }
        let before = self.written.text.len();
        match &mut self.sections {
            None => {
                let tokenizer = self.tokenizer.clone();
                let bytes = tokenizer.vocabulary().bytes(token);
                let of_prompt = bytes.len().min(self.rest);
                self.rest -= of_prompt;
                self.stops.push(self.characters.push_bytes(&bytes[of_prompt..]), &mut self.written.text);
                tokenizer.vocabulary().control(token).into_iter().for_each(|name| self.push_control(name));
            }
            Some((sections, position)) => {
                let mut bytes = SectionBytes::default();
                sections.push(position, token, |section, some| bytes.add(section, some));
                self.written.reasoning_tokens = position.thought_tokens();
                self.has_answer |= !bytes.answer.is_empty();
                if self.written.reasoning_tokens > 0 && !self.has_answer {
                    self.written.answer_start = self.written.tokens.len();
                }
                self.push_thought(&bytes.thought, each);
                self.push_answer(&bytes.answer);
            }
        }
        // Control tokens after text that is held back wait for it.
        let (text, passed) = (&self.written.text, self.passed_controls);
        let ready = self.written.controls[passed..].iter().take_while(|(at, _)| *at <= text.len()).count();
        self.passed_controls += ready;
        let controls = &self.written.controls[passed..passed + ready];
        pass(Section::Answer, Ready { text: &text[before..], from: before, controls }, each);
    }

    /// Takes the next bytes of the answer, in which control tokens are [spelled](Vocabulary::spelling).
    fn push_answer(&mut self, spelled: &[u8]) {
        for (text, control) in parts(spelled) {
            self.stops.push(self.characters.push_bytes(text), &mut self.written.text);
            control.into_iter().for_each(|name| self.push_control(name));
        }
    }

    /// Takes a control token of the answer, after all text so far.
    fn push_control(&mut self, name: &str) {
        if self.stops.found().is_none() {
            self.written.controls.push((self.written.text.len() + self.stops.held_bytes(), name.into()));
        }
    }

    /// Takes the next bytes of the thought, whose control tokens are left out.
    fn push_thought(&mut self, spelled: &[u8], each: &mut dyn FnMut(Section, Ready<'_>)) {
        for (text, _) in parts(spelled) {
            let piece = self.thought.push_bytes(text);
            // A thought usually begins with a line break, which says nothing.
            let piece = if self.written.reasoning.is_some() { piece } else { piece.trim_start_matches('\n') };
            if !piece.is_empty() {
                self.written.reasoning.get_or_insert_default().push_str(piece);
            }
            pass(Section::Thought, Ready { text: piece, from: 0, controls: &[] }, each);
        }
    }

    /// Whether a stop string was found.
    pub(super) fn is_stopped(&self) -> bool {
        self.stops.found().is_some()
    }

    /// Returns the finished text, and the pieces of it that were held back. If the reader ended the text, these are
    /// dropped.
    pub(super) fn end(mut self, ended: Ended) -> (Written, Vec<(Section, Piece)>) {
        let mut rest = Vec::new();
        let from = self.written.text.len();
        if ended.stop.is_some() {
            if let Some((sections, position)) = self.sections.take() {
                let mut bytes = SectionBytes::default();
                sections.finish(position, |section, some| bytes.add(section, some));
                self.push_thought(&bytes.thought, &mut |section, piece| rest.push((section, piece.piece())));
                self.push_answer(&bytes.answer);
            }
            self.stops.push(self.characters.finish(), &mut self.written.text);
            self.written.text += &self.stops.finish();
        }
        let mut written = self.written;
        let end = written.text.len();
        written.controls.retain(|(at, _)| *at <= end);
        let controls = &written.controls[self.passed_controls..];
        let answer = Ready { text: &written.text[from..], from, controls };
        pass(Section::Answer, answer, &mut |section, piece| rest.push((section, piece.piece())));
        written.stop_string = self.stops.found().map(str::to_owned);
        written.stop = match ended.stop {
            _ if written.stop_string.is_some() => Some(Stop::StopString),
            // The limit of prompt and text together was the lower one.
            Some(Stop::Length) if written.tokens.len() < self.max_tokens => Some(Stop::Context),
            stop => stop,
        };
        written.acceptance = ended.acceptance;
        written.lossy = ended.lossy;
        (written, rest)
    }
}

/// Bytes by section.
#[derive(Default)]
struct SectionBytes {
    thought: Vec<u8>,
    answer: Vec<u8>,
}

impl SectionBytes {
    fn add(&mut self, section: Section, bytes: &[u8]) {
        match section {
            Section::Thought => self.thought.extend_from_slice(bytes),
            Section::Answer => self.answer.extend_from_slice(bytes),
        }
    }
}

/// Passes on a piece, unless there is nothing in it.
fn pass(section: Section, piece: Ready<'_>, each: &mut dyn FnMut(Section, Ready<'_>)) {
    if !piece.is_empty() {
        each(section, piece);
    }
}

/// Splits bytes at control tokens: text, and the name of the control token after it, if there is one.
fn parts(spelled: &[u8]) -> impl Iterator<Item = (&[u8], Option<&str>)> {
    let [begin, end] = Vocabulary::CONTROL;
    let mut rest = spelled;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let at = rest.iter().position(|&byte| byte == begin).unwrap_or(rest.len());
        let (text, control) = rest.split_at(at);
        let length = control.iter().position(|&byte| byte == end).map_or(control.len(), |end| end + 1);
        let name = control.get(1..length.saturating_sub(1)).and_then(|name| std::str::from_utf8(name).ok());
        rest = &control[length..];
        Some((text, name.filter(|name| !name.is_empty())))
    })
}

#[cfg(test)]
mod tests {
    use verdigris_logits::TokenId;
    use verdigris_text::ReasoningSyntax;

    use super::*;
    use crate::request::healing::PromptTokens;
    use crate::{Engine, Prompt, ReasoningFormat};

    /// With sections and without: tokens of single bytes, also of those that UTF-8 does not have, and control tokens.
    #[test]
    fn bytes_become_the_text_that_tokenizers_make_of_them() {
        let engine = Engine::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/models/tale-small")).unwrap();
        let tokenizer = engine.reader().tokenizer();
        let vocabulary = tokenizer.vocabulary();
        let byte = |b: u8| (0..vocabulary.size() as TokenId).find(|&token| vocabulary.bytes(token) == [b]).unwrap();
        let (end, the) = (tokenizer.id("<|endoftext|>").unwrap(), tokenizer.encode(" the").unwrap()[0]);
        let tokens = [the, byte(0xff), byte(0xc3), byte(0xa9), byte(0xfe), end, the, byte(0xc3)];
        let thinks = ReasoningSyntax::named("think").unwrap();
        for format in [ReasoningFormat::None, ReasoningFormat::Syntax(thinks)] {
            let request = engine.request("x").reasoning_format(format);
            let prompt = PromptTokens { read: [the].into(), healing: None };
            let structure = request.structure(&Prompt::Text("x".into()), &prompt, None).unwrap();
            let mut text = Text::new(&request, &structure, 1, 0);
            let mut passed = String::new();
            for token in tokens {
                text.push(token, Provenance::Computed, &mut |section, piece| {
                    assert_eq!(section, Section::Answer);
                    passed.push_str(piece.text);
                });
            }
            let (written, rest) = text.end(Ended { stop: Some(Stop::Length), ..Ended::default() });
            rest.iter().for_each(|(_, piece)| passed.push_str(&piece.text));
            assert_eq!(written.text, tokenizer.decode(&tokens), "{format:?}");
            assert_eq!(passed, written.text, "{format:?}");
            assert_eq!(written.controls, [(" the\u{FFFD}é\u{FFFD}".len(), "<|endoftext|>".into())], "{format:?}");
        }
    }
}
