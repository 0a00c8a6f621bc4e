//! Many texts on one model, which come and go: what the next pass holds (continuous batching: Orca, Yu et al., 2022),
//! with prompts in pieces (Sarathi-Serve, Agrawal et al., 2024) and pages that texts share (vLLM, Kwon et al., 2023;
//! SGLang, Zheng et al., 2024).
#![forbid(unsafe_code)]

pub mod policy;

pub use policy::{TextId, TooLong};
