//! T5: an encoder reads a source, and a decoder writes a text that attends to it.
//!
//! As a language model its tokens are the source, the end token, and the text: T5's tokenizer ends each prompt with
//! that token, so a prompt is a source. The row of a token before the end of the source is the one with which a text
//! would begin if the source ended there; each costs a pass through the encoder.
//!
//! Two errors in candle's model are corrected here. It puts the distances of its decoder, which are all backward, into
//! half of the buckets, as if there were forward ones too. And it multiplies by the root of the width where
//! `transformers` divides.

use candle_core::{DType, Device, Result, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use candle_transformers::models::t5;

use crate::config::Config;
use crate::decoder::{Decoder, Loaded, model};

#[derive(Clone)]
struct EncoderDecoder {
    encoder: t5::T5EncoderModel,
    decoder: t5::T5ForConditionalGeneration,
    /// The factor of the logits.
    scale: f64,
    /// The token before the first token of a text.
    start: u32,
    /// The token that ends a source.
    end: u32,
    source: Vec<u32>,
    /// The encoder's output for the source read so far.
    encoded: Option<Tensor>,
}

impl EncoderDecoder {
    /// Reads tokens of the source. Returns the logits of a text's first token.
    fn read_source(&mut self, tokens: &[u32], device: &Device) -> Result<Tensor> {
        self.source.extend_from_slice(tokens);
        let encoded = self.encoder.forward(&Tensor::new(&self.source[..], device)?.unsqueeze(0)?)?;
        self.decoder.clear_kv_cache();
        let first = self.decoder.decode(&Tensor::new(&[[self.start]], device)?, &encoded);
        self.encoded = Some(encoded);
        first
    }

    fn is_source_whole(&self) -> bool {
        self.source.last() == Some(&self.end)
    }
}

impl Decoder for EncoderDecoder {
    fn read(&mut self, tokens: &Tensor, _: usize) -> Result<Tensor> {
        let (device, ids) = (tokens.device(), tokens.flatten_all()?.to_vec1::<u32>()?);
        let of_source = match ids.iter().position(|&id| id == self.end) {
            _ if self.is_source_whole() => 0,
            Some(end) => end + 1,
            None => ids.len(),
        };
        let (source, text) = ids.split_at(of_source);
        let mut logits = match source {
            [] => None,
            _ => Some(self.read_source(source, device)?),
        };
        for &id in text {
            // Its mask only fits the beginning of a text, so tokens are read one by one.
            let Some(encoded) = &self.encoded else { candle_core::bail!("a text without a source") };
            logits = Some(self.decoder.decode(&Tensor::new(&[[id]], device)?, encoded)?);
        }
        match logits {
            Some(logits) => logits * self.scale,
            None => candle_core::bail!("a call without tokens"),
        }
    }
}

pub(super) fn load(config: &Config, weights: VarBuilder<'_>) -> Loaded {
    config.is("feed_forward_proj", &["relu".into(), "gated-gelu".into(), "gated-silu".into()])?;
    // By default one matrix is used at both ends, and its logits are divided.
    let is_tied = config.get("tie_word_embeddings").is_none_or(|tied| tied == true);
    let is_scaled = config.get("scale_decoder_outputs").map_or(is_tied, |scaled| scaled == true);
    let width = config.number("d_model")?;
    let described = config.copy().or("dropout_rate", 0.0).or("initializer_factor", 1.0).or("pad_token_id", 0);
    let described = described.or("eos_token_id", 1).or("decoder_start_token_id", 0).with("is_encoder_decoder", true);
    let described = described.with("is_decoder", false).with("use_cache", true).with("tie_word_embeddings", false);
    let mut candle: t5::Config = described.of()?;
    let encoder = t5::T5EncoderModel::load(weights.clone(), &candle)?;
    let layers = candle.num_decoder_layers.unwrap_or(candle.num_layers);
    // The decoder's own encoder is not needed; with twice the buckets, the backward ones are all that the file has.
    candle.relative_attention_num_buckets *= 2;
    (candle.num_layers, candle.num_decoder_layers) = (0, Some(layers));
    let twice =
        VarBuilder::from_backend(Box::new(TwiceTheBuckets(weights.clone())), weights.dtype(), weights.device().clone());
    let decoder = t5::T5ForConditionalGeneration::load(twice, &candle)?;
    let both = EncoderDecoder {
        encoder,
        decoder,
        scale: if is_scaled { (width as f64).powf(-0.5) } else { 1.0 },
        start: u32::try_from(config.number("decoder_start_token_id").unwrap_or(0))?,
        end: u32::try_from(candle.eos_token_id)?,
        source: Vec::new(),
        encoded: None,
    };
    // Positions are distances, so the length is not limited; it was trained with this many for a source and for a text.
    let context = 2 * config.number("n_positions").unwrap_or(512);
    Ok(model(both, weights.device(), candle.vocab_size, context))
}

/// Weights with the decoder's buckets duplicated.
struct TwiceTheBuckets<'a>(VarBuilder<'a>);

impl SimpleBackend for TwiceTheBuckets<'_> {
    fn get(&self, shape: Shape, name: &str, init: Init, dtype: DType, _: &Device) -> Result<Tensor> {
        if name != "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight" {
            return self.0.get_with_hints_dtype(shape, name, init, dtype);
        }
        let (buckets, heads) = shape.dims2()?;
        let once = self.0.get_with_hints_dtype((buckets / 2, heads), name, init, dtype)?;
        Tensor::cat(&[&once, &once], 0)
    }

    fn get_unchecked(&self, name: &str, dtype: DType, _: &Device) -> Result<Tensor> {
        self.0.get_unchecked_dtype(name, dtype)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.0.contains_tensor(name)
    }
}
