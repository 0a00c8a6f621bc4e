//! Tool calls: their syntax, constraint and parser.
//!
//! A model has learned some syntax for calls, which its chat template reveals ([`CallTemplate`]). A constraint
//! ([`grammar`]) leaves the text free until a call begins; a call names a tool and gives it arguments that obey its
//! schema. So the text can be parsed without guessing. If the template does not support tools, they are described to
//! the model in words ([`words`]).

pub(crate) mod grammar;
pub(crate) mod words;

use std::sync::Arc;

use verdigris::text::ChatTemplate;
use verdigris::text::calls::{CallFormat, CallTemplate, HERMES, Syntax};
use verdigris::{Constraint, Conversation, Engine, Prompt};

use crate::constraint_cache::ConstraintCache;
use crate::protocol::Refusal;
use crate::protocol::constraint::ConstraintField;
use crate::protocol::tools::Tools;

/// The format of calls, and the constraint of a text that may contain them.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    pub(crate) format: Arc<CallFormat>,
    pub(crate) constraint: Constraint,
}

/// Adds the tools to a conversation, and adapts its calls and results to the model.
pub(crate) fn add_tools(
    template: &ChatTemplate,
    conversation: Conversation,
    tools: Option<&Tools>,
) -> Result<(Conversation, &'static Syntax), Refusal> {
    Ok(match CallTemplate::of(template) {
        Some(calls) if calls.describes_tools => {
            let tools = tools.into_iter().flat_map(|tools| &tools.tools);
            let conversation = Conversation { tools: tools.map(|tool| tool.to_template()).collect(), ..conversation };
            (calls.adapt(conversation), calls.syntax)
        }
        Some(calls) => {
            let conversation = calls.adapt(conversation);
            (words::described(template, conversation, tools, calls.syntax), calls.syntax)
        }
        None => (words::in_words(template, conversation, tools), &HERMES),
    })
}

/// The source of the constraint of a text that may or must call tools: the syntax, the tools, and the constraint of a
/// text without calls.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CallConstraint {
    pub(crate) syntax: &'static Syntax,
    pub(crate) tools: Tools,
    pub(crate) constraint: Option<ConstraintField>,
}

impl CallConstraint {
    /// Compiles the constraint, or takes it from the cache.
    ///
    /// # Errors
    /// If a schema cannot be used.
    pub(crate) fn calls(
        self,
        engine: &Engine,
        known: &ConstraintCache<Self, Calls>,
        salt: &Arc<str>,
    ) -> Result<Calls, Refusal> {
        let Self { syntax, tools, constraint } = &self;
        let work_out = || {
            let tokenizer = engine.reader().tokenizer();
            let (grammar, format) = grammar::grammar(syntax, tokenizer, tools, constraint.as_ref())?;
            Ok(Calls { format: Arc::new(format), constraint: engine.constraint(grammar) })
        };
        known.constraint(salt, &self, work_out)
    }
}

/// The prompt of a chat with tools, and the syntax of its calls.
pub(crate) fn prompt(
    engine: &Engine,
    prompt: Prompt,
    tools: Option<&Tools>,
) -> Result<(Prompt, &'static Syntax), Refusal> {
    let Prompt::Chat(conversation) = prompt else { return Ok((prompt, &HERMES)) };
    let (conversation, syntax) = add_tools(&engine.chat_template()?, conversation, tools)?;
    Ok((Prompt::Chat(conversation), syntax))
}
