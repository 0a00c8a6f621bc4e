//! The facts about the texts of a run.

use std::time::Instant;

use verdigris::{PromptCache, Request, Written};

use crate::generate::labels::Labels;
use crate::generate::log::Log;
use crate::proof::Proof;

/// The facts about all texts that are known before they are written.
pub(super) struct WritingContext<'w> {
    pub(super) prompt: &'w str,
    /// The prompt as it is shown before a text; empty for a message of a conversation.
    pub(super) shown_prompt: &'w str,
    /// The request that the texts answer.
    pub(super) request: &'w Request<'w>,
    pub(super) proof: Option<&'w Proof<'w>>,
    pub(super) labels: Option<&'w Labels>,
    pub(super) log: Option<&'w Log<'w>>,
    pub(super) cache: Option<&'w PromptCache>,
    pub(super) started: Instant,
}

impl<'w> WritingContext<'w> {
    /// The context of texts that are written from now on; `chat` if the prompt is a message.
    pub(super) fn new(prompt: &'w str, chat: bool, request: &'w Request<'w>, proof: Option<&'w Proof<'w>>) -> Self {
        let shown_prompt = if chat { "" } else { prompt };
        Self { prompt, shown_prompt, request, proof, labels: None, log: None, cache: None, started: Instant::now() }
    }

    /// The text as it is delivered: with its label, if it gets one.
    pub(super) fn labelled(&self, mut written: Written) -> Written {
        if let Some(labels) = self.labels {
            written.text = labels.label().around(&written.text);
        }
        written
    }

    /// Records the text with a number.
    pub(super) fn record(&self, part: usize, text: &str, manifest: Option<&[u8]>) {
        if let Some(log) = self.log {
            log.record(part, text, manifest);
        }
    }
}
