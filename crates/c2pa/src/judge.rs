//! What a manifest is worth.

use std::io::Cursor;

use c2pa::{Context, Manifest, Reader};
use serde::Serialize;
use serde_json::{Value, json};
use x509_parser::pem::Pem;

use crate::binding::{self, MISMATCH, Recorded};
use crate::claim::{NamedMark, actions, is_marking};
use crate::error::C2paError;
use crate::locate::{Located, Place, Unlocated};

/// The code of a certificate that leads to no anchor: a matter of whom one trusts, not of the manifest.
const UNTRUSTED: &str = "signingCredential.untrusted";

/// The roots that are trusted.
#[derive(Clone, Debug)]
pub struct Anchors(String);

impl Anchors {
    /// Certificates in PEM, one after the other.
    ///
    /// # Errors
    /// [`C2paError::Anchors`] where there is none, or one is damaged.
    pub fn new(pem: &[u8]) -> Result<Self, C2paError> {
        let text = std::str::from_utf8(pem).map_err(|_| C2paError::Anchors)?;
        let read = Pem::iter_from_buffer(pem).map(|one| one.ok().filter(|one| one.parse_x509().is_ok()).map(drop));
        match read.collect::<Option<Vec<()>>>() {
            Some(read) if !read.is_empty() => Ok(Self(text.to_owned())),
            _ => Err(C2paError::Anchors),
        }
    }
}

/// What became of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Validity {
    /// Its signature is whole, it is of this text, and it breaks no rule. That says nothing of trust.
    Valid,
    /// It is damaged, or of another text, or breaks a rule.
    Invalid,
    /// There is none.
    Absent,
    /// It lies on a network, and nothing is read from there.
    Elsewhere,
}

/// What a manifest is worth, and what it says. What is not known is left out of JSON.
#[derive(Clone, Debug, Serialize)]
pub struct ManifestVerdict {
    /// What became of it.
    pub verdict: Validity,
    /// Where it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Where it lies, if that is on a network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The bytes of its store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    /// The codes of what is wrong, in the words of the specification.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<String>,
    /// What is wrong, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether it is of this text: the hard binding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<Binding>,
    /// The name in the signer's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<String>,
    /// The organisation in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organisation: Option<String>,
    /// What it is signed with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// Whether the certificate leads to an anchor that is trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted: Option<bool>,
    /// When it was signed, if an authority for time that is trusted says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted_time: Option<String>,
    /// The program that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator: Option<String>,
    /// What was done to the text, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// The action that claims a watermark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermark: Option<String>,
    /// The watermarks that it names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub soft_bindings: Vec<NamedMark>,
}

/// Whether a manifest is of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Binding {
    /// It is.
    Match,
    /// The text is another, or parts of it are left out.
    Mismatch,
}

impl ManifestVerdict {
    fn of(verdict: Validity) -> Self {
        Self {
            verdict,
            place: None,
            url: None,
            bytes: None,
            codes: Vec::new(),
            error: None,
            binding: None,
            signer: None,
            organisation: None,
            algorithm: None,
            trusted: None,
            trusted_time: None,
            generator: None,
            actions: Vec::new(),
            watermark: None,
            soft_bindings: Vec::new(),
        }
    }

    /// Whether it is valid; where somebody says whom to trust, also whether its signer is.
    pub fn is_good(&self, anchors: Option<&Anchors>) -> bool {
        self.verdict == Validity::Valid && (anchors.is_none() || self.trusted == Some(true))
    }
}

/// Judges the manifest of a text.
pub fn judge(text: &str, located: Result<Located, Unlocated>, anchors: Option<&Anchors>) -> ManifestVerdict {
    let located = match located {
        Ok(located) => located,
        Err(Unlocated::Absent) => return ManifestVerdict::of(Validity::Absent),
        Err(Unlocated::Elsewhere(url)) => {
            let place = Some(Place::Structured);
            return ManifestVerdict { url: Some(url), place, ..ManifestVerdict::of(Validity::Elsewhere) };
        }
        Err(Unlocated::Faulty { place, code, why }) => return invalid(place, code, why),
    };
    match read(text, &located, anchors) {
        Ok(reader) => of_reader(text, &located, &reader),
        Err(error) => {
            let why = format!("it cannot be read: {}", line(&error.to_string()));
            let verdict = invalid(located.place, "verdigris.manifest.unreadable", why);
            ManifestVerdict { bytes: Some(located.store.len()), ..verdict }
        }
    }
}

fn invalid(place: Place, code: &str, why: String) -> ManifestVerdict {
    let codes = vec![code.to_owned()];
    ManifestVerdict { place: Some(place), codes, error: Some(why), ..ManifestVerdict::of(Validity::Invalid) }
}

/// Lets the library read a manifest.
fn read(text: &str, located: &Located, anchors: Option<&Anchors>) -> c2pa::Result<Reader> {
    let settings = json!({
        "version": 1,
        "core": { "max_decompressed_manifest_size_in_mb": 16 },
        "trust": { "user_anchors": anchors.map(|anchors| &anchors.0) },
        "verify": { "remote_manifest_fetch": false, "ocsp_fetch": false },
    });
    let context = Context::new().with_settings(settings)?;
    Reader::from_context(context).with_manifest_data_and_stream(
        &located.store,
        "text/plain",
        Cursor::new(text.as_bytes()),
    )
}

fn of_reader(text: &str, located: &Located, reader: &Reader) -> ManifestVerdict {
    let results = reader.validation_results();
    let active = results.and_then(|results| results.active_manifest());
    let has = |code: &str| active.is_some_and(|active| active.success().iter().any(|status| status.code() == code));
    let deltas = results.and_then(|results| results.ingredient_deltas()).map_or(&[][..], Vec::as_slice);
    let failures = active.into_iter().chain(deltas.iter().map(|delta| delta.validation_deltas()));
    let failures = failures.flat_map(|codes| codes.failure());
    let mut codes: Vec<String> = Vec::new();
    for failure in failures {
        // Of unstructured text the library has hashed something else.
        let is_judged_here = located.place == Place::Text && failure.code() == MISMATCH;
        let code = failure.code();
        if code != UNTRUSTED && !is_judged_here && !codes.iter().any(|known| known == code) {
            codes.push(code.to_owned());
        }
    }
    let mismatch = codes.iter().any(|code| code.starts_with("assertion.dataHash."));
    let checked = match recorded(reader) {
        Some(recorded) => binding::check(text, located, &recorded),
        // A manifest that says nothing of any text is bound to none.
        None => Err("claim.hardBindings.missing"),
    };
    if let Err(code) = checked
        && !codes.iter().any(|known| known == code)
    {
        codes.push(code.to_owned());
    }
    let is_bound = checked.is_ok() && !mismatch;
    let verdict = if codes.is_empty() && active.is_some() { Validity::Valid } else { Validity::Invalid };
    let mut verdict = ManifestVerdict {
        place: Some(located.place),
        bytes: Some(located.store.len()),
        error: why(&codes).map(str::to_owned),
        codes,
        binding: Some(if is_bound { Binding::Match } else { Binding::Mismatch }),
        trusted: Some(has("signingCredential.trusted")),
        ..ManifestVerdict::of(verdict)
    };
    if let Some(manifest) = reader.active_manifest() {
        tell(&mut verdict, manifest, has("timeStamp.trusted"));
    }
    verdict
}

/// What the first of some codes means, for people.
fn why(codes: &[String]) -> Option<&'static str> {
    Some(match &**codes.first()? {
        code if code.starts_with("assertion.dataHash") => "the text is not the one that was signed",
        code if code.starts_with("assertion.") => "a part of the manifest is not the one that was signed",
        code if code.starts_with("claimSignature.") => "its signature is not that of this claim",
        code if code.starts_with("signingCredential.") => "its certificate may not sign such claims, or not any more",
        code if code.starts_with("claim.") => "its claim is not whole",
        _ => "it breaks a rule of the specification",
    })
}

/// What a manifest says.
fn tell(verdict: &mut ManifestVerdict, manifest: &Manifest, is_timed: bool) {
    if let Some(info) = manifest.signature_info() {
        verdict.signer = info.common_name.clone();
        verdict.organisation = info.issuer.clone();
        verdict.algorithm = info.alg.map(|algorithm| algorithm.to_string());
        verdict.trusted_time = info.time.clone().filter(|_| is_timed);
    }
    verdict.generator = manifest.claim_generator_info.as_deref().and_then(|generators| generators.first()).map(|one| {
        let version = one.version.as_ref().map(|version| format!(" {version}"));
        format!("{}{}", one.name, version.unwrap_or_default())
    });
    for assertion in manifest.assertions() {
        let Ok(data) = assertion.value() else { continue };
        verdict.actions.extend(actions(assertion.label(), data));
        verdict.soft_bindings.extend(NamedMark::from_assertion(assertion.label(), data));
    }
    verdict.watermark = verdict.actions.iter().find(|action| is_marking(action)).cloned();
}

/// The hard binding, which the library does not show among the other assertions.
fn recorded(reader: &Reader) -> Option<Recorded> {
    let all: Value = serde_json::from_str(&reader.detailed_json()).ok()?;
    let assertions = &all["manifests"][reader.active_label()?]["assertion_store"];
    serde_json::from_value(assertions["c2pa.hash.data"].clone()).ok()
}

/// On one line.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
