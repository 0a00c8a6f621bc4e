//! Certificates of all kinds, made for each test.

use p256::pkcs8::{EncodePrivateKey as _, LineEnding};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256, PublicKeyData,
    SerialNumber, SignatureAlgorithm, SigningKey,
};
use time::{Duration, OffsetDateTime};

type Sign = Box<dyn Fn(&[u8]) -> Vec<u8>>;

/// A key of one of the supported kinds.
pub struct Pair {
    public: Vec<u8>,
    algorithm: &'static SignatureAlgorithm,
    sign: Sign,
    pub pem: String,
}

impl Pair {
    pub fn p256(seed: u8) -> Self {
        use p256::ecdsa::signature::Signer as _;

        let secret = p256::SecretKey::from_slice(&[seed; 32]).unwrap();
        let key = p256::ecdsa::SigningKey::from(&secret);
        Self {
            public: key.verifying_key().to_encoded_point(false).as_bytes().to_vec(),
            algorithm: &PKCS_ECDSA_P256_SHA256,
            sign: Box::new(move |message| {
                let signature: p256::ecdsa::DerSignature = key.sign(message);
                signature.as_bytes().to_vec()
            }),
            pem: secret.to_pkcs8_pem(LineEnding::LF).unwrap().to_string(),
        }
    }

    pub fn p384(seed: u8) -> Self {
        use p384::ecdsa::signature::Signer as _;

        let secret = p384::SecretKey::from_slice(&[seed; 48]).unwrap();
        let key = p384::ecdsa::SigningKey::from(&secret);
        Self {
            public: key.verifying_key().to_encoded_point(false).as_bytes().to_vec(),
            algorithm: &PKCS_ECDSA_P384_SHA384,
            sign: Box::new(move |message| {
                let signature: p384::ecdsa::DerSignature = key.sign(message);
                signature.as_bytes().to_vec()
            }),
            pem: secret.to_pkcs8_pem(LineEnding::LF).unwrap().to_string(),
        }
    }

    pub fn rsa() -> Self {
        use rsa::pkcs1::EncodeRsaPublicKey as _;
        use rsa::signature::{SignatureEncoding as _, Signer as _};

        let secret = rsa::RsaPrivateKey::new(&mut rsa::rand_core::OsRng, 2048).unwrap();
        let pem = secret.to_pkcs8_pem(LineEnding::LF).unwrap().to_string();
        let public = secret.to_public_key().to_pkcs1_der().unwrap().into_vec();
        let key = rsa::pkcs1v15::SigningKey::<rsa::sha2::Sha256>::new(secret);
        let sign = Box::new(move |message: &[u8]| key.sign(message).to_vec());
        Self { public, algorithm: &PKCS_RSA_SHA256, sign, pem }
    }

    pub fn ed25519(seed: u8) -> Self {
        use ed25519_dalek::Signer as _;

        let key = ed25519_dalek::SigningKey::from_bytes(&[seed; 32]);
        let pem = key.to_pkcs8_pem(LineEnding::LF).unwrap().to_string();
        Self {
            public: key.verifying_key().as_bytes().to_vec(),
            algorithm: &PKCS_ED25519,
            sign: Box::new(move |message| key.sign(message).to_bytes().to_vec()),
            pem,
        }
    }
}

impl PublicKeyData for Pair {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

impl SigningKey for Pair {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok((self.sign)(message))
    }
}

fn params(name: &str, serial: u64, key: &Pair) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.distinguished_name.push(DnType::OrganizationName, "Tests");
    params.serial_number = Some(SerialNumber::from(serial));
    params.key_identifier_method = KeyIdMethod::PreSpecified(key.public[1..21].to_vec());
    params.not_before = OffsetDateTime::now_utc() - Duration::days(2);
    params.not_after = OffsetDateTime::now_utc() + Duration::days(2);
    params
}

/// A certificate for a key and its root, in PEM; `change` modifies its parameters.
pub fn chain(key: &Pair, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
    chain_under(99, key, change)
}

/// The same under the root whose key has this seed.
pub fn chain_under(seed: u8, key: &Pair, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
    let root_key = Pair::p256(seed);
    let mut root = params(&format!("Root {seed}"), 1, &root_key);
    root.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    root.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let root_pem = root.self_signed(&root_key).unwrap().pem();
    let mut own = params("Grace", 2, key);
    own.is_ca = IsCa::ExplicitNoCa;
    own.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    own.extended_key_usages = vec![ExtendedKeyUsagePurpose::EmailProtection];
    own.use_authority_key_identifier_extension = true;
    change(&mut own);
    let own = own.signed_by(key, &Issuer::from_params(&root, &root_key)).unwrap().pem();
    (format!("{own}{root_pem}"), root_pem)
}
