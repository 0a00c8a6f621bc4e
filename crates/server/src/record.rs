//! The audit entry of an answer in progress.

use std::sync::Arc;

use jiff::Timestamp;
use verdigris::Key;

use crate::answer::{Choice, Usage};
use crate::audit::{Entry, Outcome, TextEntry};
use crate::caller::{Caller, Report};
use crate::input_marks::InputMark;
use crate::protocol::Refusal;
use crate::service::Service;

/// The audit entry of an answer in progress. If it is dropped before the answer has ended, a stream that has begun is
/// recorded as cut.
pub(crate) struct Record {
    service: Arc<Service>,
    report: Report,
    entry: Entry,
    has_begun: bool,
    /// Whether the beginning of the stream is on record.
    is_announced: bool,
    is_entered: bool,
}

impl Record {
    pub(crate) fn new(
        service: Arc<Service>,
        caller: Caller,
        answer_id: &str,
        model: &str,
        is_stream: bool,
        key: Option<&Key>,
        input_marks: Option<Vec<InputMark>>,
    ) -> Self {
        let Caller { tenant, request_id, route, report, .. } = caller;
        let entry = Entry {
            time: Timestamp::now(),
            request_id: request_id.to_string(),
            answer_id: answer_id.into(),
            tenant: tenant.to_string(),
            endpoint: route.to_string(),
            model: model.into(),
            stream: is_stream,
            outcome: Outcome::Cut,
            key_id: key.map(|key| key.id().into()),
            scheme: key.map(|key| key.dialect().name()),
            input_marks,
            prompt_tokens: 0,
            completion_tokens: 0,
            texts: Vec::new(),
        };
        Self { service, report, entry, has_begun: false, is_announced: false, is_entered: false }
    }

    /// Notes that a piece of the answer was written.
    pub(crate) fn piece(&mut self) {
        self.has_begun = true;
    }

    /// Notes that a stream ends with an error, which its status does not show.
    pub(crate) fn failed(&self, refusal: &Refusal) {
        self.service.metrics.refused(refusal.status, refusal.code);
        if let Some(code) = refusal.code {
            self.service.metrics.broke(code);
            self.report.fail(code);
        }
    }

    /// Adds a text that has ended; `usage` is that of the answer so far.
    pub(crate) fn text(&mut self, index: usize, choice: &Choice, usage: Usage) {
        let Choice { written, mark, manifest, .. } = choice;
        let reason = choice.finish_reason();
        self.service.metrics.finished(reason);
        self.entry.texts.push(TextEntry::new(index, mark, written.tokens.len(), reason, manifest.as_ref()));
        (self.entry.prompt_tokens, self.entry.completion_tokens) = (usage.prompt, usage.completion);
    }

    /// Records that a stream is about to begin, and waits until that is on disk.
    ///
    /// # Errors
    /// If that fails; then nothing of the stream may be sent.
    pub(crate) async fn begin(&mut self) -> Result<(), Refusal> {
        (self.entry.time, self.entry.outcome) = (Timestamp::now(), Outcome::Begun);
        self.service.operator.enter(&self.entry).await?;
        self.is_announced = true;
        Ok(())
    }

    /// Records an answer that is complete, or refused because of one of its texts, and waits until that is on disk.
    ///
    /// # Errors
    /// If that fails; then the answer must not end.
    pub(crate) async fn enter(&mut self, outcome: Outcome) -> Result<(), Refusal> {
        (self.entry.time, self.entry.outcome) = (Timestamp::now(), outcome);
        self.entry.texts.sort_by_key(|text| text.index);
        self.service.operator.enter(&self.entry).await?;
        self.is_entered = true;
        Ok(())
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.is_entered {
            (self.entry.time, self.entry.outcome) = (Timestamp::now(), Outcome::Cut);
            if self.has_begun {
                self.service.metrics.finished("abort");
            }
            if self.is_announced {
                self.service.operator.note(&self.entry);
            }
        }
        // A request that was refused before anything was written has no answer to report on.
        if self.is_entered || self.is_announced || self.has_begun {
            self.report.fill(self.entry.clone());
        }
    }
}
