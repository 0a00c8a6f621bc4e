//! The options of a request that concern thoughts.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};
use verdigris_text::ReasoningSyntax;

use crate::prompt::Prompt;
use crate::request::Request;

/// The way in which the thought of a text is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReasoningFormat {
    /// By the markers in the model's chat template, in answers to conversations.
    #[default]
    Auto,
    /// A text has no thought: all of it is the answer.
    None,
    /// By these markers, after any prompt.
    Syntax(&'static ReasoningSyntax),
}

/// How much a model should think, for its chat template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReasoningEffort {
    /// Not at all.
    None,
    /// As little as possible.
    Minimal,
    /// A little.
    Low,
    /// Medium.
    Medium,
    /// Much.
    High,
    /// More.
    XHigh,
    /// As much as possible.
    Max,
}

/// The name of a format or an effort is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not one of {known}")]
pub struct UnknownName {
    name: String,
    known: String,
}

impl UnknownName {
    fn new(name: &str, known: impl IntoIterator<Item = &'static str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        Self { name: verdigris_text::shown(name).into_owned(), known: known.join(", ") }
    }
}

impl FromStr for ReasoningFormat {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        match name {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            name => ReasoningSyntax::named(name)
                .map(Self::Syntax)
                .ok_or_else(|| UnknownName::new(name, ["auto", "none"].into_iter().chain(ReasoningSyntax::names()))),
        }
    }
}

impl ReasoningEffort {
    /// All efforts, the smallest first.
    pub const ALL: [Self; 7] = [Self::None, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::XHigh, Self::Max];

    /// The name in requests and templates.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// The variables of a chat template that set it. Templates have one of the names.
    pub fn template_arguments(self) -> impl Iterator<Item = (String, Value)> {
        let thinks = self != Self::None;
        let effort = thinks.then(|| ("reasoning_effort".into(), self.name().into()));
        ["enable_thinking", "thinking"].into_iter().map(move |name| (name.into(), thinks.into())).chain(effort)
    }
}

impl fmt::Display for ReasoningEffort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ReasoningEffort {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|effort| effort.name() == name);
        found.ok_or_else(|| UnknownName::new(name, Self::ALL.map(Self::name)))
    }
}

/// The values of these options.
#[derive(Clone, Default)]
pub(in crate::request) struct Thinking {
    pub(super) format: ReasoningFormat,
    pub(super) effort: Option<ReasoningEffort>,
    pub(in crate::request) budget: Option<usize>,
    pub(in crate::request) marks_answer_only: bool,
    arguments: Map<String, Value>,
}

impl Thinking {
    /// The prompt with the variables of its template that these options set. Those of the prompt itself have priority.
    pub(in crate::request) fn prompt(&self, prompt: &Prompt) -> Option<Prompt> {
        let Prompt::Chat(conversation) = prompt else { return None };
        let mut arguments = self.arguments.clone();
        for (name, value) in self.effort.into_iter().flat_map(ReasoningEffort::template_arguments) {
            arguments.entry(name).or_insert(value);
        }
        if arguments.is_empty() {
            return None;
        }
        let mut conversation = conversation.clone();
        arguments.extend(std::mem::take(&mut conversation.arguments));
        conversation.arguments = arguments;
        Some(Prompt::Chat(conversation))
    }
}

impl Request<'_> {
    /// Sets how the thought of a text is found, which is then [`Written::reasoning`](crate::Written::reasoning) and not
    /// part of its text. A constraint applies to the answer alone.
    ///
    /// - If the prompt ends with a begin marker, the text begins inside a thought, which ends at the first end marker.
    /// - If the prompt ends with an end marker, the text is an answer.
    /// - Otherwise the text has a thought if it begins with a begin marker. A constraint allows either: a thought and
    ///   then an answer that obeys it, or such an answer at once.
    pub fn reasoning_format(mut self, format: ReasoningFormat) -> Self {
        self.thinking.format = format;
        self
    }

    /// Sets how much the model should think: the variables `enable_thinking`, `thinking` and `reasoning_effort` of its
    /// chat template, unless [`Conversation::arguments`](crate::Conversation::arguments) has them. With
    /// [`ReasoningEffort::None`], a constraint applies at once, unless the template begins a thought all the same.
    /// Other efforts are an error if the model does not think.
    pub fn reasoning_effort(mut self, effort: ReasoningEffort) -> Self {
        self.thinking.effort = Some(effort);
        self
    }

    /// Sets the maximum number of tokens of a thought. After them, the tokens of the end marker are forced, also in
    /// drafts. An error if the model does not think.
    #[doc(alias = "thinking_budget")]
    #[doc(alias = "reasoning_budget")]
    pub fn thinking_token_budget(mut self, tokens: usize) -> Self {
        self.thinking.budget = Some(tokens);
        self
    }

    /// Marks only the answer. By default the thought is marked too, as a text of its own.
    pub fn mark_answer_only(mut self) -> Self {
        self.thinking.marks_answer_only = true;
        self
    }

    /// Sets a variable of the chat template, for conversations that do not set it themselves.
    #[doc(alias = "chat_template_kwargs")]
    pub fn template_argument(mut self, name: impl Into<String>, value: Value) -> Self {
        self.thinking.arguments.insert(name.into(), value);
        self
    }
}
