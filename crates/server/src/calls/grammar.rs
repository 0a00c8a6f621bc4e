//! The constraint of a text that may or must call tools.

use verdigris::constrain::{BadSchema, TooLarge};
use verdigris::text::Tokenizer;
use verdigris::text::calls::{CallFormat, Syntax};
use verdigris::{Grammar, Style};

use crate::protocol::Refusal;
use crate::protocol::constraint::ConstraintField;
use crate::protocol::tools::{Tool, ToolChoice, Tools};

/// The grammar of texts with tool calls in the model's syntax, and the format in which they are read. With
/// [`ToolChoice::Auto`] a text may have no calls, and then obeys `constraint` if there is one. Without `constraint`,
/// words may precede the calls, unless the syntax wants them first.
///
/// # Errors
/// If a schema cannot be used.
pub(crate) fn grammar(
    syntax: &Syntax,
    tokenizer: &Tokenizer,
    tools: &Tools,
    constraint: Option<&ConstraintField>,
) -> Result<(Grammar, CallFormat), Refusal> {
    let (only, rest) = match tools.choice {
        ToolChoice::Named(number) => (&tools.tools[number], &[][..]),
        ToolChoice::Auto | ToolChoice::Required => (&tools.tools[0], &tools.tools[1..]),
    };
    let names = std::iter::once(only).chain(rest).map(|tool| tool.name.as_str());
    let mut format = CallFormat::new(syntax, tokenizer, names);
    let first = call(&mut format, only)?;
    let others = rest.iter().map(|tool| call(&mut format, tool)).collect::<Result<Vec<_>, _>>()?;
    let call = Grammar::one_of(first, others).map_err(too_large)?;
    let several = tools.several && syntax.several && !matches!(tools.choice, ToolChoice::Named(_));
    let whole = match (tools.choice, constraint) {
        (ToolChoice::Required | ToolChoice::Named(_), _) => calls(&format, b"", call, several),
        (ToolChoice::Auto, Some(constraint)) => {
            let words = Grammar::sequence([Grammar::text(&format.syntax().words), constraint.compiled(tokenizer)?]);
            calls(&format, b"", call, several).and_then(|calls| Grammar::one_of(words?, [calls]))
        }
        (ToolChoice::Auto, None) => with_words(&format, call, several),
    };
    let lead = Grammar::text(&format.syntax().lead).repeat(0, Some(1));
    let whole =
        whole.and_then(|whole| if syntax.lead.is_empty() { Ok(whole) } else { Grammar::sequence([lead?, whole]) });
    Ok((whole.map_err(too_large)?, format))
}

/// The grammar of a text that may have words, calls, or both if the syntax allows that.
fn with_words(format: &CallFormat, call: Grammar, several: bool) -> Result<Grammar, TooLarge> {
    let (syntax, marks) = (format.syntax(), format.marks());
    if !syntax.is_first {
        let before = Grammar::up_to(&syntax.mark).ok_or(TooLarge)?;
        let with_calls = Grammar::sequence([before, calls(format, &syntax.mark, call, several)?])?;
        return Grammar::one_of(Grammar::free_of_any(marks).ok_or(TooLarge)?, [with_calls]);
    }
    let words = match syntax.words.is_empty() {
        true => Grammar::not_beginning_any(marks).ok_or(TooLarge)?,
        false => Grammar::sequence([Grammar::text(&syntax.words), Grammar::free_of_any(marks).ok_or(TooLarge)?])?,
    };
    Grammar::one_of(words, [calls(format, b"", call, several)?])
}

/// The grammar of the calls of a text after `written`, the beginning of `open`.
fn calls(format: &CallFormat, written: &[u8], call: Grammar, several: bool) -> Result<Grammar, TooLarge> {
    let syntax = format.syntax();
    // The mark may be longer than what opens the calls.
    let begun = [&syntax.open[..], &syntax.name].concat();
    let rest = begun.strip_prefix(written).unwrap_or(&begun);
    let mut parts = vec![Grammar::text(rest), call.clone()];
    if several {
        let between = [&syntax.between[..], &syntax.name].concat();
        parts.push(Grammar::sequence([Grammar::text(between), call])?.repeat(0, None)?);
    }
    parts.push(Grammar::text(&syntax.close));
    Grammar::sequence(parts)
}

/// The grammar of a call of one tool, after the text that precedes its name. An object has no properties that its
/// schema does not name, unless the schema allows them explicitly: a function takes no unknown arguments.
fn call(format: &mut CallFormat, tool: &Tool) -> Result<Grammar, Refusal> {
    let bad = |fault: BadSchema| Refusal::field(&tool.path, "invalid_json_schema", fault.to_string());
    let (schema, style) = (tool.schema(), Style::default().closed());
    let arguments = match &format.syntax().notation {
        None => Grammar::json_schema(&schema, style).map_err(bad)?,
        Some(notation) => {
            let (arguments, kinds) = Grammar::arguments(&schema, style, notation).map_err(bad)?;
            format.set_kinds(&tool.name, kinds);
            arguments
        }
    };
    let syntax = format.syntax();
    let id = syntax.id.as_ref().map(|id| {
        let id_itself = Grammar::regex(id.shape.pattern()).expect("it is an expression");
        [Grammar::text(&id.before), id_itself]
    });
    let parts = [Grammar::text(&tool.name)].into_iter().chain(id.into_iter().flatten());
    let parts = parts.chain([Grammar::text(&syntax.arguments), arguments, Grammar::text(&syntax.end)]);
    Grammar::sequence(parts).map_err(too_large)
}

fn too_large(fault: TooLarge) -> Refusal {
    Refusal::field("tools", "constraint_too_large", format!("the tools: {fault}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::fields::Fields;
    use crate::protocol::tools::ToolShape;
    use serde_json::{Value, json};
    use verdigris::text::calls::HERMES;
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
            let (grammar, _) = grammar(&HERMES, engine.reader().tokenizer(), &tools(more), constraint).unwrap();
            engine.constraint(grammar)
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
        let engine = Engine::load(TALE).unwrap();
        let refusal = grammar(&HERMES, engine.reader().tokenizer(), &tools, None).unwrap_err();
        assert_eq!(
            (refusal.param.as_deref(), refusal.code),
            (Some("tools[0].function.parameters"), Some("invalid_json_schema"))
        );
        assert!(refusal.message.contains("#/properties/x"), "{}", refusal.message);
    }
}
