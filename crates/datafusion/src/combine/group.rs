//! One group of texts, judged as if they had one author.

use std::sync::Arc;

use verdigris_detector::watermark::Scheme;
use verdigris_detector::{DetectError, Evidence, MAX_TEXT};

use crate::error::JudgeError;
use crate::judges::Judge;
use crate::text_array::NotUtf8;

use super::pool::{Pool, TextObservations};

/// The totals of a group so far.
#[derive(Default)]
pub(super) struct Group {
    /// The judge, known from the first text on.
    pub(super) judge: Option<Arc<Judge>>,
    /// The number of texts that were judged.
    pub(super) documents: u64,
    /// The number of texts that could not be judged.
    pub(super) faulty: u64,
    pub(super) tokens: u64,
    /// The reason why one of them could not be judged: the alphabetically first, so that the order of texts does not
    /// matter.
    pub(super) error: Option<String>,
    pub(super) pool: Pool,
}

/// The contribution of one text to its group.
pub(super) enum Addition {
    Read(TextObservations),
    Fault(String),
}

impl Addition {
    pub(super) fn of(judge: &Judge, scheme: &dyn Scheme, text: Result<&str, NotUtf8>) -> Self {
        let read = match text {
            Err(fault) => return Self::Fault(fault.to_string()),
            Ok(text) if text.len() > MAX_TEXT => {
                let bytes = text.len();
                return Self::Fault(format!("it has {bytes} bytes, but at most {MAX_TEXT} are combined with others"));
            }
            Ok(text) => TextObservations::of(judge.reader(), scheme, text),
        };
        read.map_or_else(|fault| Self::Fault(fault.to_string()), Self::Read)
    }
}

/// Returns the scheme of a judge's key, if texts under it can be combined.
pub(super) fn scheme(judge: &Judge) -> Result<Arc<dyn Scheme>, JudgeError> {
    if judge.key().payload_bits().is_some() {
        return Err(JudgeError::Payload(judge.key().id().to_owned()));
    }
    Ok(judge.key().scheme().map_err(DetectError::from)?)
}

impl Group {
    /// Sets the judge, which must be the same for all texts.
    pub(super) fn under(&mut self, judge: &Arc<Judge>) -> Result<(), JudgeError> {
        match &self.judge {
            Some(other) if other.key().id() != judge.key().id() => {
                let mut ids = [other, judge].map(|judge| judge.key().id().to_owned());
                ids.sort();
                let [first, second] = ids;
                Err(JudgeError::SeveralKeys(first, second))
            }
            Some(_) => Ok(()),
            None => {
                self.judge = Some(judge.clone());
                Ok(())
            }
        }
    }

    pub(super) fn add(&mut self, addition: Addition) {
        match addition {
            Addition::Read(read) => {
                self.documents += 1;
                self.tokens += read.tokens;
                self.pool.add(read.observations);
            }
            Addition::Fault(fault) => {
                self.faulty += 1;
                self.say(Some(fault));
            }
        }
    }

    pub(super) fn merge(&mut self, other: Self) -> Result<(), JudgeError> {
        if let Some(judge) = &other.judge {
            self.under(judge)?;
        }
        self.documents += other.documents;
        self.faulty += other.faulty;
        self.tokens += other.tokens;
        self.say(other.error);
        self.pool.merge(other.pool);
        Ok(())
    }

    fn say(&mut self, fault: Option<String>) {
        self.error = match (self.error.take(), fault) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }

    /// Returns the evidence of all texts and the judge; `None` if there was no text.
    pub(super) fn evidence(&mut self) -> Result<Option<(Arc<Judge>, Evidence)>, JudgeError> {
        let Some(judge) = self.judge.clone() else { return Ok(None) };
        let evidence = self.pool.evidence(&*scheme(&judge)?, self.tokens);
        Ok(Some((judge, evidence)))
    }

    /// The size of the group in bytes.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>() + self.pool.size() + self.error.as_ref().map_or(0, String::capacity)
    }
}
