//! Which of many keys marked a text.

use verdigris_text::parallel::try_map;
use verdigris_watermark::dialect::BadDialect;
use verdigris_watermark::{Evidence, Key, KeyError, Repeats};

use crate::error::DetectError;
use crate::evidence::evidence;
use crate::manifest::Unwrapped;
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

/// What [`Reader::identify`] can try of a key: its own vocabulary size and some others, each with its own green share and
/// some others, but for shares that its dialect does not know.
///
/// # Errors
/// As [`Key::with_vocabulary_size`] and [`Key::with_gamma`].
pub fn candidates(key: &Key, sizes: &[usize], gammas: &[f64]) -> Result<Vec<(String, Key)>, KeyError> {
    let own = key.vocabulary().size();
    let label = |key: &Key| {
        // Keys of other systems were once called by the dialect alone.
        let id = if key.id() == key.dialect().name() { String::new() } else { format!("{}: ", key.id()) };
        format!("{id}{}, {} tokens", key.dialect(), key.vocabulary().size())
    };
    let mut candidates = Vec::new();
    for size in std::iter::once(own).chain(sizes.iter().copied().filter(|&size| size != own)) {
        let key = key.with_vocabulary_size(size)?;
        let gamma = key.dialect().gamma();
        for &other in gammas.iter().filter(|&&other| Some(other) != gamma) {
            match key.with_gamma(other) {
                Ok(key) => candidates.push((label(&key), key)),
                // It has no colours, or its lists know no such share.
                Err(KeyError::Dialect(BadDialect::NoColours(_) | BadDialect::Gamma(_))) => {}
                Err(error) => return Err(error),
            }
        }
        candidates.push((label(&key), key));
    }
    Ok(candidates)
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
        let tokens = Tokens::of(self.tokenizer(), self.form(), &Unwrapped::new(text).text)?;
        let tried = candidates.len() as f64;
        let mut findings = try_map(candidates, |(label, key)| {
            let evidence = evidence(key, &tokens, repeats)?;
            let evidence = evidence.best_of(evidence.tried * tried);
            Ok::<_, DetectError>(Finding { label: label.clone(), evidence })
        })?;
        findings.sort_by(|a, b| a.evidence.ln_p_corrected().total_cmp(&b.evidence.ln_p_corrected()));
        Ok(findings)
    }
}
