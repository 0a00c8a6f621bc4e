//! A tokenizer that is ready to detect.

use std::io::Read;
use std::sync::Arc;

use verdigris_logits::TokenId;
use verdigris_text::Tokenizer;
use verdigris_watermark::vocabulary_id::MAX_VOCABULARY;
use verdigris_watermark::{Detector, Evidence, Key, Mark, Repeats, Scheme, VocabularyId};

use crate::error::DetectError;
use crate::evidence::evidence;

/// Reads texts and judges them. Needs a tokenizer, but no model.
///
/// ```no_run
/// use verdigris_detector::{Key, Reader, Tokenizer, Verdict};
///
/// // That of the model which the key was made for.
/// let reader = Reader::new(Tokenizer::from_json(&std::fs::read("tokenizer.json")?)?);
/// let key = Key::load("my.key".as_ref())?;
/// let evidence = reader.detect(&key, std::fs::File::open("tale.txt")?)?;
/// match evidence.verdict(1e-5)? {
///     Verdict::Marked => println!("marked, p = {:.1e}", evidence.p()),
///     Verdict::NotMarked => println!("no sign of a mark, p = {:.2}", evidence.p()),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Reader {
    tokenizer: Arc<Tokenizer>,
}

impl Reader {
    /// A reader with a tokenizer.
    pub fn new(tokenizer: impl Into<Arc<Tokenizer>>) -> Self {
        Self { tokenizer: tokenizer.into() }
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// What a key for this tokenizer has to know about it.
    pub fn vocabulary(&self) -> VocabularyId {
        let vocabulary = self.tokenizer.vocabulary();
        let size = vocabulary.size().clamp(1, MAX_VOCABULARY);
        VocabularyId::new(size, vocabulary.fingerprint()).expect("the size is in bounds, and a fingerprint is short")
    }

    /// The scheme of a key, if the key was made for this tokenizer.
    ///
    /// # Errors
    /// [`DetectError::ForeignKey`] if it was not, and [`DetectError::Key`] where it has no scheme.
    pub fn scheme(&self, key: &Key) -> Result<Arc<dyn Scheme>, DetectError> {
        self.fits(key)?;
        Ok(key.scheme()?)
    }

    /// Checks that a key was made for this tokenizer.
    ///
    /// # Errors
    /// [`DetectError::ForeignKey`] if it was not.
    pub fn fits(&self, key: &Key) -> Result<(), DetectError> {
        let (theirs, ours) = (key.vocabulary(), self.tokenizer.vocabulary());
        if theirs.fingerprint() != ours.fingerprint() {
            return Err(DetectError::ForeignKey {
                id: key.id().to_owned(),
                key_model: theirs.model().map(str::to_owned),
                key_size: theirs.size(),
                key_fingerprint: theirs.fingerprint().to_owned(),
                size: ours.size(),
                fingerprint: ours.fingerprint().to_owned(),
            });
        }
        Ok(())
    }

    /// The evidence of a text of any length, read once, in bounded memory.
    ///
    /// # Errors
    /// As [`Reader::scheme`], and [`DetectError::Read`] where the text cannot be read or is not UTF-8.
    pub fn detect(&self, key: &Key, text: impl Read) -> Result<Evidence, DetectError> {
        self.detect_repeats(key, text, Repeats::default())
    }

    /// As [`Reader::detect`], with another rule for repeats. Payloads are always counted by context.
    ///
    /// # Errors
    /// As [`Reader::detect`].
    pub fn detect_repeats(&self, key: &Key, text: impl Read, repeats: Repeats) -> Result<Evidence, DetectError> {
        if key.payload_bits().is_some() {
            self.fits(key)?;
            let (mut reader, mut count) = (key.payload_reader()?, 0);
            self.tokenizer.encode_reader(text, |_, tokens| {
                reader.push(tokens);
                count += tokens.len() as u64;
            })?;
            return Ok(reader.evidence(count));
        }
        let mut detector = Detector::new(self.scheme(key)?).repeats(repeats);
        self.tokenizer.encode_reader(text, |_, tokens| {
            detector.push(tokens);
        })?;
        Ok(detector.evidence())
    }

    /// As [`Reader::detect`], and hands each token's bytes and mark to `each`, in order.
    ///
    /// # Errors
    /// As [`Reader::detect`].
    pub fn detect_marked(
        &self,
        key: &Key,
        text: impl Read,
        mut each: impl FnMut(&[u8], Mark),
    ) -> Result<Evidence, DetectError> {
        let mut detector = Detector::new(self.scheme(key)?);
        let vocabulary = self.tokenizer.vocabulary();
        self.tokenizer.encode_reader(text, |_, tokens| {
            for (&token, &mark) in tokens.iter().zip(detector.push(tokens)) {
                each(vocabulary.bytes(token), mark);
            }
        })?;
        Ok(detector.evidence())
    }

    /// The evidence of some tokens under one key: one look, which pays for the payloads that it tries.
    ///
    /// # Errors
    /// As [`Reader::scheme`].
    pub fn evidence(&self, key: &Key, tokens: &[TokenId], repeats: Repeats) -> Result<Evidence, DetectError> {
        self.fits(key)?;
        evidence(key, tokens, repeats)
    }
}
