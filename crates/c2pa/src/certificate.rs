//! An untrusted certificate for trying it out.
//!
//! The specification does not allow a self-signed certificate to sign, so there are two: a root, whose key is discarded
//! once it has signed the other.

use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{DerSignature, SigningKey};
use p256::pkcs8::{EncodePrivateKey as _, LineEnding};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SerialNumber, SignatureAlgorithm,
};
use time::{Duration, OffsetDateTime};
use zeroize::Zeroizing;

use crate::error::C2paError;

/// The validity in days.
const DAYS: i64 = 365;

/// An untrusted certificate for trying it out.
pub struct Development {
    /// The certificate and its root, in PEM.
    pub chain: String,
    /// The root alone, to try out a trusted signer.
    pub root: String,
    /// The key, in PEM.
    pub private_key: Zeroizing<String>,
}

impl Development {
    /// Creates a certificate with this name.
    ///
    /// # Errors
    /// [`C2paError::Name`] for a name that certificates cannot have, and [`C2paError::Make`] if none could be made.
    pub fn new(name: &str) -> Result<Self, C2paError> {
        if name.trim().is_empty() || name.chars().count() > 64 || name.chars().any(char::is_control) {
            return Err(C2paError::Name { name: name.to_owned() });
        }
        let cannot = |error: &dyn std::fmt::Display| C2paError::Make(error.to_string());
        let (root_key, own_key) = (Pair::new()?, Pair::new()?);

        let mut root = params(&format!("{name}, root"), &root_key)?;
        root.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        root.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let root_certificate = root.self_signed(&root_key).map_err(|error| cannot(&error))?;

        let mut own = params(name, &own_key)?;
        own.is_ca = IsCa::ExplicitNoCa;
        own.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        own.extended_key_usages = vec![ExtendedKeyUsagePurpose::EmailProtection];
        own.use_authority_key_identifier_extension = true;
        let issuer = Issuer::from_params(&root, &root_key);
        let certificate = own.signed_by(&own_key, &issuer).map_err(|error| cannot(&error))?;

        let private_key = own_key.secret.to_pkcs8_pem(LineEnding::LF).map_err(|error| cannot(&error))?;
        let root = root_certificate.pem();
        Ok(Self { chain: format!("{}{root}", certificate.pem()), root, private_key })
    }
}

fn params(name: &str, key: &Pair) -> Result<CertificateParams, C2paError> {
    let mut params = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    subject.push(DnType::OrganizationName, "Verdigris development, not trusted");
    params.distinguished_name = subject;
    params.serial_number = Some(SerialNumber::from(random::<16>()?.to_vec()));
    params.key_identifier_method = KeyIdMethod::PreSpecified(key.public[1..21].to_vec());
    // The certificate must be valid on machines whose clocks are slow, too.
    let now = OffsetDateTime::now_utc();
    params.not_before = now - Duration::days(1);
    params.not_after = now + Duration::days(DAYS);
    Ok(params)
}

fn random<const N: usize>() -> Result<[u8; N], C2paError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| C2paError::Make(format!("no random numbers: {error}")))?;
    // A serial number is above 0.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(bytes)
}

/// A P-256 key, which is zeroized when dropped.
struct Pair {
    secret: p256::SecretKey,
    signing: SigningKey,
    /// The point, uncompressed.
    public: Vec<u8>,
}

impl Pair {
    fn new() -> Result<Self, C2paError> {
        loop {
            let mut bytes = Zeroizing::new([0; 32]);
            getrandom::fill(&mut *bytes).map_err(|error| C2paError::Make(format!("no random numbers: {error}")))?;
            // All but one in 2^32 are below the order of the curve.
            if let Ok(secret) = p256::SecretKey::from_slice(&*bytes) {
                let signing = SigningKey::from(&secret);
                let public = signing.verifying_key().to_encoded_point(false).as_bytes().to_vec();
                return Ok(Self { secret, signing, public });
            }
        }
    }
}

impl PublicKeyData for Pair {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl rcgen::SigningKey for Pair {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let signature: DerSignature = self.signing.sign(message);
        Ok(signature.as_bytes().to_vec())
    }
}
