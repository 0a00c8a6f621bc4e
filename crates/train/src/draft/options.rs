//! Everything that is asked of a run.

use std::path::PathBuf;

use verdigris_models::ModelFolder;

use super::examples::Examples;
use crate::error::TrainError;
use crate::trainer::{Steps, check};

/// The most heads that [`verdigris_models::draft_head::medusa`] reads.
const MOST_HEADS: usize = 16;

/// What to train, for which model, on what, and for how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// The model to guess for: any that our own decoders compute. It stays as it is.
    pub target: ModelFolder,
    /// What people call it.
    pub target_name: String,
    /// What is trained on.
    pub source: TextSource,
    /// What is trained.
    pub head: HeadShape,
    /// The folder to write.
    pub out: PathBuf,
    /// Whether a finished head in that folder may be lost.
    pub replace: bool,
    /// How many tokens are guessed among, those that are written most often; all that are written, up to 8,192, where
    /// it is not said.
    pub draft_vocabulary: Option<usize>,
    /// Texts a step.
    pub batch: usize,
    /// Tokens that are read of a text, its prompt among them.
    pub window: usize,
    /// How many steps, and how large.
    pub steps: Steps,
}

/// Where texts come from.
#[derive(Clone, Debug)]
pub enum TextSource {
    /// The target writes one after each prompt of a file, which are one a line, or JSON Lines with a field `prompt`.
    Prompts {
        /// The file, plain or compressed with zstd.
        path: PathBuf,
        /// Whether prompts are messages, and texts the answers, as the target's chat template has them.
        chat: bool,
        /// Tokens that are written after a prompt at most.
        max_tokens: usize,
    },
    /// Those that another run has written (`texts.jsonl`).
    Texts(PathBuf),
}

/// What is trained.
#[derive(Clone, Copy, Debug)]
pub enum HeadShape {
    /// One decoder layer that goes on from the target's hidden states and then from its own.
    Feature {
        /// The width of its feed-forward part; that of the target where it is not said.
        inner: Option<usize>,
    },
    /// Heads that each guess a token further on.
    Medusa {
        /// How many, 1 to 16.
        heads: usize,
        /// Whether each has an output matrix of its own, and not rows of the target's.
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

    /// What must be the same for an interrupted run to go on.
    pub(super) fn settings(&self, head: &str, parameters: usize, examples: &Examples, vocabulary: usize) -> String {
        format!(
            "{head} of {parameters} parameters, {} texts of {} tokens, draft vocabulary {vocabulary}, seed {}, batch \
             {}, window {}, learning rate {}",
            examples.trained() + examples.held_out(),
            examples.tokens(),
            self.steps.seed,
            self.batch,
            self.window,
            self.steps.learning_rate
        )
    }
}
