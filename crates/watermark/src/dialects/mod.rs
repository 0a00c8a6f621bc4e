//! One file a dialect: what our own keys embed, and what other systems embed, bit for bit.
//!
//! | module | reads and writes what is written by |
//! |---|---|
//! | [`native`] | Verdigris: green lists out of AES keystreams |
//! | [`native_gumbel`] | Verdigris: the distortion-free sibling, keyed Gumbel-max |
//! | [`kgw`] | the KGW reference, all its seeding schemes |
//! | [`tgi`] | Text Generation Inference |
//! | [`hugging_face`] | `WatermarkingConfig` of transformers, left-hash and self-hash |
//! | [`unigram`] | Unigram: one list for all texts |
//! | [`sbw`] | SBW: Bernoulli lists out of Philox |
//! | [`synthid`] | SynthID-Text, with the table (transformers, PyPI) and with the hash (its repository) |
//! | [`vllm`] | vLLM: Gumbel-max with one key and with two |
//! | [`sglang`] | SGLang: Gumbel-max with one key and with two |
//! | [`three_bricks`] | Three Bricks: colours and Gumbel scores out of one seed |
//!
//! Each file has the parameters of its dialect and what they mean (`spec`). Shared are `seeded` (a context becomes a
//! seed, a seed a list), `deciders` (which tokens of a context do), `gumbel` (noise that is added to logits), and
//! [`error`] (why parameters make no scheme).

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
