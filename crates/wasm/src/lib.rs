//! The detector in a browser: a tokenizer, a key and a text go in, and what `POST /detect` says of the text comes out.
//! Nothing leaves the page.
//!
//! | module | holds |
//! |---|---|
//! | `desk` | a tokenizer and a key, and what they say of texts |
//! | `fault` | what can go wrong, each with a name |
//!
//! This file hands both to JavaScript: bytes and texts in, JSON out. `page` is the page around it, whose parts that
//! show a finding are those of `verdigris serve`.
#![forbid(unsafe_code)]

mod desk;
mod fault;

pub use desk::{Desk, Wanted};
pub use fault::Fault;

use wasm_bindgen::prelude::wasm_bindgen;
use zeroize::Zeroizing;

/// A tokenizer, and a key if one was read.
///
/// Whatever throws throws a string: JSON with a `code`, which is the fault's name, and a `message`.
#[wasm_bindgen]
pub struct Detector(Desk);

#[wasm_bindgen]
impl Detector {
    /// With the contents of a `tokenizer.json`.
    ///
    /// # Errors
    /// [`Fault::Tokenizer`].
    #[wasm_bindgen(constructor)]
    pub fn new(tokenizer: &[u8]) -> Result<Self, String> {
        Ok(Self(Desk::new(tokenizer)?))
    }

    /// Takes a key file in the place of the key that was there; the bytes are wiped. Where it cannot be taken the key
    /// that was there stays.
    ///
    /// # Errors
    /// [`Fault::Key`] and [`Fault::ForeignKey`].
    pub fn take_key(&mut self, file: Vec<u8>) -> Result<(), String> {
        Ok(self.0.take_key(&Zeroizing::new(file))?)
    }

    /// Forgets the key.
    pub fn drop_key(&mut self) {
        self.0.drop_key();
    }

    /// What is at hand, as JSON: `tokenizer` with its `size` and `fingerprint`, and `key` with its `id`, `dialect` and
    /// `scheme`, or null.
    pub fn about(&self) -> String {
        self.0.about().to_string()
    }

    /// What a text is, as JSON in the shape of `POST /detect`. `wanted` is JSON with `level` and `windows`.
    ///
    /// # Errors
    /// [`Fault::NoKey`], [`Fault::LongText`], [`Fault::Text`] and [`Fault::Wanted`].
    pub fn judge(&self, text: &str, wanted: &str) -> Result<String, String> {
        let wanted: Wanted = serde_json::from_str(wanted).map_err(Fault::from)?;
        Ok(self.0.judge(text, wanted)?)
    }

    /// The tokens of a text.
    ///
    /// # Errors
    /// [`Fault::Text`].
    pub fn ids(&self, text: &str) -> Result<Vec<u32>, String> {
        Ok(self.0.ids(text)?)
    }
}
