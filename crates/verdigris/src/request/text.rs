//! A text that is put together of tokens.

use std::sync::Arc;

use verdigris_decoding::{Provenance, Stop};
use verdigris_logits::TokenId;
use verdigris_schedule::Ended;
use verdigris_text::{TextStream, Tokenizer};

use crate::request::stop::StopStrings;
use crate::request::{Request, Written};

/// What is written of a text so far.
pub(super) struct Text {
    written: Written,
    characters: TextStream<Arc<Tokenizer>>,
    stops: StopStrings,
    /// Whether it is kept how tokens come.
    is_explained: bool,
}

impl Text {
    /// A text without tokens.
    pub(super) fn new(request: &Request<'_>, prompt_tokens: usize, seed: u64) -> Self {
        let written = Written {
            text: String::new(),
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
            form: None,
            steering_kl: None,
        };
        let tokenizer = request.engine.reader().tokenizer().clone();
        let (characters, stops) = (TextStream::new(tokenizer), StopStrings::new(&request.stops));
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

    /// The text at its end, and what of it was held back. A reader who ended it gets no more of it.
    pub(super) fn end(mut self, ended: Ended) -> (Written, String) {
        let mut rest = String::new();
        if ended.stop.is_some() {
            self.stops.push(self.characters.finish(), &mut rest);
            rest += &self.stops.finish();
        }
        let mut written = self.written;
        written.text += &rest;
        written.stop_string = self.stops.found().map(str::to_owned);
        written.stop = if written.stop_string.is_some() { Some(Stop::StopString) } else { ended.stop };
        written.acceptance = ended.acceptance;
        written.lossy = ended.lossy;
        (written, rest)
    }
}
