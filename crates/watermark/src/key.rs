//! Keys: a secret, what is marked with it, and the file that holds both.
//!
//! A key file is JSON, readable by its owner alone (mode 0600). It names the scheme with its parameters and
//! the vocabulary it was made for, so that writer and reader cannot disagree about them. The secret is wiped
//! from memory when the key is dropped, and neither `Debug` nor any error shows it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::HEXLOWER_PERMISSIVE;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::embed::{Embed, Strength};
use crate::gamma::Gamma;
use crate::kgw::{BadSplit, DEFAULT_HASH_KEY, KgwSimple1};
use crate::native::{BadWidth, Context, ContextFunction, Native};
use crate::scheme::Scheme;

const FORMAT: &str = "verdigris-key-1";

/// No key file is longer than this.
const MAX_FILE: u64 = 16 << 10;

/// A key: who can read what it marks is who has it.
pub struct Key {
    id: String,
    tenant: String,
    secret: Secret,
    strength: Strength,
    vocabulary: Vocabulary,
}

enum Secret {
    Native { secret: Zeroizing<[u8; 32]>, gamma: Gamma, context: Context },
    KgwSimple1 { hash_key: Zeroizing<u64>, gamma: f64 },
}

/// What a new key marks with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marking {
    /// The green share.
    pub gamma: Gamma,
    /// How contexts choose lists.
    pub context: Context,
    /// How strongly green is preferred.
    pub strength: Strength,
}

impl Default for Marking {
    /// `gamma` 1/4, `delta` 2, the minimum over 4 tokens.
    fn default() -> Self {
        Self {
            gamma: Gamma::new(0.25).expect("1/4 is dyadic"),
            context: Context { function: ContextFunction::Min, width: 4 },
            strength: Strength::Soft(2.0),
        }
    }
}

/// The vocabulary that a key was made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vocabulary {
    /// The number of tokens that are split into green and red.
    pub size: usize,
    /// A digest of all tokens in order. Two vocabularies of one size are still two.
    pub fingerprint: String,
}

/// Why a key could not be read, made or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file could not be opened or read.
    #[error("cannot read the key file {path}: {source}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Other people can read the file.
    #[error(
        "the key file {path} can be read by others (mode {mode:04o}): run `chmod 600 {path}`, and make a new key if it was copied"
    )]
    Exposed {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file could not be created or written.
    #[error("cannot write the key file {path}: {source}{hint}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
        /// What to do about it.
        hint: &'static str,
    },
    /// The file is not a key file. The text of the fault is left out: it could quote the secret.
    #[error("{path} is not a key file: {fault}")]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong, without any part of the file.
        fault: String,
    },
    /// The context width is out of range.
    #[error(transparent)]
    Width(#[from] BadWidth),
    /// The dialect cannot split the vocabulary so.
    #[error(transparent)]
    Split(#[from] BadSplit),
}

/// The file, with the secret borrowed from a buffer that is wiped. Numbers and names are checked afterwards.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile<'a> {
    format: &'a str,
    id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    tenant: String,
    scheme: SchemeForm,
    strength: Strength,
    vocabulary: Vocabulary,
    secret: &'a str,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
enum SchemeForm {
    Native {
        gamma: Gamma,
        context: Context,
    },
    #[serde(rename = "kgw-simple-1")]
    KgwSimple1 {
        gamma: f64,
    },
}

impl Key {
    /// A new key of the native scheme with a secret from the operating system.
    ///
    /// # Panics
    /// If the operating system gives no random bytes.
    pub fn generate(marking: Marking, vocabulary: Vocabulary) -> Self {
        let mut secret = Zeroizing::new([0; 32]);
        let mut id = [0; 4];
        getrandom::fill(&mut *secret).expect("the operating system gives random bytes");
        getrandom::fill(&mut id).expect("the operating system gives random bytes");
        Self::from_secret(secret, format!("vg-{}", HEXLOWER_PERMISSIVE.encode(&id)), marking, vocabulary)
    }

    /// A key of the native scheme with a secret of the caller's, who vouches for its being one.
    pub fn from_secret(
        secret: impl Into<Zeroizing<[u8; 32]>>,
        id: impl Into<String>,
        marking: Marking,
        vocabulary: Vocabulary,
    ) -> Self {
        let Marking { gamma, context, strength } = marking;
        let secret = Secret::Native { secret: secret.into(), gamma, context };
        Self { id: id.into(), tenant: String::new(), secret, strength, vocabulary }
    }

    /// A key of the KGW dialect `simple_1`. With [`DEFAULT_HASH_KEY`] it is not secret at all.
    pub fn kgw_simple_1(
        hash_key: u64,
        gamma: f64,
        strength: Strength,
        vocabulary: Vocabulary,
    ) -> Result<Self, KeyError> {
        KgwSimple1::new(hash_key, gamma, vocabulary.size)?;
        Ok(Self {
            id: "kgw-simple-1".into(),
            tenant: String::new(),
            secret: Secret::KgwSimple1 { hash_key: Zeroizing::new(hash_key), gamma },
            strength,
            vocabulary,
        })
    }

    /// The same key under another id, which gives unrelated sub-keys.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// The same key for one tenant, which gives unrelated sub-keys.
    #[must_use]
    pub fn with_tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = tenant.into();
        self
    }

    /// The public name of the key.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whose key it is; empty for none in particular.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The vocabulary it was made for.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// How strongly it marks.
    pub fn strength(&self) -> Strength {
        self.strength
    }

    /// The scheme in words, such as `native, gamma 0.25, min over 4 tokens`.
    pub fn describe(&self) -> String {
        match &self.secret {
            Secret::Native { gamma, context: Context { function, width }, .. } => {
                let function = match function {
                    ContextFunction::All => "all of",
                    ContextFunction::Min => "minimum over",
                    ContextFunction::SelfSalted => "self-salted over",
                };
                format!("native, gamma {gamma}, {function} {width} token{}", if *width == 1 { "" } else { "s" })
            }
            Secret::KgwSimple1 { gamma, hash_key } => {
                let public = if **hash_key == DEFAULT_HASH_KEY { " (the public default key)" } else { "" };
                format!("kgw simple_1, gamma {gamma}{public}")
            }
        }
    }

    /// The scheme under this key: what a detector needs.
    pub fn scheme(&self) -> Result<Arc<dyn Scheme>, KeyError> {
        Ok(match &self.secret {
            Secret::Native { secret, gamma, context } => {
                Arc::new(Native::new(secret, &self.id, &self.tenant, *gamma, *context, self.vocabulary.size)?)
            }
            Secret::KgwSimple1 { hash_key, gamma } => {
                Arc::new(KgwSimple1::new(**hash_key, *gamma, self.vocabulary.size)?)
            }
        })
    }

    /// The step that embeds this key's mark.
    pub fn embed(&self) -> Result<Embed, KeyError> {
        Ok(Embed::new(self.scheme()?, self.strength))
    }

    /// Reads a key file. On Unix a file that others can read is refused.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let read = |source| KeyError::Read { path: path.into(), source };
        let file = File::open(path).map_err(read)?;
        let metadata = file.metadata().map_err(read)?;
        if !metadata.is_file() {
            return Err(read(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file")));
        }
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
            if mode & 0o077 != 0 {
                return Err(KeyError::Exposed { path: path.into(), mode });
            }
        }
        // All the room at once: a buffer that grew would leave copies of the secret behind.
        let mut text = Zeroizing::new(Vec::with_capacity(MAX_FILE as usize + 1));
        file.take(MAX_FILE + 1).read_to_end(&mut text).map_err(read)?;
        Self::parse(&text).map_err(|fault| KeyError::Malformed { path: path.into(), fault })
    }

    /// Reads the contents of a key file. The error never quotes them.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        if text.len() as u64 > MAX_FILE {
            return Err(format!("it is longer than {MAX_FILE} bytes"));
        }
        let file: KeyFile<'_> = serde_json::from_slice(text).map_err(|error| {
            // Only errors of gamma, delta and the like, which our own checks word, may be shown.
            let place = format!("line {}, column {}", error.line(), error.column());
            let worded = error.to_string();
            match ["gamma is", "delta is", "missing field", "unknown field"].iter().find(|w| worded.starts_with(*w)) {
                Some(_) if !worded.starts_with("unknown") => worded,
                Some(_) => format!("unknown field at {place}"),
                None => format!("it does not read as one at {place}"),
            }
        })?;
        if file.format != FORMAT {
            return Err(format!("its format is not {FORMAT}; a newer version of the program may have made it"));
        }
        let length = || "the secret has the wrong length or is not hexadecimal".to_owned();
        let secret = match file.scheme {
            SchemeForm::Native { gamma, context } => {
                let mut secret = Zeroizing::new([0; 32]);
                decode_hex(file.secret, &mut *secret).ok_or_else(length)?;
                Secret::Native { secret, gamma, context }
            }
            SchemeForm::KgwSimple1 { gamma } => {
                let mut bytes = Zeroizing::new([0; 8]);
                decode_hex(file.secret, &mut *bytes).ok_or_else(length)?;
                Secret::KgwSimple1 { hash_key: Zeroizing::new(u64::from_be_bytes(*bytes)), gamma }
            }
        };
        let (id, tenant, strength, vocabulary) = (file.id, file.tenant, file.strength, file.vocabulary);
        let key = Self { id, tenant, secret, strength, vocabulary };
        key.scheme().map_err(|error| error.to_string())?;
        Ok(key)
    }

    /// Writes a new key file of mode 0600. A file that is there already is left as it is.
    pub fn save(&self, path: &Path) -> Result<(), KeyError> {
        let write = |source: io::Error| {
            let hint = match source.kind() {
                io::ErrorKind::AlreadyExists => "; choose another name, for a key that is gone proves nothing",
                io::ErrorKind::NotFound => "; make the folder first",
                _ => "",
            };
            KeyError::Write { path: path.into(), source, hint }
        };
        let text = self.to_json();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).map_err(write)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(|source| {
            // Half a key is no key.
            let _ = std::fs::remove_file(path);
            write(source)
        })
    }

    fn to_json(&self) -> Zeroizing<Vec<u8>> {
        let (secret, scheme) = match &self.secret {
            Secret::Native { secret, gamma, context } => {
                (encode_hex(&**secret), SchemeForm::Native { gamma: *gamma, context: *context })
            }
            Secret::KgwSimple1 { hash_key, gamma } => {
                let bytes = Zeroizing::new(hash_key.to_be_bytes());
                (encode_hex(&*bytes), SchemeForm::KgwSimple1 { gamma: *gamma })
            }
        };
        let file = KeyFile {
            format: FORMAT,
            id: self.id.clone(),
            tenant: self.tenant.clone(),
            scheme,
            strength: self.strength,
            vocabulary: self.vocabulary.clone(),
            secret: &secret,
        };
        let mut text = Zeroizing::new(Vec::with_capacity(MAX_FILE as usize));
        serde_json::to_writer_pretty(&mut *text, &file).expect("a key serialises");
        text.push(b'\n');
        text
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key {{ id: {:?}, scheme: {:?}, secret: redacted }}", self.id, self.describe())
    }
}

fn encode_hex(bytes: &[u8]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(2 * bytes.len()));
    HEXLOWER_PERMISSIVE.encode_append(bytes, &mut text);
    text
}

fn decode_hex(text: &str, bytes: &mut [u8]) -> Option<()> {
    if text.len() != 2 * bytes.len() {
        return None;
    }
    HEXLOWER_PERMISSIVE.decode_mut(text.as_bytes(), bytes).ok().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary() -> Vocabulary {
        Vocabulary { size: 4096, fingerprint: "abc".into() }
    }

    fn judge(key: &Key) -> Vec<crate::Draw> {
        let mut draws = Vec::new();
        key.scheme().unwrap().draws(&(0..200).collect::<Vec<_>>(), &mut draws);
        draws
    }

    #[test]
    fn a_saved_key_comes_back_the_same_and_private() {
        let folder = tempfile::tempdir().unwrap();
        for key in [
            Key::generate(Marking::default(), vocabulary()).with_tenant("acme"),
            Key::kgw_simple_1(DEFAULT_HASH_KEY, 0.25, Strength::Hard, vocabulary()).unwrap(),
        ] {
            let path = folder.path().join(key.id());
            key.save(&path).unwrap();
            let back = Key::load(&path).unwrap();
            assert_eq!(judge(&back), judge(&key));
            assert_eq!((back.id(), back.tenant(), back.strength()), (key.id(), key.tenant(), key.strength()));
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt;
                assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
                let error = Key::load(&path).unwrap_err().to_string();
                assert!(error.contains("0644") && error.contains("chmod 600"), "{error}");
            }
            let before = std::fs::read(&path).unwrap();
            assert!(key.save(&path).unwrap_err().to_string().contains("exists"));
            assert_eq!(std::fs::read(&path).unwrap(), before);
        }
    }

    #[test]
    fn ids_and_tenants_have_their_own_lists() {
        let load = |id: &str, tenant: &str| {
            let text = Key::generate(Marking::default(), vocabulary()).to_json();
            let text = String::from_utf8(text.to_vec()).unwrap();
            let secret = text.split("\"secret\": \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
            let key = Key::parse(text.replace(&secret, &"ab".repeat(32)).as_bytes()).unwrap();
            judge(&key.with_id(id).with_tenant(tenant))
        };
        assert_eq!(load("a", ""), load("a", ""));
        assert_ne!(load("a", ""), load("b", ""));
        assert_ne!(load("a", ""), load("a", "t"));
    }

    #[test]
    fn faults_are_named_and_never_quote_the_file() {
        let good = String::from_utf8(Key::generate(Marking::default(), vocabulary()).to_json().to_vec()).unwrap();
        let secret = good.split("\"secret\": \"").nth(1).unwrap().split('"').next().unwrap();
        for (bad, said) in [
            (good.replace("0.25", "0.3"), "gamma is 0.3"),
            (good.replace("\"soft\": 2.0", "\"soft\": -1.0"), "delta is -1"),
            (good.replace("\"width\": 4", "\"width\": 40"), "context width is 40"),
            (good.replace(FORMAT, "verdigris-key-9"), "newer version"),
            (good.replace(secret, &secret[2..]), "wrong length"),
            (good.replace(secret, &"zz".repeat(32)), "wrong length or is not hex"),
            (good.replace("\"secret\"", "\"sekret\""), "unknown field at line"),
            (good.replace("\"id\": \"", &format!("\"id\": 7, \"x{secret}\": \"")), "does not read as one at line"),
            (good.replace("\"size\": 4096", &format!("\"size\": \"{secret}\"")), "does not read"),
            (good[..good.len() / 2].to_owned(), "does not read"),
            (String::new(), "does not read"),
            ("[".repeat(5000), "does not read"),
            (" ".repeat(20_000), "longer than"),
        ] {
            let fault = Key::parse(bad.as_bytes()).unwrap_err();
            assert!(fault.contains(said), "{fault:?} should say {said:?}");
            assert!(!fault.contains(&secret[4..20]), "{fault}");
        }
        let shown = format!("{:?}", Key::parse(good.as_bytes()).unwrap());
        assert!(shown.contains("redacted") && !shown.contains(&secret[..8]), "{shown}");
    }

    #[test]
    fn a_missing_file_and_a_folder_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = Key::load(&folder.path().join("none.json")).unwrap_err().to_string();
        assert!(missing.contains("none.json"), "{missing}");
        assert!(Key::load(folder.path()).unwrap_err().to_string().contains("not a file"));
    }
}
