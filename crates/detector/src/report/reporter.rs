//! A detector that signs reports.

use jiff::Timestamp;
use serde_json::Value;
use verdigris_watermark::Key;

use super::content::Content;
use super::detector_url::DetectorUrl;
use super::error::ReportError;
use super::payload::{DetectorName, FORMAT, Report, Tested, TestedKey, TestedReading};
use super::public_key::PublicKey;
use super::report_key::ReportKey;
use super::signed::SignedReport;
use crate::judge::Judgement;

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
    /// [`ReportError::Long`] if the report would be longer than [`MAX_REPORT`](super::MAX_REPORT).
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

/// The current time in whole seconds.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
