//! A cache of the texts that a scorer has read, so that reading can continue.

use verdigris_logits::TokenId;
use verdigris_models::{ModelError, Sequence};

/// The minimum number of cached texts, so that texts written at the same time are not read again.
const TEXTS: usize = 64;

/// The state that a scorer keeps for one text.
pub(super) trait Reading: Sized {
    /// Returns a copy with the same text.
    fn fork(&self) -> Result<Self, ModelError>;

    /// Removes the text past the first `tokens` tokens.
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

/// A text and the state kept for it.
pub(super) struct ReadText<R> {
    pub(super) tokens: Vec<TokenId>,
    pub(super) reading: R,
}

/// The texts that were read last.
pub(super) struct Readings<R> {
    /// The most recent one is last.
    texts: Vec<ReadText<R>>,
    most: usize,
}

impl<R> Default for Readings<R> {
    fn default() -> Self {
        Self { texts: Vec::new(), most: TEXTS }
    }
}

impl<R: Reading> Readings<R> {
    /// Returns the cached text with the longest common prefix, truncated to it, or a new empty one if none has a common
    /// prefix.
    pub(super) fn recall(
        &mut self,
        text: &[TokenId],
        begin: impl FnOnce() -> Result<R, ModelError>,
    ) -> Result<ReadText<R>, ModelError> {
        let Self { texts, .. } = self;
        let common = |read: &ReadText<R>| read.tokens.iter().zip(text).take_while(|(a, b)| a == b).count();
        let best = (0..texts.len()).max_by_key(|&i| common(&texts[i]));
        let Some((best, common)) = best.map(|best| (best, common(&texts[best]))).filter(|(_, common)| *common > 0)
        else {
            return Ok(ReadText { tokens: Vec::new(), reading: begin()? });
        };
        if common == texts[best].tokens.len() {
            return Ok(texts.remove(best));
        }
        // The cached text continues differently, so it is forked.
        let mut reading = texts[best].reading.fork()?;
        reading.truncate(common);
        Ok(ReadText { tokens: text[..common].to_vec(), reading })
    }

    /// Caches a text. An empty one is not worth caching.
    pub(super) fn remember(&mut self, read: ReadText<R>) {
        if read.tokens.is_empty() {
            return;
        }
        if self.texts.len() >= self.most {
            self.texts.remove(0);
        }
        self.texts.push(read);
    }

    /// Sets the number of cached texts, at least 64.
    pub(super) fn remembering(&mut self, texts: usize) {
        self.most = texts.max(TEXTS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Reading for usize {
        fn fork(&self) -> Result<Self, ModelError> {
            Ok(*self)
        }
        fn truncate(&mut self, tokens: usize) {
            *self = tokens;
        }
    }

    /// The cache holds the requested number of texts, at least 64, and drops the oldest beyond that.
    #[test]
    fn as_many_texts_are_remembered_as_are_written() {
        for (told, most) in [(None, 64), (Some(3), 64), (Some(100), 100)] {
            let mut readings = Readings::default();
            told.into_iter().for_each(|texts| readings.remembering(texts));
            let text = |i: usize| vec![i as TokenId, 7, 7];
            (0..120).for_each(|i| readings.remember(ReadText { tokens: text(i), reading: 3 }));
            for i in 0..120 {
                let read = readings.recall(&text(i), || Ok(0)).unwrap();
                assert_eq!(read.tokens.len() == 3, i >= 120 - most, "{i} of {told:?}");
            }
        }
    }
}
