//! The claims of a manifest about a text and its watermark.

use serde::Serialize;
use serde_json::{Value, json};

/// The name of the soft binding, which is not on the C2PA's list. Its version covers the format below.
const ALGORITHM: &str = "verdigris.watermark.1";
/// The label of its assertion.
const SOFT_BINDING: &str = "c2pa.soft-binding";
/// The action of a mark that identifies a key and not this manifest.
const UNBOUND: &str = "c2pa.watermarked.unbound";
/// The action of a mark with a number that identifies this manifest.
const BOUND: &str = "c2pa.watermarked.bound";
/// The International Press Telecommunications Council's term for the output of a model.
const GENERATED: &str = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia";

/// The claims about a text: that a model wrote it, and how it is marked.
#[derive(Clone, Debug, Default)]
pub struct Claim {
    /// The model, by name.
    pub model: Option<String>,
    /// The watermark, if there is one.
    pub mark: Option<Mark>,
}

/// A watermark as a manifest names it. None of this is secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The name of the dialect.
    pub scheme: String,
    /// The id of the key.
    pub key_id: String,
    /// The number that the mark carries, if it identifies this manifest.
    pub payload: Option<u32>,
}

/// A soft binding in any manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedMark {
    /// The algorithm.
    pub algorithm: String,
    /// The scheme, if the algorithm is ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// The key's id, if the algorithm is ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// The number that the mark carries, if the algorithm is ours and it identifies the manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<u32>,
}

impl Claim {
    /// Returns the manifest definition for the library.
    pub(crate) fn definition(&self) -> Value {
        let mut created = json!({ "action": "c2pa.created", "digitalSourceType": GENERATED });
        if let Some(model) = &self.model {
            created["softwareAgent"] = json!({ "name": model });
        }
        let mut actions = vec![created];
        let mut assertions = Vec::new();
        if let Some(Mark { scheme, key_id, payload }) = &self.mark {
            actions.push(json!({
                "action": if payload.is_some() { BOUND } else { UNBOUND },
                "description": "A statistical watermark of a key, which is found with that key alone",
            }));
            let block = |value: &str| json!({ "scope": {}, "value": value });
            let values = [Some(key_id.clone()), payload.map(|payload| format!("{payload:08x}"))];
            let blocks: Vec<_> = values.iter().flatten().map(|value| block(value)).collect();
            let name = if payload.is_some() { "scheme, key id and number" } else { "scheme and key id" };
            let data = json!({
                "alg": ALGORITHM, "alg-params": scheme, "name": name, "blocks": blocks, "pad": [],
            });
            assertions.push(json!({ "label": SOFT_BINDING, "data": data, "created": true }));
        }
        let actions = json!({ "label": "c2pa.actions.v2", "data": { "actions": actions }, "created": true });
        assertions.insert(0, actions);
        json!({
            "claim_version": 2,
            "claim_generator_info": [{ "name": "Verdigris", "version": env!("CARGO_PKG_VERSION") }],
            "format": "text/plain",
            "assertions": assertions,
        })
    }
}

impl NamedMark {
    /// Reads an assertion, if it is a soft binding.
    pub(crate) fn from_assertion(label: &str, data: &Value) -> Option<Self> {
        if !label.starts_with(SOFT_BINDING) {
            return None;
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let algorithm = text(&data["alg"]).unwrap_or_default();
        let ours = algorithm == ALGORITHM;
        let (scheme, key_id) = (text(&data["alg-params"]), text(&data["blocks"][0]["value"]));
        let payload = data["blocks"][1]["value"].as_str().filter(|number| number.len() == 8);
        let payload = payload.and_then(|number| u32::from_str_radix(number, 16).ok());
        Some(Self {
            algorithm,
            scheme: scheme.filter(|_| ours),
            key_id: key_id.filter(|_| ours),
            payload: payload.filter(|_| ours),
        })
    }
}

/// Returns the names of the actions in an assertion, if it is one of actions.
pub(crate) fn actions(label: &str, data: &Value) -> Vec<String> {
    if !label.starts_with("c2pa.actions") {
        return Vec::new();
    }
    let actions = data["actions"].as_array().map_or(&[][..], Vec::as_slice);
    actions.iter().filter_map(|action| action["action"].as_str()).map(str::to_owned).collect()
}

/// Whether an action claims a watermark.
pub(crate) fn is_marking(action: &str) -> bool {
    action == "c2pa.watermarked" || action.starts_with("c2pa.watermarked.")
}
