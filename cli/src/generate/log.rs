//! The texts of a run in a ledger.

use std::cell::RefCell;
use std::process::ExitCode;

use verdigris::Key;

use crate::error::Failure;
use crate::recorder::{Delivered, Recorder};

/// Records the texts of a run, all under one id. A text that cannot be recorded is delivered nevertheless, and the run
/// then fails.
pub(super) struct Log<'k> {
    recorder: Recorder,
    id: String,
    key: Option<&'k Key>,
    payload: Option<u32>,
    fault: RefCell<Option<Failure>>,
}

impl<'k> Log<'k> {
    /// `payload` is the number that the marks of all texts carry.
    pub(super) fn new(recorder: Recorder, id: String, key: Option<&'k Key>, payload: Option<u32>) -> Self {
        Self { recorder, id, key, payload, fault: RefCell::default() }
    }

    /// The id of all texts.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Records the text with a number.
    pub(super) fn record(&self, part: usize, text: &str, manifest: Option<&[u8]>) {
        let delivered = Delivered { id: &self.id, part, text, key: self.key, payload: self.payload, manifest };
        if let Err(fault) = self.recorder.record(&delivered) {
            self.fault.borrow_mut().get_or_insert(fault);
        }
    }

    /// Fails if a text could not be recorded.
    pub(super) fn finish(self, status: ExitCode) -> Result<ExitCode, Failure> {
        self.fault.into_inner().map_or(Ok(status), |fault| {
            Err(Failure::Usage(format!("{fault}; the text is written, but not in the ledger: see `ledger add`")))
        })
    }
}
