//! Tools: a name, a description and the schema of their input.

use serde_json::Value;

use crate::protocol::fields::Fields;
use crate::protocol::refusal::Refusal;
use crate::protocol::tools::{Tool, ToolChoice, Tools, named_tool};

/// The maximum number of tools. Programs with many servers of tools send hundreds.
const TOOLS: usize = 1024;

/// The maximum length of a tool's name.
const LONGEST_NAME: usize = 128;

/// Takes `tools` and `tool_choice`; `None` if no tool may be called.
pub(super) fn take(body: &mut Fields) -> Result<Option<Tools>, Refusal> {
    let tools = Tools::each(body, "tools", TOOLS, tool)?;
    let (choice, several) = choice(body, &tools)?;
    Ok(Tools::of(tools, choice, several))
}

fn tool(mut about: Fields) -> Result<Tool, Refusal> {
    let path = about.path("type");
    match about.take::<String>("type")?.as_deref() {
        None | Some("custom") => (),
        Some(kind) => {
            let message = format!("{path} is {kind:?}, but this server only supports tools with an input_schema");
            return Err(Refusal::field(path, "unsupported_tool", message));
        }
    }
    let tool = Tool::take(&mut about, LONGEST_NAME, "input_schema")?;
    about.ignore(&["defer_loading", "eager_input_streaming", "input_examples", "allowed_callers"]);
    about.end()?;
    Ok(tool)
}

/// Takes which tools must be called, and whether an answer may have several calls.
fn choice(body: &mut Fields, tools: &[Tool]) -> Result<(Option<ToolChoice>, bool), Refusal> {
    let Some(mut about) = body.object("tool_choice")? else { return Ok((Some(ToolChoice::Auto), true)) };
    let kind: String = about.need("type")?;
    let several = !about.take::<bool>("disable_parallel_tool_use")?.unwrap_or(false);
    let choice = match kind.as_str() {
        "auto" => Some(ToolChoice::Auto),
        "any" => Some(ToolChoice::Required),
        "none" => None,
        "tool" => {
            let name: String = about.need("name")?;
            Some(named_tool(tools, &name, about.path("name"))?)
        }
        _ => {
            let path = about.path("type");
            let message = format!("{path} is {kind:?}, but must be auto, any, tool or none");
            return Err(Refusal::field(path, "invalid_value", message));
        }
    };
    if choice == Some(ToolChoice::Required) && tools.is_empty() {
        let path = about.path("type");
        let message = format!("{path} requires a call, but the request has no tools: give tools");
        return Err(Refusal::field(path, "missing_field", message));
    }
    about.end()?;
    Ok((choice, several))
}

/// The input of an earlier call: an object.
pub(super) fn input(fields: &mut Fields) -> Result<Value, Refusal> {
    let path = fields.path("input");
    match fields.value("input") {
        None => Ok(Value::Object(serde_json::Map::new())),
        Some(object @ Value::Object(_)) => Ok(object),
        Some(_) => Err(Refusal::field(&path, "invalid_type", format!("{path} must be an object"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn taken(body: Value) -> Result<Option<Tools>, Refusal> {
        let mut fields = Fields::of(body, "").unwrap();
        let tools = take(&mut fields)?;
        fields.end()?;
        Ok(tools)
    }

    #[test]
    fn tools_are_those_of_chats() {
        let add = json!([{
            "type": "custom", "name": "add", "description": "Sums.", "cache_control": {"type": "ephemeral"},
            "defer_loading": false, "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
        }]);
        let one = |choice: Value| taken(json!({"tools": add, "tool_choice": choice})).unwrap();
        let auto = one(json!(null)).unwrap();
        assert_eq!((auto.choice, auto.several), (ToolChoice::Auto, true));
        assert_eq!(auto.tools[0].to_template()["function"]["parameters"], add[0]["input_schema"]);
        assert_eq!(auto.tools[0].path, "tools[0].input_schema");
        let any = one(json!({"type": "any", "disable_parallel_tool_use": true})).unwrap();
        assert_eq!((any.choice, any.several), (ToolChoice::Required, false));
        assert_eq!(one(json!({"type": "tool", "name": "add"})).unwrap().choice, ToolChoice::Named(0));
        assert_eq!(one(json!({"type": "none"})), None);
        for (body, param) in [
            (json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}), "tools[0].type"),
            (json!({"tools": [{"name": "x".repeat(129), "input_schema": {}}]}), "tools[0].name"),
            (json!({"tools": [{"name": "f", "input_schema": {"type": "string"}}]}), "tools[0].input_schema"),
            (json!({"tools": add, "tool_choice": {"type": "all"}}), "tool_choice.type"),
            (json!({"tools": add, "tool_choice": {"type": "tool", "name": "sub"}}), "tool_choice.name"),
            (json!({"tools": add, "tool_choice": "auto"}), "tool_choice"),
            (json!({"tool_choice": {"type": "any"}}), "tool_choice.type"),
        ] {
            assert_eq!(taken(body.clone()).unwrap_err().param.as_deref(), Some(param), "{body}");
        }
    }
}
