//! Calls of tools: how a model writes them, the form that it writes them in, and how they are read.
//!
//! A model has learned to write calls in some way, and its chat template shows which ([`syntax`]). A text then has a
//! form ([`form`]): free, until a call begins; a call names a tool and gives it arguments that obey its schema. So what
//! is written can be read without guessing ([`reader`]). A model whose template knows no tools is told of them in words
//! ([`words`]).

pub(crate) mod form;
pub(crate) mod reader;
pub(crate) mod syntax;
pub(crate) mod words;

use std::sync::Arc;

use verdigris::text::ChatTemplate;
use verdigris::{Constraint, Conversation, Engine, Prompt};

use crate::calls::syntax::Syntax;
use crate::forms::Forms;
use crate::protocol::Refusal;
use crate::protocol::form::Form;
use crate::protocol::tools::Tools;

/// Calls as a text may hold them.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    pub(crate) syntax: &'static Syntax,
    pub(crate) constraint: Constraint,
}

/// Tells the model of a conversation what tools there are and what came of them.
///
/// # Errors
/// Where the model has no chat template.
pub(crate) fn tell(
    template: &ChatTemplate,
    conversation: Conversation,
    tools: Option<&Tools>,
) -> Result<(Conversation, &'static Syntax), Refusal> {
    Ok(match Syntax::of(template) {
        Some(syntax) => {
            let tools = tools.into_iter().flat_map(|tools| &tools.tools);
            let conversation = Conversation { tools: tools.map(|tool| tool.told()).collect(), ..conversation };
            (syntax.told(conversation), syntax)
        }
        None => (words::told(template, conversation, tools), &syntax::TAGGED),
    })
}

/// What makes the form of a text that may call tools, or must: how calls are written, the tools, and what the text has
/// to look like where it calls none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) syntax: &'static Syntax,
    pub(crate) tools: Tools,
    pub(crate) form: Option<Form>,
}

impl Asked {
    /// What is asked for, worked out or known.
    ///
    /// # Errors
    /// A schema that cannot be used.
    pub(crate) fn calls(self, engine: &Engine, known: &Forms<Self>, salt: &Arc<str>) -> Result<Calls, Refusal> {
        let Self { syntax, tools, form } = &self;
        let work_out = || form::grammar(syntax, tools, form.as_ref()).map(|grammar| engine.constraint(grammar));
        Ok(Calls { syntax, constraint: known.constraint(salt, &self, work_out)? })
    }
}

/// The prompt of a chat in which tools have a part.
pub(crate) fn prompt(
    engine: &Engine,
    prompt: Prompt,
    tools: Option<&Tools>,
) -> Result<(Prompt, &'static Syntax), Refusal> {
    let Prompt::Chat(conversation) = prompt else { return Ok((prompt, &syntax::TAGGED)) };
    let (conversation, syntax) = tell(&engine.chat_template()?, conversation, tools)?;
    Ok((Prompt::Chat(conversation), syntax))
}
