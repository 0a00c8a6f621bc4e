//! Rewrites the sentences of a text, one after the other.

use indicatif::ProgressBar;
use serde::Serialize;
use verdigris::logits::TokenId;
use verdigris::{Engine, Key, Message, Prompt};

use super::sentences::{BYTES, Part, first, is_sentence};
use super::similarity::{keeps_names, rouge_1};
use crate::error::Failure;

/// The surprise of a candidate, in nats, before its mark begins. A key has the same noise after the same tokens, so
/// that without it all candidates would be the same.
const UNMARKED: f64 = 2.0;

/// The most sentences before one in its paragraph that the model sees with it, and their most bytes.
const CONTEXT: usize = 3;
const CONTEXT_BYTES: usize = 2 * BYTES;

/// A part of the text, and what replaces it.
#[derive(Serialize)]
pub(super) struct Rewritten<'t> {
    #[serde(skip)]
    part: Part<'t>,
    original: &'t str,
    /// Whether it may be rewritten.
    pub(super) sentence: bool,
    /// The words that replace its own; the white space after them stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    rewritten: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) similarity: Option<f64>,
}

impl<'t> Rewritten<'t> {
    fn new(part: Part<'t>) -> Self {
        Self { part, original: part.text, sentence: part.is_sentence, rewritten: None, similarity: None }
    }

    /// The original words.
    pub(super) fn original_words(&self) -> &'t str {
        self.part.split().0
    }

    /// The words in the new text.
    pub(super) fn words(&self) -> &str {
        self.rewritten.as_deref().unwrap_or(self.original_words())
    }

    /// The words in the new text, and the white space after them.
    pub(super) fn text(&self) -> [&str; 2] {
        [self.words(), self.part.split().1]
    }
}

/// The writer of the sentences of a text.
pub(super) struct Writer<'a> {
    pub(super) engine: &'a Engine,
    /// A variant of the key: a text has the mark of one.
    pub(super) key: &'a Key,
    pub(super) candidates: usize,
    pub(super) min_similarity: f64,
    pub(super) temperature: f64,
    pub(super) seed: u64,
}

impl Writer<'_> {
    /// Rewrites the sentences among the parts of a text.
    pub(super) fn rewrite<'t>(&self, parts: &[Part<'t>], bar: &ProgressBar) -> Result<Vec<Rewritten<'t>>, Failure> {
        let mut all: Vec<Rewritten<'t>> = Vec::with_capacity(parts.len());
        // The index of the part that begins the paragraph.
        let mut begin = 0;
        for (at, part) in parts.iter().enumerate() {
            if part.begins {
                begin = at;
            }
            let mut new = Rewritten::new(*part);
            if part.is_sentence {
                let seed = self.seed.wrapping_add((at * self.candidates) as u64);
                (new.similarity, new.rewritten) = self.best(&all[begin..], part.split().0, seed)?.unzip();
                bar.inc(1);
            }
            all.push(new);
        }
        Ok(all)
    }

    /// The candidate for a sentence with the most evidence, and its similarity, after the parts before it in its
    /// paragraph. `None` if the sentence itself has more evidence than all candidates that are similar enough.
    fn best(&self, before: &[Rewritten<'_>], sentence: &str, seed: u64) -> Result<Option<(f64, String)>, Failure> {
        let sentence = one_line(sentence);
        let prompt = Prompt::from(self.prompt(before, &sentence)?);
        let most = 3 * self.tokens(&sentence)?.len() / 2 + 16;
        let request = self.engine.request("").watermark(self.key).mark_after(UNMARKED).max_tokens(most).stop("\n");
        let request = request.temperature(self.temperature).seed(seed);
        let paragraph = joined(before.iter().map(Rewritten::words));
        let ln_p = |sentence: &str| -> Result<f64, Failure> {
            let text = joined([&*paragraph, sentence].into_iter());
            Ok(self.engine.reader().detect(self.key, text.as_bytes())?.ln_p)
        };
        let (mut least, mut best) = (ln_p(&sentence)?, None);
        for written in request.prompts(vec![prompt; self.candidates])? {
            // Models like to put an answer into quotation marks.
            let candidate = first(written.text.trim().trim_start_matches(['"', '“'])).trim_end_matches(['"', '”']);
            let similarity = rouge_1(&sentence, candidate);
            if is_sentence(candidate) && similarity >= self.min_similarity && keeps_names(&sentence, candidate) {
                let ln_p = ln_p(candidate)?;
                if ln_p < least {
                    (least, best) = (ln_p, Some((similarity, candidate.to_owned())));
                }
            }
        }
        Ok(best)
    }

    /// The tokens before a rewritten sentence: the task, and the beginning of its answer. With the sentences before it
    /// in the answer, its first tokens are marked after those that a reader finds before them.
    fn prompt(&self, before: &[Rewritten<'_>], sentence: &str) -> Result<Vec<TokenId>, Failure> {
        let mut bytes = 0;
        let seen = before.iter().rev().take(CONTEXT).take_while(|part| {
            bytes += part.original.len();
            bytes <= CONTEXT_BYTES
        });
        let seen = &before[before.len() - seen.count()..];
        let text = joined(seen.iter().map(Rewritten::original_words).chain([sentence]));
        let task = Message::user(format!("{text}\n\nRewrite the text above in other words."));
        let mut tokens = self.engine.prompt_tokens(&vec![task].into())?.to_vec();
        tokens.extend(self.tokens(&joined(seen.iter().map(Rewritten::words)))?);
        Ok(tokens)
    }

    fn tokens(&self, text: &str) -> Result<Vec<TokenId>, Failure> {
        Ok(self.engine.reader().tokenizer().encode(text).map_err(verdigris::Error::from)?)
    }
}

/// The words of a text with a space between each two.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Texts on one line, with a space between each two.
fn joined<'s>(texts: impl Iterator<Item = &'s str>) -> String {
    one_line(&texts.collect::<Vec<_>>().join(" "))
}
