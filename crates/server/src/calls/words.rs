//! Tools described in words, for chat templates that do not support them.

use std::fmt::Write;

use serde_json::Value;
use verdigris::text::ChatTemplate;
use verdigris::text::calls::{HERMES, Syntax};
use verdigris::{Conversation, Message};

use crate::protocol::tools::{ToolChoice, Tools};

/// The conversation with the tools described in its first message, and with calls and their results as text.
pub(super) fn in_words(template: &ChatTemplate, conversation: Conversation, tools: Option<&Tools>) -> Conversation {
    let conversation = Conversation { messages: spoken(conversation.messages), ..conversation };
    described(template, conversation, tools, &HERMES)
}

/// The conversation with the tools described in its first message, and an example of a call.
pub(super) fn described(
    template: &ChatTemplate,
    conversation: Conversation,
    tools: Option<&Tools>,
    syntax: &Syntax,
) -> Conversation {
    let mut messages = conversation.messages;
    if let Some(tools) = tools {
        let words = words(tools, syntax);
        match messages.first_mut() {
            Some(first) if first.role == "system" => first.content = format!("{}\n\n{words}", first.content),
            Some(first) if first.role == "user" && !takes_systems(template) => {
                first.content = format!("{words}\n\n{}", first.content);
            }
            _ => messages.insert(0, Message::system(words)),
        }
    }
    Conversation { messages, tools: Vec::new(), ..conversation }
}

/// Whether a template renders system messages.
fn takes_systems(template: &ChatTemplate) -> bool {
    let probe = vec![Message::system("probe_system"), Message::user("Hello.")];
    template.render(&probe.into()).is_ok_and(|prompt| prompt.contains("probe_system"))
}

/// The description of the tools, with instructions for calling them.
fn words(tools: &Tools, syntax: &Syntax) -> String {
    let mut words =
        "You can call these tools, each with arguments that obey the JSON Schema in its parameters:\n".to_owned();
    for tool in &tools.tools {
        // Writing to a string cannot fail.
        let _ = writeln!(words, "{}", tool.to_template()["function"]);
    }
    let _ = write!(words, "To call a tool, write:\n{}", example(syntax));
    words.push_str(match tools.choice {
        ToolChoice::Auto => "\nWhere no tool is needed, answer in words.",
        ToolChoice::Required => "\nCall a tool now.",
        ToolChoice::Named(_) => "\nCall this tool now: ",
    });
    if let ToolChoice::Named(number) = tools.choice {
        words.push_str(&tools.tools[number].name);
    }
    words
}

/// A call with words for its parts.
fn example(syntax: &Syntax) -> String {
    let Syntax { open, name, id, arguments, notation, end, close, .. } = syntax;
    let id = id.as_ref().map_or(String::new(), |id| format!("{}ID", id.before));
    let written = notation.as_ref().map_or("ARGUMENTS".to_owned(), |notation| {
        let signs = &notation.parameters;
        format!("{}PARAMETER{}VALUE{}{}", signs.before_name, signs.after_name, signs.after_value, signs.close)
    });
    format!("{open}{name}NAME{id}{arguments}{written}{end}{close}")
}

/// The source text of a call.
fn block(name: &str, arguments: &Value) -> String {
    let Syntax { open, name: before, arguments: between, end, close, .. } = &HERMES;
    format!("{open}{before}{name}{between}{arguments}{end}{close}")
}

/// Converts calls to text of the assistant, and results to user messages. Adjacent results share a message, since many
/// templates require alternating roles.
fn spoken(messages: Vec<Message>) -> Vec<Message> {
    let mut spoken: Vec<Message> = Vec::new();
    let mut after_result = false;
    for mut message in messages {
        if message.role != "tool" {
            after_result = false;
            let calls = message.more.remove("tool_calls");
            let content = &mut message.content;
            for call in calls.as_ref().and_then(Value::as_array).into_iter().flatten() {
                let function = &call["function"];
                let apart = if content.is_empty() { "" } else { "\n" };
                let _ = write!(
                    content,
                    "{apart}{}",
                    block(function["name"].as_str().unwrap_or_default(), &function["arguments"])
                );
            }
            spoken.push(message);
            continue;
        }
        let content = format!("<tool_response>\n{}\n</tool_response>", message.content);
        match spoken.last_mut() {
            Some(before) if after_result => before.content = format!("{}\n{content}", before.content),
            _ => spoken.push(Message::user(content)),
        }
        after_result = true;
    }
    spoken
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::fields::Fields;
    use crate::protocol::tools::ToolShape;
    use serde_json::json;

    const PLAIN: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:";

    fn tools(choice: Value) -> Tools {
        let body = json!({
            "tools": [{"type": "function", "function": {"name": "add", "description": "Sums."}}], "tool_choice": choice,
        });
        Tools::take(&mut Fields::of(body, "").unwrap(), ToolShape::Nested).unwrap().unwrap()
    }

    #[test]
    fn tools_are_told_where_the_template_has_a_place() {
        let template = ChatTemplate::new(PLAIN, None, None).unwrap();
        let refusing =
            format!("{{% if messages[0].role == 'system' %}}{{{{ raise_exception('no') }}}}{{% endif %}}{PLAIN}");
        let refusing = ChatTemplate::new(&refusing, None, None).unwrap();
        let in_words = |template, messages: Vec<Message>, choice: &str| {
            in_words(template, messages.into(), Some(&tools(json!(choice)))).messages
        };
        let plain = in_words(&template, vec![Message::user("Hi")], "auto");
        assert_eq!((&*plain[0].role, &*plain[1].content), ("system", "Hi"));
        assert!(plain[0].content.contains(r#"{"name":"add","description":"Sums.""#), "{}", plain[0].content);
        assert!(plain[0].content.contains("<tool_call>\n{\"name\": \"NAME\", \"arguments\": ARGUMENTS}\n</tool_call>"));
        let own = in_words(&template, vec![Message::system("Be brief."), Message::user("Hi")], "required");
        assert!(own.len() == 2 && own[0].content.starts_with("Be brief.\n\nYou can call"), "{own:?}");
        assert!(own[0].content.ends_with("Call a tool now."));
        let user = in_words(&refusing, vec![Message::user("Hi")], "auto");
        assert!(user.len() == 1 && user[0].content.ends_with("\n\nHi"), "{user:?}");
        refusing.render(&user.into()).unwrap();
    }

    #[test]
    fn calls_and_what_came_of_them_are_text() {
        let call = json!({"function": {"name": "add", "arguments": {"a": 1}}});
        let result = |text| Message::new("tool", text).with("tool_call_id", json!("c1"));
        let messages = vec![
            Message::user("Add."),
            Message::assistant("Yes.").with("tool_calls", json!([call])),
            result("2"),
            result("3"),
            Message::assistant("Both.").with("reasoning", json!("Hm.")),
        ];
        let template = ChatTemplate::new(PLAIN, None, None).unwrap();
        let got = in_words(&template, messages.into(), None).messages;
        let expected = [
            Message::user("Add."),
            Message::assistant("Yes.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\":1}}\n</tool_call>"),
            Message::user("<tool_response>\n2\n</tool_response>\n<tool_response>\n3\n</tool_response>"),
            Message::assistant("Both.").with("reasoning", json!("Hm.")),
        ];
        assert_eq!(got, expected);
    }
}
