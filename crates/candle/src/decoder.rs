//! The interface of candle-transformers' models, and an adapter to [`LanguageModel`].

use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};
use verdigris_logits::TokenId;
use verdigris_models::{BoxError, Foreign, Forward, LanguageModel, SampleRequest};

use crate::draw;

/// A model that has read part of a text. A clone shares the weights. Its cache consists of tensors that neither of the
/// two changes, unless [`Decoder::SHARES_CACHE`].
pub(crate) trait Decoder: Clone + Send + Sync + 'static {
    /// Reads tokens (`[1, count]`) after the `held` already read. Returns the logits after the last, in any shape.
    fn read(&mut self, tokens: &Tensor, held: usize) -> Result<Tensor>;

    /// Like [`Decoder::read`], with the logits after each token; `None` if the model does not return those.
    fn read_all(&mut self, _tokens: &Tensor, _held: usize) -> Option<Result<Tensor>> {
        None
    }

    /// Whether several tokens can be read at a time after others were read.
    const READS_ON: bool = true;

    /// Whether clones write new tokens into the same memory.
    const SHARES_CACHE: bool = false;
}

/// A decoder, and its device.
#[derive(Clone)]
struct DecoderState<D> {
    decoder: D,
    device: Device,
    /// If clones share a cache: a decoder that has read nothing, and the tokens that a copy must read again.
    unread: Option<Arc<D>>,
    read: Vec<TokenId>,
}

impl<D: Decoder> DecoderState<D> {
    fn read(&mut self, tokens: &[TokenId], held: usize) -> Result<Vec<f32>> {
        self.row(tokens, held)?.flatten_all()?.to_dtype(DType::F32)?.to_vec1()
    }

    /// The logits after the last of some tokens, on the device.
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

    /// Samples a token after the last token read.
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

impl<D: Decoder> Forward for DecoderState<D> {
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
        // On a CPU the row is not copied anyway, and Metal has no 64-bit numbers.
        let can = self.device.is_cuda() && draw::can(draw.steps);
        can.then(|| Ok(DecoderState::draw(self, tokens, held, draw)?))
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

/// A model, or candle's error, or what is wrong with the configuration.
pub(crate) type Loaded = std::result::Result<Arc<dyn LanguageModel>, BoxError>;

/// Wraps a decoder that has read nothing, with rows of `vocabulary` logits and room for `context` tokens.
pub(crate) fn model<D: Decoder>(
    decoder: D,
    device: &Device,
    vocabulary: usize,
    context: usize,
) -> Arc<dyn LanguageModel> {
    let unread = D::SHARES_CACHE.then(|| Arc::new(decoder.clone()));
    let state = DecoderState { decoder, device: device.clone(), unread, read: Vec::new() };
    Arc::new(Foreign::new(vocabulary, context, state))
}
