//! Signing and verifying: JSON Web Signatures (RFC 7515) with Ed25519.

use std::cell::Cell;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::content::Content;
use super::error::ReportError;
use super::payload::{ANY_FORMAT, FORMAT, MAX_REPORT, Report};
use super::public_key::PublicKeys;
use super::report_key::ReportKey;

/// The longest name of a key or of a format in an error.
const LONGEST_NAME: usize = 64;

/// The type that the header names, so that no signature with the same key for another purpose is taken for a report.
const TYPE: &str = "verdigris-report+json";

/// A signed report: a JSON Web Signature in the flattened JSON serialization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedReport {
    payload: String,
    protected: String,
    signature: String,
}

/// The protected header.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: String,
    typ: String,
    /// Extensions that must be understood; none is.
    crit: Option<serde::de::IgnoredAny>,
}

/// A report whose signature is valid.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedReport {
    /// The thumbprint of the key that signed it.
    pub kid: String,
    /// The report.
    pub report: Report,
}

impl VerifiedReport {
    /// Checks that the report is about a text.
    ///
    /// # Errors
    /// [`ReportError::OtherText`].
    pub fn is_about(&self, text: &Content) -> Result<(), ReportError> {
        let Content { sha256, bytes } = &self.report.content;
        if self.report.content == *text {
            return Ok(());
        }
        Err(ReportError::OtherText { sha256: shortened(sha256), bytes: *bytes })
    }
}

impl SignedReport {
    /// Signs a report.
    pub(super) fn new(key: &ReportKey, report: &Report) -> Result<Self, ReportError> {
        let header = json!({"alg": "EdDSA", "kid": key.public_key().thumbprint(), "typ": TYPE});
        let payload = serde_json::to_vec(report).expect("a report serialises");
        // Base64 takes four bytes for three, and the rest is short.
        if payload.len() > MAX_REPORT / 4 * 3 - 1024 {
            return Err(ReportError::Long);
        }
        Ok(Self::of(key, header.to_string().as_bytes(), &payload))
    }

    /// Signs a payload under a header.
    fn of(key: &ReportKey, header: &[u8], payload: &[u8]) -> Self {
        let (protected, payload) = (BASE64URL_NOPAD.encode(header), BASE64URL_NOPAD.encode(payload));
        let signature = key.sign(signed_bytes(&protected, &payload).as_bytes());
        Self { payload, protected, signature: BASE64URL_NOPAD.encode(&signature) }
    }

    /// Reads a file of signed reports, one at a time. An error ends it.
    pub fn read(file: impl Read) -> impl Iterator<Item = Result<Self, ReportError>> {
        let left = Rc::new(Cell::new(0));
        let bounded = Bounded { inner: BufReader::new(file), left: left.clone() };
        let mut reports = serde_json::Deserializer::from_reader(bounded).into_iter();
        let mut is_over = false;
        std::iter::from_fn(move || {
            left.set(if is_over { 0 } else { MAX_REPORT });
            let next = reports.next().filter(|_| !is_over);
            is_over = !matches!(next, Some(Ok(_)));
            Some(next?.map_err(|error| ReportError::of(&error, left.get() == 0)))
        })
    }

    /// Verifies the signature, and reads the report.
    ///
    /// # Errors
    /// [`ReportError`].
    pub fn verify(&self, keys: &PublicKeys) -> Result<VerifiedReport, ReportError> {
        let decoded =
            |text: &str, fault| BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| ReportError::Damaged(fault));
        let header = decoded(&self.protected, "the header is not base64url")?;
        let header: Header =
            serde_json::from_slice(&header).map_err(|_| ReportError::Damaged("the header does not read"))?;
        if header.alg != "EdDSA" || header.typ != TYPE || header.crit.is_some() {
            return Err(ReportError::Damaged("the header is not that of a report"));
        }
        let key = keys
            .named(&header.kid)
            .ok_or_else(|| ReportError::OtherKey { kid: shortened(&header.kid), given: keys.thumbprints() })?;
        let signature = decoded(&self.signature, "the signature is not base64url")?;
        let signature = signature.try_into().map_err(|_| ReportError::Damaged("the signature has not 64 bytes"))?;
        if !key.verifies(signed_bytes(&self.protected, &self.payload).as_bytes(), &signature) {
            return Err(ReportError::Signature);
        }
        let payload = decoded(&self.payload, "the payload is not base64url")?;
        Ok(VerifiedReport { kid: header.kid, report: parse(&payload)? })
    }
}

/// The bytes that are signed: RFC 7515, section 5.1.
fn signed_bytes(protected: &str, payload: &str) -> String {
    format!("{protected}.{payload}")
}

/// Parses the payload of a report, whose signature is valid.
fn parse(payload: &[u8]) -> Result<Report, ReportError> {
    #[derive(Deserialize)]
    struct Named {
        format: String,
    }
    let named: Named =
        serde_json::from_slice(payload).map_err(|_| ReportError::Damaged("the payload names no format"))?;
    if named.format != FORMAT {
        return Err(match named.format.starts_with(ANY_FORMAT) {
            true => ReportError::Version(shortened(&named.format)),
            false => ReportError::Damaged("the payload is not a report"),
        });
    }
    serde_json::from_slice(payload).map_err(|_| ReportError::Damaged("a field of the report does not read"))
}

/// The beginning of a name that the file gives, for an error.
fn shortened(name: &str) -> String {
    name.chars().take(LONGEST_NAME).collect()
}

/// A reader that ends with an error after a number of bytes.
struct Bounded<R> {
    inner: R,
    left: Rc<Cell<usize>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 {
            return Err(io::Error::other("it is too long"));
        }
        let most = into.len().min(left);
        let count = self.inner.read(&mut into[..most])?;
        self.left.set(left - count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The private key of RFC 8037, appendix A.1.
    fn rfc_key() -> ReportKey {
        let d = BASE64URL_NOPAD.decode(b"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A").unwrap();
        ReportKey::from_secret(&d.try_into().unwrap())
    }

    fn keys(key: &ReportKey) -> PublicKeys {
        key.public_key().into()
    }

    fn payload(format: &str) -> Vec<u8> {
        let report = json!({
            "format": format, "time": "2026-11-27T08:00:00Z", "detector": {"name": "verdigris", "version": "0.1.0"},
            "content": Content::of("A text."), "tested": {
                "keys": [{"id": "k", "dialect": "native", "scheme": "native"}],
                "readings": [{"repairs": [["invisible", 3]], "skipped": 0}], "windows": false, "constraint": false,
            },
            "verdict": {"verdict": "marked", "p": 1e-300},
        });
        report.to_string().into_bytes()
    }

    fn header(key: &ReportKey, more: serde_json::Value) -> Vec<u8> {
        let mut header = json!({"alg": "EdDSA", "kid": key.public_key().thumbprint(), "typ": TYPE});
        header.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        header.to_string().into_bytes()
    }

    fn signed(key: &ReportKey) -> SignedReport {
        SignedReport::of(key, &header(key, json!({})), &payload(FORMAT))
    }

    /// The public key, the thumbprint and the signature of RFC 8037, appendices A.2 to A.4.
    #[test]
    fn keys_and_signatures_are_those_of_the_standard() {
        let public = rfc_key().public_key();
        assert_eq!(public.jwk()["x"], "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
        assert_eq!(public.thumbprint(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
        let signed = SignedReport::of(&rfc_key(), br#"{"alg":"EdDSA"}"#, b"Example of Ed25519 signing");
        assert_eq!(signed.protected, "eyJhbGciOiJFZERTQSJ9");
        assert_eq!(signed.payload, "RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc");
        let signature = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
        assert_eq!(signed.signature, signature);
        let message = signed_bytes(&signed.protected, &signed.payload);
        let bytes = BASE64URL_NOPAD.decode(signature.as_bytes()).unwrap().try_into().unwrap();
        assert!(public.verifies(message.as_bytes(), &bytes));
        assert!(!public.verifies(&message.as_bytes()[1..], &bytes));
    }

    #[test]
    fn a_report_says_what_was_signed() {
        let key = rfc_key();
        let verified = signed(&key).verify(&keys(&key)).unwrap();
        assert_eq!(verified.kid, key.public_key().thumbprint());
        assert_eq!(serde_json::to_vec(&verified.report).unwrap(), payload(FORMAT));
        verified.is_about(&Content::of("A text.")).unwrap();
        let other = verified.is_about(&Content::of("A text. ")).unwrap_err();
        assert!(matches!(other, ReportError::OtherText { bytes: 7, .. }), "{other}");
    }

    /// One changed letter anywhere is an error, and so is each field of another report.
    #[test]
    fn any_change_is_noticed() {
        let key = rfc_key();
        let whole = signed(&key);
        let json = serde_json::to_string(&whole).unwrap();
        for at in 0..json.len() {
            let mut bytes = json.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let text = String::from_utf8(bytes).unwrap();
            let read: Vec<_> = SignedReport::read(text.as_bytes()).collect();
            assert!(
                read.iter().any(|read| read.as_ref().map_or(true, |read| read.verify(&keys(&key)).is_err())),
                "{text}"
            );
        }
        let other = SignedReport::of(&key, &header(&key, json!({})), &payload(FORMAT)[..200]);
        for mixed in [
            SignedReport { payload: other.payload.clone(), ..whole.clone() },
            SignedReport { signature: other.signature.clone(), ..whole.clone() },
        ] {
            assert_eq!(mixed.verify(&keys(&key)), Err(ReportError::Signature));
        }
    }

    #[test]
    fn other_keys_versions_and_headers_are_named() {
        let (key, other) = (rfc_key(), ReportKey::generate().unwrap());
        let fault = signed(&key).verify(&keys(&other)).unwrap_err();
        let said = fault.to_string();
        assert!(fault.is_refuted() && said.contains(&key.public_key().thumbprint()), "{said}");
        assert!(said.contains(&other.public_key().thumbprint()), "{said}");
        // The other key's signature under this key's name.
        let false_name = SignedReport::of(&other, &header(&key, json!({})), &payload(FORMAT));
        assert_eq!(false_name.verify(&keys(&key)), Err(ReportError::Signature));
        let of = |more, format: &str| SignedReport::of(&key, &header(&key, more), &payload(format)).verify(&keys(&key));
        assert_eq!(of(json!({}), "verdigris-report-2"), Err(ReportError::Version("verdigris-report-2".into())));
        for (more, format) in [
            (json!({}), "verdigris-detect-1"),
            (json!({"alg": "none"}), FORMAT),
            (json!({"alg": "HS256"}), FORMAT),
            (json!({"typ": "JWT"}), FORMAT),
            (json!({"crit": ["exp"]}), FORMAT),
        ] {
            let fault = of(more.clone(), format).unwrap_err();
            assert!(matches!(fault, ReportError::Damaged(_)), "{more} {format}: {fault}");
        }
        let cut = SignedReport::of(&key, &header(&key, json!({})), &payload(FORMAT)[..200]);
        assert!(matches!(cut.verify(&keys(&key)), Err(ReportError::Damaged(_))));
    }

    #[test]
    fn files_have_one_report_after_the_other() {
        let key = rfc_key();
        let one = serde_json::to_string(&signed(&key)).unwrap();
        let pretty = serde_json::to_string_pretty(&signed(&key)).unwrap();
        let file = format!("{one}\n{pretty}{one}\n\n");
        assert_eq!(SignedReport::read(file.as_bytes()).map(Result::unwrap).count(), 3);
        assert_eq!(SignedReport::read(&b" \n"[..]).count(), 0);
        for (damaged, said) in [
            (one[..one.len() - 5].to_owned(), "ends early"),
            (format!("{one}\n{{\"payload\": 3}}\n{one}"), "exactly the fields"),
            (one.replace('{', "{\"header\": {}, "), "exactly the fields"),
            (format!("{one}{}", "[".repeat(100_000)), "exactly the fields"),
            (format!("{one} report"), "not JSON"),
            (format!("{one}{{\"payload\": \"{}", "a".repeat(MAX_REPORT)), "longer than 16 MiB"),
        ] {
            let read: Vec<_> = SignedReport::read(damaged.as_bytes()).collect();
            let fault = read.last().unwrap().as_ref().unwrap_err().to_string();
            assert!(fault.contains(said), "{fault:?} should say {said:?}");
        }
    }

    /// The limit is for each report, not for the file.
    #[test]
    fn long_reports_are_refused_when_they_are_signed() {
        let key = rfc_key();
        let mut report: Report = serde_json::from_slice(&payload(FORMAT)).unwrap();
        report.verdict = json!("a".repeat(MAX_REPORT / 4 * 3 - 2000));
        let longest = serde_json::to_string(&SignedReport::new(&key, &report).unwrap()).unwrap();
        let read = SignedReport::read(longest.as_bytes().chain(longest.as_bytes()));
        assert_eq!(read.filter(|read| read.as_ref().unwrap().verify(&keys(&key)).is_ok()).count(), 2);
        report.verdict = json!("a".repeat(MAX_REPORT / 4 * 3));
        assert_eq!(SignedReport::new(&key, &report), Err(ReportError::Long));
    }

    #[test]
    fn public_keys_are_read_in_each_format() {
        let (key, other) = (rfc_key(), ReportKey::generate().unwrap());
        let (jwk, pem) = (key.public_key().jwk(), key.public_key().pem());
        let elliptic = json!({"kty": "EC", "crv": "P-256", "x": "a", "y": "b"});
        let set = json!({"keys": [elliptic, other.public_key().jwk(), jwk]});
        for text in [pem.clone(), format!("\n{}\n", pem.replace('\n', "\r\n")), jwk.to_string(), set.to_string()] {
            let keys = PublicKeys::parse(text.as_bytes()).unwrap_or_else(|fault| panic!("{fault}: {text}"));
            assert!(signed(&key).verify(&keys).is_ok(), "{text}");
        }
        // The neutral element, for which a signature of everything can be made.
        let mut neutral = [0; 32];
        neutral[0] = 1;
        let weak = json!({"kty": "OKP", "crv": "Ed25519", "x": BASE64URL_NOPAD.encode(&neutral)});
        let private = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        for (text, fault) in [
            (weak.to_string(), "weak"),
            (private.to_owned(), "private key"),
            (json!({"keys": [elliptic]}).to_string(), "not an Ed25519 public key"),
            (json!({"kty": "OKP", "crv": "Ed25519", "x": "AA"}).to_string(), "not an Ed25519 public key"),
            ("hello".to_owned(), "not an Ed25519 public key"),
            (pem[..60].to_owned(), "not an Ed25519 public key"),
            (" ".repeat(100_000), "longer than a key"),
        ] {
            let said = PublicKeys::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(said.contains(fault), "{said:?} should say {fault:?}");
        }
    }
}
