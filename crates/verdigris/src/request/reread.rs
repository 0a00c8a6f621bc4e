//! Information about a finished text: whether it satisfies its constraint, and, if requested, information about its
//! tokens, for which their rows are computed again.

use std::sync::Arc;

use verdigris_decoding::{Stop, Target};
use verdigris_logits::{Row, TokenId, Transform};
use verdigris_models::{Batch, LanguageModel, Rows, Wanted};

use crate::error::Error;
use crate::request::explain::Explainer;
use crate::request::options::LogprobsMode;
use crate::request::steering::TextModel;
use crate::request::structure::Structure;
use crate::request::{Request, Written};

/// The number of tokens of a text read in one call, which bounds the rows held at a time.
const AT_A_TIME: usize = 64;

/// Reads a prompt and a text again, and passes on the row that each token of the text was sampled from.
pub(super) fn each_row(
    model: &Arc<dyn LanguageModel>,
    prompt: &[TokenId],
    tokens: &[TokenId],
    mut each: impl FnMut(&[f32]) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some((_, before_last)) = tokens.split_last() else { return Ok(()) };
    let capacity = (prompt.len() + tokens.len()).min(model.context_length());
    let mut sequence = model.clone().begin(capacity)?;
    let mut rows = Rows::default();
    sequence.forward(&Batch::chain(prompt, Wanted::Last), &mut rows)?;
    each(rows.last())?;
    for some in before_last.chunks(AT_A_TIME) {
        sequence.forward(&Batch::chain(some, Wanted::All), &mut rows)?;
        (0..some.len()).try_for_each(|i| each(rows.row(i)))?;
    }
    Ok(())
}

/// Records whether a text satisfies its constraint.
pub(super) fn add_constraint(prompt: &[TokenId], structure: &Structure, written: &mut Written) {
    written.complete = structure.answer.as_ref().map(|constraint| {
        let (machine, mut spelled) = (constraint.machine(), Vec::new());
        written.parts().for_each(|part| part.spell(&mut spelled));
        written.stop == Some(Stop::End) || machine.accepts(machine.next(machine.start(), &spelled))
    });
    let used_up = matches!(written.stop, Some(Stop::Length | Stop::Context)) && written.complete == Some(true);
    // All available tokens are used, so their number is the limit that the text had.
    written.closed = used_up
        && structure
            .whole
            .as_ref()
            .is_some_and(|constraint| constraint.within(written.tokens.len()).ran_out_of_room(prompt, &written.tokens));
    written.constraint = structure.answer.clone();
}

impl Request<'_> {
    /// Returns the log-probability of each token, and the `top` tokens with the highest ([`Written::logprobs`]). For
    /// this the model reads the prompt and the text again at the end, so they do not depend on how the text was
    /// written, and cost as much as reading it as a prompt.
    #[doc(alias = "top_logprobs")]
    pub fn logprobs(mut self, top: usize) -> Self {
        self.reported.logprobs = Some(top);
        self
    }

    /// Sets the distribution that [`Request::logprobs`] refer to; [`LogprobsMode::Raw`] by default.
    pub fn logprobs_mode(mut self, mode: LogprobsMode) -> Self {
        self.reported.logprobs_mode = mode;
        self
    }

    /// Explains each token: its origin, and the effect of each step on the row that it was sampled from
    /// ([`Written::explained`]). For this the model reads the prompt and the text again at the end, as for
    /// [`Request::logprobs`], and the steps act on each row one by one.
    pub fn explain(mut self) -> Self {
        self.reported.explain = true;
        self
    }

    /// Records whether a text satisfies its constraint, and adds the requested information about its tokens.
    pub(super) fn reread(
        &self,
        model: &TextModel,
        target: &Target,
        prompt: &[TokenId],
        structure: &Structure,
        written: &mut Written,
    ) -> Result<(), Error> {
        add_constraint(prompt, structure, written);
        model.add_divergence(prompt, written)?;
        let asks_logprobs = self.reported.logprobs.is_some() && written.logprobs.is_none();
        if !asks_logprobs && !self.reported.explain {
            return Ok(());
        }
        let (tokens, provenance) = (&written.tokens[..], &written.provenance[..]);
        let mut logprobs = if asks_logprobs { self.logprobs_reader(target, prompt) } else { None };
        let mut explainer =
            self.reported.explain.then(|| Explainer::new(self, target, prompt, structure)).transpose()?;
        let (mut row, mut state, mut at) = (Row::default(), target.transforms.start(prompt), 0);
        let of_row = |logits: &[f32]| {
            let (token, position) = (tokens[at], prompt.len() + at);
            if let Some(reader) = &mut logprobs {
                reader.row(token, position, logits)?;
            }
            if let Some(explainer) = &mut explainer {
                row.load(logits);
                explainer.explain(target, &state, &mut row, (token, provenance[at]), position)?;
                target.transforms.advance_from(&mut state, &row, token);
            }
            at += 1;
            Ok::<(), Error>(())
        };
        each_row(model.model(), prompt, tokens, of_row)?;
        if let Some(reader) = logprobs {
            written.logprobs = Some(reader.finish());
        }
        written.explained = explainer.map(Explainer::finish);
        Ok(())
    }
}
