//! One file per dialect: those of our own keys, and those of other systems, bit for bit.
//!
//! | module | reads and writes what is written by |
//! |---|---|
//! | [`native`] | Verdigris: green lists from AES keystreams |
//! | [`native_gumbel`] | Verdigris: the distortion-free sibling, keyed Gumbel-max |
//! | [`kgw`] | the KGW reference, all its seeding schemes |
//! | [`tgi`] | Text Generation Inference |
//! | [`hugging_face`] | `WatermarkingConfig` of transformers, left-hash and self-hash |
//! | [`unigram`] | Unigram: one list for all texts |
//! | [`sbw`] | SBW: Bernoulli lists from Philox |
//! | [`synthid`] | SynthID-Text, with the table (transformers, PyPI) and with the hash (its repository) |
//! | [`vllm`] | vLLM: Gumbel-max with one key and with two |
//! | [`sglang`] | SGLang: Gumbel-max with one key and with two |
//! | [`three_bricks`] | Three Bricks: colours and Gumbel scores from one seed |
//!
//! Each file has the parameters of its dialect and implements `Spec` for them. Shared are `seeded` (context to seed,
//! seed to list), `deciders` (which tokens of a context decide), `gumbel` (noise that is added to logits), and
//! [`error`] (why parameters do not make a scheme).

pub mod error;
pub mod hugging_face;
pub mod kgw;
pub mod native;
pub mod native_gumbel;
pub mod sbw;
pub mod sglang;
pub mod synthid;
pub mod tgi;
pub mod three_bricks;
pub mod unigram;
pub mod vllm;

mod deciders;
#[cfg(test)]
mod golden;
mod gumbel;
pub(crate) mod permutation;
mod seeded;
pub(crate) mod spec;
