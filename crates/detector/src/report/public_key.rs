//! Public keys that verify reports: PEM, JWK and JWK sets, and their thumbprints.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use data_encoding::BASE64URL_NOPAD;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePublicKey, EncodePublicKey};
use ed25519_dalek::{Signature, VerifyingKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::error::{BadReportKey, ReportKeyError};

/// The longest file of public keys.
const MAX_FILE: u64 = 64 << 10;

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    pub(super) fn new(key: VerifyingKey) -> Result<Self, BadReportKey> {
        if key.is_weak() { Err(BadReportKey::Weak) } else { Ok(Self(key)) }
    }

    /// The coordinate of the key, in base64url.
    fn x(&self) -> String {
        BASE64URL_NOPAD.encode(self.0.as_bytes())
    }

    /// The thumbprint (RFC 7638), which reports name as `kid`.
    pub fn thumbprint(&self) -> String {
        // The required members in alphabetical order, without white space: RFC 8037, appendix A.3.
        let members = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, self.x());
        BASE64URL_NOPAD.encode(&Sha256::digest(members))
    }

    /// The key as a JWK (RFC 8037).
    pub fn jwk(&self) -> Value {
        json!({"kty": "OKP", "crv": "Ed25519", "x": self.x(), "kid": self.thumbprint(), "alg": "EdDSA", "use": "sig"})
    }

    /// The key as PEM (`BEGIN PUBLIC KEY`).
    pub fn pem(&self) -> String {
        self.0.to_public_key_pem(LineEnding::LF).expect("a public key of 32 bytes is encoded")
    }

    fn of_pem(pem: &str) -> Result<Self, BadReportKey> {
        Self::new(VerifyingKey::from_public_key_pem(pem.trim()).map_err(|_| BadReportKey::NotPublic)?)
    }

    /// A key from a JWK; `None` for a JWK of another kind.
    fn of_jwk(jwk: &Value) -> Option<Result<Self, BadReportKey>> {
        if (jwk["kty"].as_str(), jwk["crv"].as_str()) != (Some("OKP"), Some("Ed25519")) {
            return None;
        }
        let x = jwk["x"].as_str().and_then(|x| BASE64URL_NOPAD.decode(x.as_bytes()).ok());
        let x = x.and_then(|x| <[u8; 32]>::try_from(x).ok());
        let key = x.and_then(|x| VerifyingKey::from_bytes(&x).ok());
        Some(key.ok_or(BadReportKey::NotPublic).and_then(Self::new))
    }

    /// Whether a signature of this key is valid. Signatures that other libraries may judge differently are not.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        self.0.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }
}

/// Public keys, one of which a report must be signed with.
#[derive(Clone, Debug)]
pub struct PublicKeys(Vec<PublicKey>);

impl PublicKeys {
    /// Reads a file: one key as PEM or JWK, or a JWK set, such as a server publishes. Keys of other kinds in a set are
    /// ignored.
    ///
    /// # Errors
    /// [`ReportKeyError::Read`] and [`ReportKeyError::Bad`].
    pub fn load(path: &Path) -> Result<Self, ReportKeyError> {
        let read = |source| ReportKeyError::Read { path: path.into(), source };
        let mut bytes = Vec::new();
        File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes)).map_err(read)?;
        Self::parse(&bytes).map_err(|fault| ReportKeyError::Bad { path: path.into(), fault })
    }

    /// Parses the contents of such a file.
    ///
    /// # Errors
    /// [`BadReportKey`].
    pub fn parse(bytes: &[u8]) -> Result<Self, BadReportKey> {
        if bytes.len() as u64 > MAX_FILE {
            return Err(BadReportKey::Long);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| BadReportKey::NotPublic)?;
        if text.contains("PRIVATE KEY-----") {
            return Err(BadReportKey::Private);
        }
        let Ok(json) = serde_json::from_str::<Value>(text) else { return Ok(Self(vec![PublicKey::of_pem(text)?])) };
        let keys = match json["keys"].as_array() {
            Some(keys) => keys.iter().filter_map(PublicKey::of_jwk).collect::<Result<Vec<_>, _>>()?,
            None => PublicKey::of_jwk(&json).into_iter().collect::<Result<_, _>>()?,
        };
        if keys.is_empty() { Err(BadReportKey::NotPublic) } else { Ok(Self(keys)) }
    }

    /// The keys as a JWK set.
    pub fn jwks(&self) -> Value {
        json!({"keys": self.0.iter().map(PublicKey::jwk).collect::<Vec<_>>()})
    }

    /// The key with a thumbprint.
    pub(super) fn named(&self, thumbprint: &str) -> Option<&PublicKey> {
        self.0.iter().find(|key| key.thumbprint() == thumbprint)
    }

    /// The thumbprints, separated by commas.
    pub(super) fn thumbprints(&self) -> String {
        self.0.iter().map(PublicKey::thumbprint).collect::<Vec<_>>().join(", ")
    }
}

impl From<PublicKey> for PublicKeys {
    fn from(key: PublicKey) -> Self {
        Self(vec![key])
    }
}
