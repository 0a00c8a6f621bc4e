//! A certificate, the key or command that signs for it, and the authority that states the time.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use c2pa::crypto::raw_signature::validator_for_signing_alg;
use c2pa::{BoxedSigner, Signer, SigningAlg};
use x509_parser::oid_registry::{
    OID_EC_P256, OID_KEY_TYPE_EC_PUBLIC_KEY, OID_NIST_EC_P384, OID_NIST_EC_P521, OID_PKCS1_RSAENCRYPTION,
    OID_PKCS1_RSASSAPSS, OID_SIG_ED25519,
};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::public_key::RSAPublicKey;

use crate::authority::TimeAuthority;
use crate::command::SignCommand;
use crate::error::C2paError;

/// A signer: a chain of certificates, and the key of the first of them or a command that uses it.
#[derive(Clone)]
pub struct Credentials {
    algorithm: SigningAlg,
    /// The certificates, the signer's own first.
    chain: Arc<[Vec<u8>]>,
    /// The public key of the signer's certificate.
    public_key: Arc<[u8]>,
    /// The size of a signature in bytes.
    signature: usize,
    hand: Hand,
    authority: Option<Arc<TimeAuthority>>,
}

/// The part that signs bytes.
#[derive(Clone)]
enum Hand {
    Key(Arc<BoxedSigner>),
    Command(SignCommand),
}

/// Hides the key.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Reads a chain of certificates in PEM, the signer's own first, and its key as PKCS#8 in PEM.
    ///
    /// # Errors
    /// [`C2paError::Certificate`] and [`C2paError::PrivateKey`] if they cannot be used, and [`C2paError::Pair`] if they
    /// do not belong together.
    pub fn new(certificates: &[u8], private_key: &[u8]) -> Result<Self, C2paError> {
        let of_key = |algorithm: SigningAlg| {
            // Only looked at, since a decoded copy would stay in memory.
            const BEGIN: &[u8] = b"-----BEGIN ";
            let begin = private_key.windows(BEGIN.len()).position(|bytes| bytes == BEGIN);
            let label = begin.map(|at| &private_key[at + BEGIN.len()..]);
            if !label.is_some_and(|label| label.starts_with(b"PRIVATE KEY-----")) {
                return Err(C2paError::PrivateKey("is not PEM that begins with BEGIN PRIVATE KEY".into()));
            }
            let signer = c2pa::create_signer::from_keys(certificates, private_key, algorithm, None)
                .map_err(|_| C2paError::PrivateKey(format!("is not for {algorithm}, as the certificate is")))?;
            Ok(Hand::Key(Arc::new(signer)))
        };
        let this = Self::of(certificates, of_key)?;
        this.signature(b"a key that signs this fits the certificate that checks it")?;
        Ok(this)
    }

    /// Reads a chain of certificates in PEM, the signer's own first, for which a command signs. The command is not run
    /// yet.
    ///
    /// # Errors
    /// [`C2paError::Certificate`] if the chain cannot be used.
    pub fn with_command(certificates: &[u8], command: SignCommand) -> Result<Self, C2paError> {
        Self::of(certificates, |_| Ok(Hand::Command(command)))
    }

    fn of(certificates: &[u8], hand: impl FnOnce(SigningAlg) -> Result<Hand, C2paError>) -> Result<Self, C2paError> {
        let bad = |why: &str| C2paError::Certificate(why.into());
        let chain: Result<Vec<Pem>, _> = Pem::iter_from_buffer(certificates).collect();
        let chain = chain.map_err(|_| bad("is not PEM"))?;
        let Some(own) = chain.first() else { return Err(bad("is empty or not PEM")) };
        if let Some(other) = chain.iter().find(|pem| pem.label != "CERTIFICATE") {
            return Err(C2paError::Certificate(format!("is a {}", shown(&other.label))));
        }
        let parsed = own.parse_x509().map_err(|_| bad("cannot be read"))?;
        let algorithm = algorithm(&parsed)?;
        // The library treats a certificate without an organisation as missing.
        if parsed.subject().iter_organization().next().is_none() {
            return Err(bad("names no organisation (O), which signers must have"));
        }
        Ok(Self {
            algorithm,
            public_key: parsed.public_key().raw.into(),
            signature: signature_size(algorithm, &parsed).ok_or_else(|| bad("has a key that cannot be read"))?,
            hand: hand(algorithm)?,
            chain: chain.iter().map(|pem| pem.contents.clone()).collect(),
            authority: None,
        })
    }

    /// Has an authority stamp each signature with the time.
    pub fn timestamped(self, authority: TimeAuthority) -> Self {
        Self { authority: Some(Arc::new(authority)), ..self }
    }

    /// The authority that stamps signatures.
    pub fn authority(&self) -> Option<&TimeAuthority> {
        self.authority.as_deref()
    }

    /// Signs bytes, and checks the result with the certificate.
    fn signature(&self, message: &[u8]) -> Result<Vec<u8>, C2paError> {
        let signature = match &self.hand {
            Hand::Key(key) => {
                key.sign(message).map_err(|error| C2paError::PrivateKey(format!("does not sign: {error}")))?
            }
            Hand::Command(command) => command.sign(message)?,
        };
        let is_right = validator_for_signing_alg(self.algorithm)
            .is_some_and(|validator| validator.validate(&signature, message, &self.public_key).is_ok());
        match (&self.hand, is_right) {
            (_, true) => Ok(signature),
            (Hand::Key(_), false) => Err(C2paError::Pair),
            (Hand::Command(_), false) => Err(C2paError::Command(format!(
                "wrote {} bytes that are not a signature of its input with the certificate's key as {} makes them",
                signature.len(),
                self.algorithm
            ))),
        }
    }

    /// Returns a signer with `room` bytes in addition to signature and certificates.
    pub(crate) fn attempt(&self, room: usize, is_trial: bool) -> Attempt {
        let size = self.signature + self.chain.iter().map(Vec::len).sum::<usize>() + room;
        Attempt { credentials: self.clone(), size, is_trial, fault: Arc::default() }
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

/// Returns the size of signatures in bytes; for RSA that of the modulus.
fn signature_size(algorithm: SigningAlg, certificate: &X509Certificate<'_>) -> Option<usize> {
    match algorithm {
        SigningAlg::Es256 | SigningAlg::Ed25519 => Some(64),
        SigningAlg::Es384 => Some(96),
        SigningAlg::Es512 => Some(132),
        _ => {
            let (_, key) = RSAPublicKey::from_der(&certificate.public_key().subject_public_key.data).ok()?;
            let zeros = key.modulus.iter().take_while(|byte| **byte == 0).count();
            Some(key.modulus.len() - zeros)
        }
    }
}

/// A label without control characters, which could disturb a terminal.
fn shown(label: &str) -> String {
    label.chars().filter(|c| !c.is_control()).take(40).collect()
}

/// The signer of one manifest. It reserves as little room as it can: as invisible characters ten thousand bytes of room
/// are thirty thousand bytes of text.
pub(crate) struct Attempt {
    credentials: Credentials,
    /// The size of a signature with everything around it in bytes.
    size: usize,
    /// Whether only the length of the manifest is wanted: then nothing is signed, and no time stamp is requested.
    is_trial: bool,
    /// The reason for a failure, which the library only passes on as text.
    fault: Arc<Mutex<Option<C2paError>>>,
}

impl Attempt {
    /// The reason why this signer failed, once it has.
    pub(crate) fn fault(&self) -> Arc<Mutex<Option<C2paError>>> {
        self.fault.clone()
    }

    fn noted<T>(&self, result: Result<T, C2paError>) -> c2pa::Result<T> {
        result.map_err(|error| {
            let said = c2pa::Error::OtherError(error.to_string().into());
            *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            said
        })
    }
}

impl Signer for Attempt {
    fn sign(&self, data: &[u8]) -> c2pa::Result<Vec<u8>> {
        match self.is_trial {
            true => Ok(vec![0; self.credentials.signature]),
            false => self.noted(self.credentials.signature(data)),
        }
    }

    fn alg(&self) -> SigningAlg {
        self.credentials.algorithm
    }

    fn certs(&self) -> c2pa::Result<Vec<Vec<u8>>> {
        Ok(self.credentials.chain.to_vec())
    }

    fn reserve_size(&self) -> usize {
        self.size
    }

    fn send_timestamp_request(&self, message: &[u8]) -> Option<c2pa::Result<Vec<u8>>> {
        let authority = self.credentials.authority().filter(|_| !self.is_trial)?;
        Some(self.noted(authority.stamp(message)))
    }
}
