//! Options of a request that apply to every text.

use std::path::{Path, PathBuf};

use clap::Args;
use verdigris::{Key, KeyRing, Message, Prompt, Reader, Request};

use crate::error::Failure;
use crate::key::writer_of;
use crate::number::whole;
use crate::payload::PayloadChoice;

#[derive(Args)]
pub(crate) struct RequestOptions {
    /// Treat the prompt as a chat message, with the model's chat template, and write the answer
    #[arg(long, group = "with_chat")]
    pub(crate) chat: bool,
    /// With --chat: the system prompt
    #[arg(long, value_name = "TEXT", requires = "with_chat", allow_hyphen_values = true)]
    pub(crate) system: Option<String>,
    /// Choose the last tokens of the prompt again, with the text: for prompts that end inside a word, as code often
    /// does
    #[arg(long, conflicts_with = "chat")]
    heal: bool,
    /// Mark the text with this key
    #[arg(short, long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Mark the text with the key of this folder that is valid today
    #[arg(long, value_name = "DIR", conflicts_with = "key", group = "with_ring")]
    ring: Option<PathBuf>,
    /// For --ring: the tenant of the key
    #[arg(long, value_name = "NAME", requires = "with_ring", default_value = "", hide_default_value = true)]
    tenant: String,
    /// For a key that carries numbers: the number, such as 0xbeef; or new, for one that no entry of --ledger has, by
    /// which the text leads to its entry and manifest
    #[arg(long, value_name = "N", value_parser = crate::payload::choice)]
    pub(crate) payload: Option<PayloadChoice>,
    /// Mark only positions with more entropy than this, in nats, and leave nearly certain tokens unchanged. The reader
    /// needs the model: detect --weigh sweet
    #[arg(long, value_name = "NATS")]
    entropy_threshold: Option<f64>,
    /// Mark only after the text has a surprise of this many nats, so that texts of one prompt differ and short, certain
    /// answers are left as they are [default: 7 for native-gumbel, 0 for other dialects]
    #[arg(long, value_name = "NATS")]
    mark_after: Option<f64>,
    /// Maximum number of tokens
    #[arg(short = 'n', long, value_name = "N", default_value_t = Request::MAX_TOKENS, value_parser = whole::<usize>)]
    pub(crate) max_tokens: usize,
    /// Maximum number of tokens of prompt and text together; 0 is the model's own [default: 0]
    #[arg(short = 'c', long, value_name = "N", value_parser = whole::<usize>)]
    ctx_size: Option<usize>,
    /// End the text before this string; may be given several times. A line end is $'\n' in most shells
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// The random seed: the same one gives the same text [default: a new one each time, below 2^53, so that all JSON
    /// readers keep it exact]
    #[arg(short, long, value_name = "N", value_parser = whole::<u64>)]
    pub(crate) seed: Option<u64>,
}

/// The key or ring that texts are marked with, before the tokenizer is known.
pub(crate) struct Mark<'o> {
    key: Option<Key>,
    ring: Option<KeyRing>,
    tenant: &'o str,
}

impl Mark<'_> {
    /// The key that marks the texts of a tokenizer; of a ring, the one for today.
    pub(crate) fn key(self, reader: &Reader, quiet: bool) -> Result<Option<Key>, Failure> {
        match (self.key, self.ring) {
            (None, Some(ring)) => Ok(Some(writer_of(ring, self.tenant, reader, quiet)?)),
            (key, _) => Ok(key),
        }
    }
}

impl RequestOptions {
    /// Whether texts are marked.
    pub(crate) fn is_marked(&self) -> bool {
        self.key.is_some() || self.ring.is_some()
    }

    /// The key's file, which must not be written to.
    pub(crate) fn key_file(&self) -> Option<&Path> {
        self.key.as_deref()
    }

    /// Reads the key or ring.
    pub(crate) fn mark(&self) -> Result<Mark<'_>, Failure> {
        let key = self.key.as_deref().map(Key::load).transpose()?;
        let ring = self.ring.as_deref().map(KeyRing::load).transpose()?;
        if self.payload.is_some() && !self.is_marked() {
            return Err(Failure::Usage("a payload needs a key that carries it: --key FILE".into()));
        }
        Ok(Mark { key, ring, tenant: &self.tenant })
    }

    /// Makes a text a prompt: the text itself, or a chat message with the system prompt.
    pub(crate) fn prompt(&self, text: &str) -> Prompt {
        match self.chat {
            true => self.system.iter().map(Message::system).chain([Message::user(text)]).collect::<Vec<_>>().into(),
            false => text.into(),
        }
    }

    /// Applies the options. `payload` is the number that is carried.
    pub(crate) fn apply<'r>(&self, request: Request<'r>, key: Option<&'r Key>, payload: Option<u32>) -> Request<'r> {
        let mut request = request.max_tokens(self.max_tokens);
        for stop in &self.stop {
            request = request.stop(stop);
        }
        request = self.ctx_size.filter(|&tokens| tokens > 0).into_iter().fold(request, Request::context);
        if self.heal {
            request = request.heal();
        }
        if let Some(key) = key {
            request = request.watermark(key);
            if let Some(payload) = payload {
                request = request.payload(payload);
            }
        }
        if let Some(nats) = self.entropy_threshold {
            request = request.entropy_threshold(nats);
        }
        if let Some(nats) = self.mark_after {
            request = request.mark_after(nats);
        }
        match self.seed {
            Some(seed) => request.seed(seed),
            None => request,
        }
    }
}
