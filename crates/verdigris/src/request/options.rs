//! The values that a request holds, by subject.

use std::sync::Arc;

use serde_json::Value;
use verdigris_constrain::{Constraint, ForcedText, Language, Registry, Style};
use verdigris_decoding::{Alpha, Coupling, DraftLength, Rule, ScoreKind, Scorer};
use verdigris_logits::{Chain, TokenId};
use verdigris_models::DraftHead;
use verdigris_schedule::{Account, Storing};
use verdigris_text::Message;
use verdigris_watermark::Key;

use crate::classes::Classes;
use crate::engine::Engine;
use crate::error::Error;
use crate::prompt::{Prompt, PromptReader};
use crate::reward::Reward;
use crate::stored::cache::CacheFile;

/// The default maximum number of tokens.
pub(super) const MAX_TOKENS: usize = 256;

/// The key that the text is marked with, and the options of its mark.
#[derive(Clone, Default)]
pub(super) struct Mark<'a> {
    pub(super) key: Option<&'a Key>,
    pub(super) payload: Option<u32>,
    pub(super) entropy_threshold: Option<f64>,
    pub(super) after: Option<f64>,
}

/// The constraint, and the options of the text that satisfies it.
#[derive(Clone, Default)]
pub(super) struct Constrained {
    pub(super) constraint: Option<ConstraintSource>,
    pub(super) style: Option<Style>,
    pub(super) registry: Option<Registry>,
    pub(super) forced_text: Option<ForcedText>,
}

/// The constraint on the text.
#[derive(Clone)]
pub(super) enum ConstraintSource {
    Regex(String),
    Choice(Vec<String>),
    JsonSchema(Value),
    StructuralTag(Value),
    Grammar(Language, String),
    Given(Constraint),
}

/// The limit and the strings that end the text, and whether end tokens do.
#[derive(Clone)]
pub(super) struct Ends {
    pub(super) max_tokens: usize,
    /// The maximum number of tokens of prompt and text together.
    pub(super) context: usize,
    pub(super) stops: Vec<String>,
    pub(super) through_end: bool,
}

/// The drafter of the text, and the options of its drafts.
#[derive(Clone, Copy)]
pub(super) struct Drafting<'a> {
    pub(super) guesser: Option<Guesser<'a>>,
    pub(super) lookup: bool,
    pub(super) length: DraftLength,
    pub(super) coupling: Coupling,
    pub(super) rule: Rule,
}

/// The source of drafts.
#[derive(Clone, Copy)]
pub(super) enum Guesser<'a> {
    Model(&'a Engine),
    Head(&'a DraftHead),
    Expert,
}

/// The distribution that log-probabilities refer to. The names are those of vLLM, whose default is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogprobsMode {
    /// The model's own, before any step acts on it.
    #[default]
    Raw,
    /// The distribution that the token was sampled from, after all steps.
    Processed,
}

/// The information about tokens that is requested.
#[derive(Clone, Default)]
pub(super) struct Reported {
    pub(super) logprobs: Option<usize>,
    pub(super) logprobs_mode: LogprobsMode,
    pub(super) explain: bool,
}

/// The client of a service.
#[derive(Clone, Default)]
pub(super) struct Caller {
    pub(super) account: Account,
    pub(super) cache_salt: Arc<str>,
    pub(super) cache: Option<Arc<CacheFile>>,
    pub(super) storing: Storing,
}

/// The values of these options, under the names of Hugging Face `transformers`, vLLM and llama.cpp.
#[derive(Clone, Default)]
pub(super) struct Processors {
    pub(super) logit_bias: Vec<(TokenId, f64)>,
    pub(super) sequence_bias: Vec<(String, f64)>,
    pub(super) bad_words: Vec<String>,
    pub(super) suppress_tokens: Vec<TokenId>,
    /// `None` for the default ones.
    pub(super) dry_breakers: Option<Vec<String>>,
    pub(super) forced_bos_token_id: Option<TokenId>,
    pub(super) forced_eos_token_id: Option<TokenId>,
    /// Custom steps.
    pub(super) own: Option<Arc<Chain>>,
}

/// The requested prompts of members, and the weight of experts.
#[derive(Clone, Default)]
pub(super) struct Members {
    pub(super) experts: PromptsOf,
    pub(super) antis: PromptsOf,
    pub(super) negative: Option<Prompt>,
    pub(super) alpha: Option<Alpha>,
}

impl Members {
    /// Whether models that steer have prompts of their own.
    pub(super) fn have_prompts(&self) -> bool {
        !self.experts.is_nothing() || !self.antis.is_nothing() || self.negative.is_some()
    }
}

/// A judge, its weight, and the number of tokens that it scores.
#[derive(Clone)]
pub(super) struct Guidance<'a> {
    pub(super) by: Judge<'a>,
    pub(super) weight: f64,
    pub(super) top_k: usize,
}

/// The judge itself.
#[derive(Clone)]
pub(super) enum Judge<'a> {
    Reward(&'a Reward, ScoreKind),
    Classes(&'a Classes<'a>),
    Own(Arc<dyn Scorer>),
}

impl Default for Ends {
    fn default() -> Self {
        Self { max_tokens: MAX_TOKENS, context: usize::MAX, stops: Vec::new(), through_end: false }
    }
}

impl Default for Drafting<'_> {
    fn default() -> Self {
        let (length, coupling) = (DraftLength::Auto, Coupling::Independent);
        Self { guesser: None, lookup: false, length, coupling, rule: Rule::default() }
    }
}

impl ConstraintSource {
    /// The method that sets it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Regex(_) => "regex",
            Self::Choice(_) => "choice",
            Self::JsonSchema(_) => "json_schema",
            Self::StructuralTag(_) => "structural_tag",
            Self::Grammar(..) => "grammar",
            Self::Given(_) => "constraint",
        }
    }
}

/// The prompts of all experts, or of all anti-experts.
#[derive(Clone, Default)]
pub(super) struct PromptsOf {
    /// One for all or one for each.
    pub(super) prompts: Vec<Prompt>,
    /// Whether each member reads its prompt as a message by its own chat template.
    pub(super) chat: bool,
}

impl PromptsOf {
    pub(super) fn is_nothing(&self) -> bool {
        self.prompts.is_empty() && !self.chat
    }

    /// The tokens that the member with this index reads instead of the prompt, if any.
    pub(super) fn tokens(
        &self,
        number: usize,
        reader: &PromptReader,
        prompt: &Prompt,
    ) -> Result<Option<Vec<TokenId>>, Error> {
        let own = match &self.prompts[..] {
            [] => None,
            [one] => Some(one),
            each => each.get(number),
        };
        let own = match (own, self.chat) {
            (None, false) => return Ok(None),
            (Some(own), false) => own.clone(),
            (own, true) => match own.unwrap_or(prompt) {
                Prompt::Text(text) => vec![Message::user(text)].into(),
                chat => chat.clone(),
            },
        };
        reader.tokens(&own).map(|tokens| Some(tokens.to_vec()))
    }
}
