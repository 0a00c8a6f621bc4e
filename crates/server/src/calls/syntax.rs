//! The syntaxes in which models write tool calls.

use serde_json::{Value, json};
use verdigris::text::ChatTemplate;
use verdigris::{Conversation, Message};

/// A syntax for calls. A text with calls is free text, `open`, a call, `between` and a call for each further one, and
/// `close`. A call is `name`, a tool's name, `arguments`, JSON, and `end`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Syntax {
    pub(crate) open: &'static str,
    pub(crate) name: &'static str,
    pub(crate) arguments: &'static str,
    pub(crate) end: &'static str,
    pub(crate) between: &'static str,
    pub(crate) close: &'static str,
    /// The beginning of calls, which free text cannot contain: a prefix of `open` and `name` together.
    pub(crate) mark: &'static str,
    /// Whether calls are only allowed at the beginning of a text.
    pub(crate) is_first: bool,
    /// Whether a text can have several calls.
    pub(crate) several: bool,
    /// Whether templates of this kind only accept ids of nine letters and digits.
    short_ids: bool,
    /// The strings that such a template renders for the call that probes it, in order, with its [`NAME`] and
    /// [`ARGUMENTS`].
    traces: &'static [&'static str],
}

/// The name and the arguments of the call that probes a template.
const NAME: &str = "probe_tool";
const ARGUMENTS: &str = r#"{"probe_key": 1}"#;

/// Hermes, Qwen 2.5 and 3, SmolLM 2 and others: JSON between tags. This syntax is described to models whose template
/// has none of these.
pub(crate) static TAGGED: Syntax = Syntax {
    open: "<tool_call>\n",
    name: r#"{"name": ""#,
    arguments: r#"", "arguments": "#,
    end: "}",
    between: "\n</tool_call>\n<tool_call>\n",
    close: "\n</tool_call>",
    mark: "<tool_call>",
    is_first: false,
    several: true,
    short_ids: false,
    traces: &["<tool_call>\n{\"name\": \"", NAME, r#"", "arguments": "#, ARGUMENTS, "}\n</tool_call>"],
};

/// Mistral: a list of JSON objects. The model has learned to write a control token before it, which is not text and so
/// cannot be part of a constraint; the list is recognized without it.
pub(super) static LIST: Syntax = Syntax {
    open: "[",
    name: r#"{"name": ""#,
    arguments: r#"", "arguments": "#,
    end: "}",
    between: ", ",
    close: "]",
    mark: r#"[{"name": ""#,
    is_first: true,
    several: true,
    short_ids: true,
    traces: &["[TOOL_CALLS]", r#"{"name": ""#, NAME, r#"", "arguments": "#, ARGUMENTS],
};

/// Llama 3.1 and later: one JSON object, and nothing else.
pub(super) static BARE: Syntax = Syntax {
    open: "",
    name: r#"{"name": ""#,
    arguments: r#"", "parameters": "#,
    end: "}",
    between: "",
    close: "",
    mark: r#"{"name": ""#,
    is_first: true,
    several: false,
    short_ids: false,
    traces: &[r#"{"name": ""#, NAME, r#"", "parameters": "#, ARGUMENTS, "}"],
};

impl Syntax {
    /// The syntax in which a chat template renders an earlier call. `None` if the template does not support tools, or
    /// uses another syntax.
    pub(crate) fn of(template: &ChatTemplate) -> Option<&'static Self> {
        let shown = template.render(&probe()).ok()?;
        // The output must contain the tool's description and the call's result.
        let is_told = shown.contains("probe_description") && shown.contains("probe_result");
        [&TAGGED, &LIST, &BARE].into_iter().find(|syntax| is_told && syntax.is_traced_in(&shown))
    }

    /// Whether a text contains the traces of a call. The name may also appear elsewhere.
    fn is_traced_in(&self, text: &str) -> bool {
        let before = self.traces.iter().take_while(|trace| **trace != NAME).count();
        // The traces around the name must be adjacent to it.
        let around: String = self.traces[before - 1..].concat();
        let first = self.traces[..before - 1].iter().all(|trace| text.contains(trace));
        first && text.contains(&around)
    }

    /// Adapts a conversation to templates of this kind.
    pub(crate) fn told(&self, mut conversation: Conversation) -> Conversation {
        if self.short_ids {
            for message in &mut conversation.messages {
                let shorten = |id: &mut Value| *id = json!(short(id.as_str().unwrap_or_default()));
                message.more.get_mut("tool_call_id").into_iter().for_each(shorten);
                let calls = message.more.get_mut("tool_calls").and_then(Value::as_array_mut);
                calls.into_iter().flatten().filter_map(|call| call.get_mut("id")).for_each(shorten);
            }
        }
        conversation
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
fn probe() -> Conversation {
    let arguments: Value = serde_json::from_str(ARGUMENTS).expect("it is JSON");
    let call = json!({"id": "probe0001", "type": "function", "function": {"name": NAME, "arguments": arguments}});
    let result =
        Message::new("tool", "probe_result").with("tool_call_id", json!("probe0001")).with("name", json!(NAME));
    let parameters =
        json!({"type": "object", "properties": {"probe_key": {"type": "integer", "description": "A key."}}});
    let about = json!({"name": NAME, "description": "probe_description", "parameters": parameters});
    Conversation {
        messages: vec![Message::user("Hello."), Message::assistant("").with("tool_calls", json!([call])), result],
        tools: vec![json!({"type": "function", "function": about})],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The relevant parts of templates, based on those of the models.
    const QWEN: &str = "{%- if tools %}{{ '<|im_start|>system\\nTools:' }}{% for tool in tools %}{{ '\\n' }}\
        {{ tool | tojson }}{% endfor %}{{ '<|im_end|>\\n' }}{% endif %}{% for m in messages %}\
        {% if m.role == 'tool' %}{{ '<|im_start|>user\\n<tool_response>\\n' + m.content + \
        '\\n</tool_response><|im_end|>\\n' }}{% else %}{{ '<|im_start|>' + m.role + '\\n' }}{{ m.content }}{% for call \
        in m.tool_calls %}{{ '\\n<tool_call>\\n{\"name\": \"' + call.function.name + '\", \"arguments\": ' }}\
        {{ call.function.arguments | tojson }}{{ '}\\n</tool_call>' }}{% endfor %}{{ '<|im_end|>\\n' }}{% endif %}\
        {% endfor %}{{ '<|im_start|>assistant\\n' }}";
    const MISTRAL: &str = "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}\
        {% if tools %}[AVAILABLE_TOOLS] {{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}[INST] {{ m.content }}[/INST]\
        {% elif m.tool_calls is defined %}[TOOL_CALLS] [{% for call in m.tool_calls %}\
        {% if call.id | length != 9 %}{{ raise_exception('ids have nine letters') }}{% endif %}\
        {% set out = call.function | tojson %}{{ out[:-1] }}, \"id\": \"{{ call.id }}\"}{% if not loop.last %}, \
        {% endif %}{% endfor %}]{{ eos_token }}{% elif m.role == 'tool' %}[TOOL_RESULTS] {\"content\": {{ m.content \
        }}, \"call_id\": \"{{ m.tool_call_id }}\"}[/TOOL_RESULTS]{% else %} {{ m.content }}{{ eos_token }}{% endif \
        %}{% endfor %}";
    const LLAMA: &str = "{% for tool in tools %}{{ tool | tojson(indent=4) }}{% endfor %}{% for m in messages %}\
        {{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}{% if 'tool_calls' in m %}\
        {% if m.tool_calls | length != 1 %}{{ raise_exception('one call') }}{% endif %}\
        {% set call = m.tool_calls[0].function %}{{ '{\"name\": \"' + call.name + '\", ' }}{{ '\"parameters\": ' }}\
        {{ call.arguments | tojson }}{{ '}' }}{% else %}{{ m.content }}{% endif %}<|eot_id|>{% endfor %}";

    fn of(source: &str) -> Option<&'static Syntax> {
        Syntax::of(&ChatTemplate::new(source, Some("<s>"), Some("</s>")).unwrap())
    }

    #[test]
    fn a_template_shows_how_its_model_calls() {
        assert_eq!(of(QWEN), Some(&TAGGED));
        assert_eq!(of(MISTRAL), Some(&LIST));
        assert_eq!(of(LLAMA), Some(&BARE));
        let other = QWEN.replace("\"arguments\": ", "\"inputs\": ");
        let without_tools = LLAMA.replace("tool | tojson(indent=4)", "1");
        let plain = "{% for m in messages %}{{ m.role + m.content }}{% endfor %}";
        let refusing = "{% if messages | length > 2 %}{{ raise_exception('no') }}{% endif %}";
        for source in [&other, &without_tools, plain, refusing] {
            assert_eq!(of(source), None, "{source}");
        }
    }

    #[test]
    fn marks_begin_calls() {
        for syntax in [&TAGGED, &LIST, &BARE] {
            assert!(format!("{}{}", syntax.open, syntax.name).starts_with(syntax.mark));
        }
    }

    /// Ids of other servers are accepted.
    #[test]
    fn ids_are_as_short_as_a_template_wants_them() {
        let template = ChatTemplate::new(MISTRAL, None, None).unwrap();
        let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": {}}});
        let messages = vec![
            Message::user("x"),
            Message::assistant("").with("tool_calls", json!([call("call_1234567890"), call("call_1234567891")])),
            Message::new("tool", "1").with("tool_call_id", json!("call_1234567890")),
        ];
        assert!(template.render(&messages.clone().into()).is_err());
        let told = LIST.told(messages.into());
        template.render(&told).unwrap();
        let (calls, id) = (&told.messages[1].more["tool_calls"], &told.messages[2].more["tool_call_id"]);
        assert_eq!(&calls[0]["id"], id);
        assert_ne!(&calls[1]["id"], id);
        assert_eq!(short("abcDEF012"), "abcDEF012");
    }
}
