//! Prompts from a file.

use std::path::Path;

use serde_json::Value;
use verdigris_logits::TokenId;
use verdigris_models::LoadedModel;
use verdigris_text::{ChatTemplate, Message};

use crate::corpus::read_text;
use crate::error::TrainError;

/// The tokens of all prompts in a file: one per line, or JSON Lines with a field `prompt`. With `chat` they are
/// messages to the model. Empty lines are ignored.
pub(super) fn read(path: &Path, model: &LoadedModel, chat: bool) -> Result<Vec<Vec<TokenId>>, TrainError> {
    let text = read_text(path)?;
    let template = match (chat, &model.chat) {
        (false, _) => None,
        (true, Some(chat)) => Some(ChatTemplate::new(&chat.template, chat.begin.as_deref(), chat.end.as_deref())?),
        (true, None) => return Err(TrainError::NoChatTemplate),
    };
    let is_json = text.lines().find(|line| !line.trim().is_empty()).is_some_and(|line| object(line).is_some());
    let mut prompts = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |fault: String| TrainError::Prompts { path: path.into(), line: number + 1, fault };
        let prompt = match is_json {
            true => prompt_of(line).ok_or_else(|| wrong("it is not a JSON object with a text as `prompt`".into()))?,
            false => line.to_owned(),
        };
        let tokens = match &template {
            Some(template) => template.tokens(&[Message::user(prompt)].into(), &model.tokenizer)?,
            None => model.tokenizer.encode_prompt(&prompt).map_err(|error| wrong(error.to_string()))?,
        };
        let (length, context) = (tokens.len(), model.model.context_length());
        if length >= context {
            return Err(wrong(format!("its {length} tokens leave no room in the target's context of {context}")));
        }
        prompts.push(tokens);
    }
    if prompts.is_empty() {
        return Err(TrainError::NoPrompts { path: path.into() });
    }
    Ok(prompts)
}

fn object(line: &str) -> Option<Value> {
    serde_json::from_str(line).ok().filter(Value::is_object)
}

fn prompt_of(line: &str) -> Option<String> {
    object(line)?["prompt"].as_str().map(str::to_owned)
}
