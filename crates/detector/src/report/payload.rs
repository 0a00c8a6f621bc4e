//! The contents of a report.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use verdigris_watermark::Key;

use super::content::Content;
use super::detector_url::DetectorUrl;
use crate::judge::TriedReading;

/// The name and version of the format. The version changes when a field is removed or changes its meaning.
pub const FORMAT: &str = "verdigris-report-1";

/// The beginning of the names of all versions of the format.
pub(super) const ANY_FORMAT: &str = "verdigris-report-";

/// The longest signed report in bytes.
pub const MAX_REPORT: usize = 16 << 20;

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

impl TestedKey {
    pub(super) fn of(key: &Key) -> Self {
        Self { id: key.id().into(), dialect: key.dialect().name().into(), scheme: key.describe() }
    }
}

impl TestedReading {
    pub(super) fn of(read: &TriedReading) -> Self {
        let repairs = read.repairs.iter().map(|&(repair, count)| (repair.name().into(), count));
        Self { repairs: repairs.collect(), skipped: read.skipped }
    }
}
