//! One group of texts: who wrote them is one.

use std::sync::Arc;

use verdigris_detector::watermark::Scheme;
use verdigris_detector::{DetectError, Evidence, MAX_TEXT};

use crate::error::JudgeError;
use crate::judges::Judge;
use crate::texts::NotUtf8;

use super::pool::{Pool, Reading};

/// What the texts of a group came to so far.
#[derive(Default)]
pub(super) struct Group {
    /// Who judges: known from the first text on.
    pub(super) judge: Option<Arc<Judge>>,
    /// Texts that were judged.
    pub(super) documents: u64,
    /// Texts that could not be.
    pub(super) faulty: u64,
    pub(super) tokens: u64,
    /// Why one of them could not be: of all reasons the first in the order of letters, so that no order of texts
    /// matters.
    pub(super) error: Option<String>,
    pub(super) pool: Pool,
}

/// What one text adds to its group.
pub(super) enum Addition {
    Read(Reading),
    Fault(String),
}

impl Addition {
    pub(super) fn of(judge: &Judge, scheme: &dyn Scheme, text: Result<&str, NotUtf8>) -> Self {
        let read = match text {
            Err(fault) => return Self::Fault(fault.to_string()),
            Ok(text) if text.len() > MAX_TEXT => {
                let bytes = text.len();
                return Self::Fault(format!("it has {bytes} bytes, and at most {MAX_TEXT} are combined with others"));
            }
            Ok(text) => Reading::of(judge.reader(), scheme, text),
        };
        read.map_or_else(|fault| Self::Fault(fault.to_string()), Self::Read)
    }
}

/// The scheme of a judge's key, if texts under it can be put together.
pub(super) fn scheme(judge: &Judge) -> Result<Arc<dyn Scheme>, JudgeError> {
    if judge.key().payload_bits().is_some() {
        return Err(JudgeError::Payload(judge.key().id().to_owned()));
    }
    Ok(judge.key().scheme().map_err(DetectError::from)?)
}

impl Group {
    /// Takes a judge, who must be that of the others.
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

    /// The evidence of all texts, and who judged; nothing where there was no text.
    pub(super) fn evidence(&mut self) -> Result<Option<(Arc<Judge>, Evidence)>, JudgeError> {
        let Some(judge) = self.judge.clone() else { return Ok(None) };
        let evidence = self.pool.evidence(&*scheme(&judge)?, self.tokens);
        Ok(Some((judge, evidence)))
    }

    /// The bytes that it takes.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>() + self.pool.size() + self.error.as_ref().map_or(0, String::capacity)
    }
}
