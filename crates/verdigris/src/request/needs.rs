//! Options that have no effect without another one.

use verdigris_decoding::DraftLength;

use crate::error::Error;
use crate::request::Request;
use crate::request::options::LogprobsMode;

impl Request<'_> {
    /// Refuses options whose effect needs an option that is not set.
    pub(super) fn check_needs(&self) -> Result<(), Error> {
        let (mark, reported) = (&self.mark, &self.reported);
        let (is_marked, is_drafted) = (mark.key.is_some(), self.drafting.is_requested());
        let asks_for_drafts = self.drafting.length != DraftLength::Auto;
        let (logprobs, mode) = ("log-probabilities", "a distribution of log-probabilities");
        let options = [
            (mark.payload.is_some(), is_marked, "a payload", "a key that carries it"),
            (mark.entropy_threshold.is_some(), is_marked, "an entropy threshold", "a key of green lists"),
            (mark.after.is_some(), is_marked, "a surprise after which it is marked", "a key"),
            (self.thinking.marks_answer_only, is_marked, "a mark of the answer alone", "a key"),
            (asks_for_drafts, is_drafted, "a number of drafts", "a drafter"),
            (reported.logprobs_mode != LogprobsMode::Raw, reported.logprobs.is_some(), mode, logprobs),
        ];
        let unused = options.into_iter().find(|(is_set, is_used, ..)| *is_set && !is_used);
        unused.map_or(Ok(()), |(_, _, what, needs)| Err(Error::Unused { what, needs }))
    }
}
