//! The options of a run.

use std::path::PathBuf;

use verdigris_models::ModelFolder;

use crate::error::TrainError;
use crate::trainer::{Steps, check};

/// The most heads that [`verdigris_models::draft_head::medusa`] reads.
const MOST_HEADS: usize = 16;

/// The head to train, its target and its data, and the length of the run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The model to guess for: any that our own decoders compute. It is not changed.
    pub target: ModelFolder,
    /// The target's name.
    pub target_name: String,
    /// The texts to train on.
    pub source: TextSource,
    /// The head to train.
    pub head: HeadShape,
    /// The folder to write.
    pub out: PathBuf,
    /// Whether a finished head in that folder may be overwritten.
    pub replace: bool,
    /// The size of the draft vocabulary, which has the most frequent tokens; by default all tokens that are written, up
    /// to 8,192.
    pub draft_vocabulary: Option<usize>,
    /// Texts per step.
    pub batch: usize,
    /// Tokens that are read of a text, including its prompt.
    pub window: usize,
    /// The number and the size of the steps.
    pub steps: Steps,
}

/// The source of texts.
#[derive(Clone, Debug)]
pub enum TextSource {
    /// The target writes a text after each prompt of a file, which has a prompt per line, or JSON Lines with a field
    /// `prompt`.
    Prompts {
        /// The file, plain or compressed with zstd.
        path: PathBuf,
        /// Whether prompts are messages, and texts the answers, in the format of the target's chat template.
        chat: bool,
        /// The most tokens that are written after a prompt.
        max_tokens: usize,
    },
    /// Texts that another run has written (`texts.jsonl`).
    Texts(PathBuf),
}

/// The network to train.
#[derive(Clone, Copy, Debug)]
pub enum HeadShape {
    /// One decoder layer that continues from the target's hidden states and then from its own.
    Feature {
        /// The width of its feed-forward part; by default that of the target.
        inner: Option<usize>,
    },
    /// Heads that each guess a later token.
    Medusa {
        /// The number of heads, 1 to 16.
        heads: usize,
        /// Whether each has its own output matrix instead of rows of the target's.
        own_outputs: bool,
    },
}

impl Options {
    pub(super) fn check(&self) -> Result<(), TrainError> {
        check("--batch", self.batch as f64, self.batch >= 1, "at least 1")?;
        check("--window", self.window as f64, self.window >= 4, "at least 4")?;
        if let Some(tokens) = self.draft_vocabulary {
            check("--draft-vocabulary", tokens as f64, tokens >= 2, "at least 2")?;
        }
        if let TextSource::Prompts { max_tokens, .. } = self.source {
            check("--max-tokens", max_tokens as f64, max_tokens >= 2, "at least 2")?;
        }
        match self.head {
            HeadShape::Feature { inner: Some(inner) } => check("--inner", inner as f64, inner >= 1, "at least 1")?,
            HeadShape::Feature { inner: None } => {}
            HeadShape::Medusa { heads, .. } => {
                check("--heads", heads as f64, (1..=MOST_HEADS).contains(&heads), "1 to 16")?;
            }
        }
        self.steps.check()
    }
}
