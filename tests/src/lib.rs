//! Code that several suites share.
#![forbid(unsafe_code)]

pub mod dialects;
pub mod drafts;
pub mod foreign;
pub mod forms;
pub mod fuzz;
pub mod harness;
pub mod oracle;
pub mod random_model;
pub mod random_schema;
pub mod sampled;
pub mod tiny_models;

use verdigris::constrain::Machine;

/// The READMEs of the crates, whose examples are compiled.
#[cfg(doctest)]
mod readmes {
    #[doc = include_str!("../../crates/checkpoint/README.md")]
    mod checkpoint {}
    #[doc = include_str!("../../crates/constrain/README.md")]
    mod constrain {}
    #[doc = include_str!("../../crates/decoding/README.md")]
    mod decoding {}
    #[doc = include_str!("../../crates/detector/README.md")]
    mod detector {}
    #[doc = include_str!("../../crates/kernels/README.md")]
    mod kernels {}
    #[doc = include_str!("../../crates/logits/README.md")]
    mod logits {}
    #[doc = include_str!("../../crates/models/README.md")]
    mod models {}
    #[doc = include_str!("../../crates/schedule/README.md")]
    mod schedule {}
    #[doc = include_str!("../../crates/text/README.md")]
    mod text {}
    #[doc = include_str!("../../crates/train/README.md")]
    mod train {}
    #[doc = include_str!("../../crates/verdigris/README.md")]
    mod verdigris {}
    #[doc = include_str!("../../crates/watermark/README.md")]
    mod watermark {}
}

/// Generates a random text, byte by byte, with a preference for closing brackets and quotes; completed when it grows
/// long. `uniform(i)` is the `i`-th number from `[0, 1)`.
///
/// # Panics
/// If some prefix has no completion, which machines promise.
pub fn random_text(machine: &Machine, uniform: impl Fn(u64) -> f64) -> Vec<u8> {
    let (mut text, mut state) = (Vec::new(), machine.start());
    for i in 0..300 {
        let next: Vec<u8> = (0..=255).filter(|&byte| machine.goes_on(machine.next(state, &[byte]))).collect();
        if next.is_empty() || machine.accepts(state) && uniform(2 * i) < 0.5 {
            break;
        }
        let closing: Vec<u8> = next.iter().copied().filter(|byte| b"\"]}".contains(byte)).collect();
        let from = if !closing.is_empty() && uniform(2 * i) < 0.3 { &closing } else { &next };
        let byte = from[(uniform(2 * i + 1) * from.len() as f64) as usize];
        text.push(byte);
        state = machine.next(state, &[byte]);
    }
    let end = machine.completion(state);
    text.extend(end.unwrap_or_else(|| {
        let (bytes, begun) = (machine.to_end(state), String::from_utf8_lossy(&text));
        panic!("every beginning has a way to its end, of {bytes} bytes here: {begun}")
    }));
    text
}
