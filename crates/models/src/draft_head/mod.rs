//! Small networks that guess what a model will say from the model's own hidden states.
//!
//! They are trained for one model, which stays as it is, and use its embedding and rows of its output matrix: those of
//! some tokens alone, the ones that are written most often, so that a guess reads little memory.
//!
//! | module | holds |
//! |---|---|
//! | [`feature`] | one decoder layer that goes on from a hidden state, token by token (EAGLE's idea) |
//! | [`medusa`] | heads that each guess a token further on, all from one hidden state |
//! | [`fingerprint`] | by which a model is known again, in whatever format it is stored |
//! | [`target`] | what a head in training takes from its model, as numbers |
//! | `files` | a folder with `config.json` and `model.safetensors` |

pub mod feature;
mod files;
pub mod fingerprint;
pub mod medusa;
pub mod target;

use verdigris_logits::TokenId;

use crate::error::ModelError;
use crate::source::folder::ModelFolder;

use feature::FeatureModel;
use files::Kind;
use medusa::MedusaHeads;
pub use target::DraftTarget;

/// A network that guesses from hidden states.
#[derive(Clone, Debug)]
pub enum DraftHead {
    /// A layer that goes on from its own guesses.
    Feature(FeatureModel),
    /// Heads that guess side by side.
    Medusa(MedusaHeads),
}

impl DraftHead {
    /// Loads the network in a folder for the model that it was trained for.
    ///
    /// # Errors
    /// [`ModelError::DraftHead`] where the folder has another model's, or none, and where a file is missing, cannot be
    /// read or is damaged.
    pub fn load(folder: &ModelFolder, target: &ModelFolder) -> Result<Self, ModelError> {
        let files = files::DraftFiles::read(folder, target)?;
        Ok(match files.kind() {
            Kind::Feature => Self::Feature(FeatureModel::new(files)?),
            Kind::Medusa => Self::Medusa(MedusaHeads::new(files)?),
        })
    }

    /// Whether a folder is that of such a network.
    pub fn is_in(folder: &ModelFolder) -> bool {
        files::kind_of(folder).is_some()
    }

    /// The length of the hidden states that it reads.
    pub fn hidden_size(&self) -> usize {
        match self {
            Self::Feature(model) => model.hidden_size(),
            Self::Medusa(heads) => heads.hidden_size(),
        }
    }

    /// The tokens that it guesses among: its rows have one logit for each, in this order.
    pub fn tokens(&self) -> &[TokenId] {
        match self {
            Self::Feature(model) => model.tokens(),
            Self::Medusa(heads) => heads.tokens(),
        }
    }
}
