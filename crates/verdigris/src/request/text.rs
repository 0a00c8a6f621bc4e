//! A text assembled from tokens.

use std::sync::Arc;

use verdigris_decoding::{Provenance, Stop};
use verdigris_logits::TokenId;
use verdigris_schedule::Ended;
use verdigris_text::{TextStream, Tokenizer};

use crate::request::piece::{Piece, Ready};
use crate::request::stop::StopStrings;
use crate::request::{Request, Written};

/// The text written so far.
pub(super) struct Text {
    written: Written,
    tokenizer: Arc<Tokenizer>,
    characters: TextStream<Arc<Tokenizer>>,
    stops: StopStrings,
    /// The number of control tokens that were passed on.
    passed_controls: usize,
    /// Whether the provenance of tokens is kept.
    is_explained: bool,
}

impl Text {
    /// A text without tokens.
    pub(super) fn new(request: &Request<'_>, prompt_tokens: usize, seed: u64) -> Self {
        let written = Written {
            text: String::new(),
            controls: Vec::new(),
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
        let (characters, stops) = (TextStream::new(tokenizer.clone()), StopStrings::new(&request.ends.stops));
        Self { written, tokenizer, characters, stops, passed_controls: 0, is_explained: request.reported.explain }
    }

    /// Takes a token. Returns the piece that can be passed on.
    pub(super) fn push(&mut self, token: TokenId, provenance: Provenance) -> Ready<'_> {
        self.written.tokens.push(token);
        if self.is_explained {
            self.written.provenance.push(provenance);
        }
        let before = self.written.text.len();
        self.stops.push(self.characters.push(token), &mut self.written.text);
        if let (Some(name), None) = (self.tokenizer.vocabulary().control(token), self.stops.found()) {
            self.written.controls.push((self.written.text.len() + self.stops.held_bytes(), name.into()));
        }
        // Those after text that is held back wait for it.
        let (text, passed) = (&self.written.text, self.passed_controls);
        let ready = self.written.controls[passed..].iter().take_while(|(at, _)| *at <= text.len()).count();
        self.passed_controls += ready;
        Ready { text: &text[before..], from: before, controls: &self.written.controls[passed..passed + ready] }
    }

    /// Whether a stop string was found.
    pub(super) fn is_stopped(&self) -> bool {
        self.stops.found().is_some()
    }

    /// Returns the finished text, and the part of it that was held back. If the reader ended the text, that part is
    /// dropped.
    pub(super) fn end(mut self, ended: Ended) -> (Written, Piece) {
        let mut rest = String::new();
        if ended.stop.is_some() {
            self.stops.push(self.characters.finish(), &mut rest);
            rest += &self.stops.finish();
        }
        let mut written = self.written;
        let from = written.text.len();
        written.text += &rest;
        let end = written.text.len();
        written.controls.retain(|(at, _)| *at <= end);
        let controls = &written.controls[self.passed_controls..];
        let rest = Ready { text: &written.text[from..], from, controls }.piece();
        written.stop_string = self.stops.found().map(str::to_owned);
        written.stop = if written.stop_string.is_some() { Some(Stop::StopString) } else { ended.stop };
        written.acceptance = ended.acceptance;
        written.lossy = ended.lossy;
        (written, rest)
    }
}
