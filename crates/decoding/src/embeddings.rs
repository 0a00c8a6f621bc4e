//! Embeddings of texts: the mean of a model's hidden states.

use std::sync::Arc;

use verdigris_logits::TokenId;
use verdigris_models::{Batch, BatchItem, LanguageModel, Rows, Sequence, Wanted};

use crate::target::DecodeError;

/// The most tokens of a pass, of all texts together, and the most texts.
const TOKENS: usize = 256;
const TEXTS: usize = 16;

/// A text that is being read.
struct Reading {
    /// The number of the text.
    of: usize,
    sequence: Box<dyn Sequence>,
    rows: Rows,
    /// The sum of the states so far.
    sum: Vec<f64>,
}

/// The embedding of each text: the mean over its tokens of the last hidden state (the residual stream after the last
/// norm, from which the output matrix computes a row), scaled to length 1. Each text is read from an empty context. The
/// result does not depend on the other texts (on a CPU: bit for bit).
///
/// # Errors
/// [`DecodeError::EmptyPrompt`] for a text without tokens, [`DecodeError::NoHiddenStates`], and [`DecodeError::Model`],
/// for instance for a text longer than the model's context.
pub fn embeddings(model: &Arc<dyn LanguageModel>, texts: &[&[TokenId]]) -> Result<Vec<Vec<f32>>, DecodeError> {
    let width = model.hidden_size().ok_or(DecodeError::NoHiddenStates)?;
    if texts.iter().any(|text| text.is_empty()) {
        return Err(DecodeError::EmptyPrompt);
    }
    let mut found = vec![Vec::new(); texts.len()];
    let (mut waiting, mut readings) = (0..texts.len(), Vec::new());
    loop {
        for of in waiting.by_ref().take(TEXTS - readings.len()) {
            let (sequence, rows) = (model.clone().begin(texts[of].len())?, Rows::with_hidden());
            readings.push(Reading { of, sequence, rows, sum: vec![0.0; width] });
        }
        if readings.is_empty() {
            return Ok(found);
        }
        read(model, texts, &mut readings)?;
        readings.retain(|Reading { of, sequence, sum, .. }| {
            let is_read = sequence.len() == texts[*of].len();
            if is_read {
                found[*of] = unit(sum);
            }
            !is_read
        });
    }
}

/// Reads the next tokens of the texts, in one pass.
fn read(model: &Arc<dyn LanguageModel>, texts: &[&[TokenId]], readings: &mut [Reading]) -> Result<(), DecodeError> {
    let mut left = TOKENS;
    let mut items = Vec::with_capacity(readings.len());
    let mut sums = Vec::with_capacity(readings.len());
    for Reading { of, sequence, rows, sum } in readings {
        let rest = &texts[*of][sequence.len()..];
        let tokens = &rest[..rest.len().min(left)];
        if tokens.is_empty() {
            break;
        }
        left -= tokens.len();
        let batch = Batch::chain(tokens, Wanted::From(tokens.len()));
        items.push(BatchItem { sequence: &mut **sequence, batch, rows });
        sums.push(sum);
    }
    model.forward_each(&mut items)?;
    for (BatchItem { batch, rows, .. }, sum) in items.iter().zip(sums) {
        for i in 0..batch.tokens.len() {
            sum.iter_mut().zip(rows.hidden(i)).for_each(|(sum, &state)| *sum += f64::from(state));
        }
    }
    Ok(())
}

/// A vector scaled to length 1; zeros stay zeros.
pub fn unit(vector: &[f64]) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
    vector.iter().map(|x| (x * scale) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    #[test]
    fn a_vector_gets_length_1() {
        assert_eq!(unit(&[3.0, 0.0, -4.0]), [0.6, 0.0, -0.8]);
        assert_eq!(unit(&[0.0, 0.0]), [0.0, 0.0]);
    }

    #[test]
    fn models_without_states_are_refused() {
        let model: Arc<dyn LanguageModel> = Table::noise(5, 1);
        assert!(matches!(embeddings(&model, &[&[1]]), Err(DecodeError::NoHiddenStates)));
    }
}
