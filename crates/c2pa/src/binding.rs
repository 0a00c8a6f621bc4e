//! Checks that a manifest belongs to this text: the hard binding.
//!
//! The library checks the bytes that the manifest does not exclude. For structured text and sidecars that is enough,
//! except that the excluded part must be the manifest and nothing that people read. It does not support unstructured
//! text, where the composed text (NFC) is hashed instead of the bytes: that is checked here.

use std::ops::Range;

use c2pa_unstructured_text::hardbinding::{Algorithm, Hasher as _, Normalizer as _, RustCrypto, UnicodeNfc};
use serde::Deserialize;
use serde_json::Value;

use crate::locate::{Located, ManifestLocation};

/// The code of a different hash.
pub(crate) const MISMATCH: &str = "assertion.dataHash.mismatch";
/// The code of exclusions that do not match the manifest.
const MALFORMED: &str = "assertion.dataHash.malformed";

/// A hard binding in a manifest.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Recorded {
    #[serde(default)]
    exclusions: Vec<Exclusion>,
    alg: Option<String>,
    hash: Value,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Exclusion {
    start: usize,
    length: usize,
}

/// Checks that the excluded bytes are the manifest of the text, and, for unstructured text, that the composed text has
/// the recorded hash.
pub(crate) fn check(text: &str, located: &Located, recorded: &Recorded) -> Result<(), &'static str> {
    let Some(range) = located.range.clone() else {
        // With a sidecar only a reference to it may be excluded.
        return if recorded.exclusions.is_empty() { Ok(()) } else { of_sidecar(text, &recorded.exclusions) };
    };
    let [excluded] = recorded.exclusions[..] else { return Err(MALFORMED) };
    if excluded.length != range.len() {
        return Err(MALFORMED);
    }
    match located.place {
        ManifestLocation::Text => composed(text, range, excluded, recorded),
        _ if excluded.start == range.start => Ok(()),
        _ => Err(MALFORMED),
    }
}

/// A text with a sidecar may exclude the block that refers to it.
fn of_sidecar(text: &str, exclusions: &[Exclusion]) -> Result<(), &'static str> {
    match (c2pa_structured_text::hardbinding::manifest_exclusion(text), exclusions) {
        (Ok(block), [one]) if (block.start, block.length) == (one.start, one.length) => Ok(()),
        _ => Err(MALFORMED),
    }
}

/// Checks unstructured text. A program may have composed or decomposed its characters, so the position of the manifest
/// may also be that in the composed text.
fn composed(text: &str, range: Range<usize>, excluded: Exclusion, recorded: &Recorded) -> Result<(), &'static str> {
    let before = UnicodeNfc.nfc(&text[..range.start]);
    if ![range.start, before.len()].contains(&excluded.start) {
        return Err(MALFORMED);
    }
    let algorithm = Algorithm::from_id(recorded.alg.as_deref().unwrap_or("sha256"));
    let algorithm = algorithm.map_err(|_| "algorithm.unsupported")?;
    let rest = UnicodeNfc.nfc(&format!("{}{}", &text[..range.start], &text[range.end..]));
    let hash = RustCrypto.digest(algorithm, rest.as_bytes());
    if bytes(&recorded.hash).is_some_and(|recorded| recorded == hash) { Ok(()) } else { Err(MISMATCH) }
}

/// Reads bytes, given as numbers or in base64.
fn bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => c2pa_structured_text::codec::decode(text).ok(),
        Value::Array(numbers) => {
            numbers.iter().map(|number| number.as_u64().and_then(|number| u8::try_from(number).ok())).collect()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Otherwise a signer could exclude words from the hash, and change them afterwards.
    #[test]
    fn nothing_but_the_manifest_is_left_out() {
        let text = "# -----BEGIN C2PA MANIFEST----- urn:a -----END C2PA MANIFEST-----\nThe captain.\n";
        let block = text.find('\n').unwrap() + 1;
        let located = |place, range| Located { place, store: Vec::new(), range };
        let said = |place, range, exclusions: Value| {
            let recorded = serde_json::from_value(json!({ "exclusions": exclusions, "hash": [] })).unwrap();
            check(text, &located(place, range), &recorded)
        };
        let one = |start: usize, length: usize| json!([{ "start": start, "length": length }]);
        let within = Some(0..block);
        assert_eq!(said(ManifestLocation::Structured, within.clone(), one(0, block)), Ok(()));
        for exclusions in [
            json!([]),
            one(0, block + 4),
            one(4, block),
            json!([{ "start": 0, "length": block }, { "start": block, "length": 3 }]),
        ] {
            assert_eq!(
                said(ManifestLocation::Structured, within.clone(), exclusions.clone()),
                Err(MALFORMED),
                "{exclusions}"
            );
            assert_eq!(
                said(ManifestLocation::Text, within.clone(), exclusions.clone()),
                Err(MALFORMED),
                "{exclusions}"
            );
        }
        assert_eq!(said(ManifestLocation::Sidecar, None, json!([])), Ok(()));
        assert_eq!(
            said(ManifestLocation::Sidecar, None, one(0, block)),
            Ok(()),
            "the block that refers to the sidecar"
        );
        assert_eq!(said(ManifestLocation::Sidecar, None, one(block, 3)), Err(MALFORMED));
    }
}
