//! Texts as a judge has read them, so that each goes on where it was left.

use verdigris_logits::TokenId;
use verdigris_models::{ModelError, Sequence};

/// How many texts are remembered at a time, so that those that are written side by side are not read anew.
const TEXTS: usize = 64;

/// What a judge keeps of one text.
pub(super) trait Reading: Sized {
    /// A second one of the same text.
    fn fork(&self) -> Result<Self, ModelError>;

    /// Forgets the text past so many tokens.
    fn truncate(&mut self, tokens: usize);
}

impl Reading for Box<dyn Sequence> {
    fn fork(&self) -> Result<Self, ModelError> {
        Sequence::fork(&**self)
    }

    fn truncate(&mut self, tokens: usize) {
        Sequence::truncate(&mut **self, tokens);
    }
}

/// A text and what is kept of it.
pub(super) struct ReadText<R> {
    pub(super) tokens: Vec<TokenId>,
    pub(super) reading: R,
}

/// The texts that were read last; the last one comes last.
pub(super) struct Readings<R>(Vec<ReadText<R>>);

impl<R> Default for Readings<R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<R: Reading> Readings<R> {
    /// The remembered text that begins most like this one, cut back to where they part; one without tokens where none
    /// does.
    pub(super) fn recall(
        &mut self,
        text: &[TokenId],
        begin: impl FnOnce() -> Result<R, ModelError>,
    ) -> Result<ReadText<R>, ModelError> {
        let Self(texts) = self;
        let common = |read: &ReadText<R>| read.tokens.iter().zip(text).take_while(|(a, b)| a == b).count();
        let best = (0..texts.len()).max_by_key(|&i| common(&texts[i]));
        let Some((best, common)) = best.map(|best| (best, common(&texts[best]))).filter(|(_, common)| *common > 0)
        else {
            return Ok(ReadText { tokens: Vec::new(), reading: begin()? });
        };
        if common == texts[best].tokens.len() {
            return Ok(texts.remove(best));
        }
        // Another text goes on where that one parts from it.
        let mut reading = texts[best].reading.fork()?;
        reading.truncate(common);
        Ok(ReadText { tokens: text[..common].to_vec(), reading })
    }

    /// Keeps a text, if it has tokens: without, it is begun as fast.
    pub(super) fn remember(&mut self, read: ReadText<R>) {
        if read.tokens.is_empty() {
            return;
        }
        if self.0.len() == TEXTS {
            self.0.remove(0);
        }
        self.0.push(read);
    }
}
