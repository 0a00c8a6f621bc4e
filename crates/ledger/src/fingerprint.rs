//! The fingerprint of a text: a digest, and hashes of its sequences of words.

use sha2::{Digest, Sha256};

use crate::minhash::Signature;
use crate::words::words;

/// The number of words in a sequence.
const SHINGLE: usize = 5;

/// The greatest number of sampled sequences, up to chance.
const SAMPLE: usize = 64;

/// The digest of a text, and the hashes of its sequences of five words ("shingles").
///
/// An entry of the ledger keeps a sample of them: those whose hash begins with [`rate`](Self::rate) zero bits. The
/// sample of a part of a text is a part of its sample (Broder 1997, section 3), so that excerpts are found.
#[derive(Clone, Debug)]
pub struct Fingerprint {
    digest: [u8; 32],
    /// In ascending order, each once.
    shingles: Vec<u64>,
}

impl Fingerprint {
    /// The fingerprint of a text. C2PA manifests must have been removed.
    pub fn of(text: &str) -> Self {
        // White space at the ends is left out of the digest, since programs add and remove line ends.
        let digest = Sha256::digest(text.trim()).into();
        let (mut shingles, mut sequence) = (Vec::new(), Vec::<u8>::new());
        // The lengths of the words in the sequence.
        let mut lengths = std::collections::VecDeque::with_capacity(SHINGLE);
        for word in words(text) {
            if lengths.len() == SHINGLE {
                // With the space after it.
                let first: usize = lengths.pop_front().unwrap_or_default();
                sequence.drain(..=first);
            }
            if !lengths.is_empty() {
                sequence.push(b' ');
            }
            sequence.extend_from_slice(word.as_bytes());
            lengths.push_back(word.len());
            if lengths.len() == SHINGLE {
                let digest: [u8; 32] = Sha256::digest(&sequence).into();
                let (first, _) = digest.split_first_chunk().expect("32 bytes");
                shingles.push(u64::from_be_bytes(*first));
            }
        }
        shingles.sort_unstable();
        shingles.dedup();
        Self { digest, shingles }
    }

    /// SHA-256 of the text without white space at its ends.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// The hashes of all different sequences of five words, in ascending order: the first eight bytes, as a big-endian
    /// number, of SHA-256 of the words with a space between them.
    pub fn shingles(&self) -> &[u64] {
        &self.shingles
    }

    /// The number of zero bits with which the hashes in the sample begin: the least with which some 32 to 64 hashes are
    /// left.
    pub fn rate(&self) -> u32 {
        (0..).find(|rate| self.shingles.len() >> rate <= SAMPLE).unwrap_or(0)
    }

    /// The hashes that begin with the given number of zero bits.
    pub fn sample(&self, rate: u32) -> &[u64] {
        let end = 1u64
            .checked_shl(64 - rate)
            .map_or(self.shingles.len(), |end| self.shingles.partition_point(|&hash| hash < end));
        &self.shingles[..end]
    }

    pub(crate) fn signature(&self) -> Signature {
        Signature::of(&self.shingles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(range: std::ops::Range<usize>) -> String {
        range.map(|i| format!("word{i} ")).collect()
    }

    #[test]
    fn a_sample_has_the_hashes_below_its_bound() {
        for words in [0, 4, 5, 68, 69, 70, 500, 20_000] {
            let print = Fingerprint::of(&numbered(0..words));
            assert_eq!(print.shingles().len(), words.saturating_sub(SHINGLE - 1), "{words}");
            let rate = print.rate();
            let sampled = print.shingles().iter().copied().filter(|hash| hash.leading_zeros() >= rate);
            assert_eq!(print.sample(rate), sampled.collect::<Vec<_>>(), "{words}");
            assert!(print.sample(rate).len() <= 2 * SAMPLE, "{words}: {}", print.sample(rate).len());
        }
        assert_eq!(Fingerprint::of(&numbered(0..68)).rate(), 0);
        assert_eq!(Fingerprint::of(&numbered(0..69)).rate(), 1);
    }

    #[test]
    fn the_sample_of_an_excerpt_is_a_part_of_the_sample() {
        let (whole, excerpt) = (Fingerprint::of(&numbered(0..3000)), Fingerprint::of(&numbered(700..1200)));
        let rate = whole.rate();
        let shared = excerpt.sample(rate);
        assert!(shared.len() > 4 && shared.iter().all(|hash| whole.sample(rate).contains(hash)), "{shared:?}");
    }

    #[test]
    fn repeated_sequences_count_once_and_white_space_at_the_ends_does_not() {
        let text = "one two three four five ".repeat(10);
        let print = Fingerprint::of(&text);
        assert_eq!(print.shingles().len(), 5);
        assert_eq!(print.digest(), Fingerprint::of(&format!("\n{}\n", text.trim())).digest());
        assert_ne!(print.digest(), Fingerprint::of(&text.replace("one", "One")).digest());
        assert_eq!(print.shingles(), Fingerprint::of(&text.replace("one", "One,")).shingles());
    }
}
