//! A folder with a draft head: `config.json`, and `model.safetensors`.

use std::path::PathBuf;

use verdigris_logits::TokenId;
use verdigris_text::shown;

use crate::description::checkpoint::Checkpoint;
use crate::description::config::DecoderConfig;
use crate::description::families::Fields;
use crate::description::weight::Weight;
use crate::error::ModelError;
use crate::source::file_names::CONFIG;
use crate::source::folder::ModelFolder;

use super::fingerprint::fingerprint;

/// The tensor with the tokens that a head can guess.
const TOKENS: &str = "draft_tokens";

/// The kind of a head, from the model type in its `config.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Feature,
    Medusa,
}

/// A draft head's files, and the weights that it takes from its target.
pub(super) struct DraftFiles {
    path: PathBuf,
    kind: Kind,
    pub(super) fields: Fields,
    pub(super) checkpoint: Checkpoint,
    /// The target's configuration.
    pub(super) config: DecoderConfig,
    /// The target's embedding: a row for each token.
    pub(super) embedding: Weight,
    /// The rows of the target's output matrix for `tokens`.
    pub(super) output: Weight,
    pub(super) tokens: Vec<TokenId>,
}

/// The kind of head in a folder, if there is one.
pub(super) fn kind_of(folder: &ModelFolder) -> Option<Kind> {
    kind(&Fields::parse(&folder.file(CONFIG).ok()?).ok()?)
}

fn kind(fields: &Fields) -> Option<Kind> {
    match fields.model_type().ok()? {
        "verdigris_feature_drafter" => Some(Kind::Feature),
        "verdigris_medusa" => Some(Kind::Medusa),
        _ => None,
    }
}

impl DraftFiles {
    pub(super) fn read(folder: &ModelFolder, target: &ModelFolder) -> Result<Self, ModelError> {
        let path = folder.path(CONFIG);
        let wrong = |fault: String| ModelError::DraftHead { path: path.clone(), fault };
        let fields = Fields::parse(&folder.file(CONFIG)?).map_err(wrong)?;
        let Some(kind) = kind(&fields) else {
            let model_type = fields.model_type().unwrap_or("nothing");
            return Err(wrong(format!(
                "model_type is {:?}; a draft head has verdigris_feature_drafter or verdigris_medusa",
                shown(model_type)
            )));
        };
        let (config, parts) = target.describe()?;
        let (trained_for, here) =
            (fields.text("target_fingerprint").map_err(wrong)?.unwrap_or_default(), fingerprint(&config, &parts));
        if trained_for != here {
            let name = fields.text("target").map_err(wrong)?.unwrap_or("another model");
            return Err(wrong(format!(
                "it was trained for {} (fingerprint {}), and this model is another ({here}): take that model, or train \
                 a head for this one",
                shown(name),
                shown(trained_for)
            )));
        }
        let checkpoint = folder.weights()?;
        let tokens = match checkpoint.integers(TOKENS)? {
            Some(tokens) => tokens,
            None => (0..config.vocabulary as TokenId).collect(),
        };
        if tokens.is_empty() || tokens.iter().any(|&token| token as usize >= parts.output.rows()) {
            return Err(wrong(format!("{TOKENS} has none, or some that the model has not")));
        }
        let output = parts.output.gather(tokens.iter().map(|&token| token as usize));
        Ok(Self { path, kind, fields, checkpoint, config, embedding: parts.embedding, output, tokens })
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn wrong(&self, fault: String) -> ModelError {
        ModelError::DraftHead { path: self.path.clone(), fault }
    }
}
