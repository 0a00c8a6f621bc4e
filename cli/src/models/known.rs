//! The models on this machine, and names of models on the hub.

use std::path::{Path, PathBuf};

use serde::Serialize;
use verdigris::models::HubName;

use crate::built_in;
use crate::error::Failure;

/// A model on this machine.
#[derive(Serialize)]
pub(super) struct ListedModel {
    pub(super) name: String,
    pub(super) bytes: u64,
    #[serde(rename = "weights")]
    pub(super) format: &'static str,
    /// `None` for those that are built in.
    pub(super) path: Option<PathBuf>,
}

/// The name of a model on the hub.
pub(super) fn hub_name(name: &str) -> Result<HubName, Failure> {
    HubName::parse(name).ok_or_else(|| match built_in::named(Path::new(name)) {
        Some(_) => Failure::Usage(format!("{name} is built in: it is always there")),
        None => Failure::Usage(format!("{name} is not a name on the hub, such as HuggingFaceTB/SmolLM2-135M-Instruct")),
    })
}

/// The models on this machine: those that are built in, and those of the cache.
pub(super) fn all() -> Vec<ListedModel> {
    let built_in =
        built_in::sizes().map(|(name, bytes)| ListedModel { name: name.into(), bytes, format: "built-in", path: None });
    let all = built_in.into_iter();
    #[cfg(feature = "hub")]
    let all = all.chain(verdigris::models::hub::Access::from_env().models().into_iter().map(|model| ListedModel {
        name: model.name,
        bytes: model.bytes,
        format: model.format,
        path: Some(model.path),
    }));
    all.collect()
}
