//! The errors of this crate.

use std::path::PathBuf;
use std::sync::Arc;

use verdigris_constrain::{BadChoice, BadGrammar, BadRegex, BadSchema, BadTag, Constraint, NoRoom, OverBudget};
use verdigris_decoding::{BadAlpha, DecodeError, Guide, Stop};
use verdigris_detector::DetectError;
use verdigris_logits::warp::OutOfRange;
use verdigris_models::ModelError;
use verdigris_schedule::{Gone, TooLong};
use verdigris_text::{ChatError, ReadError};
use verdigris_watermark::{KeyError, TooShort};

use crate::sampling::BadSampling;

/// Why a text could not be written or judged. Each message is one line that names the cause and the cure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model could not be loaded or run.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The key could not be read, created or written.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The model's chat template rejects the conversation.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// The model has no chat template.
    #[error("this model has no chat template: it was not made for conversations; use a text as the prompt")]
    NoChatTemplate,
    /// A budget or an effort for thoughts, and a model without any.
    #[error(
        "this model does not think before it answers, or its chat template has none of the known markers: leave out the \
         effort and the budget, or choose the markers with reasoning_format"
    )]
    NoReasoning,
    /// Drafting by an expert, without an expert.
    #[error("drafting by an expert needs one: steer the model by an expert, with an alpha other than 0")]
    NoExpert,
    /// A draft head with a model that does not provide its hidden states.
    #[error(
        "a draft head reads hidden states, and this model has none of that size: use the model that it was trained \
         for, on one CPU"
    )]
    NoHiddenStates,
    /// States of prompts cannot be kept for this model.
    #[error(
        "keeping what was computed from prompts needs the CPU engine, with one model in one process: leave out \
         the cache, or the other device, backend, ranks or experts"
    )]
    NoStates,
    /// A file or folder for states of prompts that must not or cannot be used.
    #[error("{}: {fault}: choose another path, or remove it", path.display())]
    PromptCache {
        /// The file or folder.
        path: PathBuf,
        /// The problem.
        fault: String,
    },
    /// A sampling parameter is out of range.
    #[error(transparent)]
    Parameter(#[from] OutOfRange),
    /// The regular expression cannot be used.
    #[error(transparent)]
    Regex(#[from] BadRegex),
    /// The list of choices cannot be used.
    #[error(transparent)]
    Choice(#[from] BadChoice),
    /// The JSON Schema cannot be used.
    #[error(transparent)]
    Schema(#[from] BadSchema),
    /// The structural tag cannot be used.
    #[error(transparent)]
    Tag(#[from] BadTag),
    /// The grammar cannot be used.
    #[error(transparent)]
    Grammar(#[from] BadGrammar),
    /// A control token of a grammar that the model does not have.
    #[error("the grammar has {name}, which is not a control token of the model: write one that the model has")]
    UnknownControl {
        /// Its name.
        name: String,
    },
    /// A constraint was compiled for other tokens than the model's.
    #[error("the constraint was compiled for another tokenizer: compile it with the tokenizer of this model")]
    ForeignConstraint,
    /// Computing the tokens that the constraint allows next takes too much work or memory.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// No text that satisfies the constraint is short enough.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// The JSON ended before it was complete.
    #[error("the JSON was cut short after {tokens} tokens: {}", longer(*stop))]
    CutShort {
        /// The number of tokens written.
        tokens: usize,
        /// The reason that it ended; `None` if the reader of the stream ended it.
        stop: Option<Stop>,
    },
    /// JSON that satisfies the schema of a type but that the type rejects.
    #[error("the type rejects JSON that its own schema allows: {source}; narrow the schema (in {})", shown(json))]
    Value {
        /// The JSON.
        json: String,
        /// The type's error.
        source: serde_json::Error,
    },
    /// The text could not be continued.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The text could not be judged.
    #[error(transparent)]
    Detect(#[from] DetectError),
    /// The text could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The text is too short for a verdict.
    #[error(transparent)]
    TooShort(#[from] TooShort),
    /// Two models have different tokens.
    #[error(
        "the models have different tokenizers: token {token} is {ours} in one and {theirs} in the other; choose models \
         with the same tokenizer"
    )]
    ForeignExpert {
        /// The first token that differs.
        token: u32,
        /// Its meaning in the model of the request.
        ours: String,
        /// Its meaning in the other model.
        theirs: String,
    },
    /// An invalid temperature.
    #[error(transparent)]
    Sampling(#[from] BadSampling),
    /// A bound of the mark that is not a number of 0 or more.
    #[error("the {what} is {nats}, but must be a number of 0 or more")]
    Nats {
        /// The bound.
        what: &'static str,
        /// Its value, in nats.
        nats: f64,
    },
    /// A stop string that is empty or too long.
    #[error("a stop string is {length} bytes long, but must be 1 to {longest}")]
    StopString {
        /// Its length in bytes.
        length: usize,
        /// The maximum length.
        longest: usize,
    },
    /// A token that the model does not have.
    #[error("{token} is not a token of the model, whose ids are below {size}")]
    UnknownToken {
        /// Its id.
        token: u32,
        /// The number of ids, some of which may be padding.
        size: usize,
    },
    /// An empty text to forbid or bias, or an empty sequence breaker.
    #[error("a text to forbid or bias, or a sequence breaker, is empty: give it at least one character")]
    EmptyWord,
    /// A class without tokens.
    #[error("no token of this model is in the class {0}: a class is matched with whole tokens, such as \" the\"")]
    EmptyClass(String),
    /// An option that would have no effect.
    #[error("the request asks for {what}, which needs {needs}: ask for that too, or leave it out")]
    Unused {
        /// The option.
        what: &'static str,
        /// The other option that it needs.
        needs: &'static str,
    },
    /// Two options that contradict each other.
    #[error("{what} cannot be combined with {with}: {why}")]
    Apart {
        /// The first option.
        what: String,
        /// The second option.
        with: &'static str,
        /// The reason and the remedy.
        why: &'static str,
    },
    /// One of several prompts cannot be used.
    #[error("prompt {index}: {source}")]
    InPrompt {
        /// Its index, from 0.
        index: usize,
        /// The reason.
        source: Box<Error>,
    },
    /// The operating system provides no random numbers.
    #[error("no random seed: {0}; choose a seed")]
    NoSeed(#[source] std::io::Error),
    /// An invalid weight of steering.
    #[error(transparent)]
    Alpha(#[from] BadAlpha),
    /// A scale of guidance that is not finite.
    #[error("the guidance scale is {0}, but must be a number: 1 changes nothing, 1.5 is usual")]
    GuidanceScale(f64),
    /// An invalid budget of steering.
    #[error("the budget of steering is {0} nats a token, but must be 0 or more, or inf to only report what is spent")]
    Budget(f64),
    /// Separate prompts for members of a steered model whose number does not match.
    #[error("{prompts} prompts for {members} {what}: give one for all or one for each")]
    MemberPrompts {
        /// The kind of members.
        what: &'static str,
        /// The number of prompts.
        prompts: usize,
        /// The number of members.
        members: usize,
    },
    /// A parameter of rewards or guides that is out of range.
    #[error("{what} is {value}, but must be {must}")]
    Reward {
        /// The name of the parameter.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The allowed values.
        must: &'static str,
    },
    /// A reward model, or a language model of a class, whose context is too small for the longest text.
    #[error(
        "prompts and text may have {tokens} tokens, but the context of the model that judges them is {context}: \
         write fewer tokens"
    )]
    JudgeContext {
        /// The maximum number of tokens of prompts and text.
        tokens: usize,
        /// The context of the judging model.
        context: usize,
    },
    /// The prompt leaves no room in the model's context.
    #[error("the prompt is {tokens} tokens long, but the model's context is {context}: {}", shorter(*context))]
    PromptTooLong {
        /// Its length.
        tokens: usize,
        /// The model's context.
        context: usize,
    },
    /// A service has no memory for the prompt.
    #[error(transparent)]
    TooLong(#[from] TooLong),
    /// The model of a service has failed, so it writes no more texts.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// There is no prompt, and the model has no token to begin with.
    #[error("this model needs a prompt: it has no token that begins a text")]
    NoPrompt,
}

impl Error {
    /// Whether the error is caused by the request, not by the model, the machine or their operator. A server answers it
    /// with a 4xx status.
    pub fn is_of_request(&self) -> bool {
        match self {
            Self::Model(_)
            | Self::Key(_)
            | Self::NoExpert
            | Self::NoHiddenStates
            | Self::NoStates
            | Self::PromptCache { .. }
            | Self::Value { .. }
            | Self::Detect(_)
            | Self::ForeignExpert { .. }
            | Self::NoSeed(_)
            | Self::Gone(_) => false,
            Self::Decode(fault) => fault.is_of_request(),
            Self::InPrompt { source, .. } => source.is_of_request(),
            Self::Chat(_)
            | Self::NoChatTemplate
            | Self::NoReasoning
            | Self::Parameter(_)
            | Self::Regex(_)
            | Self::Grammar(_)
            | Self::UnknownControl { .. }
            | Self::ForeignConstraint
            | Self::Choice(_)
            | Self::Schema(_)
            | Self::Tag(_)
            | Self::OverBudget(_)
            | Self::NoRoom(_)
            | Self::CutShort { .. }
            | Self::Read(_)
            | Self::TooShort(_)
            | Self::Sampling(_)
            | Self::Nats { .. }
            | Self::StopString { .. }
            | Self::UnknownToken { .. }
            | Self::EmptyWord
            | Self::EmptyClass(_)
            | Self::Unused { .. }
            | Self::Apart { .. }
            | Self::Alpha(_)
            | Self::GuidanceScale(_)
            | Self::Budget(_)
            | Self::MemberPrompts { .. }
            | Self::Reward { .. }
            | Self::JudgeContext { .. }
            | Self::PromptTooLong { .. }
            | Self::TooLong(_)
            | Self::NoPrompt => true,
        }
    }

    /// The reason that a text could not be continued. A dead end may mean that its constraint gave up, and an invalid
    /// row that a guide failed, whose errors are more precise.
    pub(crate) fn of_text(fault: DecodeError, constraint: Option<&Constraint>, guides: &[Arc<Guide>]) -> Self {
        if let Some(fault) = guides.iter().find_map(|guide| guide.fault()) {
            return fault.into();
        }
        let gave_up = constraint.filter(|_| matches!(fault, DecodeError::DeadEnd { .. })).and_then(Constraint::fault);
        gave_up.map_or_else(|| fault.into(), Self::from)
    }
}

/// How JSON that ended for a reason is written completely.
fn longer(stop: Option<Stop>) -> &'static str {
    match stop {
        Some(Stop::Context) => "the context is full; shorten the prompt",
        Some(Stop::StopString) => "a stop string ended it; leave that out",
        Some(Stop::End | Stop::Length) => "raise max_tokens",
        None => "the reader of the stream ended it; let it continue",
    }
}

fn shorter(context: usize) -> String {
    match context {
        0 | 1 => "raise the context to at least 2".into(),
        _ => format!("shorten it to {}", context - 1),
    }
}

/// The start of some JSON.
fn shown(json: &str) -> String {
    const MOST: usize = 200;
    match json.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &json[..end]),
        None => json.into(),
    }
}
