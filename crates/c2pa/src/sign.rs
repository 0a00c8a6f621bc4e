//! Signs a text with a claim and credentials.

use std::sync::PoisonError;

use c2pa::assertions::DataHash;
use c2pa::{Builder, Context, HashRange};
use c2pa_structured_text::hardbinding::{Algorithm as Sha, compute_data_hash};
use c2pa_structured_text::{ManifestRef, embed_front_matter, embed_manifest, embed_manifest_at_end};
use c2pa_unstructured_text::hardbinding::{Algorithm, Hasher as _, Normalizer as _, RustCrypto, UnicodeNfc};
use c2pa_unstructured_text::wrapper;
use serde_json::json;

use crate::claim::Claim;
use crate::credentials::Credentials;
use crate::error::C2paError;
use crate::limits::{MAX_MANIFEST, MAX_TEXT};
use crate::locate::{Unlocated, locate};
use crate::placement::{Comments, Placement};

/// The size of the assertion of the hard binding in bytes, padded so that the manifest's length does not depend on its
/// numbers.
const BINDING: usize = 160;
/// The room in bytes for the header around a time stamp, and for the few bytes by which the next one may be longer than
/// the last.
const STAMP_FRAME: usize = 64;

/// A signed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The text with its manifest, or the original text if the manifest is a sidecar.
    pub text: String,
    /// The manifest store.
    pub manifest: Vec<u8>,
}

/// Signs a text.
///
/// # Errors
/// [`C2paError`] if the text is too long or already signed, or if the library does not sign.
pub fn sign(text: &str, placement: Placement, credentials: &Credentials, claim: &Claim) -> Result<Signed, C2paError> {
    if text.len() > MAX_TEXT {
        return Err(C2paError::LongText { bytes: text.len() });
    }
    if !matches!(locate(text), Err(Unlocated::Absent)) {
        return Err(C2paError::Signed);
    }
    let room = room(credentials, claim)?;
    let mut tries = 3;
    loop {
        let stamp = stamp_room(credentials)?;
        tries -= 1;
        match signed(text, placement, credentials, claim, room + stamp) {
            // The time stamp was longer than those before it.
            Err(C2paError::Sign(error))
                if matches!(*error, c2pa::Error::CoseSigboxTooSmall)
                    && tries > 0
                    && stamp_room(credentials)? > stamp => {}
            done => return done,
        }
    }
}

/// Signs a text with `room` for everything around the signature and its certificates.
fn signed(
    text: &str,
    placement: Placement,
    credentials: &Credentials,
    claim: &Claim,
    room: usize,
) -> Result<Signed, C2paError> {
    let store = |excluded, hash| store(credentials, room, false, claim, excluded, hash);
    if placement == Placement::Sidecar {
        let manifest = store(None, RustCrypto.digest(Algorithm::Sha256, text.as_bytes()))?;
        return Ok(Signed { text: text.to_owned(), manifest });
    }
    // The manifest's position and length are signed too, so its length must be known first.
    let kept = self::store(credentials, room, true, claim, Some((0, 0)), vec![0; 32])?.len();
    if kept > MAX_MANIFEST {
        return Err(C2paError::LongManifest { bytes: kept });
    }
    let (start, length, hash) = binding(&framed(text, placement, &vec![0; kept])?, placement)?;
    let manifest = store(Some((start, length)), hash)?;
    if manifest.len() != kept {
        return Err(C2paError::Length { bytes: manifest.len(), kept });
    }
    Ok(Signed { text: framed(text, placement, &manifest)?, manifest })
}

/// Finds the room that a signature needs in addition to itself, its certificates and its time stamp. Excess room is
/// padding, each byte of which takes three or four in a text.
fn room(credentials: &Credentials, claim: &Claim) -> Result<usize, C2paError> {
    let mut room = 64;
    loop {
        match store(credentials, room, true, claim, None, vec![0; 32]) {
            Err(C2paError::Sign(error)) if matches!(*error, c2pa::Error::CoseSigboxTooSmall) && room < 8192 => {
                room += 64;
            }
            done => return done.map(|_| room),
        }
    }
}

/// Returns the room for a time stamp.
fn stamp_room(credentials: &Credentials) -> Result<usize, C2paError> {
    credentials.authority().map_or(Ok(0), |authority| Ok(authority.token_size()? + STAMP_FRAME))
}

/// Returns a manifest store with this hard binding, which is signed unless it is a trial: then it only has the length
/// of a signed one, without its time stamp. Nothing but a time stamp comes from a network, and the library verifies the
/// result.
fn store(
    credentials: &Credentials,
    room: usize,
    is_trial: bool,
    claim: &Claim,
    excluded: Option<(usize, usize)>,
    hash: Vec<u8>,
) -> Result<Vec<u8>, C2paError> {
    let settings = json!({
        "version": 1,
        "verify": { "verify_after_sign": !is_trial, "remote_manifest_fetch": false, "ocsp_fetch": false },
        "builder": { "thumbnail": { "enabled": false } },
    });
    let attempt = credentials.attempt(room, is_trial);
    let fault = attempt.fault();
    let context = Context::new().with_settings(settings)?.with_signer(attempt).into_shared();
    let mut binding = DataHash::new("jumbf manifest", "sha256");
    if let Some((start, length)) = excluded {
        binding.add_exclusion(HashRange::new(start as u64, length as u64));
    }
    binding.set_hash(hash);
    binding.pad_to_size(BINDING)?;
    let mut builder = Builder::from_shared_context(&context).with_definition(claim.definition())?;
    builder.add_assertion(DataHash::LABEL, &binding)?;
    let signed = builder.sign_embeddable("application/c2pa");
    match fault.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(fault) => Err(fault),
        None => Ok(signed?),
    }
}

/// Returns the text with a manifest.
fn framed(text: &str, placement: Placement, manifest: &[u8]) -> Result<String, C2paError> {
    let too_long = |_| C2paError::LongManifest { bytes: manifest.len() };
    Ok(match placement {
        Placement::Sidecar => text.to_owned(),
        // Padded, since otherwise the length depends on the values of the bytes.
        Placement::Text => format!("{text}{}", wrapper::encode_padded(manifest).map_err(too_long)?),
        Placement::Structured(Comments { begin, end, front_matter }) => {
            let fence = ["---", "+++"].into_iter().find(|fence| text.starts_with(&format!("{fence}\n")));
            let manifest = ManifestRef::Embedded(manifest);
            match fence.filter(|_| front_matter) {
                Some(fence) => embed_front_matter(text, manifest, fence),
                // The format requires this first line.
                None if text.starts_with("#!") || text.starts_with("<?") => {
                    embed_manifest_at_end(text, manifest, begin, end)
                }
                None => embed_manifest(text, manifest, begin, end),
            }
        }
    })
}

/// Returns the start and length of the manifest in a text, and the hash of the rest.
fn binding(framed: &str, placement: Placement) -> Result<(usize, usize, Vec<u8>), C2paError> {
    if let Placement::Text = placement {
        let found = wrapper::extract(framed).map_err(|_| C2paError::Signed)?;
        let rest = UnicodeNfc.nfc(&framed[..found.start]);
        return Ok((found.start, found.length, RustCrypto.digest(Algorithm::Sha256, rest.as_bytes())));
    }
    let computed = compute_data_hash(framed, Sha::Sha256).map_err(|error| match error {
        c2pa_structured_text::Error::BareCarriageReturn => C2paError::BareReturn,
        _ => C2paError::Signed,
    })?;
    let excluded = computed.exclusions[0];
    Ok((excluded.start, excluded.length, computed.hash))
}
