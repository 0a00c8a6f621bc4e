//! How families of models write thoughts.

use Section::{Answer, Thought};

/// A section of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Section {
    /// The part that the model writes for itself.
    Thought,
    /// The part for the reader.
    Answer,
}

/// The markers around the thoughts of a family of models. A marker may have control tokens in it.
#[derive(Debug, PartialEq, Eq)]
pub struct ReasoningSyntax {
    /// The name, for options.
    pub name: &'static str,
    /// The markers that may begin a message, and the section that each begins. A message that begins with none of them
    /// is an answer.
    pub(super) begin: &'static [(&'static str, Section)],
    /// The marker that ends a thought.
    pub(super) close: &'static str,
    /// The markers that may follow the end of a thought, and the section that each begins; empty if the answer follows
    /// at once.
    pub(super) next: &'static [(&'static str, Section)],
    /// Text that the chat templates of the family contain.
    traces: &'static [&'static str],
}

/// All families. A template has the syntax of the first whose traces it contains. The markers are those of the
/// templates that the models were published with.
static ALL: [ReasoningSyntax; 8] = [
    // gpt-oss. A message may have several thoughts.
    ReasoningSyntax {
        name: "harmony",
        begin: &[("<|channel|>analysis<|message|>", Thought), ("<|channel|>final<|message|>", Answer)],
        close: "<|end|>",
        next: &[
            ("<|start|>assistant<|channel|>final<|message|>", Answer),
            ("<|start|>assistant<|channel|>analysis<|message|>", Thought),
        ],
        traces: &["<|channel|>analysis"],
    },
    ReasoningSyntax {
        name: "gemma4",
        begin: &[("<|channel>thought\n", Thought)],
        close: "<channel|>",
        next: &[],
        traces: &["<|channel>", "<channel|>"],
    },
    // Command A Reasoning.
    ReasoningSyntax {
        name: "cohere",
        begin: &[("<|START_THINKING|>", Thought), ("<|START_RESPONSE|>", Answer)],
        close: "<|END_THINKING|>",
        next: &[("<|START_RESPONSE|>", Answer)],
        traces: &["<|START_THINKING|>", "<|END_THINKING|>"],
    },
    ReasoningSyntax {
        name: "seed",
        begin: &[("<seed:think>", Thought)],
        close: "</seed:think>",
        next: &[],
        traces: &["</seed:think>"],
    },
    // Hy3.
    ReasoningSyntax {
        name: "hy",
        begin: &[("<think:opensource>", Thought)],
        close: "</think:opensource>",
        next: &[],
        traces: &["</think:opensource>"],
    },
    // Magistral and Ministral 3.
    ReasoningSyntax {
        name: "mistral",
        begin: &[("[THINK]", Thought)],
        close: "[/THINK]",
        next: &[],
        traces: &["[THINK]", "[/THINK]"],
    },
    // Kimi VL and K1.5.
    ReasoningSyntax {
        name: "kimi",
        begin: &[("◁think▷", Thought)],
        close: "◁/think▷",
        next: &[],
        traces: &["◁/think▷"],
    },
    // DeepSeek, Qwen, GLM, SmolLM3, LFM2.5, Nemotron and most others.
    ReasoningSyntax {
        name: "think",
        begin: &[("<think>", Thought)],
        close: "</think>",
        next: &[],
        traces: &["</think>"],
    },
];

impl ReasoningSyntax {
    /// The markers of another family: a message that begins with `begin` has a thought, which `close` ends.
    ///
    /// # Panics
    /// If a marker is empty.
    pub const fn new(name: &'static str, begin: &'static [(&'static str, Section)], close: &'static str) -> Self {
        assert!(!begin.is_empty() && !begin[0].0.is_empty() && !close.is_empty(), "a marker is empty");
        Self { name, begin, close, next: &[], traces: &[] }
    }

    /// The syntax with a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|syntax| syntax.name == name)
    }

    /// The names of all syntaxes.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|syntax| syntax.name)
    }

    /// The syntax that the source of a chat template contains.
    pub(crate) fn of(source: &str) -> Option<&'static Self> {
        ALL.iter().find(|syntax| syntax.traces.iter().all(|trace| source.contains(trace)))
    }
}
