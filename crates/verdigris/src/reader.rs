//! A tokenizer that is ready to detect.

use std::io::Read;
use std::sync::Arc;

use verdigris_models::ModelFolder;
use verdigris_text::Tokenizer;
use verdigris_watermark::vocabulary_id::MAX_VOCABULARY;
use verdigris_watermark::{Detector, Evidence, Key, Mark, Repeats, Scheme, VocabularyId};

use crate::error::Error;

/// Reads texts and judges them. Needs a tokenizer, but no model.
///
/// ```no_run
/// use verdigris::{Key, ModelFolder, Reader, Verdict};
///
/// // The folder of a model, or one with nothing but its tokenizer.json.
/// let reader = Reader::from_folder(&ModelFolder::at("fixtures/models/tale"))?;
/// let key = Key::load("my.key".as_ref())?;
/// let evidence = reader.detect(&key, std::fs::File::open("tale.txt").unwrap())?;
/// match evidence.verdict(1e-5)? {
///     Verdict::Marked => println!("marked, p = {:.1e}", evidence.p()),
///     Verdict::NotMarked => println!("no sign of a mark, p = {:.2}", evidence.p()),
/// }
/// # Ok::<(), verdigris::Error>(())
/// ```
#[derive(Clone)]
pub struct Reader {
    tokenizer: Arc<Tokenizer>,
}

impl Reader {
    /// A reader with a tokenizer.
    pub fn new(tokenizer: Arc<Tokenizer>) -> Self {
        Self { tokenizer }
    }

    /// A reader with the tokenizer of a model folder, or of a `tokenizer.json`.
    pub fn from_folder(folder: &ModelFolder) -> Result<Self, Error> {
        Ok(Self::new(Arc::new(folder.tokenizer()?)))
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    pub(crate) fn shared_tokenizer(&self) -> Arc<Tokenizer> {
        self.tokenizer.clone()
    }

    /// What a key for this tokenizer has to know about it.
    pub fn vocabulary(&self) -> VocabularyId {
        let vocabulary = self.tokenizer.vocabulary();
        let size = vocabulary.size().clamp(1, MAX_VOCABULARY);
        VocabularyId::new(size, vocabulary.fingerprint()).expect("the size is in bounds, and a fingerprint is short")
    }

    /// The scheme of a key, if the key was made for this tokenizer.
    pub fn scheme(&self, key: &Key) -> Result<Arc<dyn Scheme>, Error> {
        self.fits(key)?;
        Ok(key.scheme()?)
    }

    /// Whether a key was made for this tokenizer.
    pub fn fits(&self, key: &Key) -> Result<(), Error> {
        let (theirs, ours) = (key.vocabulary(), self.tokenizer.vocabulary());
        if theirs.fingerprint() != ours.fingerprint() {
            return Err(Error::ForeignKey {
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
    pub fn detect(&self, key: &Key, text: impl Read) -> Result<Evidence, Error> {
        self.detect_repeats(key, text, Repeats::default())
    }

    /// As [`Reader::detect`], with another rule for repeats. Payloads are always counted by context.
    pub fn detect_repeats(&self, key: &Key, text: impl Read, repeats: Repeats) -> Result<Evidence, Error> {
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
    pub fn detect_marked(
        &self,
        key: &Key,
        text: impl Read,
        mut each: impl FnMut(&[u8], Mark),
    ) -> Result<Evidence, Error> {
        let mut detector = Detector::new(self.scheme(key)?);
        let vocabulary = self.tokenizer.vocabulary();
        self.tokenizer.encode_reader(text, |_, tokens| {
            for (&token, &mark) in tokens.iter().zip(detector.push(tokens)) {
                each(vocabulary.bytes(token), mark);
            }
        })?;
        Ok(detector.evidence())
    }
}
