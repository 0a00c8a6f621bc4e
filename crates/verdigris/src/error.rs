//! What can go wrong.

use std::sync::Arc;

use verdigris_constrain::{BadChoice, BadRegex, BadSchema, Constraint, NoRoom, OverBudget};
use verdigris_decoding::{BadAlpha, DecodeError, Guide};
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
    /// The key could not be read, made or written.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The model's chat template does not take the conversation.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// The model knows no conversations.
    #[error("this model has no chat template: it was not made for conversations; give it a text to go on from")]
    NoChatTemplate,
    /// An expert that is to draft, and there is none.
    #[error("an expert is to draft, and the model has none that counts: steer it by one, with an alpha that is not 0")]
    NoExpert,
    /// A draft head, and a model that does not show it what it needs.
    #[error(
        "a draft head reads hidden states, and this model keeps none of that size: it needs the model that it was \
         trained for, on one CPU"
    )]
    NoHiddenStates,
    /// A sampling parameter is out of range.
    #[error(transparent)]
    Parameter(#[from] OutOfRange),
    /// The regular expression cannot be used.
    #[error(transparent)]
    Regex(#[from] BadRegex),
    /// There is nothing to choose from.
    #[error(transparent)]
    Choice(#[from] BadChoice),
    /// The JSON Schema cannot be used.
    #[error(transparent)]
    Schema(#[from] BadSchema),
    /// What may come next in a text of the form that is asked for takes too much work or memory to find out.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// No text of the form that is asked for is as short as the text must be.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// The JSON ended before it was whole.
    #[error(
        "the JSON was cut short after {tokens} tokens: raise max_tokens, or shorten the prompt if the context is full"
    )]
    CutShort {
        /// The tokens written.
        tokens: usize,
    },
    /// JSON that obeys the schema of a type, and that the type does not take.
    #[error("the type does not take what its own schema allows: {source} (in {json})")]
    Value {
        /// The JSON.
        json: String,
        /// What the type says.
        source: serde_json::Error,
    },
    /// The text could not go on.
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
    /// Noise that chooses tokens, where there is nothing to choose.
    #[error("the key {id} marks by noise ({dialect}), which needs {needs}, or use a key of green lists")]
    NoChance {
        /// The option that leaves one token alone.
        option: &'static str,
        /// What it must be instead, and what to do about it.
        needs: &'static str,
        /// The key's id.
        id: String,
        /// Its dialect.
        dialect: &'static str,
    },
    /// Two models do not write the same tokens.
    #[error(
        "the models do not fit together: token {token} is {ours} in the one and {theirs} in the other: choose models with one tokenizer"
    )]
    ForeignExpert {
        /// The first token that differs.
        token: u32,
        /// What it is in the model to be steered.
        ours: String,
        /// What it is in the expert.
        theirs: String,
    },
    /// A sampling option that is out of range.
    #[error(transparent)]
    Sampling(#[from] BadSampling),
    /// An entropy threshold that is not a number of 0 or more.
    #[error("the entropy threshold is {0}, but must be a number of 0 or more")]
    EntropyThreshold(f64),
    /// A stop string that ends every text, or is longer than what is held back.
    #[error("a stop string is {length} bytes long, but must be 1 to {longest}")]
    StopString {
        /// Its length in bytes.
        length: usize,
        /// The longest there may be.
        longest: usize,
    },
    /// A token that the model does not have.
    #[error("{token} is none of the model's tokens, whose ids are below {size}")]
    UnknownToken {
        /// Its id.
        token: u32,
        /// How many ids there are; some of them may be padding.
        size: usize,
    },
    /// A word to forbid or to favour, or a text that breaks runs, that has no tokens.
    #[error("a word to forbid or to favour, or a sequence breaker, has no letters: give it some")]
    EmptyWord,
    /// A class of tokens that has none.
    #[error("no token of this model is of the class {0}: a class is matched with whole tokens, such as \" the\"")]
    EmptyClass(String),
    /// Something is asked for that would change nothing.
    #[error("the request asks for {what}, which goes with {needs} alone: ask for that too, or leave it out")]
    Unused {
        /// What is asked for.
        what: &'static str,
        /// What it goes with.
        needs: &'static str,
    },
    /// Two things are asked for that have no meaning together.
    #[error("{what} does not go with {with}: {why}")]
    Apart {
        /// The one.
        what: String,
        /// The other.
        with: &'static str,
        /// Why not, and what to do.
        why: &'static str,
    },
    /// No text can be written after one of several prompts.
    #[error("prompt {index}: {source}")]
    InPrompt {
        /// Its number, from 0.
        index: usize,
        /// Why.
        source: Box<Error>,
    },
    /// The operating system gives no random numbers.
    #[error("no random seed: {0}; choose a seed")]
    NoSeed(#[source] std::io::Error),
    /// A weight of steering that is not a number.
    #[error(transparent)]
    Alpha(#[from] BadAlpha),
    /// A scale of guidance that is not a number.
    #[error("the guidance scale is {0}, but must be a number: 1 changes nothing, 1.5 is usual")]
    GuidanceScale(f64),
    /// A budget of steering that is none.
    #[error("the budget of steering is {0} nats a token, but must be 0 or more, or inf to be told what is spent")]
    Budget(f64),
    /// Prompts of their own for as many members of a steered model as there are not.
    #[error("{prompts} prompts for {members} {what}: give one for all or one for each")]
    MemberPrompts {
        /// What the members are.
        what: &'static str,
        /// How many prompts there are.
        prompts: usize,
        /// How many members there are.
        members: usize,
    },
    /// A number about rewards that is out of range.
    #[error("{what} is {value}, but must be {must}")]
    Reward {
        /// Which number.
        what: &'static str,
        /// What it is.
        value: f64,
        /// What it can be.
        must: &'static str,
    },
    /// A reward model, or a language model of a class, that cannot read as long a text as may be written.
    #[error(
        "prompts and text may have {tokens} tokens, but the context of what judges them is {context}: write fewer \
         tokens"
    )]
    JudgeContext {
        /// The most tokens.
        tokens: usize,
        /// The judge's context.
        context: usize,
    },
    /// The prompt leaves no room in the model's context.
    #[error("the prompt is {tokens} tokens long, but the model's context is {context}: shorten it to {}", context - 1)]
    PromptTooLong {
        /// Its length.
        tokens: usize,
        /// The model's context.
        context: usize,
    },
    /// A service has no memory for the prompt.
    #[error(transparent)]
    TooLong(#[from] TooLong),
    /// A service writes no more, for its model has failed.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// There is no prompt, and the model has no token to begin with.
    #[error("this model needs a prompt: it has no token that begins a text")]
    NoPrompt,
}

impl Error {
    /// Whether the request is at fault, and not the model, the machine or whoever runs them: a server answers it with a
    /// status of the 400s.
    pub fn is_of_request(&self) -> bool {
        match self {
            Self::Model(_)
            | Self::Key(_)
            | Self::NoExpert
            | Self::NoHiddenStates
            | Self::Value { .. }
            | Self::Detect(_)
            | Self::ForeignExpert { .. }
            | Self::NoSeed(_)
            | Self::Gone(_) => false,
            Self::Decode(fault) => fault.is_of_request(),
            Self::InPrompt { source, .. } => source.is_of_request(),
            Self::Chat(_)
            | Self::NoChatTemplate
            | Self::Parameter(_)
            | Self::Regex(_)
            | Self::Choice(_)
            | Self::Schema(_)
            | Self::OverBudget(_)
            | Self::NoRoom(_)
            | Self::CutShort { .. }
            | Self::Read(_)
            | Self::TooShort(_)
            | Self::NoChance { .. }
            | Self::Sampling(_)
            | Self::EntropyThreshold(_)
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

    /// Why a text could not go on: where no token was allowed, it may be that its constraint gave up, and where a row
    /// was no law, that a guide failed.
    pub(crate) fn of_text(fault: DecodeError, form: Option<&Constraint>, guides: &[Arc<Guide>]) -> Self {
        if let Some(fault) = guides.iter().find_map(|guide| guide.fault()) {
            return fault.into();
        }
        let gave_up = form.filter(|_| matches!(fault, DecodeError::DeadEnd { .. })).and_then(Constraint::fault);
        gave_up.map_or_else(|| fault.into(), Self::from)
    }
}
