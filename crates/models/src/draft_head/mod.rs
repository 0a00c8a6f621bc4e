//! Small networks that guess a model's next tokens from its hidden states.
//!
//! Each is trained for one model, which stays unchanged, and uses its embedding and rows of its output matrix. These
//! can be limited to the most frequent tokens, so that a guess reads little memory.
//!
//! | module | holds |
//! |---|---|
//! | [`feature`] | one decoder layer that continues from a hidden state, token by token (EAGLE's idea) |
//! | `fusion` | the input of this layer, and the target's states that it reads |
//! | `eagle3` | that layer as published heads of EAGLE-3 have it; `draft_vocabulary` has the tokens that they guess |
//! | `mtp` | that layer as models that predict several tokens have it in their own files |
//! | [`block`] | published heads that guess a block of tokens at once |
//! | [`assistant`] | Gemma 4's assistants, which attend to keys and values of their target |
//! | [`medusa`] | heads that each guess a later token, all from one hidden state |
//! | [`fingerprint`] | identifies a model, in whatever format it is stored |
//! | [`target`] | the weights that a head in training takes from its model |
//! | `kind` | recognises the kind of a head |
//! | `files` | a folder with `config.json` and the weights of a head |

pub mod assistant;
pub mod block;
mod draft_vocabulary;
mod eagle3;
pub mod feature;
mod files;
pub mod fingerprint;
mod fusion;
mod kind;
pub mod medusa;
mod mtp;
pub mod target;

use verdigris_logits::TokenId;

use crate::error::ModelError;
use crate::source::folder::ModelFolder;

use assistant::AssistantModel;
use block::BlockModel;
use feature::FeatureModel;
use kind::Kind;
use medusa::MedusaHeads;
pub use target::DraftTarget;

/// A network that guesses from hidden states.
#[derive(Clone, Debug)]
pub enum DraftHead {
    /// A layer that continues from its own guesses.
    Feature(FeatureModel),
    /// Heads that guess in parallel.
    Medusa(MedusaHeads),
    /// Layers that guess a block of tokens at once.
    Block(BlockModel),
    /// Layers that attend to keys and values of the target, and continue from their own guesses.
    Assistant(AssistantModel),
}

impl DraftHead {
    /// Loads the network in a folder for the model that it was trained for.
    ///
    /// # Errors
    /// [`ModelError::DraftHead`] if the folder has no head or one for another model, and an error if a file is missing,
    /// cannot be read or is damaged.
    pub fn load(folder: &ModelFolder, target: &ModelFolder) -> Result<Self, ModelError> {
        let files = files::DraftFiles::read(folder, target)?;
        Ok(match files.kind() {
            Kind::Feature => Self::Feature(FeatureModel::new(files)?),
            Kind::Medusa | Kind::PublishedMedusa => Self::Medusa(MedusaHeads::new(files)?),
            Kind::Eagle3 => Self::Feature(eagle3::model(files)?),
            Kind::Block => Self::Block(BlockModel::new(files)?),
            Kind::Assistant => Self::Assistant(AssistantModel::new(files)?),
            Kind::Unsupported(fault) => return Err(files.wrong(fault.clone())),
        })
    }

    /// Loads the layer with which a model predicts the token after next, from its own files. An adapter does not change
    /// it.
    ///
    /// # Errors
    /// [`ModelError::DraftHead`] if the model has none, and those of [`ModelFolder::load`].
    #[doc(alias = "mtp")]
    #[doc(alias = "nextn")]
    pub fn own(target: &ModelFolder) -> Result<Self, ModelError> {
        mtp::model(target).map(Self::Feature)
    }

    /// Whether a folder holds such a network, or one of a kind that is not supported.
    pub fn is_in(folder: &ModelFolder) -> bool {
        files::is_in(folder)
    }

    /// The layers after which it reads the model's states: see [`Rows::with_layers`](crate::Rows::with_layers). If
    /// there are none, it reads the last ones.
    pub fn layers(&self) -> &[usize] {
        match self {
            Self::Feature(model) => model.layers(),
            Self::Medusa(_) => &[],
            Self::Block(model) => model.layers(),
            Self::Assistant(model) => model.layers(),
        }
    }

    /// The length of the hidden states that it reads.
    pub fn hidden_size(&self) -> usize {
        match self {
            Self::Feature(model) => model.target_hidden_size(),
            Self::Medusa(heads) => heads.hidden_size(),
            Self::Block(model) => model.hidden_size(),
            Self::Assistant(model) => model.hidden_size(),
        }
    }

    /// The tokens that it can guess: its rows have one logit for each, in this order.
    pub fn tokens(&self) -> &[TokenId] {
        match self {
            Self::Feature(model) => model.tokens(),
            Self::Medusa(heads) => heads.tokens(),
            Self::Block(model) => model.tokens(),
            Self::Assistant(model) => model.tokens(),
        }
    }
}
