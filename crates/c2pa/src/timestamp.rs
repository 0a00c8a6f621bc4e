//! Judges the time stamp of a signature.
//!
//! The library checks that it is intact, that it is one of this signature, and that its certificate leads to a trusted
//! root. But it also accepts certificates for mail or for signing as those of authorities, so anyone with such a
//! certificate could state any time. That the certificate is one for time stamps is checked here.

use c2pa::Reader;
use coset::cbor::value::Value;
use coset::{CoseSign1, Label, TaggedCborSerializable as _};
use serde::Serialize;
use x509_parser::asn1_rs::{Any, Class};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The code of a stamp that the library trusts. It then judges the signer's certificate as of its time.
pub(crate) const TRUSTED_STAMP: &str = "timeStamp.trusted";
/// The code of a stamp whose certificate is not one for time stamps; the specification has none.
const PURPOSE: &str = "verdigris.timeStamp.purpose";

/// The class of the verdict on a time stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TimestampValidity {
    /// It is intact, and its authority leads to a trusted root.
    Trusted,
    /// It is intact, but its authority does not lead to a trusted root, or may not state times.
    Untrusted,
    /// It is damaged, or one of another signature, or its authority's certificate was not valid at its time.
    Invalid,
}

/// The verdict on the time stamp of a signature. A manifest with an invalid one may be valid: the signer's certificate
/// must be valid at the time of a trusted one, and else now. But the library also rejects manifests with a time stamp
/// whose certificate is damaged.
#[derive(Clone, Debug, Serialize)]
pub struct TimestampVerdict {
    /// The class of the verdict.
    pub verdict: TimestampValidity,
    /// The time that it states, if it is intact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The name in the authority's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// The codes of its faults: those of the specification, or ours.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<String>,
}

impl TimestampVerdict {
    /// Judges the time stamp of the active manifest of a store, if it has one.
    pub(crate) fn of(reader: &Reader, store: &[u8]) -> Option<Self> {
        let label = reader.active_label()?;
        let token = token(store, label);
        // Only this output of the library has the name of the authority, and the time if it is not trusted.
        let all = reader.to_crjson_value().unwrap_or_default();
        let mut manifests = all["manifests"].as_array().into_iter().flatten();
        let stamp = manifests.find(|manifest| manifest["label"] == label);
        let stamp = stamp.map_or(&serde_json::Value::Null, |manifest| &manifest["signature"]["timeStampInfo"]);
        let active = reader.validation_results().and_then(|results| results.active_manifest());
        let noted = active.into_iter().flat_map(|codes| codes.informational().iter().chain(codes.failure()));
        let noted = noted.map(|status| status.code().to_owned()).filter(|code| code.starts_with("timeStamp."));
        let mut codes: Vec<String> = noted.collect();
        if stamp.is_null() && codes.is_empty() && !matches!(token, Token::Present(_)) {
            return None;
        }
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let (time, subject) = (text(&stamp["timestamp"]), &stamp["certificateInfo"]["subject"]);
        let is_proper = matches!(&token, Token::Present(token) if is_for_time_stamps(token));
        let verdict = match (&time, has(reader, TRUSTED_STAMP), is_proper) {
            (Some(_), true, true) => TimestampValidity::Trusted,
            (Some(_), _, is_proper) => {
                codes.extend((!is_proper).then(|| PURPOSE.to_owned()));
                TimestampValidity::Untrusted
            }
            (None, ..) => TimestampValidity::Invalid,
        };
        Some(Self { verdict, time, authority: text(&subject["CN"]).or_else(|| text(&subject["O"])), codes })
    }

    /// Whether it is trusted.
    pub(crate) fn is_trusted(&self) -> bool {
        self.verdict == TimestampValidity::Trusted
    }
}

/// Whether the active manifest has a success with this code.
pub(crate) fn has(reader: &Reader, code: &str) -> bool {
    let active = reader.validation_results().and_then(|results| results.active_manifest());
    active.is_some_and(|active| active.success().iter().any(|status| status.code() == code))
}

/// Whether every certificate in a time stamp that is not an authority over others is one for time stamps only (RFC
/// 3161, 2.3). The one that signed it is among them. The time stamp is a token, or the answer that it is part of.
pub(crate) fn is_for_time_stamps(stamp: &[u8]) -> bool {
    certificates(stamp).is_some_and(|certificates| {
        !certificates.is_empty()
            && certificates.iter().filter(|certificate| !certificate.is_ca()).all(|certificate| {
                let usage = certificate.extended_key_usage().ok().flatten();
                usage.is_some_and(|usage| {
                    let usage = usage.value;
                    let others = usage.any
                        || usage.server_auth
                        || usage.client_auth
                        || usage.code_signing
                        || usage.email_protection
                        || usage.ocsp_signing;
                    usage.time_stamping && !others && usage.other.is_empty()
                })
            })
    })
}

/// The certificates in a time stamp.
fn certificates(stamp: &[u8]) -> Option<Vec<X509Certificate<'_>>> {
    let sequence = |bytes| Any::from_der(bytes).ok().filter(|(_, any)| any.tag().0 == 16).map(|(_, any)| any.data);
    let content = sequence(stamp)?;
    let (rest, first) = Any::from_der(content).ok()?;
    // An answer begins with its status, a token with the kind of its content.
    let (rest, _) = if first.tag().0 == 16 { Any::from_der(sequence(rest)?).ok()? } else { (rest, first) };
    let (_, wrapped) = Any::from_der(rest).ok()?;
    let mut parts = sequence(wrapped.data)?;
    while !parts.is_empty() {
        let (rest, part) = Any::from_der(parts).ok()?;
        if part.class() == Class::ContextSpecific && part.tag().0 == 0 {
            let (mut certificates, mut bytes) = (Vec::new(), part.data);
            while !bytes.is_empty() {
                let (rest, certificate) = X509Certificate::from_der(bytes).ok()?;
                certificates.push(certificate);
                bytes = rest;
            }
            return Some(certificates);
        }
        parts = rest;
    }
    None
}

/// The time stamp in a signature.
#[derive(Debug)]
enum Token {
    Absent,
    /// The token; for claims of version 1 the authority's answer.
    Present(Vec<u8>),
    /// It cannot be found without doubt.
    Unclear,
}

/// Finds the time stamp in the signature of a manifest.
fn token(store: &[u8], label: &str) -> Token {
    let Some(signature) = signature(store, label) else { return Token::Unclear };
    let Ok(signed) = CoseSign1::from_tagged_slice(signature) else { return Token::Unclear };
    let is_stamp = |label: &Label| matches!(label, Label::Text(name) if name == "sigTst" || name == "sigTst2");
    let mut stamps = signed.unprotected.rest.into_iter().filter(|(label, _)| is_stamp(label));
    match (stamps.next(), stamps.next()) {
        (None, _) => Token::Absent,
        (Some((_, stamp)), None) => only(stamp, "tstTokens")
            .and_then(|tokens| tokens.into_array().ok())
            .filter(|tokens| tokens.len() == 1)
            .and_then(|mut tokens| only(tokens.remove(0), "val")?.into_bytes().ok())
            .map_or(Token::Unclear, Token::Present),
        (Some(_), Some(_)) => Token::Unclear,
    }
}

/// The value of a map with this name and no other.
fn only(map: Value, name: &str) -> Option<Value> {
    let mut entries = map.into_map().ok()?.into_iter();
    let (entry, more) = (entries.next()?, entries.next());
    (entry.0.as_text() == Some(name) && more.is_none()).then_some(entry.1)
}

/// The signature of a manifest in a store of JUMBF boxes.
fn signature<'s>(store: &'s [u8], label: &str) -> Option<&'s [u8]> {
    let store = labelled(store, "c2pa")?;
    let signature = labelled(labelled(store, label)?, "c2pa.signature")?;
    let mut boxes = Boxes(signature).filter(|(kind, _)| kind == b"cbor");
    boxes.next().filter(|_| boxes.next().is_none()).map(|(_, content)| content)
}

/// The content of the only superbox with this label, after its description.
fn labelled<'s>(boxes: &'s [u8], label: &str) -> Option<&'s [u8]> {
    let mut found = Boxes(boxes).filter(|(kind, _)| kind == b"jumb").filter_map(|(_, content)| {
        let (kind, description) = Boxes(content).next()?;
        // A kind of 16 bytes, a byte of flags, of which 2 means that a label follows, and the label.
        let name = description.get(17..).filter(|_| kind == *b"jumd" && description[16] & 2 != 0)?;
        let name = &name[..name.iter().position(|byte| *byte == 0)?];
        (name == label.as_bytes()).then(|| &content[8 + description.len()..])
    });
    found.next().filter(|_| found.next().is_none())
}

/// The boxes in some bytes: their kinds and contents.
struct Boxes<'s>(&'s [u8]);

impl<'s> Iterator for Boxes<'s> {
    type Item = ([u8; 4], &'s [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.0.split_first_chunk::<8>()?;
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        // Longer boxes and those of unknown length do not appear in stores of a few megabytes.
        let content = rest.get(..length.checked_sub(8)?)?;
        self.0 = &rest[content.len()..];
        Some(([head[4], head[5], head[6], head[7]], content))
    }
}
