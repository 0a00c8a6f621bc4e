//! The families, as data. A new family is an entry here, and a line in [`FAMILIES`].

use super::notation::{JSON, Nested, Notation, Signs, Strings};
use super::syntax::{HistoryIds, Id, IdShape, Syntax};

/// All families, in the order in which a chat template is compared with them.
pub static FAMILIES: &[&Syntax] = &[
    &HERMES,
    &QWEN3_CODER,
    &SEED_OSS,
    &MINIMAX_M2,
    &GLM_4_5,
    &GLM_4_7,
    &HUNYUAN_A13B,
    &HY_3_PREVIEW,
    &HY_3,
    &MISTRAL_11,
    &MISTRAL_13,
    &MISTRAL,
    &MISTRAL_SPACED,
    &DEEPSEEK_3,
    &DEEPSEEK_3_1,
    &DEEPSEEK_3_2,
    &DEEPSEEK_4,
    &DEEPSEEK_4_1,
    &KIMI_K2,
    &GEMMA_4,
    &HARMONY,
    &LFM2,
    &LLAMA_3,
    &LLAMA_4,
];

/// The parts that most families do not have, and JSON as arguments.
const PLAIN: Syntax = Syntax {
    family: "",
    lead: "",
    words: "",
    open: "",
    name: "",
    id: None,
    arguments: "",
    notation: None,
    end: "",
    between: "",
    close: "",
    mark: "",
    is_first: false,
    several: true,
    history: HistoryIds::Any,
    traces: &[],
};

/// Hermes, Qwen 2.5 and 3, SmolLM 2 and 3, Granite 4 and others: JSON between tags. This syntax is described to models
/// whose template has none of these.
pub static HERMES: Syntax = Syntax {
    family: "hermes",
    open: "<tool_call>\n",
    name: r#"{"name": ""#,
    arguments: r#"", "arguments": "#,
    end: "}",
    between: "\n</tool_call>\n<tool_call>\n",
    close: "\n</tool_call>",
    mark: "<tool_call>",
    traces: &[&["<tool_call>\n{\"name\": \"probe_tool\", \"arguments\": {\"probe_key\": 1}}\n</tool_call>"]],
    ..PLAIN
};

/// The parameters of a call as elements, in which strings are raw.
const ELEMENTS: Notation = Notation {
    parameters: Signs { open: "", before_name: "", after_name: "", after_value: "", between: "", close: "" },
    words: JSON,
    strings: Strings::Raw { open: "", close: "", never: "</parameter>" },
    before_others: "",
    nested: Nested::Json,
    is_sorted: false,
};

/// Qwen 3 Coder, Qwen 3.5 and Nemotron 3: a function and its parameters as elements. Their templates render words as
/// Python does.
const QWEN3_CODER: Syntax = Syntax {
    family: "qwen3-coder",
    open: "<tool_call>\n",
    name: "<function=",
    arguments: ">\n",
    notation: Some(Notation {
        parameters: Signs {
            before_name: "<parameter=",
            after_name: ">\n",
            after_value: "\n</parameter>\n",
            close: "</function>",
            ..ELEMENTS.parameters
        },
        words: [&["null", "None"], &["false", "False"], &["true", "True"]],
        ..ELEMENTS
    }),
    between: "\n</tool_call>\n<tool_call>\n",
    close: "\n</tool_call>",
    mark: "<tool_call>",
    traces: &[&[
        "<tool_call>\n<function=probe_tool>\n<parameter=probe_key>\n1\n</parameter>\n</function>\n</tool_call>",
    ]],
    ..PLAIN
};

/// Seed-OSS: similar, without line ends around values.
const SEED_OSS: Syntax = Syntax {
    family: "seed-oss",
    open: "<seed:tool_call>\n",
    name: "<function=",
    arguments: ">\n",
    notation: Some(Notation {
        parameters: Signs {
            before_name: "<parameter=",
            after_name: ">",
            after_value: "</parameter>\n",
            close: "</function>",
            ..ELEMENTS.parameters
        },
        words: [&["null", "None"], &["false", "False"], &["true", "True"]],
        ..ELEMENTS
    }),
    between: "\n</seed:tool_call>\n<seed:tool_call>\n",
    close: "\n</seed:tool_call>",
    mark: "<seed:tool_call>",
    traces: &[&[
        "<seed:tool_call>\n<function=probe_tool>\n<parameter=probe_key>1</parameter>\n</function>\n</seed:tool_call>",
    ]],
    ..PLAIN
};

/// MiniMax M2: all calls in one element.
const MINIMAX_M2: Syntax = Syntax {
    family: "minimax-m2",
    open: "<minimax:tool_call>\n",
    name: "<invoke name=\"",
    arguments: "\">\n",
    notation: Some(Notation {
        parameters: Signs {
            before_name: "<parameter name=\"",
            after_name: "\">",
            after_value: "</parameter>\n",
            close: "</invoke>\n",
            ..ELEMENTS.parameters
        },
        ..ELEMENTS
    }),
    close: "</minimax:tool_call>",
    mark: "<minimax:tool_call>",
    traces: &[&[
        "<minimax:tool_call>\n<invoke name=\"probe_tool\">\n<parameter name=\"probe_key\">1</parameter>\n</invoke>\n\
         </minimax:tool_call>",
    ]],
    ..PLAIN
};

/// GLM 4.5 and 4.6: names and values as elements.
const GLM_4_5: Syntax = Syntax {
    family: "glm-4.5",
    open: "<tool_call>",
    arguments: "\n",
    notation: Some(Notation {
        parameters: Signs {
            before_name: "<arg_key>",
            after_name: "</arg_key>\n<arg_value>",
            after_value: "</arg_value>\n",
            close: "</tool_call>",
            ..ELEMENTS.parameters
        },
        strings: Strings::Raw { open: "", close: "", never: "</arg_value>" },
        ..ELEMENTS
    }),
    between: "\n<tool_call>",
    mark: "<tool_call>",
    traces: &[&["<tool_call>probe_tool\n<arg_key>probe_key</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"]],
    ..PLAIN
};

/// GLM 4.7: the same without line ends.
const GLM_4_7: Syntax = Syntax {
    family: "glm-4.7",
    open: "<tool_call>",
    notation: Some(Notation {
        parameters: Signs {
            before_name: "<arg_key>",
            after_name: "</arg_key><arg_value>",
            after_value: "</arg_value>",
            close: "</tool_call>",
            ..ELEMENTS.parameters
        },
        strings: Strings::Raw { open: "", close: "", never: "</arg_value>" },
        ..ELEMENTS
    }),
    between: "<tool_call>",
    mark: "<tool_call>",
    traces: &[&["<tool_call>probe_tool<arg_key>probe_key</arg_key><arg_value>1</arg_value></tool_call>"]],
    ..PLAIN
};

/// Hunyuan A13B: a list of JSON objects in an element.
const HUNYUAN_A13B: Syntax = Syntax {
    family: "hunyuan-a13b",
    open: "<tool_calls>[",
    name: r#"{"name": ""#,
    arguments: r#"", "arguments": "#,
    end: "}",
    between: ", ",
    close: "]</tool_calls>",
    mark: "<tool_calls>",
    traces: &[&["<tool_calls>[{\"name\": \"probe_tool\", \"arguments\": {\"probe_key\": 1}}]</tool_calls>"]],
    ..PLAIN
};

/// The preview of Hy3: like GLM 4.5, with a sign after the name, and all calls in one element.
const HY_3_PREVIEW: Syntax = Syntax {
    family: "hy-3-preview",
    open: "<tool_calls>\n",
    name: "<tool_call>",
    arguments: "<tool_sep>\n",
    between: "\n",
    close: "\n</tool_calls>",
    mark: "<tool_calls>",
    traces: &[&[
        "<tool_calls>\n<tool_call>probe_tool<tool_sep>\n<arg_key>probe_key</arg_key>\n<arg_value>1</arg_value>\n\
         </tool_call>\n</tool_calls>",
    ]],
    ..GLM_4_5
};

/// Hy3: the same with other names.
const HY_3: Syntax = Syntax {
    family: "hy-3",
    open: "<tool_calls:opensource>\n",
    name: "<tool_call:opensource>",
    arguments: "<tool_sep:opensource>\n",
    notation: Some(Notation {
        parameters: Signs {
            before_name: "<arg_key:opensource>",
            after_name: "</arg_key:opensource>\n<arg_value:opensource>",
            after_value: "</arg_value:opensource>\n",
            close: "</tool_call:opensource>",
            ..ELEMENTS.parameters
        },
        strings: Strings::Raw { open: "", close: "", never: "</arg_value:opensource>" },
        ..ELEMENTS
    }),
    close: "\n</tool_calls:opensource>",
    mark: "<tool_calls:opensource>",
    traces: &[&[
        "<tool_calls:opensource>\n<tool_call:opensource>probe_tool<tool_sep:opensource>\n<arg_key:opensource>probe_key\
         </arg_key:opensource>\n<arg_value:opensource>1</arg_value:opensource>\n</tool_call:opensource>\n\
         </tool_calls:opensource>",
    ]],
    ..HY_3_PREVIEW
};

/// Mistral, tokenizers before version 11: a list of JSON objects.
const MISTRAL: Syntax = Syntax {
    family: "mistral",
    open: "[TOOL_CALLS][",
    name: r#"{"name": ""#,
    arguments: r#"", "arguments": "#,
    end: "}",
    between: ", ",
    close: "]",
    mark: "[TOOL_CALLS]",
    history: HistoryIds::Short,
    traces: &[&["[TOOL_CALLS][", r#"{"name": "probe_tool", "arguments": {"probe_key": 1}"#]],
    ..PLAIN
};

/// The same with a space before the list.
const MISTRAL_SPACED: Syntax = Syntax {
    family: "mistral-spaced",
    open: "[TOOL_CALLS] [",
    traces: &[&["[TOOL_CALLS] [", r#"{"name": "probe_tool", "arguments": {"probe_key": 1}"#]],
    ..MISTRAL
};

/// Mistral, tokenizers of version 11: the parts of a call between control tokens.
const MISTRAL_11: Syntax = Syntax {
    family: "mistral-11",
    name: "[TOOL_CALLS]",
    id: Some(Id { before: "[CALL_ID]", shape: IdShape::Letters }),
    arguments: "[ARGS]",
    mark: "[TOOL_CALLS]",
    history: HistoryIds::Short,
    traces: &[&["[TOOL_CALLS]probe_tool[CALL_ID]probe0001[ARGS]{\"probe_key\": 1}"]],
    ..PLAIN
};

/// Mistral, tokenizers of version 13: the same without ids.
const MISTRAL_13: Syntax = Syntax {
    family: "mistral-13",
    id: None,
    traces: &[&["[TOOL_CALLS]probe_tool[ARGS]{\"probe_key\": 1}"]],
    ..MISTRAL_11
};

/// DeepSeek V3 and R1: JSON in a code block.
const DEEPSEEK_3: Syntax = Syntax {
    family: "deepseek-3",
    open: "<｜tool▁calls▁begin｜>",
    name: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    arguments: "\n```json\n",
    end: "\n```<｜tool▁call▁end｜>",
    between: "\n",
    close: "<｜tool▁calls▁end｜>",
    mark: "<｜tool▁calls▁begin｜>",
    traces: &[&[
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>probe_tool\n```json\n{\"probe_key\": 1}\n```\
         <｜tool▁call▁end｜>",
    ]],
    ..PLAIN
};

/// DeepSeek V3.1.
const DEEPSEEK_3_1: Syntax = Syntax {
    family: "deepseek-3.1",
    name: "<｜tool▁call▁begin｜>",
    arguments: "<｜tool▁sep｜>",
    end: "<｜tool▁call▁end｜>",
    between: "",
    traces: &[&[
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>probe_tool<｜tool▁sep｜>{\"probe_key\": 1}<｜tool▁call▁end｜>",
    ]],
    ..DEEPSEEK_3
};

/// DeepSeek V3.2: parameters as elements with an attribute that says whether they are strings.
const DEEPSEEK_3_2: Syntax = Syntax {
    family: "deepseek-3.2",
    open: "<｜DSML｜function_calls>\n",
    name: "<｜DSML｜invoke name=\"",
    arguments: "\">\n",
    notation: Some(Notation {
        parameters: Signs {
            before_name: "<｜DSML｜parameter name=\"",
            after_name: "\" string=\"",
            after_value: "</｜DSML｜parameter>",
            between: "\n",
            close: "\n</｜DSML｜invoke>",
            ..ELEMENTS.parameters
        },
        strings: Strings::Raw { open: "true\">", close: "", never: "</｜DSML｜parameter>" },
        before_others: "false\">",
        ..ELEMENTS
    }),
    between: "\n",
    close: "\n</｜DSML｜function_calls>",
    mark: "<｜DSML｜function_calls>",
    traces: &[&[
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"probe_tool\">\n<｜DSML｜parameter name=\"probe_key\" \
         string=\"false\">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    ]],
    ..PLAIN
};

/// DeepSeek V4: another name of the element around the calls.
const DEEPSEEK_4: Syntax = Syntax {
    family: "deepseek-4",
    open: "<｜DSML｜tool_calls>\n",
    close: "\n</｜DSML｜tool_calls>",
    mark: "<｜DSML｜tool_calls>",
    traces: &[&["<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"probe_tool\">\n<｜DSML｜parameter name=\"probe_key\" \
         string=\"false\">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"]],
    ..DEEPSEEK_3_2
};

/// DeepSeek V4.1: names with a space before them.
const DEEPSEEK_4_1: Syntax = Syntax {
    family: "deepseek-4.1",
    open: "<｜DSML｜ calls>\n",
    name: "<｜DSML｜ invoke name=\"",
    notation: Some(Notation {
        parameters: Signs {
            before_name: "<｜DSML｜ parameter name=\"",
            after_name: "\" string=\"",
            after_value: "</｜DSML｜ parameter>",
            between: "\n",
            close: "\n</｜DSML｜ invoke>",
            ..ELEMENTS.parameters
        },
        strings: Strings::Raw { open: "true\">", close: "", never: "</｜DSML｜ parameter>" },
        before_others: "false\">",
        ..ELEMENTS
    }),
    close: "\n</｜DSML｜ calls>",
    mark: "<｜DSML｜ calls>",
    traces: &[&["<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"probe_tool\">\n<｜DSML｜ parameter name=\"probe_key\" \
         string=\"false\">1</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>"]],
    ..DEEPSEEK_3_2
};

/// Kimi K2: an id with the tool's name, and JSON.
const KIMI_K2: Syntax = Syntax {
    family: "kimi-k2",
    open: "<|tool_calls_section_begin|>",
    name: "<|tool_call_begin|>functions.",
    id: Some(Id { before: ":", shape: IdShape::Number }),
    arguments: "<|tool_call_argument_begin|>",
    end: "<|tool_call_end|>",
    close: "<|tool_calls_section_end|>",
    mark: "<|tool_calls_section_begin|>",
    history: HistoryIds::Numbered,
    traces: &[
        &["<|tool_calls_section_begin|>", "<|tool_call_begin|>probe0001<|tool_call_argument_begin|>{\"probe_key\": 1}"],
        &[
            "<|tool_calls_section_begin|>",
            "<|tool_call_begin|>functions.probe_tool:0<|tool_call_argument_begin|>{\"probe_key\": 1}",
        ],
    ],
    ..PLAIN
};

/// The signs of objects in Gemma's notation.
const GEMMA_OBJECT: Signs =
    Signs { open: "{", before_name: "", after_name: ":", after_value: "", between: ",", close: "}" };

/// Gemma 4: objects with bare names, and strings between control tokens.
const GEMMA_4: Syntax = Syntax {
    family: "gemma-4",
    open: "<|tool_call>",
    name: "call:",
    arguments: "{",
    notation: Some(Notation {
        parameters: Signs { open: "", ..GEMMA_OBJECT },
        words: JSON,
        strings: Strings::Raw { open: "<|\"|>", close: "<|\"|>", never: "<|\"|>" },
        before_others: "",
        nested: Nested::Same(Some(GEMMA_OBJECT)),
        is_sorted: true,
    }),
    between: "<tool_call|><|tool_call>",
    close: "<tool_call|>",
    mark: "<|tool_call>",
    traces: &[&["<|tool_call>call:probe_tool{probe_key:1}<tool_call|>"]],
    ..PLAIN
};

/// Harmony, of gpt-oss: a message on the channel for tools. A template renders the recipient of an earlier call before
/// the channel; the model writes it after the channel.
const HARMONY: Syntax = Syntax {
    family: "harmony",
    lead: "<|start|>assistant",
    words: "<|channel|>final<|message|>",
    open: "<|channel|>commentary to=functions.",
    arguments: " <|constrain|>json<|message|>",
    mark: "<|channel|>commentary",
    is_first: true,
    several: false,
    traces: &[
        &["to=functions.probe_tool<|channel|>commentary json<|message|>{\"probe_key\": 1}"],
        &["<|channel|>commentary to=functions.probe_tool <|constrain|>json<|message|>{\"probe_key\": 1}"],
    ],
    ..PLAIN
};

/// The parameters of a function in Python. Strings have quotation marks and escapes that Python and JSON share.
const PYTHON: Notation = Notation {
    parameters: Signs { open: "", before_name: "", after_name: "=", after_value: "", between: ", ", close: ")" },
    words: [&["None"], &["False"], &["True"]],
    strings: Strings::Quoted,
    before_others: "",
    nested: Nested::Same(None),
    is_sorted: false,
};

/// LFM 2: a list of calls in Python, between control tokens.
const LFM2: Syntax = Syntax {
    family: "lfm2",
    open: "<|tool_call_start|>[",
    arguments: "(",
    notation: Some(PYTHON),
    between: ", ",
    close: "]<|tool_call_end|>",
    mark: "<|tool_call_start|>",
    traces: &[&["<|tool_call_start|>[probe_tool(probe_key=1)]<|tool_call_end|>"]],
    ..PLAIN
};

/// Llama 3.1 to 3.3, and Llama 4 with a template of this kind: one JSON object, and nothing else.
const LLAMA_3: Syntax = Syntax {
    family: "llama-3",
    name: r#"{"name": ""#,
    arguments: r#"", "parameters": "#,
    end: "}",
    mark: r#"{"name": ""#,
    is_first: true,
    several: false,
    traces: &[&[r#"{"name": "probe_tool", "parameters": {"probe_key": 1}}"#]],
    ..PLAIN
};

/// Llama 3.2 and 4 with a template of this kind: a list of calls in Python, and nothing else.
const LLAMA_4: Syntax = Syntax {
    family: "llama-4",
    open: "[",
    arguments: "(",
    notation: Some(PYTHON),
    between: ", ",
    close: "]",
    is_first: true,
    traces: &[&["[probe_tool(probe_key=1)]"], &["[probe_tool(probe_key=\"1\")]"]],
    ..PLAIN
};
