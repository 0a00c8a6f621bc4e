//! The detector in a browser: it takes a tokenizer, a key and a text, and returns the same result as `POST /detect`.
//! Nothing leaves the page.
//!
//! | module | contents |
//! |---|---|
//! | `desk` | a tokenizer and a key, which judge texts |
//! | `error` | errors, each with a code |
//!
//! This file exports both to JavaScript: bytes and texts in, JSON out. `page` is the web page around it, which shows
//! findings with the components of `verdigris serve`.
#![forbid(unsafe_code)]

mod desk;
mod error;

pub use desk::{Desk, Wanted};
pub use error::DeskError;

use wasm_bindgen::prelude::wasm_bindgen;
use zeroize::Zeroizing;

/// A tokenizer, and a key if one was read.
///
/// Methods throw strings: JSON with a `code`, which identifies the error, and a `message`.
#[wasm_bindgen]
pub struct Detector(Desk);

#[wasm_bindgen]
impl Detector {
    /// Creates a detector from the contents of a `tokenizer.json`.
    ///
    /// # Errors
    /// [`DeskError::Tokenizer`].
    #[wasm_bindgen(constructor)]
    pub fn new(tokenizer: &[u8]) -> Result<Self, String> {
        Ok(Self(Desk::new(tokenizer)?))
    }

    /// Replaces the key by that of a key file; the bytes are wiped. On an error the previous key stays.
    ///
    /// # Errors
    /// [`DeskError::Key`] and [`DeskError::ForeignKey`].
    pub fn take_key(&mut self, file: Vec<u8>) -> Result<(), String> {
        Ok(self.0.take_key(&Zeroizing::new(file))?)
    }

    /// Forgets the key.
    pub fn drop_key(&mut self) {
        self.0.drop_key();
    }

    /// Returns JSON: `tokenizer` with its `size` and `fingerprint`, `key` with its `id`, `dialect` and `scheme`, or
    /// null, and `version`.
    pub fn about(&self) -> String {
        self.0.about().to_string()
    }

    /// Judges a text and returns JSON in the format of `POST /detect`. `wanted` is JSON with `level` and `windows`.
    ///
    /// # Errors
    /// [`DeskError::NoKey`], [`DeskError::LongText`], [`DeskError::Text`] and [`DeskError::Wanted`].
    pub fn judge(&self, text: &str, wanted: &str) -> Result<String, String> {
        let wanted: Wanted = serde_json::from_str(wanted).map_err(DeskError::from)?;
        Ok(self.0.judge(text, wanted)?)
    }

    /// Returns the tokens of a text.
    ///
    /// # Errors
    /// [`DeskError::Text`].
    pub fn ids(&self, text: &str) -> Result<Vec<u32>, String> {
        Ok(self.0.ids(text)?)
    }
}
