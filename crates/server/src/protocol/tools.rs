//! The tools that a model may call, and whether it must: `tools`, `tool_choice` and `parallel_tool_calls`.
//!
//! `/v1/chat/completions` describes a tool in an object `function`, `/v1/responses` at the same level as its type.

use serde_json::{Map, Value, json};

use crate::protocol::fields::{Fields, read};
use crate::protocol::refusal::Refusal;

/// The maximum number of tools of one request, the same as OpenAI's.
const TOOLS: usize = 128;

/// The maximum length of a tool's name.
const LONGEST_NAME: usize = 64;

/// A tool that may be called.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    description: Option<String>,
    /// The schema of the arguments, as shown to the model.
    parameters: Value,
    /// The path of that schema in the body.
    pub(crate) path: String,
}

/// Which tools the model must call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolChoice {
    /// The model decides.
    Auto,
    /// At least one tool.
    Required,
    /// The tool with this index.
    Named(usize),
}

/// The tools that the model may call: at least one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tools {
    pub(crate) tools: Vec<Tool>,
    pub(crate) choice: ToolChoice,
    /// Whether an answer may have several calls.
    pub(crate) several: bool,
}

/// The format of a tool's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolShape {
    /// In an object `function`.
    Nested,
    /// At the same level as the tool's type.
    Flat,
    /// Without a type: OpenAI's first `functions`.
    Bare,
}

impl Tool {
    /// The tool in the format of chat templates, which is that of OpenAI's chats.
    pub(crate) fn to_template(&self) -> Value {
        let mut function = Map::from_iter([("name".to_owned(), json!(self.name))]);
        function.extend(self.description.iter().map(|text| ("description".to_owned(), json!(text))));
        function.insert("parameters".into(), self.parameters.clone());
        json!({"type": "function", "function": function})
    }

    /// The schema of the arguments, which are an object.
    pub(crate) fn schema(&self) -> Value {
        let mut schema = self.parameters.clone();
        if names_nothing(&schema) {
            schema["additionalProperties"] = false.into();
        }
        if let Value::Object(keywords) = &mut schema {
            keywords.entry("type").or_insert_with(|| json!("object"));
        }
        schema
    }
}

impl Tools {
    /// The number of bytes of the schemas.
    pub(crate) fn bytes(&self) -> usize {
        self.tools.iter().map(|tool| tool.parameters.to_string().len()).sum()
    }

    /// Takes the fields about tools; `None` if no tool may be called.
    pub(crate) fn take(body: &mut Fields, shape: ToolShape) -> Result<Option<Self>, Refusal> {
        let (tools, choice) = Self::described(body, "tools", "tool_choice", shape)?;
        let several = body.take("parallel_tool_calls")?.unwrap_or(true);
        Ok(Self::of(tools, choice, several))
    }

    /// Takes OpenAI's first fields for tools, `functions` and `function_call`: an answer has at most one call.
    pub(crate) fn take_functions(body: &mut Fields) -> Result<Option<Self>, Refusal> {
        let (tools, choice) = Self::described(body, "functions", "function_call", ToolShape::Bare)?;
        Ok(Self::of(tools, choice, false))
    }

    /// These tools; `None` if there are none, or none may be called.
    pub(crate) fn of(tools: Vec<Tool>, choice: Option<ToolChoice>, several: bool) -> Option<Self> {
        choice.filter(|_| !tools.is_empty()).map(|choice| Self { tools, choice, several })
    }

    /// Takes tools, and which of them must be called, from the fields of these names.
    fn described(
        body: &mut Fields,
        name: &str,
        choice_name: &str,
        shape: ToolShape,
    ) -> Result<(Vec<Tool>, Option<ToolChoice>), Refusal> {
        let tools = Self::each(body, name, TOOLS, |item| tool(item, shape))?;
        let choice = choice(body, choice_name, &tools, shape)?;
        Ok((tools, choice))
    }

    /// Takes the items of a field as tools, at most `most`, each with its own name.
    pub(crate) fn each(
        body: &mut Fields,
        name: &str,
        most: usize,
        tool: impl Fn(Fields) -> Result<Tool, Refusal>,
    ) -> Result<Vec<Tool>, Refusal> {
        let path = body.path(name);
        let items = body.items(name)?.unwrap_or_default();
        if items.len() > most {
            let message = format!("{path} has {} tools, but must have at most {most}", items.len());
            return Err(Refusal::field(path, "invalid_value", message));
        }
        let mut tools: Vec<Tool> = Vec::new();
        for (path, item) in items {
            let tool = tool(body.within(item, path.clone())?)?;
            if tools.iter().any(|known| known.name == tool.name) {
                let message = format!("{path}: an earlier tool is also named {:?}: give each its own name", tool.name);
                return Err(Refusal::field(path, "invalid_value", message));
            }
            tools.push(tool);
        }
        Ok(tools)
    }
}

/// The fields about a function, which is the only type of tool that is supported.
fn function(mut item: Fields, shape: ToolShape) -> Result<Fields, Refusal> {
    if shape == ToolShape::Bare {
        return Ok(item);
    }
    let kind: String = item.need("type")?;
    if kind != "function" {
        let path = item.path("type");
        let message = format!("{path} is {kind:?}, but this server only supports tools of the type function");
        return Err(Refusal::field(path, "unsupported_tool", message));
    }
    if shape == ToolShape::Flat {
        return Ok(item);
    }
    let about = item.object("function")?.ok_or_else(|| item.missing("function"))?;
    item.ignore(&["cache_control"]);
    item.end()?;
    Ok(about)
}

fn tool(item: Fields, shape: ToolShape) -> Result<Tool, Refusal> {
    let mut about = function(item, shape)?;
    let tool = Tool::take(&mut about, LONGEST_NAME, "parameters")?;
    about.end()?;
    Ok(tool)
}

impl Tool {
    /// Takes the fields of a function whose name has at most `longest` characters, and whose schema has this name.
    pub(crate) fn take(about: &mut Fields, longest: usize, schema: &str) -> Result<Self, Refusal> {
        let name: String = about.need("name")?;
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > longest || !name.chars().all(fits) {
            let path = about.path("name");
            let message = format!("{path} is not 1 to {longest} of the letters a-z and A-Z, digits, _ and -");
            return Err(Refusal::field(path, "invalid_value", message));
        }
        let description = about.take("description")?;
        let path = about.path(schema);
        let nothing = || json!({"type": "object", "properties": {}, "additionalProperties": false});
        let parameters = about.value(schema).unwrap_or_else(nothing);
        let is_of_objects = match parameters.as_object() {
            Some(keywords) => keywords.get("type").is_none_or(|kind| kind == "object"),
            None => false,
        };
        if !is_of_objects {
            let message = format!("{path} is not a schema of an object: arguments are one, so its type must be object");
            return Err(Refusal::field(path, "invalid_json_schema", message));
        }
        // A schema is always obeyed.
        about.ignore(&["strict", "cache_control"]);
        Ok(Tool { name, description, parameters, path })
    }
}

/// Whether a schema is how clients describe a tool without arguments: an object, and no property.
fn names_nothing(schema: &Value) -> bool {
    const ABOUT: [&str; 4] = ["type", "title", "description", "$schema"];
    let is_empty = |value: &Value| match value {
        Value::Object(properties) => properties.is_empty(),
        Value::Array(names) => names.is_empty(),
        _ => false,
    };
    schema.as_object().is_some_and(|keywords| {
        keywords.iter().all(|(keyword, value)| {
            ABOUT.contains(&&**keyword) || matches!(&**keyword, "properties" | "required") && is_empty(value)
        })
    })
}

/// Takes which tools the model must call; `None` if it may call none.
fn choice(body: &mut Fields, name: &str, tools: &[Tool], shape: ToolShape) -> Result<Option<ToolChoice>, Refusal> {
    let path = body.path(name);
    let choice = match body.value(name) {
        None => return Ok(Some(ToolChoice::Auto)),
        Some(Value::String(word)) => match word.as_str() {
            "none" => return Ok(None),
            "auto" => return Ok(Some(ToolChoice::Auto)),
            "required" => ToolChoice::Required,
            _ => {
                let message = format!("{path} is {word:?}, but must be auto, required, none, or name a function");
                return Err(Refusal::field(path, "invalid_value", message));
            }
        },
        Some(named) => {
            let mut about = function(body.within(named, path.clone())?, shape)?;
            let name: String = about.need("name")?;
            let path = about.path("name");
            about.end()?;
            named_tool(tools, &name, path)?
        }
    };
    if tools.is_empty() {
        let message = format!("{path} requires a call, but the request has no tools: give tools");
        return Err(Refusal::field(path, "missing_field", message));
    }
    Ok(Some(choice))
}

/// The tool of this name, which is at `path`.
pub(crate) fn named_tool(tools: &[Tool], name: &str, path: String) -> Result<ToolChoice, Refusal> {
    tools
        .iter()
        .position(|tool| tool.name == name)
        .map(ToolChoice::Named)
        .ok_or_else(|| Refusal::field(&path, "invalid_value", format!("{path} is {name:?}, which is not in tools")))
}

/// The arguments of an earlier call: an object, as text.
pub(crate) fn arguments(text: &str, path: String) -> Result<Value, Refusal> {
    // Some clients send an empty text for a tool without parameters.
    let text = if text.trim().is_empty() { "{}" } else { text };
    let value: Value = serde_json::from_str(text)
        .map_err(|error| Refusal::field(&path, "invalid_value", format!("{path} is not JSON: {error}")))?;
    read::<Map<String, Value>>(value, path).map(Value::Object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(body: Value, shape: ToolShape) -> Result<Option<Tools>, Refusal> {
        let mut fields = Fields::of(body, "").unwrap();
        let tools = Tools::take(&mut fields, shape)?;
        fields.end()?;
        Ok(tools)
    }

    #[test]
    fn both_shapes_say_the_same() {
        let about = json!({"name": "add", "description": "Sums.", "strict": true, "parameters": {
            "properties": {"a": {"type": "integer"}},
        }});
        let mut flat = about.clone();
        flat["type"] = json!("function");
        let nested = json!({
            "tools": [{"type": "function", "function": about}],
            "tool_choice": {"type": "function", "function": {"name": "add"}}, "parallel_tool_calls": false,
        });
        let flat = json!({
            "tools": [flat], "tool_choice": {"type": "function", "name": "add"}, "parallel_tool_calls": false,
        });
        let (nested, flat) = (taken(nested, ToolShape::Nested), taken(flat, ToolShape::Flat));
        let (nested, flat) = (nested.unwrap().unwrap(), flat.unwrap().unwrap());
        assert_eq!(nested.tools[0].to_template(), flat.tools[0].to_template());
        assert_eq!((nested.choice, nested.several), (ToolChoice::Named(0), false));
        assert_eq!((flat.choice, flat.several), (ToolChoice::Named(0), false));
        assert_eq!(
            (&*nested.tools[0].path, &*flat.tools[0].path),
            ("tools[0].function.parameters", "tools[0].parameters")
        );
        assert_eq!(nested.tools[0].schema()["type"], "object");
        assert!(nested.tools[0].schema().get("additionalProperties").is_none());
        for nothing in [json!({}), json!({"type": "object", "properties": {}, "required": []}), json!({"title": "t"})] {
            let tools = json!({"tools": [{"type": "function", "name": "now", "parameters": nothing}]});
            let now = &taken(tools, ToolShape::Flat).unwrap().unwrap().tools[0];
            assert_eq!((&now.parameters, &now.schema()["additionalProperties"]), (&nothing, &json!(false)));
        }
        assert_eq!(nested.tools[0].to_template()["function"]["description"], "Sums.");
    }

    #[test]
    fn functions_are_tools_of_which_one_is_called() {
        let functions = |body: Value| {
            let mut fields = Fields::of(body, "").unwrap();
            let tools = Tools::take_functions(&mut fields)?;
            fields.end().map(|()| tools)
        };
        let add = json!([{"name": "add", "parameters": {"type": "object"}}]);
        let one = functions(json!({"functions": add, "function_call": {"name": "add"}})).unwrap().unwrap();
        assert_eq!((one.choice, one.several), (ToolChoice::Named(0), false));
        assert_eq!(one.tools[0].path, "functions[0].parameters");
        let auto = functions(json!({"functions": add})).unwrap().unwrap();
        assert_eq!(auto.choice, ToolChoice::Auto);
        assert_eq!(functions(json!({"functions": add, "function_call": "none"})), Ok(None));
        assert_eq!(functions(json!({})), Ok(None));
        for (body, param) in [
            (json!({"functions": add, "function_call": {"name": "sub"}}), "function_call.name"),
            (json!({"functions": add, "function_call": "always"}), "function_call"),
            (json!({"function_call": {"name": "add"}}), "function_call.name"),
            (json!({"functions": [{"name": "a b"}]}), "functions[0].name"),
        ] {
            assert_eq!(functions(body.clone()).unwrap_err().param.as_deref(), Some(param), "{body}");
        }
    }

    #[test]
    fn tools_that_are_not_to_be_called_are_none() {
        let clock = json!([{"type": "function", "function": {"name": "clock"}}]);
        let auto = taken(json!({"tools": clock}), ToolShape::Nested).unwrap().unwrap();
        assert_eq!((auto.choice, auto.several), (ToolChoice::Auto, true));
        for body in
            [json!({}), json!({"tools": clock, "tool_choice": "none"}), json!({"tools": [], "tool_choice": "auto"})]
        {
            assert_eq!(taken(body, ToolShape::Nested), Ok(None));
        }
    }

    #[test]
    fn what_is_no_tool_is_refused() {
        let tool = |about: Value| json!([{"type": "function", "function": about}]);
        let clock = tool(json!({"name": "clock"}));
        let two = json!([clock[0], clock[0]]);
        for (body, param) in [
            (json!({"tools": {}}), "tools"),
            (json!({"tools": [{"type": "web_search"}]}), "tools[0].type"),
            (json!({"tools": [{"type": "function"}]}), "tools[0].function"),
            (json!({"tools": [{"type": "function", "name": "f", "function": {"name": "f"}}]}), "tools[0].name"),
            (json!({"tools": tool(json!({}))}), "tools[0].function.name"),
            (json!({"tools": tool(json!({"name": "a b"}))}), "tools[0].function.name"),
            (json!({"tools": tool(json!({"name": "x".repeat(65)}))}), "tools[0].function.name"),
            (json!({"tools": tool(json!({"name": "f", "parameters": []}))}), "tools[0].function.parameters"),
            (
                json!({"tools": tool(json!({"name": "f", "parameters": {"type": "string"}}))}),
                "tools[0].function.parameters",
            ),
            (json!({"tools": tool(json!({"name": "f", "code": 1}))}), "tools[0].function.code"),
            (json!({"tools": two}), "tools[1]"),
            (json!({"tools": clock, "tool_choice": "always"}), "tool_choice"),
            (json!({"tools": clock, "tool_choice": {"type": "function"}}), "tool_choice.function"),
            (
                json!({"tools": clock, "tool_choice": {"type": "function", "function": {"name": "cl"}}}),
                "tool_choice.function.name",
            ),
            (json!({"tool_choice": "required"}), "tool_choice"),
            (json!({"tools": vec![clock[0].clone(); 129]}), "tools"),
            (json!({"tools": clock, "parallel_tool_calls": "yes"}), "parallel_tool_calls"),
        ] {
            let refusal = taken(body.clone(), ToolShape::Nested).unwrap_err();
            assert_eq!((refusal.status, refusal.param.as_deref()), (400, Some(param)), "{body}");
        }
    }

    #[test]
    fn arguments_are_objects() {
        assert_eq!(arguments("", "a".into()), Ok(json!({})));
        assert_eq!(arguments("{\"b\": 1}", "a".into()), Ok(json!({"b": 1})));
        for bad in ["{", "[]", "null", "b"] {
            assert_eq!(arguments(bad, "a".into()).unwrap_err().param.as_deref(), Some("a"), "{bad}");
        }
    }
}
