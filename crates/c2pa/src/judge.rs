//! Judges manifests.

use std::io::Cursor;

use c2pa::{Context, Manifest, Reader};
use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::binding::{self, MISMATCH, Recorded};
use crate::claim::{NamedMark, actions, is_marking};
use crate::error::line;
use crate::locate::{Located, ManifestLocation, Unlocated};
use crate::timestamp::{TRUSTED_STAMP, TimestampVerdict, has};
use crate::trust::Trust;

/// The code of a certificate without a trusted anchor, which is a question of trust and not a fault of the manifest.
const UNTRUSTED: &str = "signingCredential.untrusted";

/// The class of the verdict on a manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Validity {
    /// The signature is intact, the text is the one that was signed, and no rule is broken. This does not include
    /// trust.
    Valid,
    /// It is damaged, belongs to another text, or breaks a rule.
    Invalid,
    /// There is no manifest.
    #[default]
    Absent,
    /// It is at an address on a network, which is not fetched.
    Elsewhere,
}

/// The verdict on a manifest, and its contents. Unknown fields are left out of JSON.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ManifestVerdict {
    /// The class of the verdict.
    pub verdict: Validity,
    /// The location of the manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<ManifestLocation>,
    /// The address of the manifest, if it is on a network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The size of the manifest store in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    /// The codes of the faults: those of the specification, or ours.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<String>,
    /// The fault in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether the text is the one that was signed: the hard binding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<Binding>,
    /// The name in the signer's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<String>,
    /// The organisation in the signer's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organisation: Option<String>,
    /// The signature algorithm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// Whether the certificate leads to a trusted anchor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted: Option<bool>,
    /// The time stamp of the signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<TimestampVerdict>,
    /// The time of the time stamp, if its authority is trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted_time: Option<String>,
    /// The program that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator: Option<String>,
    /// The actions performed on the text, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// The action that claims a watermark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermark: Option<String>,
    /// The soft bindings, such as watermarks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub soft_bindings: Vec<NamedMark>,
}

/// The result of checking the hard binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Binding {
    /// The text is the one that was signed.
    Match,
    /// The text is different, or the wrong parts are excluded.
    Mismatch,
}

impl ManifestVerdict {
    fn of(verdict: Validity) -> Self {
        Self { verdict, ..Self::default() }
    }

    /// Whether it is valid, and if roots are given, whether its signer is trusted, and if roots of time stamps are
    /// given, whether it has a trusted one.
    pub fn is_good(&self, trust: &Trust) -> bool {
        self.verdict == Validity::Valid
            && (trust.anchors.is_none() || self.trusted == Some(true))
            && (trust.timestamps.is_none() || self.trusted_time.is_some())
    }
}

/// Judges the manifest of a text.
pub fn judge(text: &str, located: Result<Located, Unlocated>, trust: &Trust) -> ManifestVerdict {
    let located = match located {
        Ok(located) => located,
        Err(Unlocated::Absent) => return ManifestVerdict::of(Validity::Absent),
        Err(Unlocated::Elsewhere(url)) => {
            let place = Some(ManifestLocation::Structured);
            return ManifestVerdict { url: Some(url), place, ..ManifestVerdict::of(Validity::Elsewhere) };
        }
        Err(Unlocated::Faulty { place, code, why }) => return invalid(place, code, why),
    };
    match read(text, &located, trust.all()) {
        Ok(reader) => of_reader(text, &located, reader, trust),
        Err(error) => unreadable(&located, &error),
    }
}

fn unreadable(located: &Located, error: &c2pa::Error) -> ManifestVerdict {
    let why = format!("it cannot be read: {}", line(&error.to_string()));
    let verdict = invalid(located.place, "verdigris.manifest.unreadable", why);
    ManifestVerdict { bytes: Some(located.store.len()), ..verdict }
}

fn invalid(place: ManifestLocation, code: &str, why: String) -> ManifestVerdict {
    let codes = vec![code.to_owned()];
    ManifestVerdict { place: Some(place), codes, error: Some(why), ..ManifestVerdict::of(Validity::Invalid) }
}

/// Reads a manifest with the library.
fn read(text: &str, located: &Located, anchors: Option<String>) -> c2pa::Result<Reader> {
    let settings = json!({
        "version": 1,
        "core": { "max_decompressed_manifest_size_in_mb": 16 },
        "trust": { "user_anchors": anchors },
        "verify": { "remote_manifest_fetch": false, "ocsp_fetch": false },
    });
    let context = Context::new().with_settings(settings)?;
    Reader::from_context(context).with_manifest_data_and_stream(
        &located.store,
        "text/plain",
        Cursor::new(text.as_bytes()),
    )
}

fn of_reader(text: &str, located: &Located, reader: Reader, trust: &Trust) -> ManifestVerdict {
    let timestamp = TimestampVerdict::of(&reader, &located.store);
    let is_trusted = has(&reader, "signingCredential.trusted");
    let stamp = timestamp.as_ref().filter(|stamp| stamp.is_trusted());
    let reader = match stamp {
        // The certificate of the signer was judged as of a time that is not proved.
        None if has(&reader, TRUSTED_STAMP) => match read(text, located, None) {
            Ok(reader) => reader,
            Err(error) => return unreadable(located, &error),
        },
        _ => reader,
    };
    // The library has judged the chain as of the time of a trusted stamp.
    let time = if stamp.is_none() { Some(OffsetDateTime::now_utc().unix_timestamp()) } else { None };
    let results = reader.validation_results();
    let active = results.and_then(|results| results.active_manifest());
    let deltas = results.and_then(|results| results.ingredient_deltas()).map_or(&[][..], Vec::as_slice);
    let failures = active.into_iter().chain(deltas.iter().map(|delta| delta.validation_deltas()));
    let failures = failures.flat_map(|codes| codes.failure());
    let mut codes: Vec<String> = Vec::new();
    for failure in failures {
        // For unstructured text the library does not hash the composed form.
        let is_judged_here = located.place == ManifestLocation::Text && failure.code() == MISMATCH;
        let code = failure.code();
        if code != UNTRUSTED && !is_judged_here && !codes.iter().any(|known| known == code) {
            codes.push(code.to_owned());
        }
    }
    let mismatch = codes.iter().any(|code| code.starts_with("assertion.dataHash."));
    let checked = match recorded(&reader) {
        Some(recorded) => binding::check(text, located, &recorded),
        // A manifest without a hard binding does not belong to any text.
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
        trusted_time: stamp.and_then(|stamp| stamp.time.clone()),
        timestamp,
        ..ManifestVerdict::of(verdict)
    };
    if let Some(manifest) = reader.active_manifest() {
        let chain = manifest.signature_info().map_or("", |info| info.cert_chain());
        verdict.trusted = Some(is_trusted && trust.is_signer(chain, time));
        tell(&mut verdict, manifest);
    }
    verdict
}

/// Describes the first of the codes in words.
fn why(codes: &[String]) -> Option<&'static str> {
    Some(match &**codes.first()? {
        code if code.starts_with("assertion.dataHash") => "the text is not the one that was signed",
        code if code.starts_with("assertion.") => "a part of the manifest is not the one that was signed",
        code if code.starts_with("claimSignature.") => "its signature is not that of this claim",
        code if code.starts_with("signingCredential.") => "its certificate may not or may no longer sign such claims",
        code if code.starts_with("claim.") => "its claim is damaged",
        _ => "it breaks a rule of the specification",
    })
}

/// Adds the contents of a manifest to its verdict.
fn tell(verdict: &mut ManifestVerdict, manifest: &Manifest) {
    if let Some(info) = manifest.signature_info() {
        verdict.signer = info.common_name.clone();
        verdict.organisation = info.issuer.clone();
        verdict.algorithm = info.alg.map(|algorithm| algorithm.to_string());
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

/// Returns the hard binding, which the library does not list among the other assertions.
fn recorded(reader: &Reader) -> Option<Recorded> {
    let all: Value = serde_json::from_str(&reader.detailed_json()).ok()?;
    let assertions = &all["manifests"][reader.active_label()?]["assertion_store"];
    serde_json::from_value(assertions["c2pa.hash.data"].clone()).ok()
}
