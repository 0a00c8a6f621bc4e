//! Reasoning: the fields about the thought before an answer, in the names of all servers.

use serde_json::{Map, Value};
use verdigris::{Engine, Prompt, ReasoningEffort, ReasoningFormat, Request};

use crate::protocol::fields::Fields;
use crate::protocol::refusal::Refusal;

/// Fields that say how an answer shows reasoning, which have no effect: it is always separate.
pub(crate) const NO_EFFECT: &[&str] =
    &["separate_reasoning", "stream_reasoning", "reasoning_format", "reasoning_summary"];

/// The names of reasoning in messages of earlier answers: DeepSeek's, SGLang's and llama.cpp's, and vLLM's.
pub(crate) const IN_MESSAGES: [&str; 2] = ["reasoning_content", "reasoning"];

/// The options of a request that concern thoughts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReasoningField {
    effort: Option<ReasoningEffort>,
    budget: Option<usize>,
    /// Whether the answer includes the thought.
    pub(crate) is_included: bool,
    /// The field that asks for thoughts.
    pub(crate) asked_by: Option<&'static str>,
    /// Variables of the chat template.
    arguments: Map<String, Value>,
}

impl Default for ReasoningField {
    fn default() -> Self {
        Self { effort: None, budget: None, is_included: true, asked_by: None, arguments: Map::new() }
    }
}

impl ReasoningField {
    /// Takes the fields. Only a chat may ask for thoughts, since its template has their markers.
    ///
    /// # Errors
    /// If a value is invalid.
    pub(crate) fn take(body: &mut Fields, is_chat: bool) -> Result<Self, Refusal> {
        body.ignore(NO_EFFECT);
        let mut field = Self {
            effort: effort(body, "reasoning_effort")?,
            budget: body.count("thinking_token_budget", 0, usize::MAX)?,
            is_included: body.take("include_reasoning")?.unwrap_or(true),
            asked_by: None,
            arguments: body.take("chat_template_kwargs")?.unwrap_or_default(),
        };
        field.note("thinking_token_budget", field.budget.is_some());
        field.note("reasoning_effort", field.thinks());
        if let Some(thinks) = body.take::<bool>("enable_thinking")? {
            field.switch(thinks, "enable_thinking");
        }
        field.take_think(body)?;
        field.take_reasoning(body)?;
        field.take_thinking(body)?;
        if let Some(name) = field.asked_by.filter(|_| !is_chat) {
            let message = "only chats can ask for reasoning, whose template has its markers: send messages, or leave it \
                           out";
            return Err(Refusal::field(name, "unsupported_field", message));
        }
        Ok(field)
    }

    /// Switches thoughts on or off, unless the client's own variables of the template do.
    fn switch(&mut self, thinks: bool, by: &'static str) {
        if !thinks {
            self.effort = Some(ReasoningEffort::None);
            return;
        }
        self.note(by, true);
        for name in ["enable_thinking", "thinking"] {
            self.arguments.entry(name).or_insert(true.into());
        }
    }

    /// Whether the effort asks for thoughts.
    fn thinks(&self) -> bool {
        self.effort.is_some_and(|effort| effort != ReasoningEffort::None)
    }

    /// Records the field that asks for thoughts.
    fn note(&mut self, name: &'static str, asks: bool) {
        self.asked_by = self.asked_by.or(Some(name).filter(|_| asks));
    }

    /// Takes `reasoning` of OpenAI's responses and of OpenRouter.
    fn take_reasoning(&mut self, body: &mut Fields) -> Result<(), Refusal> {
        let Some(mut reasoning) = body.object("reasoning")? else { return Ok(()) };
        self.effort = effort(&mut reasoning, "effort")?.or(self.effort);
        self.budget = reasoning.count("max_tokens", 0, usize::MAX)?.or(self.budget);
        if let Some(thinks) = reasoning.take("enabled")? {
            self.switch(thinks, "reasoning");
        }
        self.note("reasoning", self.thinks() || self.budget.is_some());
        self.is_included &= !reasoning.take("exclude")?.unwrap_or(false);
        // Thoughts are returned as they are, not summarized.
        reasoning.ignore(&["summary", "generate_summary"]);
        reasoning.end()
    }

    /// Takes Anthropic's `thinking`.
    fn take_thinking(&mut self, body: &mut Fields) -> Result<(), Refusal> {
        let Some(mut thinking) = body.object("thinking")? else { return Ok(()) };
        let path = thinking.path("type");
        match thinking.need::<String>("type")?.as_str() {
            "enabled" => self.switch(true, "thinking"),
            "disabled" => self.switch(false, "thinking"),
            // The model decides.
            "adaptive" | "between-tools" => (),
            other => {
                let known = "enabled, disabled, adaptive or between-tools";
                let message = format!("{path} is {other:?}, but must be {known}");
                return Err(Refusal::field(path, "invalid_value", message));
            }
        }
        self.budget = thinking.count("budget_tokens", 0, usize::MAX)?.or(self.budget);
        self.is_included &= thinking.take::<String>("display")?.is_none_or(|display| display != "omitted");
        thinking.end()
    }

    /// Takes Ollama's `think`: true, false, or an effort.
    fn take_think(&mut self, body: &mut Fields) -> Result<(), Refusal> {
        match body.value("think") {
            None => (),
            Some(Value::Bool(thinks)) => self.switch(thinks, "think"),
            Some(Value::String(word)) => {
                self.effort = Some(parsed(&word, "think")?);
                self.note("think", self.thinks());
            }
            Some(_) => {
                return Err(Refusal::field("think", "invalid_type", "think must be true, false or an effort"));
            }
        }
        Ok(())
    }

    /// The prompt with the variables of its template.
    pub(crate) fn prompt(&self, prompt: Prompt) -> Prompt {
        let Prompt::Chat(mut conversation) = prompt else { return prompt };
        conversation.arguments = self.arguments.clone();
        for (name, value) in self.effort.into_iter().flat_map(ReasoningEffort::template_arguments) {
            conversation.arguments.entry(name).or_insert(value);
        }
        Prompt::Chat(conversation)
    }

    /// Adds the options to the request for a text after a chat, whose template the prompt is made with.
    pub(crate) fn onto<'a>(&self, request: Request<'a>, engine: &Engine) -> Request<'a> {
        let format = engine.reasoning().map_or(ReasoningFormat::None, ReasoningFormat::Syntax);
        let request = request.reasoning_format(format);
        // A request that switches thoughts on needs a model that has them, whatever the effort.
        let effort = self.effort.or(self.asked_by.map(|_| ReasoningEffort::Medium));
        let request = effort.into_iter().fold(request, Request::reasoning_effort);
        self.budget.into_iter().fold(request, Request::thinking_token_budget)
    }
}

fn effort(body: &mut Fields, name: &str) -> Result<Option<ReasoningEffort>, Refusal> {
    let path = body.path(name);
    body.take::<String>(name)?.map(|word| parsed(&word, &path)).transpose()
}

fn parsed(word: &str, path: &str) -> Result<ReasoningEffort, Refusal> {
    let fault = |fault: verdigris::UnknownName| Refusal::field(path, "invalid_value", format!("{path}: {fault}"));
    word.parse().map_err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn taken(body: Value) -> Result<ReasoningField, Refusal> {
        let mut fields = Fields::of(body, "").unwrap();
        let field = ReasoningField::take(&mut fields, true)?;
        fields.end()?;
        Ok(field)
    }

    #[test]
    fn efforts_and_budgets_have_several_names() {
        assert_eq!(taken(json!({})).unwrap(), ReasoningField::default());
        for (body, effort, budget, is_included) in [
            (json!({"reasoning_effort": "high"}), Some(ReasoningEffort::High), None, true),
            (json!({"reasoning": {"effort": "low", "summary": "auto"}}), Some(ReasoningEffort::Low), None, true),
            (json!({"reasoning": {"enabled": false}}), Some(ReasoningEffort::None), None, true),
            (json!({"reasoning": {"max_tokens": 5, "exclude": true}}), None, Some(5), false),
            (json!({"thinking_token_budget": 0, "include_reasoning": false}), None, Some(0), false),
            (json!({"thinking": {"type": "enabled", "budget_tokens": 1024}}), None, Some(1024), true),
            (json!({"thinking": {"type": "disabled"}}), Some(ReasoningEffort::None), None, true),
            (json!({"thinking": {"type": "adaptive"}, "stream_reasoning": true}), None, None, true),
            (json!({"think": false}), Some(ReasoningEffort::None), None, true),
            (json!({"think": "low"}), Some(ReasoningEffort::Low), None, true),
            (json!({"think": true, "enable_thinking": true}), None, None, true),
        ] {
            let field = taken(body.clone()).unwrap();
            assert_eq!((field.effort, field.budget, field.is_included), (effort, budget, is_included), "{body}");
        }
        for (body, param) in [
            (json!({"reasoning_effort": "huge"}), "reasoning_effort"),
            (json!({"reasoning": {"effort": 3}}), "reasoning.effort"),
            (json!({"reasoning": {"depth": 3}}), "reasoning.depth"),
            (json!({"thinking_token_budget": -1}), "thinking_token_budget"),
            (json!({"chat_template_kwargs": 3}), "chat_template_kwargs"),
            (json!({"think": 3}), "think"),
            (json!({"think": "much"}), "think"),
            (json!({"thinking": {"type": "often"}}), "thinking.type"),
        ] {
            assert_eq!(taken(body.clone()).unwrap_err().param.as_deref(), Some(param), "{body}");
        }
    }

    #[test]
    fn arguments_of_the_client_have_priority() {
        let field =
            taken(json!({"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": true, "x": 1}}));
        let Prompt::Chat(conversation) = field.unwrap().prompt(Prompt::Chat(Vec::new().into())) else { panic!() };
        assert_eq!(Value::Object(conversation.arguments), json!({"enable_thinking": true, "thinking": false, "x": 1}));
    }
}
