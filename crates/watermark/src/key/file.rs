//! Key files: JSON that only the owner can read.

use std::io;
use std::path::Path;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::format::{ANY_FORMAT, FORMAT, MAX_FILE};
use super::{BadKeyFile, Key, KeyError, Period};
use crate::dialect::Dialect;
use crate::secret_file::{self, SecretFile};
use crate::strength::Strength;
use crate::vocabulary_id::VocabularyId;

/// The number of digits of a check value.
const CHECK: usize = 16;

/// The file, with the secret borrowed from a buffer that is wiped. Values are checked afterwards.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile<'a> {
    format: &'a str,
    id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    tenant: String,
    #[serde(rename = "scheme")]
    dialect: Dialect,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strength: Option<Strength>,
    vocabulary: VocabularyId,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    variants: u8,
    #[serde(default, skip_serializing_if = "Period::is_open")]
    period: Period,
    secret: &'a str,
    /// Reveals damage, not forgery: [`check`] of the file. Files without it are read unchecked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    check: Option<&'a str>,
}

impl Key {
    /// Reads a key file. On Unix a file that others can read is refused, except for published keys and for root's files
    /// of mode 0440, which is how secrets are mounted into containers with processes of other users. A pipe is read
    /// only if it belongs to this process, such as a shell's `<(command)`.
    ///
    /// # Errors
    /// [`KeyError::Read`], [`KeyError::Exposed`], [`KeyError::NotAKey`] and [`KeyError::Malformed`].
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let SecretFile { bytes: text, exposed } = SecretFile::read(path, MAX_FILE).map_err(|source| {
            let source = match source.kind() {
                io::ErrorKind::IsADirectory => io::Error::other(format!("{source}: a folder of keys is a ring")),
                _ => source,
            };
            KeyError::Read { path: path.into(), source }
        })?;
        if !text.windows(ANY_FORMAT.len()).any(|part| part == ANY_FORMAT) {
            let fault = match text.len() as u64 {
                0 => BadKeyFile::Empty,
                1..=MAX_FILE => BadKeyFile::NoFormat,
                _ => BadKeyFile::Long,
            };
            return Err(KeyError::NotAKey { path: path.into(), fault });
        }
        let key = Self::parse(&text);
        match exposed {
            // A published key may be read by everyone.
            Some(mode) if !key.as_ref().is_ok_and(Self::is_published) => {
                Err(KeyError::Exposed { path: path.into(), mode })
            }
            _ => key.map_err(|fault| KeyError::Malformed { path: path.into(), fault }),
        }
    }

    /// Parses the contents of a key file.
    ///
    /// # Errors
    /// [`BadKeyFile`], which never quotes the contents.
    pub fn parse(text: &[u8]) -> Result<Self, BadKeyFile> {
        if text.len() as u64 > MAX_FILE {
            return Err(BadKeyFile::Long);
        }
        let file: KeyFile<'_> = serde_json::from_slice(text).map_err(|error| {
            // Only errors whose text comes from the checks of this crate (gamma, delta and the like) may be shown.
            const OURS: [&str; 6] =
                ["gamma is", "delta is", "context width is", "a vocabulary has", "the key would end", "missing field"];
            let (line, column, worded) = (error.line(), error.column(), error.to_string());
            match worded.starts_with("unknown field") {
                _ if OURS.iter().any(|ours| worded.starts_with(ours)) => BadKeyFile::Value(worded),
                true => BadKeyFile::UnknownField { line, column },
                false => BadKeyFile::Json { line, column },
            }
        })?;
        if file.format != FORMAT {
            return Err(BadKeyFile::Version);
        }
        let secret = decode_hex(file.secret).ok_or(BadKeyFile::Secret)?;
        let KeyFile { id, tenant, dialect, strength, vocabulary, variants, period, .. } = file;
        let key = Self::new(secret, id, dialect, strength, vocabulary).map_err(BadKeyFile::key)?;
        if let Some(written) = file.check
            && check(text, written) != written
        {
            return Err(BadKeyFile::Changed);
        }
        // The secret in the file is already the tenant's.
        Self { tenant, variants, ..key }.with_period(period).checked().map_err(BadKeyFile::key)
    }

    /// Writes a new key file of mode 0600; a published key's file everyone may read.
    ///
    /// # Errors
    /// [`KeyError::Write`]. An existing file is not changed.
    pub fn save(&self, path: &Path) -> Result<(), KeyError> {
        let write = |source: io::Error| {
            let hint = match source.kind() {
                io::ErrorKind::AlreadyExists => "; choose another name, for a key that is gone proves nothing",
                io::ErrorKind::NotFound => "; make the folder first",
                _ => "",
            };
            KeyError::Write { path: path.into(), source, hint }
        };
        let mode = if self.is_published() { 0o644 } else { 0o600 };
        secret_file::create_with(path, &self.to_json(), mode).map_err(write)
    }

    fn to_json(&self) -> Zeroizing<Vec<u8>> {
        let secret = encode_hex(&self.secret);
        let blank = "0".repeat(CHECK);
        let file = KeyFile {
            format: FORMAT,
            id: self.id.clone(),
            tenant: self.tenant.clone(),
            dialect: self.dialect.clone(),
            strength: self.strength,
            vocabulary: self.vocabulary.clone(),
            variants: self.variants,
            period: self.period,
            secret: &secret,
            check: Some(&blank),
        };
        let mut text = Zeroizing::new(Vec::with_capacity(MAX_FILE as usize));
        serde_json::to_writer_pretty(&mut *text, &file).expect("a key serialises");
        text.push(b'\n');
        // The last field, before a quotation mark, a newline, a brace and another newline.
        let end = text.len() - 4;
        let value = check(&text, std::str::from_utf8(&text[end - CHECK..end]).expect("digits"));
        text[end - CHECK..end].copy_from_slice(value.as_bytes());
        text
    }
}

fn one() -> u8 {
    1
}

fn is_one(variants: &u8) -> bool {
    *variants == 1
}

/// The first half of the SHA-256 of a key file without white space and without the check value itself, `written`, which
/// must be a slice of `text`. Another layout of the same JSON has the same value.
fn check(text: &[u8], written: &str) -> String {
    let start = (written.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len());
    let end = (start + written.len()).min(text.len());
    let mut hash = Sha256::new();
    for part in [&text[..start], &text[end..]] {
        part.split(u8::is_ascii_whitespace).for_each(|word| hash.update(word));
    }
    HEXLOWER.encode(&hash.finalize()[..CHECK / 2])
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
    use crate::dialects::kgw::DEFAULT_HASH_KEY;
    use crate::dialects::synthid::{Bayesian, Bits, Score};
    use crate::dialects::{
        hugging_face, kgw, native, native_gumbel, sbw, sglang, synthid, three_bricks, unigram, vllm,
    };
    use crate::{Context, ContextFunction, Gamma, GreenShare, Marking};
    use proptest::prelude::*;

    fn vocabulary() -> VocabularyId {
        VocabularyId::new(4096, "abc").unwrap()
    }

    fn text(key: &Key) -> String {
        String::from_utf8(key.to_json().to_vec()).unwrap()
    }

    fn secret_of(file: &str) -> &str {
        file.split("\"secret\": \"").nth(1).unwrap().split('"').next().unwrap()
    }

    /// Numbers as people write them, which print and parse without loss.
    fn share() -> impl Strategy<Value = f64> {
        (1u32..1_000_000).prop_map(|millionths| f64::from(millionths) / 1e6)
    }

    fn green() -> impl Strategy<Value = GreenShare> {
        share().prop_map(|share| GreenShare::new(share).unwrap())
    }

    fn context() -> impl Strategy<Value = Context> {
        use ContextFunction::{All, Min, SelfSalted};
        (prop::sample::select(vec![All, Min, SelfSalted]), 1usize..9)
            .prop_map(|(function, width)| Context::new(function, width).unwrap())
    }

    fn score() -> impl Strategy<Value = Score> {
        let row = prop::collection::vec((-1_000_000i32..1_000_000).prop_map(|n| f64::from(n) / 1e5), 64);
        prop_oneof![
            Just(Score::Mean),
            Just(Score::WeightedMean),
            (share(), row.clone(), prop::collection::vec(row, 64))
                .prop_map(|(prior, beta, delta)| Score::Bayesian(Bayesian { prior, beta, delta })),
        ]
    }

    fn dialect() -> impl Strategy<Value = Dialect> {
        let gamma = || (1u32..256).prop_map(|m| Gamma::new(f64::from(m) / 256.0).unwrap());
        let seeding = prop::sample::select(vec!["simple_1", "skipgram", "selfhash", "ff-position_prf-3-False"]);
        let hugging = prop::sample::select(vec![hugging_face::Seeding::LeftHash, hugging_face::Seeding::SelfHash]);
        let flips = prop::sample::select(vec![sbw::Seeding::Simple1, sbw::Seeding::SelfHashFullVocab]);
        prop_oneof![
            (gamma(), context(), prop::option::of(8u8..33)).prop_map(|(gamma, context, payload_bits)| Dialect::Native(
                native::Parameters { gamma, context, payload_bits }
            )),
            context().prop_map(|context| Dialect::NativeGumbel(native_gumbel::Parameters::new(context))),
            (seeding, green())
                .prop_map(|(s, gamma)| Dialect::Kgw(kgw::Parameters { seeding: s.parse().unwrap(), gamma })),
            (hugging, 0usize..20, green()).prop_map(|(seeding, width, gamma)| Dialect::HuggingFace(
                hugging_face::Parameters { seeding, width, gamma }
            )),
            green().prop_map(|gamma| Dialect::Unigram(unigram::Parameters { gamma })),
            (flips, green()).prop_map(|(seeding, gamma)| Dialect::Sbw(sbw::Parameters { seeding, gamma })),
            (1usize..19, score()).prop_map(|(ngram_len, score)| Dialect::Synthid(synthid::Parameters {
                bits: Bits::Hash,
                ngram_len,
                score
            })),
            (0usize..20, share()).prop_map(|(width, alpha)| Dialect::VllmDual(vllm::DualParameters { width, alpha })),
            (0usize..20, share())
                .prop_map(|(width, mixing)| Dialect::SglangDual(sglang::DualParameters { width, mixing })),
            (0usize..20, green()).prop_map(|(width, gamma)| Dialect::ThreeBricksMaryland(
                three_bricks::MarylandParameters { width, gamma }
            )),
        ]
    }

    fn strength() -> impl Strategy<Value = Option<Strength>> {
        let delta = prop_oneof![
            Just(0.0),
            Just(f64::NAN),
            Just(f64::INFINITY),
            (-20i32..1200).prop_map(|n| f64::from(n) / 8.0)
        ];
        let soft = delta.prop_map(|delta| Strength::soft(delta).ok());
        prop_oneof![soft, Just(Some(Strength::Hard))]
    }

    proptest! {
        /// A key made of any parts is either refused, or its file gives it back.
        #[test]
        fn a_key_that_can_be_made_and_saved_can_be_loaded(
            dialect in dialect(),
            strength in strength(),
            bytes in prop::sample::select(vec![8usize, 16, 32, 512]),
            size in prop::sample::select(vec![0usize, 1, 500, 1 << 24, usize::MAX]),
            names in ("\\PC{0,20}", "[\\x00-\\x7f]{0,1100}", "\\PC{0,2000}"),
            days in (prop::option::of(0i16..400), prop::option::of(0i16..400)),
        ) {
            let Ok(vocabulary) = VocabularyId::new(size, names.0.clone()) else { return Ok(()) };
            let vocabulary = vocabulary.with_model(&names.2);
            // All its numbers are different.
            let secret: Vec<u8> = (0..bytes).map(|i| (i + i / 256) as u8 ^ 0x5a).collect();
            let first = jiff::civil::date(2026, 1, 1);
            let after = |n: i16| first.checked_add(jiff::Span::new().days(n)).unwrap().to_string();
            let day = |n: Option<i16>| n.map(after);
            let Ok(period) = Period::new(day(days.0).as_deref(), day(days.1).as_deref()) else { return Ok(()) };
            // Lists of a huge vocabulary would be slow and are not tested here.
            prop_assume!(size <= 500 || !matches!(dialect, Dialect::Unigram(_)));
            let Ok(key) = Key::new(secret, names.0.clone(), dialect, strength, vocabulary) else { return Ok(()) };
            let key = match names.1.is_empty() {
                true => key,
                false => match key.with_tenant(names.1) {
                    Ok(key) => key,
                    Err(_) => return Ok(()),
                },
            };
            let key = key.with_period(period);
            let text = key.to_json();
            prop_assert!(text.len() as u64 <= MAX_FILE);
            let back = Key::parse(&text);
            prop_assert!(back.is_ok(), "{back:?}");
            prop_assert_eq!(&*back.unwrap().to_json(), &*text);
        }
    }

    #[test]
    fn a_saved_key_comes_back_the_same_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let key = Key::generate(Marking::lists(), vocabulary().with_model("tale")).with_tenant("acme").unwrap();
        let path = folder.path().join("a.key");
        key.save(&path).unwrap();
        let back = Key::load(&path).unwrap();
        assert_eq!(text(&back), text(&key));
        assert_eq!((back.tenant(), back.vocabulary().model()), ("acme", Some("tale")));
        let before = std::fs::read(&path).unwrap();
        assert!(key.save(&path).unwrap_err().to_string().contains("exists"));
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_is_refused_if_it_is_a_key() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        Key::generate(Marking::lists(), vocabulary()).save(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        let is_roots = path.metadata().unwrap().uid() == 0;
        for (mode, good) in
            [(0o600, true), (0o400, true), (0o440, is_roots), (0o640, false), (0o644, false), (0o660, false)]
        {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            match Key::load(&path) {
                Ok(_) => assert!(good, "{mode:o}"),
                Err(error) => {
                    let said = error.to_string();
                    assert!(!good && said.contains(&format!("{mode:04o}")) && said.contains("chmod 600"), "{said}");
                }
            }
        }
        let other = folder.path().join("tale.txt");
        std::fs::write(&other, "Call me Ishmael.").unwrap();
        let said = Key::load(&other).unwrap_err().to_string();
        assert!(said.contains("is not a key file") && !said.contains("chmod"), "{said}");
    }

    #[test]
    fn faults_are_named_and_never_quote_the_file() {
        let good = text(&Key::generate(Marking::lists(), vocabulary()));
        let secret = secret_of(&good);
        for (bad, said) in [
            (good.replace("0.25", "0.3"), "gamma is 0.3"),
            (good.replace("\"soft\": 2.0", "\"soft\": -1.0"), "delta is -1"),
            (good.replace("\"width\": 4", "\"width\": 40"), "context width is 40"),
            (good.replace("\"size\": 4096", "\"size\": 0"), "a vocabulary has 1 to"),
            (good.replace(FORMAT, "verdigris-key-9"), "newer version"),
            (good.replace(secret, &secret[2..]), "31 bytes, but native takes 32"),
            (good.replace(secret, &"zz".repeat(32)), "not hexadecimal"),
            (
                good.replace(
                    "\"secret\"",
                    "\"period\": {\"from\": \"2026-05-01\", \"until\": \"2026-04-01\"}, \"secret\"",
                ),
                "would end (2026-04-01) before",
            ),
            (good.replace("\"secret\"", "\"period\": {\"from\": \"soon\"}, \"secret\""), "does not read"),
            (good.replace("\"secret\"", "\"sekret\""), "unknown field at line"),
            (good.replace("\"width\": 4", "\"width\": 4, \"salt\": 1"), "unknown field at line"),
            (good.replace("\"id\": \"", &format!("\"id\": 7, \"x{secret}\": \"")), "does not read as one at line"),
            (good.replace("\"size\": 4096", &format!("\"size\": \"{secret}\"")), "does not read"),
            (good[..good.len() / 2].to_owned(), "does not read"),
            (String::new(), "does not read"),
            ("[".repeat(5000), "does not read"),
            (" ".repeat(300_000), "longer than"),
        ] {
            let fault = Key::parse(bad.as_bytes()).unwrap_err().to_string();
            assert!(fault.contains(said), "{fault:?} should say {said:?}");
            assert!(!fault.contains(&secret[4..20]), "{fault}");
        }
        let shown = format!("{:?}", Key::parse(good.as_bytes()).unwrap());
        assert!(shown.contains("redacted") && !shown.contains(&secret[..8]), "{shown}");
    }

    /// A file with equal keys, for which no p-value would hold. Only a person or another program can have written it.
    #[test]
    fn a_file_whose_keys_repeat_is_refused() {
        let table = synthid::Parameters { bits: Bits::Table, ngram_len: 5, score: Score::Mean };
        let key = Key::new(vec![0xab; 24], "k", Dialect::Synthid(table), None, vocabulary()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        key.save(&path).unwrap();
        assert!(Key::load(&path).is_ok(), "the table may have them");
        let hash = text(&key).replace("\"table\"", "\"hash\"");
        std::fs::write(&path, &hash).unwrap();
        let said = Key::load(&path).unwrap_err().to_string();
        assert!(said.contains("a.key") && said.contains("keys 1 and 2 are the same number"), "{said}");
        assert!(said.contains("give keys that are all different") && !said.contains("abab"), "{said}");
    }

    /// A damaged key would find nothing, as if the text had no mark.
    #[test]
    fn a_changed_file_is_told() {
        let good = text(&Key::generate(Marking::lists(), vocabulary()));
        let secret = secret_of(&good);
        let digit = if secret.starts_with('0') { "1" } else { "0" };
        for bad in [
            good.replace(secret, &format!("{digit}{}", &secret[1..])),
            good.replace("0.25", "0.5"),
            good.replace("\"id\": \"vg-", "\"id\": \"vG-"),
        ] {
            assert!(matches!(Key::parse(bad.as_bytes()), Err(BadKeyFile::Changed)), "{bad}");
        }
        let laid_out_otherwise = good.replace('\n', "\r\n").replace(": ", " :\t");
        assert!(Key::parse(laid_out_otherwise.as_bytes()).is_ok());
        let without: String = good.lines().filter(|line| !line.contains("\"check\"")).collect();
        let without = without.replace(&format!("{secret}\","), &format!("{secret}\""));
        assert!(Key::parse(without.replace("0.25", "0.5").as_bytes()).is_ok(), "on purpose: {without}");
        for check in ["", "0", "00112233445566778899"] {
            let bad = without.replace("\"format\"", &format!("\"check\": \"{check}\", \"format\""));
            assert!(matches!(Key::parse(bad.as_bytes()), Err(BadKeyFile::Changed)), "{bad}");
        }
    }

    #[test]
    fn a_missing_file_and_a_folder_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = Key::load(&folder.path().join("none.json")).unwrap_err().to_string();
        assert!(missing.contains("none.json"), "{missing}");
        assert!(Key::load(folder.path()).unwrap_err().to_string().contains("not a file"));
    }

    /// A program that knows no variants refuses such a file instead of finding nothing with it.
    #[test]
    fn variants_are_in_the_file() {
        let one = Key::from_secret([7; 32], "k", Marking::lists(), VocabularyId::new(4096, "abc").unwrap()).unwrap();
        let text = |key: &Key| String::from_utf8(key.to_json().to_vec()).unwrap();
        assert!(!text(&one).contains("variants"));
        let many = one.with_variants(8).unwrap();
        assert!(text(&many).contains("\"variants\": 8,"), "{}", text(&many));
        assert_eq!(Key::parse(text(&many).as_bytes()).unwrap().variants(), 8);
        let none = text(&many).replace("\"variants\": 8", "\"variants\": 0");
        assert!(Key::parse(none.as_bytes()).is_err());
    }

    #[test]
    fn keys_of_before_still_read() {
        let secret = format!("{:016x}", DEFAULT_HASH_KEY);
        let old = |id: &str, tenant: &str, scheme: &str, secret: &str| {
            let tenant = if tenant.is_empty() { String::new() } else { format!(r#""tenant":"{tenant}","#) };
            let file = format!(
                r#"{{"format":"{FORMAT}","id":"{id}",{tenant}"scheme":{scheme},"strength":{{"soft":2.0}},"vocabulary":{{"size":4096,"fingerprint":"abc"}},"secret":"{secret}"}}"#
            );
            Key::parse(file.as_bytes()).unwrap()
        };
        let kgw = old("k", "", r#"{"name":"kgw-simple-1","gamma":0.5}"#, &secret);
        assert!(kgw.is_public() && kgw.describe().contains("kgw, gamma 0.5, simple_1"), "{}", kgw.describe());
        let flips = old("k", "", r#"{"name":"sbw","seeding":"simple_1","gamma":0.5}"#, &secret);
        assert!(flips.describe().contains("gpu-simple_1"), "{}", flips.describe());
        // Its lists are unchanged: older key files of tenants hold the secret itself.
        let native = r#"{"name":"native","gamma":0.25,"context":{"function":"min","width":4}}"#;
        let tenant = old("k", "acme", native, &"ab".repeat(32));
        let gamma = Gamma::new(0.25).unwrap();
        let lists = crate::Native::new(&[0xab; 32], "k", "acme", gamma, Context::default(), 4096);
        let observations = |scheme: &dyn crate::Scheme| {
            let mut observations = Vec::new();
            scheme.observe(&(0..200).collect::<Vec<_>>(), &mut observations);
            observations
        };
        assert_eq!(observations(&*tenant.scheme().unwrap()), observations(&lists));
    }
}
