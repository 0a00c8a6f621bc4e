//! A text that is read once more at its end, for the rows that its tokens were sampled from.

use verdigris_decoding::DecodeError;
use verdigris_logits::TokenId;
use verdigris_models::{Batch, ModelError, Rows, Sequence, Wanted};

use crate::ended::Ended;

/// Receives each token of a text, the number of tokens before it, and its row. An error fails the text.
pub type RowReader = Box<dyn FnMut(TokenId, usize, &[f32]) -> Result<(), DecodeError> + Send>;

/// A text whose rows are read.
pub(crate) struct Rereading {
    /// The prompt and the tokens written.
    pub(crate) tokens: Vec<TokenId>,
    /// `None` while the text waits for memory.
    pub(crate) sequence: Option<Box<dyn Sequence>>,
    pub(crate) rows: RowReader,
    pub(crate) ended: Ended,
}

impl Rereading {
    /// The number of rows held at a time.
    pub(crate) const AT_A_TIME: usize = 64;

    /// Reads the next `tokens` tokens, and passes on the rows after the prompt.
    pub(crate) fn read(
        &mut self,
        prompt: usize,
        tokens: usize,
        rows: &mut Rows,
    ) -> Result<Result<(), DecodeError>, ModelError> {
        let Self { tokens: all, sequence, rows: reader, .. } = self;
        let sequence = sequence.as_mut().expect("what reads has begun");
        let from = sequence.len();
        for part in all[from..from + tokens].chunks(Self::AT_A_TIME) {
            let held = sequence.len();
            // The row of the prompt's last token is the first.
            let first = (prompt - 1).saturating_sub(held);
            let wanted = if first < part.len() { Wanted::From(first) } else { Wanted::Last };
            sequence.forward(&Batch::chain(part, wanted), rows)?;
            for (number, at) in (first..part.len()).enumerate() {
                let position = held + at + 1;
                if let Err(fault) = reader(all[position], position, rows.row(number)) {
                    return Ok(Err(fault));
                }
            }
        }
        Ok(Ok(()))
    }
}
