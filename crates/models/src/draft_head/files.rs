//! A folder with a draft head: `config.json`, and its weights; or a GGUF file of it.

use std::path::PathBuf;

use verdigris_logits::TokenId;
use verdigris_text::shown;

use crate::description::checkpoint::Checkpoint;
use crate::description::config::DecoderConfig;
use crate::description::families::{Family, Fields};
use crate::description::gguf::model::add_factors;
use crate::description::parts::{Layer, Parts, Scales};
use crate::description::weight::Weight;
use crate::error::ModelError;
use crate::source::file_names::CONFIG;
use crate::source::folder::ModelFolder;

use super::fingerprint::fingerprint;
use super::kind::{Kind, SUPPORTED, kind};

/// The tensor with the tokens that a head can guess.
const TOKENS: &str = "draft_tokens";

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
    /// The target's layers, and the norm after them.
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Scales,
    /// The rows of the target's output matrix for `tokens`.
    pub(super) output: Weight,
    pub(super) tokens: Vec<TokenId>,
}

/// Whether a folder has a head.
pub(super) fn is_in(folder: &ModelFolder) -> bool {
    folder.opened_head().is_ok_and(|head| kind(&head.fields).is_some())
}

impl DraftFiles {
    pub(super) fn read(folder: &ModelFolder, target: &ModelFolder) -> Result<Self, ModelError> {
        let path = folder.path(CONFIG);
        let wrong = |fault: String| ModelError::DraftHead { path: path.clone(), fault };
        let head = folder.opened_head()?;
        let Some(kind) = kind(&head.fields) else {
            let model_type = head.fields.model_type().unwrap_or("nothing");
            return Err(wrong(format!(
                "model_type is {:?}, which is not a draft head: give {SUPPORTED}",
                shown(model_type)
            )));
        };
        if let Kind::Unsupported(fault) = kind {
            return Err(wrong(fault));
        }
        let (config, parts) = target.describe()?;
        if matches!(kind, Kind::Feature | Kind::Medusa) {
            check_fingerprint(&head.fields, fingerprint(&config, &parts)).map_err(wrong)?;
        }
        let checkpoint = head.weights()?;
        let tokens = match kind {
            Kind::Feature | Kind::Medusa => checkpoint.integers(TOKENS)?,
            _ => None,
        };
        let output = match &tokens {
            None => parts.output,
            Some(tokens) => {
                if tokens.is_empty() || tokens.iter().any(|&token| token as usize >= parts.output.rows()) {
                    return Err(wrong(format!("{TOKENS} has none, or some that the model has not")));
                }
                parts.output.gather(tokens.iter().map(|&token| token as usize))
            }
        };
        let tokens = tokens.unwrap_or_else(|| (0..config.vocabulary as TokenId).collect());
        let Parts { embedding, layers, norm, .. } = parts;
        Ok(Self { path, kind, fields: head.fields, checkpoint, config, embedding, layers, norm, output, tokens })
    }

    pub(super) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Checks that the target has this width and vocabulary, which a published head was trained for.
    pub(super) fn check_target(&self, width: usize, vocabulary: usize) -> Result<(), String> {
        let of_target = &self.config;
        if (width, vocabulary) == (of_target.width, of_target.vocabulary) {
            return Ok(());
        }
        Err(format!(
            "it was trained for a model with hidden_size {width} and vocab_size {vocabulary}, but this model has {} and \
             {}: take the model that it was trained for",
            of_target.width, of_target.vocabulary
        ))
    }

    /// The embedding of a published head (`vocabulary x width`) and its output matrix, a row for each of its tokens.
    /// The target has those that a head lacks.
    pub(super) fn own_or_of_target(
        &self,
        [vocabulary, width]: [usize; 2],
        tokens: &[TokenId],
    ) -> Result<[Weight; 2], ModelError> {
        let own = |name: &str, rows: usize| {
            let (is_there, of_target) = (self.checkpoint.has(name), self.config.width);
            if !is_there && width != of_target {
                return Err(
                    self.wrong(format!("{name} is missing, and the model's has {of_target} columns, not {width}"))
                );
            }
            is_there.then(|| self.checkpoint.matrix(name, [rows, width])).transpose()
        };
        let embedding = own("embed_tokens.weight", vocabulary)?.unwrap_or_else(|| self.embedding.clone());
        let of_target = || self.output.gather(tokens.iter().map(|&token| token as usize));
        let output = own("lm_head.weight", tokens.len())?.unwrap_or_else(of_target);
        Ok([embedding, output])
    }

    /// The fields of its layers, if they are in a field of their own, as the library speculators writes them.
    pub(super) fn fields_of_layers(&self) -> Result<Option<Fields>, String> {
        self.fields.inner("transformer_layer_config")
    }

    /// The description of layers of a family, in `fields` of the head.
    pub(super) fn config_of(&self, family: Family, fields: &Fields) -> Result<DecoderConfig, String> {
        let mut config = (family.config)(fields)?;
        add_factors(&mut config, &self.checkpoint).map_err(|fault| fault.to_string())?;
        Ok(config)
    }

    pub(super) fn wrong(&self, fault: String) -> ModelError {
        ModelError::DraftHead { path: self.path.clone(), fault }
    }
}

/// Checks that a head was trained for the model with a fingerprint.
fn check_fingerprint(fields: &Fields, here: String) -> Result<(), String> {
    let trained_for = fields.text("target_fingerprint")?.unwrap_or_default();
    if trained_for == here {
        return Ok(());
    }
    let name = fields.text("target")?.unwrap_or("another model");
    Err(format!(
        "it was trained for {} (fingerprint {}), and this model is another ({here}): take that model, or train a head \
         for this one",
        shown(name),
        shown(trained_for)
    ))
}
