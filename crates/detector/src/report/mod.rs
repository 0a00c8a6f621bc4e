//! Signed reports on detection: which text a detector judged, when, by which keys, and the verdict.
//!
//! A report is a JSON Web Signature (RFC 7515) in the flattened JSON serialization, signed with Ed25519 (RFC 8037), so
//! any JOSE library verifies it. It contains a hash of the text but never the text, and no secret.
//!
//! | module | contents |
//! |---|---|
//! | `content` | the hash of a text |
//! | `detector_url` | the address of a detector |
//! | `report_key` | the private key that signs |
//! | `public_key` | public keys: PEM, JWK, thumbprints |
//! | `signed` | signing and verifying |
//! | `error` | errors |

mod content;
mod detector_url;
mod error;
mod public_key;
mod report_key;
mod signed;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use verdigris_watermark::Key;

pub use self::content::{Content, Hashing};
pub use self::detector_url::{BadDetectorUrl, DetectorUrl};
pub use self::error::{BadReportKey, ReportError, ReportKeyError};
pub use self::public_key::{PublicKey, PublicKeys};
pub use self::report_key::ReportKey;
pub use self::signed::{MAX_REPORT, SignedReport, VerifiedReport};
use crate::judge::{Judgement, TriedReading};

/// The name and version of the format. The version changes when a field is removed or changes its meaning.
pub const FORMAT: &str = "verdigris-report-1";

/// The beginning of the names of all versions of the format.
const ANY_FORMAT: &str = "verdigris-report-";

/// The contents of a report. `docs/json.md` describes each field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: String,
    /// The time at which the report was signed, by the signer's clock.
    pub time: Timestamp,
    /// The detector.
    pub detector: DetectorName,
    /// The hash of the text.
    pub content: Content,
    /// The keys and readings that were tested.
    pub tested: Tested,
    /// The verdict, with the fields of `verdigris detect --json`.
    pub verdict: Value,
}

/// The detector that made a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetectorName {
    /// `verdigris`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its address, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<DetectorUrl>,
}

/// The keys and readings that were tested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tested {
    /// The keys that the mark was looked for with.
    pub keys: Vec<TestedKey>,
    /// The ways in which the text was read.
    pub readings: Vec<TestedReading>,
    /// Whether marked passages were looked for.
    pub windows: bool,
    /// Whether the constraint that the text was written under was taken into account.
    pub constraint: bool,
}

/// A key that was tested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestedKey {
    /// Its id.
    pub id: String,
    /// Its dialect.
    pub dialect: String,
    /// Its scheme, in words.
    pub scheme: String,
}

/// A way in which the text was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestedReading {
    /// The repairs made before reading, each with its number; empty for the original text.
    pub repairs: Vec<(String, usize)>,
    /// The number of bytes left out at the beginning.
    pub skipped: usize,
}

/// Signs reports: a detector's private key and address.
#[derive(Debug)]
pub struct Reporter {
    key: ReportKey,
    url: Option<DetectorUrl>,
}

impl Reporter {
    /// Creates a reporter of the detector at an address, if it has one.
    pub fn new(key: ReportKey, url: Option<DetectorUrl>) -> Self {
        Self { key, url }
    }

    /// The public key that verifies the reports.
    pub fn public_key(&self) -> PublicKey {
        self.key.public_key()
    }

    /// Signs a report on a judgement of a text under the given keys. `verdict` is its [`Verdict`](crate::Verdict), or
    /// the fields of it that the report may show.
    ///
    /// # Errors
    /// [`ReportError::Long`] if the report would be longer than [`MAX_REPORT`].
    pub fn sign(
        &self,
        content: Content,
        keys: &[&Key],
        judgement: &Judgement<'_>,
        verdict: Value,
    ) -> Result<SignedReport, ReportError> {
        let report = Report {
            format: FORMAT.into(),
            time: now(),
            detector: DetectorName {
                name: "verdigris".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                url: self.url.clone(),
            },
            content,
            tested: Tested {
                keys: keys.iter().map(|key| TestedKey::of(key)).collect(),
                readings: judgement.readings.iter().map(TestedReading::of).collect(),
                windows: judgement.searched,
                constraint: judgement.has_constraint,
            },
            verdict,
        };
        SignedReport::new(&self.key, &report)
    }
}

impl TestedKey {
    fn of(key: &Key) -> Self {
        Self { id: key.id().into(), dialect: key.dialect().name().into(), scheme: key.describe() }
    }
}

impl TestedReading {
    fn of(read: &TriedReading) -> Self {
        let repairs = read.repairs.iter().map(|&(repair, count)| (repair.name().into(), count));
        Self { repairs: repairs.collect(), skipped: read.skipped }
    }
}

/// The current time in whole seconds.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
