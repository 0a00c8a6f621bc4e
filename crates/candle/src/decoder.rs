//! What a model of candle-transformers does, and one of them behind the contract.

use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};
use verdigris_logits::TokenId;
use verdigris_models::{BoxError, Foreign, Forward, LanguageModel, SampleRequest};

use crate::draw;

/// A model in the midst of a text. A clone shares the weights. Its cache is of tensors that neither changes, or
/// [`Decoder::SHARES_CACHE`].
pub(crate) trait Decoder: Clone + Send + Sync + 'static {
    /// Reads tokens (`[1, count]`) after the `held` that it has read; the logits after the last, in any shape.
    fn read(&mut self, tokens: &Tensor, held: usize) -> Result<Tensor>;

    /// As [`Decoder::read`], with the logits after each token; `None` where the model does not give those.
    fn read_all(&mut self, _tokens: &Tensor, _held: usize) -> Option<Result<Tensor>> {
        None
    }

    /// Whether several tokens may be read at a time where some were read before.
    const READS_ON: bool = true;

    /// Whether clones write behind what they hold into the same memory.
    const SHARES_CACHE: bool = false;
}

/// A decoder, and where it computes.
#[derive(Clone)]
struct Text<D> {
    decoder: D,
    device: Device,
    /// Where clones share a cache: one that has read nothing, and what a copy must read again.
    unread: Option<Arc<D>>,
    read: Vec<TokenId>,
}

impl<D: Decoder> Text<D> {
    fn read(&mut self, tokens: &[TokenId], held: usize) -> Result<Vec<f32>> {
        self.row(tokens, held)?.flatten_all()?.to_dtype(DType::F32)?.to_vec1()
    }

    /// The logits after the last of some tokens, where they are.
    fn row(&mut self, tokens: &[TokenId], held: usize) -> Result<Tensor> {
        let at_once = if D::READS_ON || held == 0 { tokens.len() } else { 1 };
        let mut row = None;
        for (i, part) in tokens.chunks(at_once).enumerate() {
            let part = Tensor::new(part, &self.device)?.unsqueeze(0)?;
            row = Some(self.decoder.read(&part, held + i * at_once)?);
        }
        self.keep(tokens, held);
        match row {
            Some(row) => Ok(row),
            None => candle_core::bail!("a call without tokens"),
        }
    }

    fn read_all(&mut self, tokens: &[TokenId], held: usize) -> Result<Option<Vec<f32>>> {
        let all = self.decoder.read_all(&Tensor::new(tokens, &self.device)?.unsqueeze(0)?, held);
        let Some(all) = all.transpose()? else { return Ok(None) };
        self.keep(tokens, held);
        all.flatten_all()?.to_dtype(DType::F32)?.to_vec1().map(Some)
    }

    /// Draws a token after the last of those that are read.
    fn draw(&mut self, tokens: &[TokenId], held: usize, draw: &mut SampleRequest<'_>) -> Result<()> {
        let row = self.row(tokens, held)?.flatten_all()?.to_dtype(DType::F32)?;
        draw.token = draw::draw(&row, draw.steps, draw.sampler, draw.number)?;
        Ok(())
    }

    fn keep(&mut self, tokens: &[TokenId], held: usize) {
        if self.unread.is_some() {
            self.read.truncate(held);
            self.read.extend_from_slice(tokens);
        }
    }
}

impl<D: Decoder> Forward for Text<D> {
    fn forward(&mut self, tokens: &[TokenId], held: usize) -> std::result::Result<Vec<f32>, BoxError> {
        Ok(self.read(tokens, held)?)
    }

    fn forward_all(&mut self, tokens: &[TokenId], held: usize) -> Option<std::result::Result<Vec<f32>, BoxError>> {
        self.read_all(tokens, held).map_err(BoxError::from).transpose()
    }

    fn draw(
        &mut self,
        tokens: &[TokenId],
        held: usize,
        draw: &mut SampleRequest<'_>,
    ) -> Option<std::result::Result<(), BoxError>> {
        // On a CPU a row is where it is needed, and Metal has no numbers of 64 bits.
        let can = self.device.is_cuda() && draw::can(draw.steps);
        can.then(|| Ok(Text::draw(self, tokens, held, draw)?))
    }

    fn fork(&self) -> std::result::Result<Self, BoxError> {
        let mut copy = self.clone();
        if let Some(unread) = &self.unread {
            copy.decoder = (**unread).clone();
            if !self.read.is_empty() {
                copy.read(&self.read, 0)?;
            }
        }
        Ok(copy)
    }

    fn snapshot(&self) -> std::result::Result<Self, BoxError> {
        Ok(self.clone())
    }
}

/// A model; why there is none: candle's errors, and what is wrong with the configuration.
pub(crate) type Loaded = std::result::Result<Arc<dyn LanguageModel>, BoxError>;

/// A model that has read nothing, with rows of `vocabulary` logits and room for `context` tokens.
pub(crate) fn model<D: Decoder>(
    decoder: D,
    device: &Device,
    vocabulary: usize,
    context: usize,
) -> Arc<dyn LanguageModel> {
    let unread = D::SHARES_CACHE.then(|| Arc::new(decoder.clone()));
    Arc::new(Foreign::new(vocabulary, context, Text { decoder, device: device.clone(), unread, read: Vec::new() }))
}
