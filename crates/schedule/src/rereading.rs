//! A text that is read once more at its end, for the rows that its tokens were drawn from.

use verdigris_decoding::DecodeError;
use verdigris_logits::TokenId;
use verdigris_models::{Batch, ModelError, Rows, Sequence, Wanted};

use crate::schedule::Ended;

/// Is told each token of a text, how many tokens stand before it, and its row. Where it fails, the text does.
pub type RowReader = Box<dyn FnMut(TokenId, usize, &[f32]) -> Result<(), DecodeError> + Send>;

/// A text whose rows are read.
pub(crate) struct Rereading {
    /// The prompt, and what was written.
    pub(crate) tokens: Vec<TokenId>,
    /// None where it waits for memory.
    pub(crate) sequence: Option<Box<dyn Sequence>>,
    pub(crate) rows: RowReader,
    pub(crate) ended: Ended,
}

impl Rereading {
    /// So many rows are held at a time.
    pub(crate) const AT_A_TIME: usize = 64;

    /// Reads the next so many tokens, and hands over the rows behind the prompt.
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
