//! GGUF files, whose matrices stay in their stored blocks.

use std::io::{Read, Seek};
use std::sync::Arc;

use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::{Device, Result, Tensor};
use candle_transformers::models::quantized_llama;
use verdigris_models::{BoxError, LanguageModel};

use crate::decoder::{Decoder, model};

impl Decoder for quantized_llama::ModelWeights {
    fn read(&mut self, tokens: &Tensor, held: usize) -> Result<Tensor> {
        self.forward(tokens, held)
    }
}

/// The model of a GGUF file.
pub(crate) fn gguf(
    mut content: Content,
    file: &mut (impl Read + Seek),
    device: &Device,
) -> std::result::Result<Arc<dyn LanguageModel>, BoxError> {
    let value = |name: &str| content.metadata.get(name).ok_or_else(|| format!("the file has no {name}"));
    let architecture = value("general.architecture")?.to_string()?.clone();
    let context = value(&format!("{architecture}.context_length"))?.to_u32()? as usize;
    let embedding = content.tensor_infos.get("token_embd.weight").ok_or("the file has no token_embd.weight")?;
    let &[vocabulary, _] = embedding.shape.dims() else { return Err("its token_embd.weight is not a matrix".into()) };
    let is_default = |name: &str, kinds: &[&str]| match content.metadata.get(&format!("{architecture}.{name}")) {
        Some(Value::String(kind)) => kinds.contains(&&**kind),
        _ => true,
    };
    if !is_default("rope.scaling.type", &["none"]) || content.tensor_infos.contains_key("rope_freqs.weight") {
        return Err("its rotary positions are scaled, which candle's model of this type does not heed".into());
    }
    if architecture != "llama" {
        return Err(format!("GGUF files of {architecture} are not supported on candle, those of llama are").into());
    }
    // Files may omit it if whole heads are rotated, but candle requires it.
    let number = |name: &str| content.metadata.get(name).and_then(|value| value.to_u32().ok());
    let width = number("llama.embedding_length").zip(number("llama.attention.head_count"));
    if let Some((width, heads)) = width {
        let whole = content.metadata.entry("llama.rope.dimension_count".into());
        whole.or_insert(Value::U32(width / heads.max(1)));
    }
    let decoder = quantized_llama::ModelWeights::from_gguf(content, file, device)?;
    Ok(model(decoder, device, vocabulary, context.min(quantized_llama::MAX_SEQ_LEN)))
}
