//! Which of many keys marked a text.

use rayon::prelude::*;
use verdigris_watermark::{Evidence, Key, Repeats};

use crate::error::DetectError;
use crate::evidence::evidence;
use crate::reader::Reader;
use crate::tokens::Tokens;

/// Whether an origin goes with a name: which key wrote a text, if any did.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What was tried, such as a key's id with the vocabulary size.
    pub label: String,
    /// Its evidence, which pays for everything that was tried.
    pub evidence: Evidence,
}

impl Reader {
    /// Tries keys that may differ in dialect, vocabulary size and green share; the best come first. Keys here need
    /// not know this tokenizer: the text is tokenized by it all the same.
    ///
    /// # Errors
    /// [`DetectError::Read`] where the text cannot be tokenized, [`DetectError::Form`] where it is not of the reader's
    /// form, and [`DetectError::Key`] where a key cannot be used.
    pub fn identify(
        &self,
        candidates: &[(String, Key)],
        text: &str,
        repeats: Repeats,
    ) -> Result<Vec<Finding>, DetectError> {
        let tokens = Tokens::of(self.tokenizer(), self.form(), text)?;
        let tried = candidates.len() as f64;
        let mut findings = candidates
            .par_iter()
            .map(|(label, key)| {
                let evidence = evidence(key, &tokens, repeats)?;
                let evidence = evidence.best_of(evidence.tried * tried);
                Ok(Finding { label: label.clone(), evidence })
            })
            .collect::<Result<Vec<_>, DetectError>>()?;
        findings.sort_by(|a, b| a.evidence.ln_p_corrected().total_cmp(&b.evidence.ln_p_corrected()));
        Ok(findings)
    }
}
