//! Options for labels of generated texts.

use clap::{Args, ValueEnum};
use verdigris::label::{Label, LabelPosition};

use crate::error::Failure;

/// The standard, and what its label says.
#[derive(Args)]
pub(crate) struct LabelOptions {
    /// Label the text as generated, as this standard requires, in words that people see and in metadata for programs:
    /// the field AIGC of each JSON object, or FILE.aigc.json next to --output
    #[arg(long, value_enum, value_name = "STANDARD", requires = "label_producer")]
    label: Option<Standard>,
    /// For --label: the code of the provider of the service, in ASCII without spaces
    #[arg(long, value_name = "CODE", requires = "label")]
    label_producer: Option<String>,
    /// For --label: the words, which must have 人工智能 or AI, and 生成 or 合成 [default: 人工智能生成]
    #[arg(long, value_name = "TEXT", requires = "label")]
    label_text: Option<String>,
    /// For --label: the position of the words [default: start]
    #[arg(long, value_enum, value_name = "WHERE", requires = "label")]
    label_at: Option<At>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Standard {
    /// China's GB 45438-2025
    Gb,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum At {
    /// Before the text
    Start,
    /// After the text
    End,
}

impl LabelOptions {
    /// The label, if one is asked for; `constrained` if the text is under a constraint, which has no room for it.
    pub(crate) fn label(&self, constrained: bool) -> Result<Option<Label>, Failure> {
        let (Some(Standard::Gb), Some(producer)) = (self.label, &self.label_producer) else { return Ok(None) };
        if constrained {
            return Err(Failure::Usage(
                "--label adds words to the text, which would not match its constraint: leave one of them out".into(),
            ));
        }
        let position = match self.label_at {
            Some(At::End) => LabelPosition::End,
            _ => LabelPosition::Start,
        };
        Ok(Some(Label::new(self.label_text.as_deref().unwrap_or(Label::WORDS), position, producer)?))
    }
}
