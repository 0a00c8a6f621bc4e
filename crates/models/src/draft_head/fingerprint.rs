//! Identifies a model, in whatever format it is stored.

use sha2::{Digest, Sha256};
use verdigris_kernels::Format;

use crate::description::config::DecoderConfig;
use crate::description::parts::{Parts, Scales};

/// A hash of a decoder's size and of the weights of its norms, as 32 hexadecimal digits. Quantisation does not change
/// norms, so a model has one fingerprint in bf16, in f16 and in every kind of GGUF file. Training changes it, except
/// for training an adapter.
///
/// It is the first 16 bytes of the SHA-256 of `verdigris target 1`, of the hidden size and the number of layers, and of
/// the norms (the last one, then those before attention and before the feed-forward part of each layer that has them),
/// each as its length and its weights in bf16. Numbers are 8 bytes, little-endian.
pub(crate) fn fingerprint(config: &DecoderConfig, parts: &Parts) -> String {
    let mut hash = Sha256::new();
    hash.update(b"verdigris target 1");
    let number = |hash: &mut Sha256, number: usize| hash.update((number as u64).to_le_bytes());
    number(&mut hash, config.width);
    number(&mut hash, config.blocks.len());
    let of_layers = parts.layers.iter().flat_map(|layer| [&layer.mixer_norm, &layer.feed_forward_norm]);
    for Scales { weight, .. } in std::iter::once(&parts.norm).chain(of_layers.flatten()) {
        number(&mut hash, weight.len());
        let mut bytes = vec![0; Format::Bf16.bytes(weight.len())];
        Format::Bf16.encode(weight, &mut bytes);
        hash.update(&bytes);
    }
    hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
