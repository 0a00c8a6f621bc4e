//! What can go wrong when a text is signed. Faults in a manifest that is judged are no errors: they are its verdict.

/// Why something could not be signed or read. Each message is one line that names the cause and the cure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum C2paError {
    /// A form that there is not.
    #[error(
        "{name:?} is no place for a manifest: text, sidecar, or a format with comments such as md, py, rs, css or \
         jsonc; JSON, CSV and HTML take a sidecar"
    )]
    Form {
        /// The name.
        name: String,
    },
    /// A text that is too long.
    #[error("the text has {bytes} bytes, and {} are the most: sign it in parts", crate::form::MAX_TEXT)]
    LongText {
        /// Its length.
        bytes: usize,
    },
    /// A manifest that is too long.
    #[error("the manifest has {bytes} bytes, and {} are the most", crate::form::MAX_MANIFEST)]
    LongManifest {
        /// Its length.
        bytes: usize,
    },
    /// A text that has a manifest already, which a second one would make invalid.
    #[error("the text has a manifest already: sign the text as it was before")]
    Signed,
    /// A text that no reader of manifests takes.
    #[error("the text has bare carriage returns, which structured text may not have: write \\n, or use a sidecar")]
    BareReturn,
    /// The certificate is none.
    #[error("the certificate {0}: give a chain in PEM, the signer's own certificate first")]
    Certificate(String),
    /// The key is none, or of another kind.
    #[error(
        "the private key {0}: give the certificate's own key in PEM, as PKCS#8 without a passphrase (`openssl pkcs8 \
         -topk8 -nocrypt` makes one of older forms)"
    )]
    PrivateKey(String),
    /// Certificate and key do not belong together.
    #[error("the private key is not the certificate's: give the pair that was made together")]
    Pair,
    /// The trust anchors are none.
    #[error("the trust anchors have no certificate in PEM: give the roots that you trust, one after the other")]
    Anchors,
    /// A name that a certificate cannot have.
    #[error("{name:?} is no name for a certificate: 1 to 64 letters, digits and signs")]
    Name {
        /// The name.
        name: String,
    },
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Make(String),
    /// The library could not sign.
    #[error("cannot sign: {0}")]
    Sign(#[source] Box<c2pa::Error>),
    /// The certificate is one that may not sign.
    #[error(
        "the certificate may not sign C2PA claims ({0}): it must hold now, be signed by another, and be meant for \
         digital signatures and for emailProtection, documentSigning or claim signing"
    )]
    MayNotSign(String),
    /// A manifest came out longer than the place that was kept for it.
    #[error("the manifest has {bytes} bytes and not the {kept} that were kept for it: please report this")]
    Length {
        /// Its length.
        bytes: usize,
        /// What was expected.
        kept: usize,
    },
}

impl From<c2pa::Error> for C2paError {
    fn from(error: c2pa::Error) -> Self {
        match error {
            c2pa::Error::CertificateProfileError(why) => Self::MayNotSign(why.to_string()),
            error => Self::Sign(Box::new(error)),
        }
    }
}
