//! The number that a mark carries.

use verdigris_text::ReadError;
use verdigris_watermark::normalize::Repair;
use verdigris_watermark::payload::PayloadReading;
use verdigris_watermark::{Evidence, Key};

use crate::error::DetectError;
use crate::reader::Reader;
use crate::tokens::Tokens;
use crate::versions::Versions;

/// The payload that fits a text best.
#[derive(Clone, Debug)]
pub struct PayloadFinding {
    /// The payload, whether the text is marked or not.
    pub read: PayloadReading,
    /// The evidence that the text carries any payload. It pays for all payloads and all looks.
    pub evidence: Evidence,
    /// The repairs that its look needed; empty where the text was read as it came.
    pub repairs: Vec<(Repair, usize)>,
}

impl Reader {
    /// Reads the payload of a text in all its versions ([`Versions`]), with a key that carries payloads.
    ///
    /// # Errors
    /// [`DetectError::ForeignKey`] where the key was made for another tokenizer, [`DetectError::Key`] where it carries
    /// no payload, [`DetectError::Read`] where the text cannot be tokenized, and [`DetectError::Form`] where no version
    /// of it is of the reader's form.
    pub fn payload(&self, key: &Key, text: &str) -> Result<PayloadFinding, DetectError> {
        self.fits(key)?;
        key.payload_reader()?;
        let versions = Versions::of(text, true);
        let readings = versions.look(|version| {
            let tokens = Tokens::of(self.tokenizer(), self.form(), version.text)?;
            Ok::<_, ReadError>(tokens.map(|tokens| (tokens, version.repairs())))
        })??;
        let looks = readings.len() as f64;
        let mut best: Option<PayloadFinding> = None;
        for (tokens, repairs) in readings {
            let mut payloads = key.payload_reader()?;
            tokens.read_payload(&mut payloads);
            let evidence = payloads.evidence(tokens.len() as u64);
            if best.as_ref().is_none_or(|best| evidence.ln_p < best.evidence.ln_p) {
                let evidence = evidence.best_of(evidence.tried * looks);
                best = Some(PayloadFinding { read: payloads.read(), evidence, repairs });
            }
        }
        Ok(best.expect("the original, or a version that is of the form"))
    }
}
