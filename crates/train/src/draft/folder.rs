//! A folder with a head, as [`verdigris_models::DraftHead::load`] reads it.

use std::collections::HashMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use serde::Serialize;
use serde_json::{Value, json};
use verdigris_logits::TokenId;
use verdigris_models::DraftTarget;
use verdigris_models::whole_file::replace;

use super::Summary;
use super::head::Head;
use crate::error::TrainError;
use crate::weights::save;

/// Writes a head and its draft vocabulary, `config.json` last: a folder with this file is complete.
pub(super) fn write(
    out: &Path,
    head: &dyn Head,
    target: &DraftTarget,
    tokens: &[TokenId],
    summary: &Summary,
) -> Result<(), TrainError> {
    let mut tensors = head
        .variables()
        .iter()
        .map(|(name, var)| Ok((name.clone(), var.as_tensor().to_dtype(DType::F16)?)))
        .collect::<Result<HashMap<_, _>, TrainError>>()?;
    let ids: Vec<i64> = tokens.iter().map(|&token| i64::from(token)).collect();
    tensors.insert("draft_tokens".into(), Tensor::from_vec(ids, tokens.len(), &Device::Cpu)?);
    let metadata = [("format".to_owned(), "pt".to_owned())].into();
    save(&out.join("model.safetensors"), &tensors, Some(metadata))?;

    let mut description = head.description(target.config());
    for (name, value) in [
        ("hidden_size", json!(target.config().width)),
        ("vocab_size", json!(target.config().vocabulary)),
        ("draft_vocab_size", json!(tokens.len())),
        ("target", json!(summary.target)),
        ("target_fingerprint", json!(target.fingerprint())),
    ] {
        description.insert(name.into(), value);
    }
    write_json(&out.join("training.json"), summary)?;
    write_json(&out.join("config.json"), &Value::Object(description))
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), TrainError> {
    let mut json = serde_json::to_vec_pretty(value).expect("it serialises");
    json.push(b'\n');
    replace(path, &json).map_err(TrainError::file("write", path))
}
