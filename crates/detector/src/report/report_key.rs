//! The private key that signs reports, and its file.

use std::fmt;
use std::io;
use std::path::Path;

use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, EncodePrivateKey, KeypairBytes};
use ed25519_dalek::{Signer, SigningKey};
use verdigris_watermark::secret_file::{self, SecretFile};
use zeroize::Zeroizing;

use super::error::{BadReportKey, ReportKeyError};
use super::public_key::PublicKey;

/// The longest file of a private key.
const MAX_FILE: u64 = 16 << 10;

/// The private key of a detector, for Ed25519. It is wiped from memory when it is dropped.
pub struct ReportKey(SigningKey);

/// Shows the public key's thumbprint only.
impl fmt::Debug for ReportKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReportKey").field(&self.public_key().thumbprint()).finish()
    }
}

impl ReportKey {
    /// Makes a key from random bytes of the operating system.
    ///
    /// # Errors
    /// If it has none.
    pub fn generate() -> io::Result<Self> {
        let mut secret = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *secret).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self::from_secret(&secret))
    }

    pub(super) fn from_secret(secret: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(secret))
    }

    /// Reads a key file: PKCS#8 in PEM, as `verdigris key report` and `openssl genpkey -algorithm ed25519` make it. On
    /// Unix a file that others can read is refused ([`SecretFile::exposed`]).
    ///
    /// # Errors
    /// [`ReportKeyError::Read`], [`ReportKeyError::Exposed`] and [`ReportKeyError::Bad`].
    pub fn load(path: &Path) -> Result<Self, ReportKeyError> {
        let file = SecretFile::read(path, MAX_FILE);
        let SecretFile { bytes, exposed } =
            file.map_err(|source| ReportKeyError::Read { path: path.into(), source })?;
        let key = Self::parse(&bytes).map_err(|fault| ReportKeyError::Bad { path: path.into(), fault })?;
        match exposed {
            Some(mode) => Err(ReportKeyError::Exposed { path: path.into(), mode }),
            None => Ok(key),
        }
    }

    /// Parses the contents of a key file.
    ///
    /// # Errors
    /// [`BadReportKey`], which never quotes the contents.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadReportKey> {
        if bytes.len() as u64 > MAX_FILE {
            return Err(BadReportKey::Long);
        }
        let pem = std::str::from_utf8(bytes).map_err(|_| BadReportKey::NotPrivate)?.trim();
        // This also refuses a public key in the file that is not that of the private one.
        SigningKey::from_pkcs8_pem(pem).map(Self).map_err(|_| match pem {
            _ if pem.contains("BEGIN ENCRYPTED PRIVATE KEY") => BadReportKey::Encrypted,
            _ if pem.contains("BEGIN PUBLIC KEY") => BadReportKey::Public,
            _ => BadReportKey::NotPrivate,
        })
    }

    /// Writes a new key file of mode 0600.
    ///
    /// # Errors
    /// [`ReportKeyError::Write`]. An existing file is not changed.
    pub fn save(&self, path: &Path) -> Result<(), ReportKeyError> {
        // Without the public key (PKCS#8 version 1), since OpenSSL does not read version 2.
        let pair = KeypairBytes { secret_key: self.0.to_bytes(), public_key: None };
        let pem = pair.to_pkcs8_pem(LineEnding::LF).expect("a private key of 32 bytes is encoded");
        secret_file::create(path, pem.as_bytes()).map_err(|source| {
            let hint = match source.kind() {
                io::ErrorKind::AlreadyExists => "; choose another name, or print its public key with --public",
                io::ErrorKind::NotFound => "; make the folder first",
                _ => "",
            };
            ReportKeyError::Write { path: path.into(), source, hint }
        })
    }

    /// The public key.
    pub fn public_key(&self) -> PublicKey {
        PublicKey::new(self.0.verifying_key()).expect("the key of a clamped scalar is not weak")
    }

    /// Signs a message.
    pub(super) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The private key of RFC 8037, appendix A.1, in PKCS#8 (RFC 8410), with `_` where PEM has a slash.
    const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\n\
                           MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v_VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n\
                           -----END PRIVATE KEY-----\n";

    #[test]
    fn a_saved_key_comes_back_the_same_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.pem");
        let key = ReportKey::generate().unwrap();
        key.save(&path).unwrap();
        assert_eq!(ReportKey::load(&path).unwrap().public_key(), key.public_key());
        assert_ne!(ReportKey::generate().unwrap().public_key(), key.public_key());
        let again = ReportKey::generate().unwrap().save(&path).unwrap_err().to_string();
        assert!(again.contains("choose another name"), "{again}");
        assert_eq!(ReportKey::load(&path).unwrap().public_key(), key.public_key());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
            let said = ReportKey::load(&path).unwrap_err().to_string();
            assert!(said.contains("mode 0644") && said.contains("chmod 600"), "{said}");
        }
    }

    #[test]
    fn a_file_that_is_not_a_key_is_named_and_never_quoted() {
        let key = PRIVATE.replace('_', "/");
        let public = ReportKey::parse(key.as_bytes()).unwrap().public_key();
        assert_eq!(public.thumbprint(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
        let encrypted = key.replace("PRIVATE", "ENCRYPTED PRIVATE");
        for (text, fault) in [
            (&*encrypted, "encrypted"),
            (&public.pem(), "public key"),
            (&key.replace("MC4C", "MC5C"), "not an Ed25519 private key"),
            (&key.replace("K2Vw", "K2Vu"), "not an Ed25519 private key"),
            (&key[..70], "not an Ed25519 private key"),
            ("", "not an Ed25519 private key"),
            (&" ".repeat(20_000), "longer than a key"),
        ] {
            let said = ReportKey::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(said.contains(fault) && !said.contains("REScVpez"), "{said:?} should say {fault:?}");
        }
        let shown = format!("{:?}", ReportKey::parse(key.as_bytes()).unwrap());
        assert_eq!(shown, "ReportKey(\"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k\")");
    }
}
