//! Text files as training data.

use std::path::Path;

use verdigris_logits::{Purpose, Random, TokenId};
use verdigris_text::{ReadError, Tokenizer};

use crate::error::TrainError;

/// The separator of documents in a corpus file.
pub const END_OF_DOCUMENT: &str = "<|endoftext|>";

/// The magic number at the start of a zstd file.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A tokenized text: all documents in sequence, each followed by the end token.
#[derive(Clone, Debug)]
pub struct Corpus {
    tokens: Vec<TokenId>,
}

/// Reads a text file, plain or compressed with zstd.
pub(crate) fn read_text(path: &Path) -> Result<String, TrainError> {
    let bytes = std::fs::read(path).map_err(TrainError::file("read", path))?;
    let bytes = match bytes.starts_with(&ZSTD) {
        true => zstd::decode_all(&bytes[..]).map_err(TrainError::file("read", path))?,
        false => bytes,
    };
    String::from_utf8(bytes).map_err(|_| TrainError::NotText { path: path.into() })
}

impl Corpus {
    /// Reads a text file, plain or compressed with zstd. `end` is added after each document.
    ///
    /// # Errors
    /// [`TrainError::File`] if it cannot be read, [`TrainError::NotText`] if it is not text, and [`TrainError::Tokens`]
    /// if it cannot be tokenized.
    pub fn read(path: &Path, tokenizer: &Tokenizer, end: TokenId) -> Result<Self, TrainError> {
        Self::from_text(&read_text(path)?, tokenizer, end)
            .map_err(|source| TrainError::Tokens { path: path.into(), source })
    }

    /// Tokenizes a text whose documents are separated by [`END_OF_DOCUMENT`].
    ///
    /// # Errors
    ///
    /// The same as [`Tokenizer::encode`].
    pub fn from_text(text: &str, tokenizer: &Tokenizer, end: TokenId) -> Result<Self, ReadError> {
        let mut tokens = Vec::new();
        for document in text.split(END_OF_DOCUMENT).map(str::trim).filter(|document| !document.is_empty()) {
            tokenizer.encode_reader(document.as_bytes(), |_, ids| tokens.extend_from_slice(ids))?;
            tokens.push(end);
        }
        Ok(Self { tokens })
    }

    /// The number of tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there is no token.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// All tokens.
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Checks that the corpus holds a window and its last target.
    ///
    /// # Errors
    /// [`TrainError::TooShort`] if it does not.
    pub fn check(&self, window: usize, path: &Path) -> Result<(), TrainError> {
        let (tokens, needed) = (self.len(), window + 1);
        if tokens < needed { Err(TrainError::TooShort { path: path.into(), tokens, needed }) } else { Ok(()) }
    }

    /// A random window of `window + 1` tokens: number `draw` of a run.
    pub(crate) fn sample(&self, window: usize, random: &Random, draw: u64) -> &[TokenId] {
        let starts = self.len() - window;
        let start = (random.uniform(draw, Purpose::Data) * starts as f64) as usize;
        &self.tokens[start..=start + window]
    }

    /// Up to `count` windows of `window + 1` tokens, evenly spread over the text.
    pub fn spread(&self, window: usize, count: usize) -> Vec<&[TokenId]> {
        let last = self.len() - window - 1;
        let count = count.min(self.len() / window).max(1);
        (0..count)
            .map(|i| {
                let start = last * i / (count.max(2) - 1);
                &self.tokens[start.min(last)..=start.min(last) + window]
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokenizer() -> Tokenizer {
        Tokenizer::from_json(include_bytes!("../../../fixtures/models/tale/tokenizer.json")).unwrap()
    }

    #[test]
    fn documents_end_with_the_end_token() {
        let tokenizer = tokenizer();
        let corpus = Corpus::from_text("One.<|endoftext|>\n\nTwo two.\n<|endoftext|>\n", &tokenizer, 0).unwrap();
        let expected =
            [tokenizer.encode("One.").unwrap(), vec![0], tokenizer.encode("Two two.").unwrap(), vec![0]].concat();
        assert_eq!(corpus.tokens, expected);
    }

    #[test]
    fn plain_and_compressed_files_read_alike() {
        let folder = tempfile::tempdir().unwrap();
        let text = "It is a truth universally acknowledged. ".repeat(50);
        let (plain, packed) = (folder.path().join("a.txt"), folder.path().join("a.txt.zst"));
        std::fs::write(&plain, &text).unwrap();
        std::fs::write(&packed, zstd::encode_all(text.as_bytes(), 3).unwrap()).unwrap();
        let tokenizer = tokenizer();
        let read = |path: &Path| Corpus::read(path, &tokenizer, 0).unwrap().tokens;
        assert_eq!(read(&plain), read(&packed));
        std::fs::write(&plain, [0xff, 0xfe, 0]).unwrap();
        assert!(Corpus::read(&plain, &tokenizer, 0).unwrap_err().to_string().contains("is not UTF-8 text"));
        assert!(Corpus::read(&folder.path().join("none"), &tokenizer, 0).is_err());
    }

    #[test]
    fn windows_stay_inside_and_reach_both_ends() {
        let corpus = Corpus { tokens: (0..100).collect() };
        let random = Random::new(1);
        let starts: Vec<u32> = (0..5000).map(|i| corpus.sample(10, &random, i)[0]).collect();
        assert_eq!((starts.iter().min(), starts.iter().max()), (Some(&0), Some(&89)));
        let spread = corpus.spread(10, 4);
        assert_eq!(spread.iter().map(|w| w[0]).collect::<Vec<_>>(), [0, 29, 59, 89]);
        assert!(spread.iter().all(|w| w.len() == 11));
        let short = Corpus { tokens: (0..11).collect() };
        assert_eq!(short.spread(10, 4), [&(0..11).collect::<Vec<_>>()[..]]);
        assert_eq!(short.sample(10, &random, 3).len(), 11);
    }
}
