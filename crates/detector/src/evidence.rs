//! The evidence of tokens under one key.

use std::sync::Arc;

use verdigris_logits::TokenId;
use verdigris_watermark::{Detector, Evidence, Key, Repeats, Scheme, payload};

use crate::error::DetectError;

/// Tokens that a detector gets at once: while it reads one it holds many times its bytes.
const AT_ONCE: usize = 1 << 16;

/// Hands tokens to a detector.
pub(crate) fn read(detector: &mut Detector, tokens: &[TokenId]) {
    tokens.chunks(AT_ONCE).for_each(|tokens| {
        detector.push(tokens);
    });
}

fn read_payload(key: &Key, tokens: &[TokenId]) -> Result<payload::PayloadReader, DetectError> {
    let mut reader = key.payload_reader()?;
    tokens.chunks(AT_ONCE).for_each(|tokens| reader.push(tokens));
    Ok(reader)
}

/// The scheme of the payload that a text under a key most likely carries, that payload, and of how many it is the best.
pub(crate) fn carrier(
    key: &Key,
    tokens: &[TokenId],
) -> Result<(Arc<dyn Scheme>, payload::PayloadReading, f64), DetectError> {
    let reader = read_payload(key, tokens)?;
    let read = reader.read();
    Ok((key.carrier(read.payload)?, read, reader.payloads()))
}

/// The evidence of some tokens under a key of whatever tokenizer.
pub(crate) fn evidence(key: &Key, tokens: &[TokenId], repeats: Repeats) -> Result<Evidence, DetectError> {
    if key.payload_bits().is_some() {
        return Ok(read_payload(key, tokens)?.evidence(tokens.len() as u64));
    }
    let mut detector = Detector::new(key.scheme()?).repeats(repeats);
    read(&mut detector, tokens);
    Ok(detector.evidence())
}
