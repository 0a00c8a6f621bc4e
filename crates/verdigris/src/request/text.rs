//! A text that is put together of tokens.

use verdigris_constrain::Constraint;
use verdigris_decoding::{Acceptance, Provenance, Stop};
use verdigris_logits::TokenId;
use verdigris_text::TextStream;

use crate::request::stop::StopStrings;
use crate::request::{Request, Written};

/// What is written of a text so far.
pub(super) struct Text<'v> {
    written: Written,
    characters: TextStream<'v>,
    stops: StopStrings,
    /// Whether it is kept how tokens come.
    is_explained: bool,
}

impl<'v> Text<'v> {
    /// A text without tokens.
    pub(super) fn new(request: &'v Request<'_>, prompt_tokens: usize, seed: u64) -> Self {
        let written = Written {
            text: String::new(),
            tokens: Vec::new(),
            prompt_tokens,
            stop: None,
            stop_string: None,
            complete: None,
            seed,
            acceptance: None,
            lossy: None,
            logprobs: None,
            explained: None,
            provenance: Vec::new(),
            steering_kl: None,
        };
        let vocabulary = request.engine.reader().tokenizer().vocabulary();
        let (characters, stops) = (TextStream::new(vocabulary), StopStrings::new(&request.stops));
        Self { written, characters, stops, is_explained: request.explain }
    }

    /// Takes a token, which came so; returns what can be handed over, which is nothing or whole characters.
    pub(super) fn push(&mut self, token: TokenId, provenance: Provenance) -> &str {
        self.written.tokens.push(token);
        if self.is_explained {
            self.written.provenance.push(provenance);
        }
        let before = self.written.text.len();
        self.stops.push(self.characters.push(token), &mut self.written.text);
        &self.written.text[before..]
    }

    /// Whether a stop string has come.
    pub(super) fn is_stopped(&self) -> bool {
        self.stops.found().is_some()
    }

    /// The text that a reason ends, and what of it was held back. A reader who ended it gets no more of it.
    pub(super) fn end(
        mut self,
        stop: Option<Stop>,
        acceptance: Option<Acceptance>,
        lossy: Option<&'static str>,
        form: Option<&Constraint>,
    ) -> (Written, String) {
        let mut rest = String::new();
        if stop.is_some() {
            self.stops.push(self.characters.finish(), &mut rest);
            rest += &self.stops.finish();
        }
        let mut written = self.written;
        written.text += &rest;
        written.stop_string = self.stops.found().map(str::to_owned);
        written.stop = if written.stop_string.is_some() { Some(Stop::StopString) } else { stop };
        written.acceptance = acceptance;
        written.lossy = lossy;
        written.complete = form.map(|form| {
            let machine = form.machine();
            let state = machine.next(machine.start(), written.text.as_bytes());
            written.stop == Some(Stop::End) || machine.accepts(state)
        });
        (written, rest)
    }
}
