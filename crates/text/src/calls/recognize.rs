//! The syntax that a chat template renders, and conversations as it expects them.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::families::FAMILIES;
use super::syntax::{HistoryIds, Syntax};
use crate::chat::{ChatTemplate, Conversation, Message, spaced_json};

/// The calls that a chat template renders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallTemplate {
    /// Their syntax.
    pub syntax: &'static Syntax,
    /// Whether the template describes the tools to the model.
    pub describes_tools: bool,
    /// Whether it expects the arguments of earlier calls as text.
    arguments_as_text: bool,
}

impl CallTemplate {
    /// The calls that a chat template renders. `None` if it does not render calls and their results, or uses an unknown
    /// syntax.
    pub fn of(template: &ChatTemplate) -> Option<Self> {
        [false, true].into_iter().find_map(|arguments_as_text| {
            let shown = template.render(&probe(arguments_as_text)).ok()?;
            let syntax = FAMILIES.iter().find(|syntax| syntax.is_traced_in(&shown))?;
            let describes_tools = shown.contains("probe_description");
            let found = Self { syntax, describes_tools, arguments_as_text };
            shown.contains("probe_result").then_some(found)
        })
    }

    /// Adapts the earlier calls of a conversation to the template.
    pub fn adapt(&self, mut conversation: Conversation) -> Conversation {
        let (mut count, mut ids) = (0, HashMap::new());
        for message in &mut conversation.messages {
            if let Some(id) = message.more.get_mut("tool_call_id") {
                let old = id.as_str().unwrap_or_default();
                *id = match ids.get(old) {
                    Some(new) => json!(new),
                    None => json!(self.id(old, None)),
                };
            }
            let calls = message.more.get_mut("tool_calls").and_then(Value::as_array_mut);
            for call in calls.into_iter().flatten() {
                let name = call["function"]["name"].as_str().unwrap_or_default().to_owned();
                if let Some(id) = call.get_mut("id") {
                    let old = id.as_str().unwrap_or_default().to_owned();
                    let new = self.id(&old, Some((&name, count)));
                    ids.insert(old, new.clone());
                    *id = json!(new);
                }
                count += 1;
                let arguments = call.get_mut("function").and_then(|function| function.get_mut("arguments"));
                if let Some(arguments) = arguments.filter(|_| self.arguments_as_text) {
                    *arguments = json!(spaced_json(arguments));
                }
            }
        }
        conversation
    }

    /// The id of an earlier call, as the template expects it; `call` has the tool's name and the number of the call.
    fn id(&self, id: &str, call: Option<(&str, usize)>) -> String {
        match (self.syntax.history, call) {
            (HistoryIds::Short, _) => short(id),
            (HistoryIds::Numbered, Some((name, number))) => format!("functions.{name}:{number}"),
            _ => id.to_owned(),
        }
    }
}

impl Syntax {
    /// Whether a text contains the traces of the call that probes a template.
    fn is_traced_in(&self, text: &str) -> bool {
        let contains_all = |traces: &&[&str]| {
            let mut rest = Some(text);
            for trace in *traces {
                rest = rest.and_then(|rest| Some(&rest[rest.find(trace)? + trace.len()..]));
            }
            rest.is_some()
        };
        self.traces.iter().any(contains_all)
    }
}

/// An id of nine letters and digits: `id` itself, or a hash of it.
fn short(id: &str) -> String {
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id.into();
    }
    // FNV-1a: it distinguishes the ids of one conversation, and need not be hard to reverse.
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{:09x}", id.bytes().fold(0xcbf2_9ce4_8422_2325, mix) & 0xf_ffff_ffff)
}

/// A conversation with a call and its result.
fn probe(arguments_as_text: bool) -> Conversation {
    let arguments = if arguments_as_text { json!("{\"probe_key\": 1}") } else { json!({"probe_key": 1}) };
    let function = json!({"name": "probe_tool", "arguments": arguments});
    let call = json!({"id": "probe0001", "type": "function", "function": function});
    let result =
        Message::new("tool", "probe_result").with("tool_call_id", json!("probe0001")).with("name", json!("probe_tool"));
    let parameters =
        json!({"type": "object", "properties": {"probe_key": {"type": "integer", "description": "A key."}}});
    let about = json!({"name": "probe_tool", "description": "probe_description", "parameters": parameters});
    Conversation {
        messages: vec![Message::user("Hello."), Message::assistant("").with("tool_calls", json!([call])), result],
        tools: vec![json!({"type": "function", "function": about})],
        ..Conversation::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A template of DeepSeek, with the names of elements.
    macro_rules! dsml {
        ($calls:literal, $call:literal, $parameter:literal) => {
            concat!(
                "{% set t = '｜DSML｜' %}{{ '\\n\\n<' + t + '",
                $calls,
                ">\\n<' + t + '",
                $call,
                " name=\"' + f.name + '\">\\n' }}{% for k, v in f.arguments|items %}{{ '<' + t + '",
                $parameter,
                " name=\"' + k + '\" string=\"' ~ ('true' if v is string else 'false') ~ '\">' ~ v ~ '</' + t + '",
                $parameter,
                ">' }}{% endfor %}{{ '\\n</' + t + '",
                $call,
                ">\\n</' + t + '",
                $calls,
                ">' }}"
            )
        };
    }

    /// The parts of templates that render tools, calls and results, shortened; and the families that they show.
    const TEMPLATES: &[(&str, &str)] = &[
        (
            "hermes",
            "{{ '\\n<tool_call>\\n{\"name\": \"' + f.name + '\", \"arguments\": ' }}{{ f.arguments | tojson }}\
             {{ '}\\n</tool_call>' }}",
        ),
        (
            "qwen3-coder",
            "{{ '\\n<tool_call>\\n<function=' + f.name + '>\\n' }}{% for k, v in f.arguments|items %}\
             {{ '<parameter=' + k + '>\\n' ~ v ~ '\\n</parameter>\\n' }}{% endfor %}{{ '</function>\\n</tool_call>' }}",
        ),
        (
            "seed-oss",
            "{{ '<seed:tool_call>\\n<function=' + f.name + '>\\n' }}{% for k, v in f.arguments|items %}\
             {{ '<parameter=' + k + '>' ~ v ~ '</parameter>\\n' }}{% endfor %}{{ '</function>\\n</seed:tool_call>' }}",
        ),
        (
            "minimax-m2",
            "{{ '<minimax:tool_call>\\n<invoke name=\"' + f.name + '\">\\n' }}{% for k, v in f.arguments|items %}\
             {{ '<parameter name=\"' + k + '\">' ~ v ~ '</parameter>\\n' }}{% endfor %}\
             {{ '</invoke>\\n</minimax:tool_call>' }}",
        ),
        (
            "glm-4.5",
            "{{ '\\n<tool_call>' + f.name + '\\n' }}{% for k, v in f.arguments|items %}{{ '<arg_key>' + k + \
             '</arg_key>\\n<arg_value>' ~ v ~ '</arg_value>\\n' }}{% endfor %}</tool_call>",
        ),
        (
            "glm-4.7",
            "<tool_call>{{ f.name }}{% for k, v in f.arguments|items %}<arg_key>{{ k }}</arg_key><arg_value>{{ v }}\
             </arg_value>{% endfor %}</tool_call>",
        ),
        ("hunyuan-a13b", "<tool_calls>[{{ f | tojson }}]</tool_calls>"),
        (
            "hy-3-preview",
            "{{ '<tool_calls>\\n<tool_call>' + f.name + '<tool_sep>\\n' }}{% for k, v in f.arguments|items %}\
             {{ '<arg_key>' + k + '</arg_key>\\n<arg_value>' ~ v ~ '</arg_value>\\n' }}{% endfor %}\
             {{ '</tool_call>\\n</tool_calls>' }}",
        ),
        (
            "hy-3",
            "{% set t = ':opensource>' %}{{ '<tool_calls' + t + '\\n<tool_call' + t + f.name + '<tool_sep' + t + \
             '\\n' }}{% for k, v in f.arguments|items %}{{ '<arg_key' + t + k + '</arg_key' + t + '\\n<arg_value' + t ~ v ~ \
             '</arg_value' + t + '\\n' }}{% endfor %}{{ '</tool_call' + t + '\\n</tool_calls' + t }}",
        ),
        (
            "mistral",
            "{% if c.id | length != 9 %}{{ raise_exception('ids have nine letters') }}{% endif %}{{ '[TOOL_CALLS][' }}\
             {{ (f | tojson)[:-1] }}{{ ', \"id\": \"' + c.id + '\"}]' }}",
        ),
        ("mistral-spaced", "{{ '[TOOL_CALLS] [' }}{{ f | tojson }}{{ ']' }}"),
        ("mistral-11", "[TOOL_CALLS]{{ f.name }}[CALL_ID]{{ c.id }}[ARGS]{{ f.arguments | tojson }}"),
        ("mistral-13", "[TOOL_CALLS]{{ f.name }}[ARGS]{{ f.arguments | tojson }}"),
        (
            "deepseek-3",
            "{{ '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + c.type + '<｜tool▁sep｜>' + f.name + '\\n```json\\n' + \
             f.arguments | tojson + '\\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>' }}",
        ),
        (
            "deepseek-3.1",
            "{{ '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + f.name + '<｜tool▁sep｜>' + f.arguments + \
             '<｜tool▁call▁end｜><｜tool▁calls▁end｜>' }}",
        ),
        ("deepseek-3.2", dsml!("function_calls", "invoke", "parameter")),
        ("deepseek-4", dsml!("tool_calls", "invoke", "parameter")),
        ("deepseek-4.1", dsml!(" calls", " invoke", " parameter")),
        (
            "kimi-k2",
            "<|tool_calls_section_begin|><|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>\
             {{ f.arguments | tojson }}<|tool_call_end|><|tool_calls_section_end|>",
        ),
        (
            "gemma-4",
            "{{ '<|tool_call>call:' + f.name + '{' }}{% for k, v in f.arguments|dictsort %}{{ k }}:{{ v }}{% endfor %}\
             {{ '}<tool_call|>' }}",
        ),
        (
            "harmony",
            "<|start|>assistant to=functions.{{ f.name }}<|channel|>commentary json<|message|>\
             {{ f.arguments | tojson }}<|call|>",
        ),
        (
            "lfm2",
            "<|tool_call_start|>[{{ f.name }}({% for k, v in f.arguments|items %}{{ k }}={{ v }}{% endfor %})]\
             <|tool_call_end|>",
        ),
        ("llama-3", "{{ '{\"name\": \"' + f.name + '\", \"parameters\": ' }}{{ f.arguments | tojson }}{{ '}' }}"),
        ("llama-4", "[{{ f.name }}({% for k, v in f.arguments|items %}{{ k }}=\"{{ v }}\"{% endfor %})]"),
    ];

    fn template(calls: &str) -> ChatTemplate {
        let source = format!(
            "{{% for t in tools %}}{{{{ t | tojson }}}}{{% endfor %}}{{% for m in messages %}}{{{{ m.role }}}}: \
             {{{{ m.content }}}}{{% for c in m.tool_calls %}}{{% set f = c.function %}}{calls}{{% endfor %}}\n\
             {{% endfor %}}"
        );
        ChatTemplate::new(&source, Some("<s>"), Some("</s>")).unwrap()
    }

    fn of(calls: &str) -> Option<CallTemplate> {
        CallTemplate::of(&template(calls))
    }

    #[test]
    fn a_template_shows_how_its_model_calls() {
        for (family, calls) in TEMPLATES {
            let found = of(calls).map(|found| found.syntax.family);
            assert_eq!(found, Some(*family), "{calls}");
        }
        let families: Vec<&str> = TEMPLATES.iter().map(|(family, _)| *family).collect();
        assert!(FAMILIES.iter().all(|syntax| families.contains(&syntax.family)));
        let other = TEMPLATES[0].1.replace("\"arguments\": ", "\"inputs\": ");
        for calls in ["", "{{ f.name }}", &other] {
            assert_eq!(of(calls), None, "{calls}");
        }
    }

    #[test]
    fn a_template_may_not_describe_tools() {
        let calls = TEMPLATES.iter().find(|(family, _)| *family == "mistral-13").unwrap().1;
        assert!(of(calls).unwrap().describes_tools);
        let source = "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}{% set f = c.function %}CALLS\
            {% endfor %}{% endfor %}";
        let bare = ChatTemplate::new(&source.replace("CALLS", calls), None, None).unwrap();
        assert!(!CallTemplate::of(&bare).unwrap().describes_tools);
    }

    #[test]
    fn marks_begin_calls() {
        for syntax in FAMILIES {
            assert!(format!("{}{}", syntax.open, syntax.name).starts_with(syntax.mark), "{}", syntax.family);
            assert!(!syntax.mark.is_empty() || syntax.is_first, "{}", syntax.family);
        }
    }

    /// Ids of other servers are accepted, and arguments are text where a template wants that.
    #[test]
    fn earlier_calls_are_as_a_template_wants_them() {
        let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": {"a": [1]}}});
        let messages = vec![
            Message::user("x"),
            Message::assistant("").with("tool_calls", json!([call("call_1234567890"), call("call_1234567891")])),
            Message::new("tool", "1").with("tool_call_id", json!("call_1234567891")),
        ];
        let adapted = |family: &str| {
            let calls = TEMPLATES.iter().find(|(of, _)| *of == family).unwrap().1;
            let adapted = of(calls).unwrap().adapt(messages.clone().into());
            let prompt = template(calls).render(&adapted).unwrap();
            (adapted.messages[1].more["tool_calls"].clone(), adapted.messages[2].more["tool_call_id"].clone(), prompt)
        };
        let (calls, id, _) = adapted("mistral");
        assert!(calls[1]["id"] == id && calls[0]["id"] != id && id.as_str().unwrap().len() == 9);
        assert_eq!(short("abcDEF012"), "abcDEF012");
        let (calls, id, prompt) = adapted("kimi-k2");
        assert_eq!((&calls[0]["id"], &id), (&json!("functions.f:0"), &json!("functions.f:1")));
        assert!(prompt.contains("functions.f:1<|tool_call_argument_begin|>{\"a\": [1]}"), "{prompt}");
        let (calls, id, prompt) = adapted("deepseek-3.1");
        assert_eq!((&calls[0]["function"]["arguments"], &id), (&json!("{\"a\": [1]}"), &json!("call_1234567891")));
        assert!(prompt.contains("f<｜tool▁sep｜>{\"a\": [1]}<"), "{prompt}");
    }
}
