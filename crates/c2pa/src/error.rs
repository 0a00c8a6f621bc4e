//! Errors of signing a text. Faults of a manifest that is judged are not errors but its verdict.

/// The reason why something could not be signed or read. Each message is one line with the cause and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum C2paError {
    /// An unknown location for a manifest.
    #[error(
        "{name:?} is not a location for a manifest: give text, sidecar, or a format with comments such as md, py, rs, \
         css or jsonc; JSON, CSV and HTML take a sidecar"
    )]
    Placement {
        /// The name.
        name: String,
    },
    /// The text is too long.
    #[error("the text has {bytes} bytes, but at most {} are allowed: sign it in parts", crate::limits::MAX_TEXT)]
    LongText {
        /// Its length.
        bytes: usize,
    },
    /// The manifest is too long.
    #[error("the manifest has {bytes} bytes, but at most {} are allowed", crate::limits::MAX_MANIFEST)]
    LongManifest {
        /// Its length.
        bytes: usize,
    },
    /// The text already has a manifest, which a second one would make invalid.
    #[error("the text has a manifest already: sign the text without it")]
    Signed,
    /// The text would be rejected by readers of manifests.
    #[error("the text has bare carriage returns, which structured text may not have: write \\n, or use a sidecar")]
    BareReturn,
    /// The certificate cannot be used.
    #[error("the certificate {0}: give a chain in PEM, the signer's own certificate first")]
    Certificate(String),
    /// The key cannot be used, or is of another kind.
    #[error(
        "the private key {0}: give the certificate's own key in PEM, as PKCS#8 without a passphrase (`openssl pkcs8 \
         -topk8 -nocrypt` converts older formats)"
    )]
    PrivateKey(String),
    /// Certificate and key do not belong together.
    #[error("the private key is not the certificate's: give the pair that was made together")]
    Pair,
    /// The command that signs failed.
    #[error("the signing command {0}: it must write the raw signature of its standard input to standard output")]
    Command(String),
    /// The address of a time-stamping authority cannot be used.
    #[error("{url} {why}: give the address of a time-stamping authority, such as http://tsa.example.com/tsr")]
    AuthorityUrl {
        /// The address.
        url: String,
        /// The fault.
        why: &'static str,
    },
    /// A time-stamping authority gave no time stamp.
    #[error("no time stamp from {url}: {why}; try again later, or use another authority")]
    Authority {
        /// The address.
        url: String,
        /// The reason.
        why: String,
    },
    /// The trust anchors cannot be read.
    #[error("the trust anchors have no certificate in PEM: give the roots that you trust, one after the other")]
    Anchors,
    /// The name cannot be used in a certificate.
    #[error("{name:?} cannot be the name in a certificate: give 1 to 64 letters, digits and signs")]
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
    /// The certificate is not allowed to sign.
    #[error(
        "the certificate may not sign C2PA claims ({0}): it must be valid now, be signed by another, and be meant for \
         digital signatures and for emailProtection, documentSigning or claim signing"
    )]
    MayNotSign(String),
    /// The manifest does not have the length that was reserved for it.
    #[error("the manifest has {bytes} bytes and not the {kept} that were reserved for it: please report this")]
    Length {
        /// Its length.
        bytes: usize,
        /// The reserved length.
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

/// Joins a text into one line, without control characters.
pub(crate) fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().filter(|c| !c.is_control()).collect()
}
