//! The constraint of a text that may or must call tools.

use verdigris::constrain::{BadSchema, TooLarge};
use verdigris::{Grammar, Style};

use crate::calls::syntax::Syntax;
use crate::protocol::Refusal;
use crate::protocol::constraint::ConstraintField;
use crate::protocol::tools::{Tool, ToolChoice, Tools};

/// The grammar of texts with tool calls in the model's syntax. With [`ToolChoice::Auto`] a text may have no calls, and
/// then obeys `constraint` if there is one. Without `constraint`, words may precede the calls, unless the syntax wants
/// them first.
///
/// # Errors
/// If a schema cannot be used.
pub(crate) fn grammar(
    syntax: &Syntax,
    tools: &Tools,
    constraint: Option<&ConstraintField>,
) -> Result<Grammar, Refusal> {
    let (only, rest) = match tools.choice {
        ToolChoice::Named(number) => (&tools.tools[number], &[][..]),
        ToolChoice::Auto | ToolChoice::Required => (&tools.tools[0], &tools.tools[1..]),
    };
    let first = call(syntax, only)?;
    let others = rest.iter().map(|tool| call(syntax, tool)).collect::<Result<Vec<_>, _>>()?;
    let call = Grammar::one_of(first, others).map_err(too_large)?;
    let several = tools.several && syntax.several && !matches!(tools.choice, ToolChoice::Named(_));
    let whole = match tools.choice {
        ToolChoice::Required | ToolChoice::Named(_) => calls(syntax, "", call, several),
        ToolChoice::Auto => match constraint {
            Some(constraint) => {
                let calls = calls(syntax, "", call, several).map_err(too_large)?;
                Grammar::one_of(constraint.grammar()?, [calls])
            }
            None if syntax.is_first => {
                let calls = calls(syntax, "", call, several).map_err(too_large)?;
                let text = Grammar::not_beginning(syntax.mark).ok_or(TooLarge).map_err(too_large)?;
                Grammar::one_of(text, [calls])
            }
            None => {
                let text = Grammar::free_of(syntax.mark).ok_or(TooLarge).map_err(too_large)?;
                let before = Grammar::up_to(syntax.mark).ok_or(TooLarge).map_err(too_large)?;
                let calls = calls(syntax, syntax.mark, call, several).map_err(too_large)?;
                let with_calls = Grammar::sequence([before, calls]).map_err(too_large)?;
                Grammar::one_of(text, [with_calls])
            }
        },
    };
    whole.map_err(too_large)
}

/// The grammar of the calls of a text after `written`, the beginning of `open`.
fn calls(syntax: &Syntax, written: &str, call: Grammar, several: bool) -> Result<Grammar, TooLarge> {
    let open = syntax.open.strip_prefix(written).unwrap_or(syntax.open);
    let mut parts = vec![Grammar::text(open), call.clone()];
    if several {
        parts.push(Grammar::sequence([Grammar::text(syntax.between), call])?.repeat(0, None)?);
    }
    parts.push(Grammar::text(syntax.close));
    Grammar::sequence(parts)
}

/// The grammar of a call of one tool. An object has no properties that its schema does not name, unless the schema
/// allows them explicitly: a function takes no unknown arguments.
fn call(syntax: &Syntax, tool: &Tool) -> Result<Grammar, Refusal> {
    let bad = |fault: BadSchema| Refusal::field(&tool.path, "invalid_json_schema", fault.to_string());
    let arguments = Grammar::json_schema(&tool.schema(), Style::default().closed()).map_err(bad)?;
    let before = Grammar::text(&format!("{}{}{}", syntax.name, tool.name, syntax.arguments));
    Grammar::sequence([before, arguments, Grammar::text(syntax.end)]).map_err(too_large)
}

fn too_large(fault: TooLarge) -> Refusal {
    Refusal::field("tools", "constraint_too_large", format!("the tools: {fault}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::syntax::TAGGED;
    use crate::protocol::fields::Fields;
    use crate::protocol::tools::ToolShape;
    use serde_json::{Value, json};
    use verdigris::{Constraint, Engine};

    const TALE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/models/tale-small");

    fn tools(more: Value) -> Tools {
        let add = json!({"name": "add", "parameters": {"required": ["a"], "properties": {"a": {"type": "integer"}}}});
        let mut body = json!({"tools": [
            {"type": "function", "function": add}, {"type": "function", "function": {"name": "clock"}},
        ]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Tools::take(&mut Fields::of(body, "").unwrap(), ToolShape::Nested).unwrap().unwrap()
    }

    fn accepts(constraint: &Constraint, text: &str) -> bool {
        let machine = constraint.machine();
        machine.accepts(machine.next(machine.start(), text.as_bytes()))
    }

    #[test]
    fn texts_call_as_they_may() {
        let engine = Engine::load(TALE).unwrap();
        let compiled = |more: Value, constraint: Option<&ConstraintField>| {
            engine.constraint(grammar(&TAGGED, &tools(more), constraint).unwrap())
        };
        let add = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";
        let clock = "<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>";
        let other = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 2}}\n</tool_call>";
        let two = format!("{add}\n{clock}");
        let said = format!("I add <tool_ call>.\n{add}");
        let json = ConstraintField::json_schema(json!({"const": 3}), "");
        let named = json!({"tool_choice": {"type": "function", "function": {"name": "clock"}}});
        let one = json!({"parallel_tool_calls": false});
        for (constraint, yes, no) in [
            (
                compiled(json!({}), None),
                vec!["", "A text.", "a <tool_call", add, &two, &said],
                vec![other, "<tool_call>", "<tool_call>\n{}\n</tool_call>", &said[..said.len() - 1]],
            ),
            (compiled(one, None), vec!["", add, &said], vec![&two, other]),
            (
                compiled(json!({"tool_choice": "required"}), None),
                vec![add, clock, &two],
                vec!["", "A text.", &said, other],
            ),
            (compiled(named, None), vec![clock], vec!["", add, &two]),
            (compiled(json!({}), Some(&json)), vec!["3", add, &two], vec!["", "A text.", &said]),
        ] {
            for (texts, expected) in [(yes, true), (no, false)] {
                texts.iter().for_each(|text| assert_eq!(accepts(&constraint, text), expected, "{text}"));
            }
        }
    }

    /// The refusal names the tool's field, and the location of the fault in the schema.
    #[test]
    fn a_schema_that_is_not_understood_is_named() {
        let mut tools = tools(json!({}));
        let body = json!({"tools": [{"type": "function", "function": {
            "name": "f", "parameters": {"properties": {"x": {"type": "nothing"}}},
        }}]});
        let bad = Tools::take(&mut Fields::of(body, "").unwrap(), ToolShape::Nested).unwrap().unwrap();
        tools.tools.push(bad.tools[0].clone());
        let refusal = grammar(&TAGGED, &tools, None).unwrap_err();
        assert_eq!(
            (refusal.param.as_deref(), refusal.code),
            (Some("tools[0].function.parameters"), Some("invalid_json_schema"))
        );
        assert!(refusal.message.contains("#/properties/x"), "{}", refusal.message);
    }
}
