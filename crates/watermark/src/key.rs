//! Keys: a secret, what is marked with it, and the file that holds both.
//!
//! A key file is JSON, readable by its owner alone (mode 0600). It names the dialect with its parameters and
//! the vocabulary it was made for, so that writer and reader cannot disagree about them. The secret is wiped
//! from memory when the key is dropped, and neither `Debug` nor any error shows it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::HEXLOWER_PERMISSIVE;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::dialect::{BadDialect, Dialect};
use crate::dialects::kgw::DEFAULT_HASH_KEY;
use crate::dialects::native::{Context, ContextFunction, Native};
use crate::embed::{Embed, Strength};
use crate::gamma::Gamma;
use crate::payload::Carrier;
use crate::scheme::Scheme;

const FORMAT: &str = "verdigris-key-1";

/// No key file is longer than this.
pub const MAX_FILE: u64 = 64 << 10;

/// A key: who can read what it marks is who has it.
///
/// ```no_run
/// use verdigris_watermark::{Key, Marking, Vocabulary};
///
/// // What it has to know of the tokenizer with which texts are written and read: as `Reader::vocabulary` has it.
/// let vocabulary = Vocabulary { size: 4096, fingerprint: "e106f5b2af1d8f602ff85a4ace3e36b1".into() };
/// let key = Key::generate(Marking::default(), vocabulary);
/// // A new file, which its owner alone can read.
/// key.save("my.key".as_ref())?;
/// let same = Key::load("my.key".as_ref())?;
/// assert_eq!(same.id(), key.id());
/// # Ok::<(), verdigris_watermark::KeyError>(())
/// ```
pub struct Key {
    id: String,
    tenant: String,
    secret: Zeroizing<Vec<u8>>,
    dialect: Dialect,
    strength: Option<Strength>,
    vocabulary: Vocabulary,
    period: Period,
}

/// What a new key of the native scheme marks with.
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

/// The days on which a key is used for writing, the first and the last included; open ends mean for ever. Reading
/// takes no notice: what was marked stays marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Period {
    /// The first day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Date>,
    /// The last day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Date>,
}

impl Period {
    /// A period from and until days such as `2026-08-02`.
    pub fn new(from: Option<&str>, until: Option<&str>) -> Result<Self, KeyError> {
        let date = |text: Option<&str>| {
            let parse = |text: &str| {
                text.parse().map_err(|_| KeyError::Period(format!("{text:?} is no date such as 2026-08-02")))
            };
            text.map(parse).transpose()
        };
        let period = Self { from: date(from)?, until: date(until)? };
        match period {
            Self { from: Some(from), until: Some(until) } if until < from => {
                Err(KeyError::Period(format!("the key would end ({until}) before it begins ({from})")))
            }
            _ => Ok(period),
        }
    }

    /// Whether a day lies in it.
    pub fn contains(&self, day: Date) -> bool {
        self.from.is_none_or(|from| from <= day) && self.until.is_none_or(|until| day <= until)
    }

    fn is_open(&self) -> bool {
        *self == Self::default()
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
    /// The parameters make no scheme.
    #[error(transparent)]
    Dialect(#[from] BadDialect),
    /// The key writes payloads, and none is given; or the other way round.
    #[error("the key {id} {}", if *.carries { "carries a payload: say which one to write" } else { "carries no payload: make one with --payload-bits" })]
    Payload {
        /// The key's id.
        id: String,
        /// Whether it carries payloads.
        carries: bool,
    },
    /// A period that ends before it begins, or is no date.
    #[error("{0}")]
    Period(String),
    /// The folder of a ring could not be read.
    #[error("cannot read the key ring {path}: {source}")]
    Ring {
        /// Which folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The ring has no key that may be used.
    #[error("the key ring {path} has no key {wanted}")]
    EmptyRing {
        /// Which folder.
        path: PathBuf,
        /// What was looked for.
        wanted: String,
    },
}

/// The file, with the secret borrowed from a buffer that is wiped. Numbers and names are checked afterwards.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile<'a> {
    format: &'a str,
    id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    tenant: String,
    scheme: Dialect,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strength: Option<Strength>,
    vocabulary: Vocabulary,
    #[serde(default, skip_serializing_if = "Period::is_open")]
    period: Period,
    secret: &'a str,
}

impl Key {
    /// A new key of the native scheme with a secret from the operating system.
    ///
    /// # Panics
    /// If the operating system gives no random bytes.
    pub fn generate(marking: Marking, vocabulary: Vocabulary) -> Self {
        let Marking { gamma, context, strength } = marking;
        let dialect = Dialect::Native { gamma, context, payload_bits: None };
        Self::new(random_secret(), random_id(), dialect, Some(strength), vocabulary).expect("32 bytes are a secret")
    }

    /// A key of the native scheme with a secret of the caller's, who vouches for its being one.
    ///
    /// # Panics
    /// If the context of the marking is not one: see [`Context`].
    pub fn from_secret(
        secret: impl Into<Zeroizing<[u8; 32]>>,
        id: impl Into<String>,
        marking: Marking,
        vocabulary: Vocabulary,
    ) -> Self {
        let Marking { gamma, context, strength } = marking;
        let dialect = Dialect::Native { gamma, context, payload_bits: None };
        let secret = Zeroizing::new(secret.into().to_vec());
        Self {
            id: id.into(),
            tenant: String::new(),
            secret,
            dialect,
            strength: Some(strength),
            vocabulary,
            period: Period::default(),
        }
    }

    /// A key of any dialect. `secret` has what the dialect takes: 32 bytes for our own, 8 (big-endian) for each whole
    /// number of another system. Dialects of colours have a strength, delta 2 where none is given.
    pub fn new(
        secret: impl Into<Zeroizing<Vec<u8>>>,
        id: impl Into<String>,
        dialect: Dialect,
        strength: Option<Strength>,
        vocabulary: Vocabulary,
    ) -> Result<Self, KeyError> {
        let strength = dialect.has_strength().then(|| strength.unwrap_or(Strength::Soft(2.0)));
        let (id, tenant, secret, period) = (id.into(), String::new(), secret.into(), Period::default());
        let key = Self { id, tenant, secret, dialect, strength, vocabulary, period };
        key.any_scheme()?;
        Ok(key)
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

    /// The same key for a period.
    #[must_use]
    pub fn with_period(mut self, period: Period) -> Self {
        self.period = period;
        self
    }

    /// The same key for another vocabulary: to look for marks of a writer whose idea of its size is not known.
    pub fn with_vocabulary_size(&self, size: usize) -> Result<Self, KeyError> {
        self.like(self.dialect.clone(), Vocabulary { size, ..self.vocabulary.clone() })
    }

    /// The same key with another green share; none where the dialect has no colours.
    pub fn with_gamma(&self, gamma: f64) -> Option<Result<Self, KeyError>> {
        Some(self.like(self.dialect.with_gamma(gamma)?, self.vocabulary.clone()))
    }

    fn like(&self, dialect: Dialect, vocabulary: Vocabulary) -> Result<Self, KeyError> {
        let (id, tenant, secret) = (self.id.clone(), self.tenant.clone(), self.secret.clone());
        let key = Self { id, tenant, secret, dialect, strength: self.strength, vocabulary, period: self.period };
        key.any_scheme()?;
        Ok(key)
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

    /// What it marks with.
    pub fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    /// How strongly it marks, where that can be chosen.
    pub fn strength(&self) -> Option<Strength> {
        self.strength
    }

    /// What it adds to the logits of green tokens. Hard lists, which leave nothing else, count as 10: more than
    /// separates the tokens that a model takes into account.
    pub fn delta(&self) -> f64 {
        if let Some(Strength::Soft(delta)) = self.strength { delta } else { 10.0 }
    }

    /// When it is used for writing.
    pub fn period(&self) -> Period {
        self.period
    }

    /// How many bits of a payload its mark carries.
    pub fn payload_bits(&self) -> Option<u8> {
        if let Dialect::Native { payload_bits, .. } = self.dialect { payload_bits } else { None }
    }

    /// The dialect in words, such as `native, gamma 0.25, minimum over 4 tokens`.
    pub fn describe(&self) -> String {
        let public = if self.is_public() { " (a public key: whoever likes can read and forge it)" } else { "" };
        format!("{}{public}", self.dialect)
    }

    /// Whether the secret is one that other systems ship as their default.
    pub fn is_public(&self) -> bool {
        match self.dialect {
            Dialect::Unigram { .. } => self.secret.iter().all(|&byte| byte == 0),
            Dialect::Kgw { .. } | Dialect::Tgi { .. } | Dialect::HuggingFace { .. } | Dialect::Sbw { .. } => {
                self.secret[..] == DEFAULT_HASH_KEY.to_be_bytes()
            }
            _ => false,
        }
    }

    /// The scheme under this key: what a detector needs.
    ///
    /// A key that carries payloads has one for each of them: [`Key::carrier`] and [`Key::payload_reader`].
    pub fn scheme(&self) -> Result<Arc<dyn Scheme>, KeyError> {
        match self.payload_bits() {
            None => self.any_scheme(),
            Some(_) => Err(KeyError::Payload { id: self.id.clone(), carries: true }),
        }
    }

    fn any_scheme(&self) -> Result<Arc<dyn Scheme>, KeyError> {
        Ok(self.dialect.scheme(&self.secret, &self.id, &self.tenant, self.vocabulary.size)?)
    }

    fn native(&self) -> Result<(Native, u8), KeyError> {
        let Dialect::Native { gamma, context, payload_bits: Some(bits) } = self.dialect else {
            return Err(KeyError::Payload { id: self.id.clone(), carries: false });
        };
        let secret = self.secret[..].try_into().expect("checked when the key was made");
        let native = Native::new(secret, &self.id, &self.tenant, gamma, context, self.vocabulary.size);
        Ok((native.map_err(BadDialect::from)?, bits))
    }

    /// The scheme that writes a payload.
    pub fn carrier(&self, payload: u32) -> Result<Arc<dyn Scheme>, KeyError> {
        let (native, bits) = self.native()?;
        Ok(Arc::new(Carrier::new(native, bits, payload).map_err(BadDialect::from)?))
    }

    /// A reader of payloads.
    pub fn payload_reader(&self) -> Result<crate::payload::Reader, KeyError> {
        let (native, bits) = self.native()?;
        Ok(crate::payload::Reader::new(Arc::new(native), bits))
    }

    /// The step that embeds this key's mark.
    pub fn embed(&self) -> Result<Embed, KeyError> {
        Ok(self.embedding(self.scheme()?))
    }

    /// The step that embeds this key's mark with a payload.
    pub fn embed_payload(&self, payload: u32) -> Result<Embed, KeyError> {
        Ok(self.embedding(self.carrier(payload)?))
    }

    fn embedding(&self, scheme: Arc<dyn Scheme>) -> Embed {
        Embed::new(scheme, self.strength.unwrap_or(Strength::Hard))
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
        let secret = decode_hex(file.secret).ok_or("the secret is not hexadecimal")?;
        let (dialect, vocabulary) = (file.scheme, file.vocabulary);
        let key = Self::new(secret, file.id, dialect, file.strength, vocabulary).map_err(|error| error.to_string())?;
        if file.period.until.zip(file.period.from).is_some_and(|(until, from)| until < from) {
            return Err("its period ends before it begins".into());
        }
        Ok(key.with_tenant(file.tenant).with_period(file.period))
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
        let secret = encode_hex(&self.secret);
        let file = KeyFile {
            format: FORMAT,
            id: self.id.clone(),
            tenant: self.tenant.clone(),
            scheme: self.dialect.clone(),
            strength: self.strength,
            vocabulary: self.vocabulary.clone(),
            period: self.period,
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

/// 32 bytes from the operating system.
///
/// # Panics
/// If it gives none.
pub fn random_secret() -> Zeroizing<Vec<u8>> {
    let mut secret = Zeroizing::new(vec![0; 32]);
    getrandom::fill(&mut secret).expect("the operating system gives random bytes");
    secret
}

/// A name for a new key.
///
/// # Panics
/// If the operating system gives no random bytes.
pub fn random_id() -> String {
    let mut id = [0; 4];
    getrandom::fill(&mut id).expect("the operating system gives random bytes");
    format!("vg-{}", HEXLOWER_PERMISSIVE.encode(&id))
}

fn encode_hex(bytes: &[u8]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(2 * bytes.len()));
    HEXLOWER_PERMISSIVE.encode_append(bytes, &mut text);
    text
}

fn decode_hex(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; text.len() / 2]);
    if !text.len().is_multiple_of(2) {
        return None;
    }
    HEXLOWER_PERMISSIVE.decode_mut(text.as_bytes(), &mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::synthid::{Bits, Score};

    fn vocabulary() -> Vocabulary {
        Vocabulary { size: 4096, fingerprint: "abc".into() }
    }

    fn other(dialect: Dialect, bytes: usize) -> Key {
        let secret: Vec<u8> = (0..bytes).map(|i| i as u8).collect();
        let period = Period::new(Some("2026-01-01"), None).unwrap();
        Key::new(secret, "other", dialect, Some(Strength::Hard), vocabulary()).unwrap().with_period(period)
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
            other(Dialect::Kgw { seeding: "minhash".parse().unwrap(), gamma: 0.25 }, 8).with_id("minhash"),
            other(Dialect::SglangDual { width: 4, mixing: 0.5 }, 16).with_id("two"),
            other(Dialect::Synthid { bits: Bits::Hash, ngram_len: 5, score: Score::WeightedMean }, 240)
                .with_id("synth"),
        ] {
            let path = folder.path().join(key.id());
            key.save(&path).unwrap();
            let back = Key::load(&path).unwrap();
            assert_eq!(judge(&back), judge(&key));
            assert_eq!((back.id(), back.tenant(), back.strength()), (key.id(), key.tenant(), key.strength()));
            assert_eq!((back.dialect(), back.period()), (key.dialect(), key.period()));
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
            (good.replace(secret, &secret[2..]), "31 bytes, but native takes 32"),
            (good.replace(secret, &"zz".repeat(32)), "not hexadecimal"),
            (
                good.replace(
                    "\"secret\"",
                    "\"period\": {\"from\": \"2026-05-01\", \"until\": \"2026-04-01\"}, \"secret\"",
                ),
                "ends before",
            ),
            (good.replace("\"secret\"", "\"period\": {\"from\": \"soon\"}, \"secret\""), "does not read"),
            (good.replace("\"secret\"", "\"sekret\""), "unknown field at line"),
            (good.replace("\"id\": \"", &format!("\"id\": 7, \"x{secret}\": \"")), "does not read as one at line"),
            (good.replace("\"size\": 4096", &format!("\"size\": \"{secret}\"")), "does not read"),
            (good[..good.len() / 2].to_owned(), "does not read"),
            (String::new(), "does not read"),
            ("[".repeat(5000), "does not read"),
            (" ".repeat(70_000), "longer than"),
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

    #[test]
    fn periods_have_a_first_and_a_last_day() {
        let period = Period::new(Some("2026-08-02"), Some("2026-08-04")).unwrap();
        let inside = |day: &str| period.contains(day.parse().unwrap());
        let days = ["2026-08-01", "2026-08-02", "2026-08-04", "2026-08-05"];
        assert_eq!(days.map(inside), [false, true, true, false]);
        assert!(Period::default().contains("1999-01-01".parse().unwrap()));
        for (from, until) in
            [(Some("yesterday"), None), (None, Some("2026-13-01")), (Some("2026-02-02"), Some("2026-02-01"))]
        {
            assert!(Period::new(from, until).is_err());
        }
    }

    #[test]
    fn keys_of_before_still_read() {
        let secret = format!("{:016x}", DEFAULT_HASH_KEY);
        let old = format!(
            r#"{{"format":"{FORMAT}","id":"k","scheme":{{"name":"kgw-simple-1","gamma":0.5}},"strength":{{"soft":2.0}},"vocabulary":{{"size":4096,"fingerprint":"abc"}},"secret":"{secret}"}}"#
        );
        let key = Key::parse(old.as_bytes()).unwrap();
        assert!(key.is_public() && key.describe().contains("kgw, gamma 0.5, simple_1"), "{}", key.describe());
    }

    #[test]
    fn public_keys_are_called_so() {
        let kgw = |key: u64| {
            let dialect = Dialect::Tgi { gamma: 0.5 };
            Key::new(key.to_be_bytes().to_vec(), "k", dialect, None, vocabulary()).unwrap().is_public()
        };
        assert!(kgw(DEFAULT_HASH_KEY) && !kgw(DEFAULT_HASH_KEY + 2));
    }
}
