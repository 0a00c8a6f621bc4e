//! What is told of a text once it is written: whether it has its form, and, for those who ask about its tokens, their rows,
//! which are computed once more.

use std::sync::Arc;

use verdigris_constrain::Constraint;
use verdigris_decoding::{DecodeError, Stop, Target};
use verdigris_logits::{Row, TokenId, Transform};
use verdigris_models::{Batch, LanguageModel, Rows, Wanted};

use crate::error::Error;
use crate::request::explain::Explainer;
use crate::request::logprobs::{LogprobsMode, expected_in};
use crate::request::steering::TextModel;
use crate::request::{Request, Written};

/// How many tokens of a text are read in one call: so many rows are held at a time.
const AT_A_TIME: usize = 64;

/// Reads a prompt and a text once more, and hands over the row that each token of the text was drawn from.
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

impl Request<'_> {
    /// Adds to a text whether it has its form, and what is asked about its tokens.
    pub(super) fn reread(
        &self,
        model: &TextModel,
        target: &Target,
        prompt: &[TokenId],
        form: Option<&Constraint>,
        written: &mut Written,
    ) -> Result<(), Error> {
        written.complete = form.map(|form| {
            let machine = form.machine();
            written.stop == Some(Stop::End) || machine.accepts(machine.next(machine.start(), written.text.as_bytes()))
        });
        model.add_divergence(prompt, written)?;
        if self.logprobs.is_none() && !self.explain {
            return Ok(());
        }
        let (tokens, provenance) = (&written.tokens[..], &written.provenance[..]);
        let (model, tokenizer) = (model.model(), self.engine.reader().tokenizer());
        let mut logprobs = Vec::with_capacity(if self.logprobs.is_some() { tokens.len() } else { 0 });
        let mut explainer = self.explain.then(|| Explainer::new(self, target, prompt)).transpose()?;
        let needs_law = self.explain || self.logprobs_mode == LogprobsMode::Processed;
        let (mut row, mut state, mut at) = (Row::default(), target.transforms.start(prompt), 0);
        let of_row = |logits: &[f32]| {
            let (token, position) = (tokens[at], prompt.len() + at);
            let mut expect = |row: &mut Row, mode| match self.logprobs.filter(|_| self.logprobs_mode == mode) {
                None => Ok(()),
                Some(top) => {
                    let expected = expected_in(row, token, top, |token| tokenizer.decode(&[token]));
                    logprobs.push(expected.ok_or(DecodeError::NotNumbers { position })?);
                    Ok::<(), DecodeError>(())
                }
            };
            row.load(logits);
            expect(&mut row, LogprobsMode::Raw)?;
            if needs_law {
                match &mut explainer {
                    Some(explainer) => {
                        explainer.explain(target, &state, &mut row, (token, provenance[at]), position)?;
                    }
                    None => target.transforms.apply(&state, &mut row),
                }
                expect(&mut row, LogprobsMode::Processed)?;
                target.transforms.advance_from(&mut state, &row, token);
            }
            at += 1;
            Ok::<(), Error>(())
        };
        each_row(model, prompt, tokens, of_row)?;
        written.logprobs = self.logprobs.map(|_| logprobs);
        written.explained = explainer.map(Explainer::finish);
        Ok(())
    }
}
