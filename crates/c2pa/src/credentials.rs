//! A certificate and its matching key.

use std::fmt;
use std::sync::Arc;

use c2pa::crypto::raw_signature::validator_for_signing_alg;
use c2pa::{BoxedSigner, Signer, SigningAlg};
use x509_parser::oid_registry::{
    OID_EC_P256, OID_KEY_TYPE_EC_PUBLIC_KEY, OID_NIST_EC_P384, OID_NIST_EC_P521, OID_PKCS1_RSAENCRYPTION,
    OID_PKCS1_RSASSAPSS, OID_SIG_ED25519,
};
use x509_parser::pem::Pem;
use x509_parser::prelude::X509Certificate;

use crate::error::C2paError;

/// A signer: a chain of certificates and the key of the first of them.
#[derive(Clone)]
pub struct Credentials {
    signer: Arc<BoxedSigner>,
    /// The size of a signature and its certificates in bytes.
    size: usize,
}

/// Hides the key.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("algorithm", &self.signer.alg()).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Reads a chain of certificates in PEM, the signer's own first, and its key as PKCS#8 in PEM.
    ///
    /// # Errors
    /// [`C2paError::Certificate`] and [`C2paError::PrivateKey`] if they cannot be used, and [`C2paError::Pair`] if they
    /// do not belong together.
    pub fn new(certificates: &[u8], private_key: &[u8]) -> Result<Self, C2paError> {
        let own = Pem::iter_from_buffer(certificates).next();
        let own = own.ok_or_else(|| C2paError::Certificate("is empty or not PEM".into()))?;
        let own = own.map_err(|_| C2paError::Certificate("is not PEM".into()))?;
        if own.label != "CERTIFICATE" {
            return Err(C2paError::Certificate(format!("is a {}", shown(&own.label))));
        }
        let parsed = own.parse_x509().map_err(|_| C2paError::Certificate("cannot be read".into()))?;
        let algorithm = algorithm(&parsed)?;
        // The library treats a certificate without an organisation as missing.
        if parsed.subject().iter_organization().next().is_none() {
            return Err(C2paError::Certificate("names no organisation (O), which signers must have".into()));
        }
        if !Pem::iter_from_buffer(private_key).next().is_some_and(|pem| pem.is_ok_and(|pem| pem.label == "PRIVATE KEY"))
        {
            return Err(C2paError::PrivateKey("is not PEM that begins with BEGIN PRIVATE KEY".into()));
        }
        let signer = c2pa::create_signer::from_keys(certificates, private_key, algorithm, None)
            .map_err(|_| C2paError::PrivateKey(format!("is not for {algorithm}, as the certificate is")))?;
        let probe = b"a key that signs this fits the certificate that checks it";
        let signature = signer.sign(probe).map_err(|error| C2paError::PrivateKey(format!("does not sign: {error}")))?;
        let fits = validator_for_signing_alg(algorithm)
            .is_some_and(|validator| validator.validate(&signature, probe, parsed.public_key().raw).is_ok());
        if !fits {
            return Err(C2paError::Pair);
        }
        let chain = signer.certs().map_err(|error| C2paError::Certificate(format!("has no chain: {error}")))?;
        let size = signature.len() + chain.iter().map(Vec::len).sum::<usize>();
        Ok(Self { signer: Arc::new(signer), size })
    }

    /// Returns a signer without a time authority, with `room` bytes in addition to signature and certificates.
    pub(crate) fn signer(&self, room: usize) -> Offline {
        Offline { signer: self.signer.clone(), size: self.size + room }
    }
}

/// Returns the signature algorithm of a certificate's key.
fn algorithm(certificate: &X509Certificate<'_>) -> Result<SigningAlg, C2paError> {
    let key = &certificate.public_key().algorithm;
    let curve = || key.parameters.as_ref().and_then(|curve| curve.as_oid().ok());
    let kind = &key.algorithm;
    let found = if *kind == OID_SIG_ED25519 {
        Some(SigningAlg::Ed25519)
    } else if *kind == OID_PKCS1_RSAENCRYPTION || *kind == OID_PKCS1_RSASSAPSS {
        Some(SigningAlg::Ps256)
    } else if *kind == OID_KEY_TYPE_EC_PUBLIC_KEY {
        match curve() {
            Some(curve) if curve == OID_EC_P256 => Some(SigningAlg::Es256),
            Some(curve) if curve == OID_NIST_EC_P384 => Some(SigningAlg::Es384),
            Some(curve) if curve == OID_NIST_EC_P521 => Some(SigningAlg::Es512),
            _ => None,
        }
    } else {
        None
    };
    found.ok_or_else(|| {
        C2paError::Certificate("has a key that C2PA does not support (P-256, P-384, P-521, Ed25519 and RSA are)".into())
    })
}

/// A label without control characters, which could disturb a terminal.
fn shown(label: &str) -> String {
    label.chars().filter(|c| !c.is_control()).take(40).collect()
}

/// A signer without a time authority, which needs no room for a timestamp: as invisible characters ten thousand bytes
/// of room are thirty thousand bytes of text.
pub(crate) struct Offline {
    signer: Arc<BoxedSigner>,
    /// The size of a signature with everything around it in bytes.
    size: usize,
}

impl Signer for Offline {
    fn sign(&self, data: &[u8]) -> c2pa::Result<Vec<u8>> {
        self.signer.sign(data)
    }

    fn alg(&self) -> SigningAlg {
        self.signer.alg()
    }

    fn certs(&self) -> c2pa::Result<Vec<Vec<u8>>> {
        self.signer.certs()
    }

    fn reserve_size(&self) -> usize {
        self.size
    }
}
