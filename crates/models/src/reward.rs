//! Models that score a text with one number, learned from human preferences (Ouyang et al., *Training language models
//! to follow instructions with human feedback*, arXiv:2203.02155, section 3.5).

use std::sync::Arc;

use verdigris_logits::TokenId;

use crate::error::ModelError;
use crate::language_model::{Batch, BatchItem, LanguageModel, Rows, Wanted};

/// A model that gives a text a score: the higher, the better.
#[derive(Clone)]
pub struct RewardModel {
    scorer: Arc<dyn LanguageModel>,
    pad: Option<TokenId>,
}

impl RewardModel {
    pub(crate) fn new(scorer: Arc<dyn LanguageModel>, pad: Option<TokenId>) -> Self {
        Self { scorer, pad }
    }

    /// The underlying model, whose rows have one number each: the score of the text up to that token.
    pub fn scorer(&self) -> &Arc<dyn LanguageModel> {
        &self.scorer
    }

    /// The most tokens that a text can have.
    pub fn context_length(&self) -> usize {
        self.scorer.context_length()
    }

    /// The score of a text: that of its last token, ignoring padding.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`] for a text that is too long, [`ModelError::UnknownToken`], and an error if there is
    /// not enough memory.
    ///
    /// # Panics
    /// If `tokens` is empty.
    pub fn score(&self, tokens: &[TokenId]) -> Result<f32, ModelError> {
        Ok(self.scores(&[], &[tokens])?[0])
    }

    /// The scores of several texts with a common beginning, which is read once.
    ///
    /// # Errors
    /// The same as [`RewardModel::score`].
    ///
    /// # Panics
    /// If one of them has no tokens, including the beginning.
    pub fn scores(&self, beginning: &[TokenId], texts: &[&[TokenId]]) -> Result<Vec<f32>, ModelError> {
        // Padding at the end is ignored. A text of padding alone is scored at its first token.
        let whole = |text: &&[TokenId]| {
            let mut whole = [beginning, text].concat();
            assert!(!whole.is_empty(), "a text has a token");
            let is_padding = |token: &&TokenId| Some(**token) == self.pad;
            whole.truncate(whole.len() - whole[1..].iter().rev().take_while(is_padding).count());
            whole
        };
        let texts: Vec<Vec<TokenId>> = texts.iter().map(whole).collect();
        let capacity = texts.iter().map(Vec::len).max().unwrap_or(0).max(beginning.len());
        let (mut first, mut unread) = (self.scorer.clone().begin(capacity)?, Rows::default());
        if !beginning.is_empty() {
            first.forward(&Batch::chain(beginning, Wanted::Last), &mut unread)?;
        }
        let mut sequences = Vec::with_capacity(texts.len());
        for text in &texts {
            let mut sequence = first.fork()?;
            sequence.truncate(beginning.len().min(text.len() - 1));
            sequences.push((sequence, Rows::default()));
        }
        let mut items: Vec<BatchItem<'_>> = sequences
            .iter_mut()
            .zip(&texts)
            .map(|((sequence, rows), text)| {
                let batch = Batch::chain(&text[sequence.len()..], Wanted::Last);
                BatchItem { sequence: &mut **sequence, batch, rows }
            })
            .collect();
        self.scorer.forward_each(&mut items)?;
        Ok(sequences.iter().map(|(_, rows)| rows.last()[0]).collect())
    }
}
