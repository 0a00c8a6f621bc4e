//! Functions of [DataFusion](datafusion) that test texts for marks, over columns of any size.
//!
//! ```
//! use std::sync::Arc;
//! use datafusion::prelude::SessionContext;
//! use verdigris_datafusion::{Judges, register};
//! use verdigris_detector::{Key, Marking, Reader, Tokenizer};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let tokenizer = Tokenizer::from_json(include_bytes!("../../../fixtures/models/tale/tokenizer.json"))?;
//! let reader = Reader::new(tokenizer);
//! let key = Key::generate(Marking::default(), reader.vocabulary()).with_id("mine")?;
//!
//! let context = SessionContext::new();
//! register(&context, &Arc::new(Judges::new([reader], [key])?));
//! let found = context.sql("SELECT verdigris_p('Nobody has marked this text.', 'mine') AS p").await?;
//! assert_eq!(found.count().await?, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | function | returns |
//! |---|---|
//! | `verdigris_p(text, key_id)` | the p-value, null if there is none |
//! | `verdigris_detect(text, key_id)` | the full verdict: a struct of [`verdict_fields`] |
//! | `verdigris_combine(text, key_id)` | an aggregate: the combined evidence, a struct of [`combined_fields`] |
//!
//! A query names keys by their ids. The keys themselves are only in the [`Judges`] of the process that executes it, and
//! never in a plan, a message or the output of `Debug`.
//!
//! The texts of a batch are judged in parallel on rayon's threads; DataFusion's own threads wait meanwhile.
#![forbid(unsafe_code)]

mod combine;
mod error;
mod judges;
mod keys;
mod scalar;
mod text_array;

use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::prelude::SessionContext;

pub use combine::combined_fields;
pub use error::JudgeError;
pub use judges::{Judge, Judges};
pub use keys::{Keys, KeysError};
pub use text_array::{check_text, text_bytes};
pub use verdigris_detector::arrow::{verdict_fields, verdicts};

/// Returns the functions, for a custom registry such as that of remote executors.
pub fn functions(judges: &Arc<Judges>) -> (Vec<ScalarUDF>, Vec<AggregateUDF>) {
    (scalar::functions(judges), vec![combine::function(judges)])
}

/// Registers the functions in a context, with the keys that they may use.
pub fn register(context: &SessionContext, judges: &Arc<Judges>) {
    let (scalars, aggregates) = functions(judges);
    scalars.into_iter().for_each(|function| context.register_udf(function));
    aggregates.into_iter().for_each(|function| context.register_udaf(function));
}
