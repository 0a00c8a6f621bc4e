//! Options about the thought before an answer.

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::Value;
use verdigris::{ReasoningEffort, ReasoningFormat, ReasoningSyntax, Request};

use crate::choice::{Choice, OneOf};
use crate::error::Failure;
use crate::number::whole;

#[derive(Args)]
pub(crate) struct ReasoningOptions {
    /// How much the model should think before it answers, if its chat template knows this
    #[arg(long, value_name = "EFFORT", value_parser = PossibleValuesParser::new(ReasoningEffort::ALL.map(ReasoningEffort::name)))]
    reasoning_effort: Option<String>,
    /// Maximum number of tokens of the thought, which then ends
    #[arg(long, value_name = "N", visible_alias = "reasoning-budget", value_parser = whole::<usize>)]
    thinking_token_budget: Option<usize>,
    /// The markers of thoughts: auto takes those of the chat template for answers to messages; none treats all of a
    /// text as the answer
    #[arg(long, value_name = "NAME", default_value = "auto", hide_default_value = true,
          value_parser = PossibleValuesParser::new(["auto", "none"].into_iter().chain(ReasoningSyntax::names())))]
    reasoning_format: String,
    /// The part of a text that is marked
    #[arg(long, value_name = "PART", value_parser = OneOf(PARTS), default_value = "all", hide_default_value = true)]
    mark: MarkedPart,
    /// A variable of the chat template, as JSON or text; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = template_argument)]
    template_arg: Vec<(String, Value)>,
}

/// The part of a text that is marked.
#[derive(Clone, Copy)]
enum MarkedPart {
    All,
    Answer,
}

const PARTS: &[Choice<MarkedPart>] = &[
    ("all", MarkedPart::All, "The thought too, as a text of its own"),
    ("answer", MarkedPart::Answer, "Only the answer after it"),
];

/// Parses a name and its value: JSON, or else text.
fn template_argument(given: &str) -> Result<(String, Value), String> {
    let (name, value) = given.split_once('=').ok_or("give a name and a value, such as enable_thinking=false")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.into()));
    Ok((name.into(), value))
}

impl ReasoningOptions {
    /// Checks that only answers to messages have variables of a template.
    pub(crate) fn check(&self, is_chat: bool) -> Result<(), Failure> {
        match self.template_arg.first() {
            Some(_) if !is_chat => Err(Failure::Usage("--template-arg needs --chat, whose template it is for".into())),
            _ => Ok(()),
        }
    }

    /// Checks that a part is only named for texts that are marked.
    pub(crate) fn check_mark(&self, is_marked: bool) -> Result<(), Failure> {
        match self.mark {
            MarkedPart::Answer if !is_marked => Err(Failure::Usage("--mark answer needs a key: --key FILE".into())),
            _ => Ok(()),
        }
    }

    /// Applies the options.
    pub(crate) fn apply<'r>(&self, mut request: Request<'r>) -> Request<'r> {
        let format: ReasoningFormat = self.reasoning_format.parse().expect("one of the names");
        request = request.reasoning_format(format);
        if let Some(effort) = &self.reasoning_effort {
            request = request.reasoning_effort(effort.parse().expect("one of the names"));
        }
        if let Some(tokens) = self.thinking_token_budget {
            request = request.thinking_token_budget(tokens);
        }
        if let MarkedPart::Answer = self.mark {
            request = request.mark_answer_only();
        }
        let arguments = self.template_arg.iter().cloned();
        arguments.fold(request, |request, (name, value)| request.template_argument(name, value))
    }
}
