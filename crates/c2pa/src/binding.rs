//! Whether a manifest is of this text: the hard binding.
//!
//! The library judges bytes without those that the manifest excludes. That is all there is to it for structured text
//! and sidecars, but for one thing: what is excluded must be the manifest and nothing that people read. Of unstructured
//! text it knows nothing, for what is hashed there are not the bytes but their composed form (NFC): so that is judged
//! here.

use std::ops::Range;

use c2pa_unstructured_text::hardbinding::{Algorithm, Hasher as _, Normalizer as _, RustCrypto, UnicodeNfc};
use serde::Deserialize;
use serde_json::Value;

use crate::locate::{Located, Place};

/// The code of a hash that is another.
pub(crate) const MISMATCH: &str = "assertion.dataHash.mismatch";
/// The code of exclusions that are not those of the manifest.
const MALFORMED: &str = "assertion.dataHash.malformed";

/// A hard binding as a manifest has it.
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

/// Whether the bytes that a binding leaves out are the manifest of the text, and the text in composed form is that of
/// the binding.
pub(crate) fn check(text: &str, located: &Located, recorded: &Recorded) -> Result<(), &'static str> {
    let Some(range) = located.range.clone() else {
        // With a sidecar there is nothing to leave out but a reference to it, if that.
        return if recorded.exclusions.is_empty() { Ok(()) } else { of_sidecar(text, &recorded.exclusions) };
    };
    let [excluded] = recorded.exclusions[..] else { return Err(MALFORMED) };
    if excluded.length != range.len() {
        return Err(MALFORMED);
    }
    match located.place {
        Place::Text => composed(text, range, excluded, recorded),
        _ if excluded.start == range.start => Ok(()),
        _ => Err(MALFORMED),
    }
}

/// A text whose manifest was taken out of it and lies beside it may leave out the block that names it.
fn of_sidecar(text: &str, exclusions: &[Exclusion]) -> Result<(), &'static str> {
    match (c2pa_structured_text::hardbinding::manifest_exclusion(text), exclusions) {
        (Ok(block), [one]) if (block.start, block.length) == (one.start, one.length) => Ok(()),
        _ => Err(MALFORMED),
    }
}

/// Unstructured text, which may have come through a program that composes or decomposes characters: then the place of
/// its manifest is that in the composed text.
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

/// Bytes, as numbers or in base 64.
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

    /// A signer could leave words out of the hash, and change them afterwards.
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
        assert_eq!(said(Place::Structured, within.clone(), one(0, block)), Ok(()));
        for exclusions in [
            json!([]),
            one(0, block + 4),
            one(4, block),
            json!([{ "start": 0, "length": block }, { "start": block, "length": 3 }]),
        ] {
            assert_eq!(said(Place::Structured, within.clone(), exclusions.clone()), Err(MALFORMED), "{exclusions}");
            assert_eq!(said(Place::Text, within.clone(), exclusions.clone()), Err(MALFORMED), "{exclusions}");
        }
        assert_eq!(said(Place::Sidecar, None, json!([])), Ok(()));
        assert_eq!(said(Place::Sidecar, None, one(0, block)), Ok(()), "the block that names it");
        assert_eq!(said(Place::Sidecar, None, one(block, 3)), Err(MALFORMED));
    }
}
