//! JSON Schema as a grammar.
//!
//! What is written obeys the schema exactly: a keyword that is not understood is an error that names it, never
//! an approximation. [`schema`] says what is understood and how JSON is written.

mod number;
mod oneof;
mod pattern;
pub mod schema;
mod string;
#[cfg(test)]
mod tests;
