//! Checks that a manifest belongs to this text: the hard binding.
//!
//! The library checks the bytes that the manifest does not exclude. For structured text and sidecars that is enough,
//! except that the excluded part must be the manifest and nothing that people read: the lines of a block may have only
//! its delimiters, one reference, and comment signs around them, as [`Unwrapped`] removes them. The library does not
//! support unstructured text, where the composed text (NFC) is hashed instead of the bytes: that is checked here.

use std::ops::Range;

use c2pa_unstructured_text::hardbinding::{Algorithm, Hasher as _, Normalizer as _, RustCrypto, UnicodeNfc};
use serde::Deserialize;
use serde_json::Value;
use verdigris_detector::Unwrapped;

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
        _ if excluded.start == range.start && is_bare(text, range) => Ok(()),
        _ => Err(MALFORMED),
    }
}

/// Whether the excluded bytes have nothing but a block and the line end before it, so that nothing that people or
/// compilers read can be changed there.
fn is_bare(text: &str, excluded: Range<usize>) -> bool {
    let line_end = text[excluded.clone()].bytes().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let covers = |block: &Range<usize>| block.start <= excluded.start + line_end && excluded.end <= block.end;
    Unwrapped::new(text).manifests.iter().any(covers)
}

/// A text with a sidecar may exclude the block that refers to it.
fn of_sidecar(text: &str, exclusions: &[Exclusion]) -> Result<(), &'static str> {
    match (c2pa_structured_text::hardbinding::manifest_exclusion(text), exclusions) {
        (Ok(block), [one])
            if (block.start, block.length) == (one.start, one.length)
                && is_bare(text, block.start..block.start + block.length) =>
        {
            Ok(())
        }
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

    /// The lines of a block are not hashed, so words on them could be changed.
    #[test]
    fn a_block_has_its_lines_for_itself() {
        let bound = |block: &str, before: &str| {
            let text = format!("{before}{block}The captain.\n");
            let (start, length) = (before.len(), block.len());
            let exclusions = json!([{ "start": start, "length": length }]);
            let recorded = serde_json::from_value(json!({ "exclusions": exclusions, "hash": [] })).unwrap();
            let range = Some(start..start + length);
            let at = |place, range| check(&text, &Located { place, store: Vec::new(), range }, &recorded);
            let (inside, beside) = (at(ManifestLocation::Structured, range), at(ManifestLocation::Sidecar, None));
            assert_eq!(inside, beside, "{block}");
            inside
        };
        for block in [
            "<!-- -----BEGIN C2PA MANIFEST----- urn:a -----END C2PA MANIFEST----- -->\n",
            "-----BEGIN C2PA MANIFEST-----\nurn:a\n-----END C2PA MANIFEST-----\n",
        ] {
            assert_eq!(bound(block, ""), Ok(()), "{block}");
            assert_eq!(bound(block, "#!/bin/sh\n"), Ok(()), "{block}");
        }
        for block in [
            "FAKE -----BEGIN C2PA MANIFEST----- urn:a -----END C2PA MANIFEST----- -->\n",
            "<!-- -----BEGIN C2PA MANIFEST----- urn:a -----END C2PA MANIFEST----- no.\n",
            "<!-- -----BEGIN C2PA MANIFEST----- not a -----END C2PA MANIFEST----- -->\n",
            "rm -r /; # -----BEGIN C2PA MANIFEST----- urn:a -----END C2PA MANIFEST-----\n",
        ] {
            assert_eq!(bound(block, ""), Err(MALFORMED), "{block}");
        }
    }
}
