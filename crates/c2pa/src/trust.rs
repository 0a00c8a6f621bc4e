//! The roots that a reader trusts.

use c2pa::crypto::cose::CertificateTrustPolicy;
use x509_parser::pem::Pem;

use crate::error::C2paError;

/// Trusted roots.
#[derive(Clone, Debug)]
pub struct Anchors(String);

impl Anchors {
    /// Reads concatenated certificates in PEM.
    ///
    /// # Errors
    /// [`C2paError::Anchors`] if there is none, or one is damaged.
    pub fn new(pem: &[u8]) -> Result<Self, C2paError> {
        let text = std::str::from_utf8(pem).map_err(|_| C2paError::Anchors)?;
        let read = Pem::iter_from_buffer(pem).map(|one| one.ok().filter(|one| one.parse_x509().is_ok()).map(drop));
        match read.collect::<Option<Vec<()>>>() {
            Some(read) if !read.is_empty() => Ok(Self(text.to_owned())),
            _ => Err(C2paError::Anchors),
        }
    }
}

/// The roots that a reader trusts.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// The roots of signers and of time-stamping authorities.
    pub anchors: Option<Anchors>,
    /// Further roots, of time-stamping authorities only.
    pub timestamps: Option<Anchors>,
}

impl Trust {
    /// All roots together, as the library takes them: it does not distinguish those of signers.
    pub(crate) fn all(&self) -> Option<String> {
        let all: Vec<&str> = [&self.anchors, &self.timestamps].into_iter().flatten().map(|all| &*all.0).collect();
        (!all.is_empty()).then(|| all.join("\n"))
    }

    /// Whether a chain of certificates in PEM, the signer's own first, leads to a root of signers, and if there is a
    /// `time` in seconds since 1970, was valid then.
    pub(crate) fn is_signer(&self, chain: &str, time: Option<i64>) -> bool {
        let Some(anchors) = &self.anchors else { return false };
        let chain = Pem::iter_from_buffer(chain.as_bytes()).map(|pem| pem.map(|pem| pem.contents));
        let Ok(chain) = chain.collect::<Result<Vec<_>, _>>() else { return false };
        let mut policy = CertificateTrustPolicy::default();
        policy.add_user_trust_anchors(anchors.0.as_bytes()).is_ok()
            && chain.first().is_some_and(|own| policy.check_certificate_trust(&chain, own, time).is_ok())
    }
}
