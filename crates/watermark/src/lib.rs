//! Red/green-list watermarks: keys, schemes, embedding, detection and the statistics of it.
//!
//! A watermark splits the vocabulary, after each context, into green and red tokens by a secret key, and the
//! writer prefers green ones (Kirchenbauer et al., ICML 2023). Whoever has the key counts the green tokens of
//! a text and computes how likely that count would be by chance. Nothing else is needed: no model, no prompt.
//!
//! | module | holds |
//! |---|---|
//! | [`key`] | secrets and key files |
//! | [`kdf`] | sub-keys by purpose, key id and tenant |
//! | [`scheme`] | the contract of a red/green scheme |
//! | [`native`] | our own: AES keystreams as green lists |
//! | [`kgw`] | the KGW reference's `simple_1`, bit for bit |
//! | [`embed`] | a scheme as a step on logits |
//! | [`detect`] | a scheme as a reader of texts |
//! | [`statistics`] | the exact law of the green count |
//!
//! ```
//! use std::sync::Arc;
//! use verdigris_watermark::{Evidence, Key, Marking, Vocabulary, Verdict};
//!
//! let key = Key::generate(Marking::default(), Vocabulary { size: 4096, fingerprint: "example".into() });
//! let evidence = Evidence::of(key.scheme()?, &[17, 4, 99, 1024, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
//! assert_eq!(evidence.verdict(1e-5)?, Verdict::NotMarked);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod detect;
mod distinct;
pub mod embed;
pub mod gamma;
pub mod kdf;
pub mod key;
pub mod kgw;
mod mt19937;
pub mod native;
pub mod scheme;
pub mod statistics;

pub use detect::{DEFAULT_LEVEL, Detector, Evidence, Mark, TooShort, Verdict};
pub use embed::{Embed, Strength};
pub use gamma::Gamma;
pub use key::{Key, KeyError, Marking, Vocabulary};
pub use kgw::KgwSimple1;
pub use native::{Context, ContextFunction, Native};
pub use scheme::{Draw, Scheme};
