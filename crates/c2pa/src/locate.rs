//! Finds the manifest of a text.

use std::ops::Range;
use std::path::{Path, PathBuf};

use c2pa_structured_text::hardbinding::manifest_exclusion;
use c2pa_structured_text::{Reference, classify_reference, extract_manifest};
use c2pa_unstructured_text::wrapper;
use serde::Serialize;

use crate::limits::MAX_MANIFEST;

/// The location of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ManifestLocation {
    /// In invisible characters (A.8).
    Text,
    /// In a comment or in front matter (A.9).
    Structured,
    /// In a separate file.
    Sidecar,
}

/// A manifest store, not yet judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The location.
    pub place: ManifestLocation,
    /// Its bytes.
    pub store: Vec<u8>,
    /// The bytes of the text that are the manifest.
    pub range: Option<Range<usize>>,
}

/// The reason why there is no manifest to judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unlocated {
    /// There is no manifest.
    Absent,
    /// There is a damaged or ambiguous manifest.
    Faulty {
        /// The location.
        place: ManifestLocation,
        /// The specification's code, or one of ours if it has none.
        code: &'static str,
        /// The fault in words.
        why: String,
    },
    /// The manifest is at this address on a network.
    Elsewhere(String),
}

impl Located {
    /// Creates a manifest from a separate file.
    ///
    /// # Errors
    /// [`Unlocated::Faulty`] if it is too long.
    pub fn sidecar(store: Vec<u8>) -> Result<Self, Unlocated> {
        let range = None;
        within_bounds(Self { place: ManifestLocation::Sidecar, store, range })
    }
}

/// Returns the path of a file's sidecar: the file's name with `.c2pa` appended.
pub fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".c2pa");
    name.into()
}

/// Finds the manifest in a text.
///
/// # Errors
/// [`Unlocated`] if there is none, or more than one, or it is damaged or at an address.
pub fn locate(text: &str) -> Result<Located, Unlocated> {
    match (unstructured(text), structured(text)) {
        (found, Err(Unlocated::Absent)) | (Err(Unlocated::Absent), found) => found,
        _ => Err(faulty(
            ManifestLocation::Text,
            "manifest.text.multipleWrappers",
            "there is one in invisible characters and one in a comment: a text can have only one",
        )),
    }
}

/// Finds a manifest in invisible characters.
fn unstructured(text: &str) -> Result<Located, Unlocated> {
    use c2pa_unstructured_text::Error;

    match wrapper::extract(text) {
        Ok(found) => {
            let range = Some(found.range());
            within_bounds(Located { place: ManifestLocation::Text, store: found.payload, range })
        }
        Err(Error::NotFound) => Err(Unlocated::Absent),
        Err(Error::MultipleWrappers) => Err(faulty(
            ManifestLocation::Text,
            "manifest.text.multipleWrappers",
            "there is more than one: the text was signed twice, or parts of signed texts were concatenated",
        )),
        Err(_) => Err(faulty(
            ManifestLocation::Text,
            "manifest.text.corruptedWrapper",
            "its invisible characters were cut off or changed",
        )),
    }
}

/// Finds a manifest in a comment or in front matter.
fn structured(text: &str) -> Result<Located, Unlocated> {
    use c2pa_structured_text::Error;

    let malformed = |why: &str| faulty(ManifestLocation::Structured, "verdigris.structured.malformed", why);
    let found = match extract_manifest(text) {
        Ok(found) => found,
        Err(Error::NotFound) => return Err(Unlocated::Absent),
        // The specification treats such a text as one without a manifest, and has no code for it.
        Err(Error::MultipleBlocks) => {
            return Err(faulty(
                ManifestLocation::Structured,
                "verdigris.structured.multiple",
                "there is more than one",
            ));
        }
        Err(_) => return Err(malformed("there is nothing between its BEGIN and END")),
    };
    match classify_reference(&found.reference) {
        Ok(Reference::Embedded(store)) => {
            let excluded = manifest_exclusion(text).map_err(|_| malformed("the text has bare carriage returns"))?;
            let range = Some(excluded.start..excluded.start + excluded.length);
            within_bounds(Located { place: ManifestLocation::Structured, store, range })
        }
        Ok(Reference::Url(url)) => Err(Unlocated::Elsewhere(url)),
        Err(_) => Err(malformed("there is neither a manifest nor an address between its BEGIN and END")),
    }
}

fn within_bounds(found: Located) -> Result<Located, Unlocated> {
    match found.store.len() {
        0..=MAX_MANIFEST => Ok(found),
        bytes => {
            let why = format!("it has {bytes} bytes, but at most {MAX_MANIFEST} are read");
            Err(Unlocated::Faulty { place: found.place, code: "verdigris.manifest.tooLong", why })
        }
    }
}

fn faulty(place: ManifestLocation, code: &'static str, why: &str) -> Unlocated {
    Unlocated::Faulty { place, code, why: why.to_owned() }
}
