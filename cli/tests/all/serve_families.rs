//! The server, over HTTP: thoughts, constraints, calls, streams, budgets and marks, for each family of models that
//! thinks.
#![cfg(feature = "serve")]

use serde_json::{Value, json};

use crate::sampled::sampled;
use crate::support::server::Server;
use crate::support::{Folder, TALE_SMALL, with};

/// A family: the signs that its chat templates have.
struct Family {
    name: &'static str,
    /// The marker that the template writes to open a thought, and the one that ends it.
    thought: (&'static str, &'static str),
    /// A call in the template; `None` if the template renders none.
    call: Option<&'static str>,
    /// The signs that are control tokens.
    controls: &'static [&'static str],
}

const THINK: (&str, &str) = ("<think>\n", "</think>");

const FAMILIES: &[Family] = &[
    Family {
        name: "Qwen 3, SmolLM 3",
        thought: THINK,
        call: Some("<tool_call>\n{\"name\": \"NAME\", \"arguments\": ARGUMENTS}\n</tool_call>"),
        controls: &[],
    },
    Family {
        name: "Qwen 3.5, Nemotron 3",
        thought: THINK,
        call: Some(
            "<tool_call>\n<function=NAME>\nEACH<parameter=KEY>\nVALUE\n</parameter>\nEND</function>\n</tool_call>",
        ),
        controls: &["<think>", "</think>"],
    },
    Family {
        name: "gpt-oss",
        thought: ("<|channel|>analysis<|message|>", "<|end|>"),
        call: Some("<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>ARGUMENTS<|call|>"),
        controls: &["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>"],
    },
    Family {
        name: "Gemma 4",
        thought: ("<|channel>thought\n", "<channel|>"),
        call: Some("<|tool_call>call:NAME{EACHKEY:VALUEEND}<tool_call|>"),
        controls: &["<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|\"|>"],
    },
    Family {
        name: "Magistral, Ministral 3",
        thought: ("[THINK]", "[/THINK]"),
        call: Some("[TOOL_CALLS]NAME[ARGS]ARGUMENTS"),
        controls: &["[THINK]", "[/THINK]", "[TOOL_CALLS]", "[ARGS]"],
    },
    Family {
        name: "GLM 4.5",
        thought: THINK,
        call: Some("<tool_call>NAME\nEACH<arg_key>KEY</arg_key>\n<arg_value>VALUE</arg_value>\nEND</tool_call>"),
        controls: &["<think>", "</think>", "<tool_call>", "</tool_call>"],
    },
    Family {
        name: "GLM 4.7",
        thought: THINK,
        call: Some("<tool_call>NAMEEACH<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>END</tool_call>"),
        controls: &["<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
    },
    Family {
        name: "DeepSeek V3.1",
        thought: THINK,
        call: Some(
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>NAME<｜tool▁sep｜>ARGUMENTS<｜tool▁call▁end｜>\
             <｜tool▁calls▁end｜>",
        ),
        controls: &["<think>", "</think>", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"],
    },
    Family {
        name: "DeepSeek V3.2",
        thought: THINK,
        call: Some(
            "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"NAME\">\nEACH<｜DSML｜parameter name=\"KEY\" \
             string=\"STRING\">VALUE</｜DSML｜parameter>\nEND</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        ),
        controls: &["<think>", "</think>", "｜DSML｜"],
    },
    Family {
        name: "Hunyuan A13B",
        thought: THINK,
        call: Some("<tool_calls>[{\"name\": \"NAME\", \"arguments\": ARGUMENTS}]</tool_calls>"),
        controls: &[],
    },
    Family {
        name: "Hy3",
        thought: ("<think:opensource>", "</think:opensource>"),
        call: Some(
            "<tool_calls:opensource>\n<tool_call:opensource>NAME<tool_sep:opensource>\nEACH<arg_key:opensource>KEY\
             </arg_key:opensource>\n<arg_value:opensource>VALUE</arg_value:opensource>\nEND</tool_call:opensource>\n\
             </tool_calls:opensource>",
        ),
        controls: &[
            "<think:opensource>",
            "</think:opensource>",
            "<tool_calls:opensource>",
            "</tool_calls:opensource>",
            "<tool_call:opensource>",
            "</tool_call:opensource>",
            "<tool_sep:opensource>",
            "<arg_key:opensource>",
            "</arg_key:opensource>",
            "<arg_value:opensource>",
            "</arg_value:opensource>",
        ],
    },
    Family {
        name: "Kimi K2 Thinking",
        thought: THINK,
        call: Some(
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>ARGUMENTS\
             <|tool_call_end|><|tool_calls_section_end|>",
        ),
        controls: &["<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_end|>"],
    },
    Family {
        name: "Kimi VL", thought: ("◁think▷", "◁/think▷"), call: None, controls: &["◁think▷", "◁/think▷"]
    },
    Family {
        name: "Seed-OSS",
        thought: ("<seed:think>", "</seed:think>"),
        call: Some(
            "<seed:tool_call>\n<function=NAME>\nEACH<parameter=KEY>VALUE</parameter>\nEND</function>\n\
             </seed:tool_call>",
        ),
        controls: &["<seed:think>", "</seed:think>", "<seed:tool_call>", "</seed:tool_call>"],
    },
    Family {
        name: "MiniMax M2",
        thought: THINK,
        call: Some(
            "<minimax:tool_call>\n<invoke name=\"NAME\">\nEACH<parameter name=\"KEY\">VALUE</parameter>\n\
             END</invoke>\n</minimax:tool_call>",
        ),
        controls: &["<minimax:tool_call>", "</minimax:tool_call>"],
    },
    Family {
        name: "LFM 2.5",
        thought: THINK,
        call: Some("<|tool_call_start|>[NAME(EACHKEY=VALUEEND)]<|tool_call_end|>"),
        controls: &["<|tool_call_start|>", "<|tool_call_end|>"],
    },
    Family {
        name: "Command A Reasoning",
        thought: ("<|START_THINKING|>", "<|END_THINKING|>"),
        call: None,
        controls: &["<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>"],
    },
];

impl Family {
    /// A chat template with the signs of the family, which opens a thought.
    fn template(&self) -> String {
        let call = self.call.map(|call| {
            let call =
                call.replace('\n', "{{ '\\n' }}").replace("{EACH", "{{ '{' }}EACH").replace("END}", "END{{ '}' }}");
            call.replace("NAME", "{{ c.function.name }}")
                .replace("ARGUMENTS", "{{ c.function.arguments | tojson }}")
                .replace("EACH", "{% for k, v in c.function.arguments|items %}")
                .replace("END", "{% endfor %}")
                .replace("KEY", "{{ k }}")
                .replace("STRING", "{{ 'true' if v is string else 'false' }}")
                .replace("VALUE", "{{ v }}")
        });
        let calls = call.map_or_else(String::new, |call| format!("{{% for c in m.tool_calls %}}{call}{{% endfor %}}"));
        let (open, close) = self.thought;
        format!(
            "{{% if tools %}}Tools:{{% for t in tools %}} {{{{ t | tojson }}}}{{% endfor %}}{{{{ '\\n' }}}}{{% endif %}}\
             {{% for m in messages %}}{{{{ m.role }}}}: {{{{ m.content }}}}{calls}{{{{ '\\n' }}}}{{% endfor %}}\
             {{# ends with {close} #}}assistant: {{{{ '{}' }}}}",
            open.replace('\n', "\\n")
        )
    }
}

/// The text of a field of the deltas of a stream, joined.
fn joined(events: &[Value], pointer: &str) -> String {
    events.iter().filter_map(|event| event.pointer(&format!("/choices/0/delta{pointer}"))?.as_str()).collect()
}

/// Answers of a family's model.
struct Answers<'f> {
    family: &'f Family,
    server: Server,
    _folder: Folder,
}

impl<'f> Answers<'f> {
    fn new(family: &'f Family) -> Self {
        let folder = Folder::new();
        folder.copy_model(TALE_SMALL, "teller");
        folder.write("teller/chat_template.jinja", &family.template());
        folder.add_control_tokens("teller", family.controls);
        // Strong, so that every key is found in texts of some 50 tokens.
        let strong = ["--dialect", "native", "--strength", "strong"];
        folder.run(&[&["key", "new", "teller.key", "-m", "teller"], &strong[..]].concat()).done();
        let server = Server::start(&folder, &["--model", "teller", "--key", "teller.key", "--max-tokens", "500"]);
        Self { family, server, _folder: folder }
    }

    /// The message of an answer after a thought of at least `budget` tokens, which is the same in a stream.
    #[track_caller]
    fn message(&self, budget: u64, more: &Value) -> Value {
        let name = self.family.name;
        let body = json!({
            "messages": [{"role": "user", "content": "A story?"}], "seed": 7, "max_tokens": 500,
            "thinking_token_budget": budget,
        });
        let mut body = with(body, more);
        let answer = self.server.post("/v1/chat/completions", &body).json();
        let message = &answer["choices"][0]["message"];
        body["stream"] = json!(true);
        let events = self.server.post("/v1/chat/completions", &body).events();
        for field in ["content", "reasoning", "reasoning_content"] {
            let whole = message[field].as_str().unwrap_or_default();
            assert_eq!(joined(&events, &format!("/{field}")), whole, "{name}: {field}");
            for sign in self.family.controls.iter().chain([&self.family.thought.0, &self.family.thought.1]) {
                assert!(!whole.contains(sign), "{name}: {answer}");
            }
        }
        if let Some(call) = message["tool_calls"].get(0) {
            let arguments = joined(&events, "/tool_calls/0/function/arguments");
            assert_eq!(call["function"]["arguments"], arguments, "{name}");
        }
        // The thought ends at the budget, with its marker.
        let tokens = answer["usage"]["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap_or(0);
        let thought = message["reasoning"].as_str().unwrap_or_default();
        assert_eq!(thought.is_empty(), budget == 0, "{name}: {answer}");
        assert!((budget..budget + 16).contains(&tokens), "{name}: {answer}");
        message.clone()
    }

    /// Asserts that the detector finds the mark in a text.
    #[track_caller]
    fn is_marked(&self, text: &Value) {
        let verdict = self.server.post("/detect", &json!({"text": text})).json();
        assert_eq!(verdict["marked"], true, "{}: {text}: {verdict}", self.family.name);
    }
}

/// The text that a family's model is asked for, in an object.
fn note() -> Value {
    json!({
        "type": "object", "required": ["text", "count"], "additionalProperties": false,
        "properties": {
            "text": {"type": "string", "minLength": 160, "maxLength": 300},
            "count": {"type": "integer", "minimum": 0, "maximum": 99},
        },
    })
}

#[test]
fn every_family_has_thoughts_constraints_calls_streams_budgets_and_marks() {
    for family in sampled(FAMILIES, 3) {
        let answers = Answers::new(family);
        let name = family.name;
        // A thought, and a free answer.
        answers.is_marked(&answers.message(12, &json!({"max_tokens": 200, "ignore_eos": true}))["content"]);
        // A constrained answer, with a thought and without one.
        let format =
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": note()}}});
        for budget in [12, 0] {
            let message = answers.message(budget, &format);
            let content = message["content"].as_str().unwrap();
            let value: Value = serde_json::from_str(content).unwrap_or_else(|_| panic!("{name}: {message}"));
            assert!(jsonschema::is_valid(&note(), &value), "{name}: {message}");
            answers.is_marked(&value["text"]);
        }
        // A call.
        let tools = json!([{"type": "function", "function": {"name": "note", "parameters": note()}}]);
        let message =
            answers.message(12, &json!({"tools": tools, "tool_choice": "required", "parallel_tool_calls": false}));
        let arguments = message["tool_calls"][0]["function"]["arguments"].as_str();
        let value: Value = arguments.map(|text| serde_json::from_str(text).unwrap()).unwrap_or_default();
        assert!(jsonschema::is_valid(&note(), &value), "{name}: {message}");
        answers.is_marked(&value["text"]);
        // A call that leaves no choice: the status of its mark is that of a reader that knows this.
        let text = "The captain looked at the grey sea, and the old ship went slowly past the white rocks.";
        let fixed = json!({"type": "object", "required": ["text"], "properties": {"text": {"const": text}}});
        let tools = json!([{"type": "function", "function": {"name": "note", "parameters": fixed}}]);
        let answer = answers.server.post(
            "/v1/chat/completions",
            &json!({
                "messages": [{"role": "user", "content": "A story?"}], "seed": 7, "max_tokens": 500,
                "thinking_token_budget": 0, "tools": tools, "tool_choice": "required", "parallel_tool_calls": false,
            }),
        );
        let choice = &answer.json()["choices"][0];
        let arguments = choice["message"]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(arguments).unwrap(), json!({"text": text}), "{name}");
        assert!(choice["watermark"]["scored_tokens"].as_u64().is_some_and(|scored| scored < 12), "{name}: {choice}");
    }
}
