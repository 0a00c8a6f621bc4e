//! Reward models.

use std::path::Path;

use verdigris_models::{ModelFolder, RewardModel};
use verdigris_text::Tokenizer;

use crate::error::Error;

/// A reward model with its tokenizer: it scores a text, the higher the better. It chooses among texts
/// ([`Request::best_of`](crate::Request::best_of)) or among tokens ([`Request::guide`](crate::Request::guide)), and
/// runs on the CPU.
///
/// ```no_run
/// use verdigris::{Engine, Reward};
///
/// let (engine, reward) = (Engine::load("Qwen/Qwen2.5-0.5B")?, Reward::load("path/to/reward")?);
/// let best = engine.request("The captain").max_tokens(60).best_of(8, &reward, 0.0)?;
/// println!("{} ({} of {:?})", best.text().text, best.rewards[best.index], best.rewards);
/// # Ok::<(), verdigris::Error>(())
/// ```
pub struct Reward {
    pub(crate) model: RewardModel,
    tokenizer: Tokenizer,
}

impl Reward {
    /// Loads a reward model: a folder of `transformers`' `*ForSequenceClassification` with one label, an adapter that
    /// turns a model into one, or the name of either on the hub.
    ///
    /// # Errors
    /// [`Error::Model`]: as [`ModelFolder::find`] and [`ModelFolder::reward`].
    pub fn load(source: impl AsRef<Path>) -> Result<Self, Error> {
        Self::from_folder(&ModelFolder::find(source, |_| ())?)
    }

    /// Loads a reward model from a model folder.
    ///
    /// # Errors
    /// [`Error::Model`]: as [`ModelFolder::reward`].
    pub fn from_folder(folder: &ModelFolder) -> Result<Self, Error> {
        Ok(Self { model: folder.reward()?, tokenizer: folder.tokenizer()? })
    }

    /// The score of a text, which is tokenized like a prompt.
    ///
    /// # Errors
    /// [`Error::Read`] if it cannot be tokenized, [`Error::NoPrompt`] if it has no tokens, and [`Error::Model`] if it
    /// is too long.
    pub fn score(&self, text: &str) -> Result<f32, Error> {
        let tokens = self.tokenizer.encode_prompt(text)?;
        if tokens.is_empty() {
            return Err(Error::NoPrompt);
        }
        Ok(self.model.score(&tokens)?)
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The model itself.
    pub fn model(&self) -> &RewardModel {
        &self.model
    }
}
