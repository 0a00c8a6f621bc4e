//! The combined observations of several texts, each once, independent of the order of texts.

use std::collections::HashSet;

use verdigris_detector::watermark::{Observation, Scheme};
use verdigris_detector::{DetectError, Evidence, Reader, Versions};

/// The most observations kept for a group: 24 MiB, and far more than any verdict needs.
const CAPACITY: usize = 1 << 20;

/// The size of a serialized observation in bytes.
pub(super) const BYTES: usize = 20;

/// The observations of several texts, each once, in the order of their names.
///
/// In several texts a context may occur more than once, with different tokens after it, of which a detector of one text
/// counts the first. Here all observations are kept, and at the end each context counts for the one of its observations
/// with the least name, so that every order of texts, and every way to divide them, gives the same result. Names do not
/// depend on scores, so the p-value is exact.
///
/// Above [`CAPACITY`] a sample is kept, by the names of contexts: those that begin with `level` zero bits.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    kept: Vec<Observation>,
    /// The number of leading observations that are sorted and distinct.
    clean: usize,
    level: u32,
}

/// The contribution of one text.
pub(super) struct TextObservations {
    pub(super) tokens: u64,
    pub(super) observations: Vec<Observation>,
}

impl TextObservations {
    /// Reads a text without manifests and after all repairs. That is one look, since both are decided without the key.
    /// Within the text, the same observations count as for a detector.
    pub(super) fn of(reader: &Reader, scheme: &dyn Scheme, text: &str) -> Result<Self, DetectError> {
        let mut read = reader.tokenizer().encode_long(Versions::of(text, true).last().text)?;
        let tokens = read.len() as u64;
        let rules = scheme.embed_rules();
        if let Some(padding) = rules.padding.filter(|_| rules.judges_beginning) {
            read.splice(0..0, std::iter::repeat_n(padding, scheme.context_width()));
        }
        let mut observations = Vec::new();
        if read.len() > scheme.context_width() {
            scheme.observe(&read, &mut observations);
        }
        let (mut contexts, mut identities) = (HashSet::new(), HashSet::new());
        observations.retain(|one| {
            // NaN is not judged by this key.
            !one.score.is_nan()
                && contexts.insert(one.context)
                && (scheme.context_decides() || identities.insert(one.identity))
        });
        Ok(Self { tokens, observations })
    }
}

fn place(one: &Observation) -> (u64, u64) {
    (one.context, one.identity)
}

impl Pool {
    pub(super) fn add(&mut self, observations: Vec<Observation>) {
        let level = self.level;
        self.kept.extend(observations.into_iter().filter(|one| one.context.leading_zeros() >= level));
        if self.kept.len() > 2 * self.clean + 1024 {
            self.tidy();
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.level = self.level.max(other.level);
        self.clean = 0;
        self.kept.extend(other.kept);
        self.tidy();
    }

    fn tidy(&mut self) {
        let level = self.level;
        self.kept.retain(|one| one.context.leading_zeros() >= level);
        self.kept.sort_unstable_by_key(place);
        self.kept.dedup_by_key(|one| place(one));
        while self.kept.len() > CAPACITY {
            self.level += 1;
            let level = self.level;
            self.kept.retain(|one| one.context.leading_zeros() >= level);
        }
        self.clean = self.kept.len();
    }

    /// Returns the evidence of everything that was added.
    pub(super) fn evidence(&mut self, scheme: &dyn Scheme, tokens: u64) -> Evidence {
        self.tidy();
        let (mut context, mut identities) = (None, HashSet::new());
        let (mut scored, mut score) = (0, 0.0);
        for one in &self.kept {
            let again = context == Some(one.context) || !(scheme.context_decides() || identities.insert(one.identity));
            if !again {
                context = Some(one.context);
                scored += 1;
                score += f64::from(one.score);
            }
        }
        let sampled = 0.5f64.powi(self.level as i32);
        Evidence::from_sum(&scheme.distribution(), scored, score).of_tokens(tokens).of_sample(sampled)
    }

    pub(super) fn bytes(&mut self) -> (u32, Vec<u8>) {
        self.tidy();
        let mut bytes = Vec::with_capacity(BYTES * self.kept.len());
        for one in &self.kept {
            bytes.extend(one.context.to_le_bytes());
            bytes.extend(one.identity.to_le_bytes());
            bytes.extend(one.score.to_le_bytes());
        }
        (self.level, bytes)
    }

    /// Deserializes a pool; `None` if the bytes are not those of a pool.
    pub(super) fn of_bytes(level: u32, bytes: &[u8]) -> Option<Self> {
        let (ones, []) = bytes.as_chunks::<BYTES>() else { return None };
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let kept = ones.iter().map(|one| Observation {
            context: word(&one[..8]),
            identity: word(&one[8..16]),
            score: f32::from_le_bytes(one[16..].try_into().expect("four bytes")),
        });
        Some(Self { kept: kept.collect(), clean: 0, level })
    }

    /// The size of the pool in bytes.
    pub(super) fn size(&self) -> usize {
        self.kept.capacity() * size_of::<Observation>()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use verdigris_detector::watermark::{Context, ContextFunction, Detector, Gamma, Native};
    use verdigris_detector::{Reader, Tokenizer};

    use super::*;

    fn schemes(vocabulary: usize) -> Vec<Arc<dyn Scheme>> {
        let functions = [(ContextFunction::All, 1), (ContextFunction::Min, 4), (ContextFunction::SelfSalted, 3)];
        let native = |(function, width)| -> Arc<dyn Scheme> {
            let (gamma, context) = (Gamma::new(0.25).unwrap(), Context::new(function, width).unwrap());
            Arc::new(Native::new(&[7; 32], "id", "", gamma, context, vocabulary))
        };
        functions.into_iter().map(native).collect()
    }

    fn reader() -> Reader {
        let json = include_bytes!("../../../../fixtures/models/tale/tokenizer.json");
        Reader::new(Tokenizer::from_json(json).unwrap())
    }

    fn text(seed: usize) -> String {
        let words =
            ["the captain", " came", " on deck", " at dawn", " and the sea", " was", " red", ".", " She", " saw"];
        (0..60).map(|i| words[(i * i * 7 + i * seed + seed) % words.len()]).collect()
    }

    #[test]
    fn one_text_counts_what_a_detector_counts() {
        let reader = reader();
        for scheme in schemes(reader.vocabulary().size()) {
            for seed in 0..20 {
                let text = text(seed);
                let read = TextObservations::of(&reader, &*scheme, &text).unwrap();
                let mut pool = Pool::default();
                pool.add(read.observations);
                let mut detector = Detector::new(scheme.clone());
                detector.push(&reader.tokenizer().encode_long(&text).unwrap());
                assert_eq!(pool.evidence(&*scheme, read.tokens), detector.evidence());
            }
        }
    }

    #[test]
    fn manifests_and_changed_white_space_are_no_words_of_the_author() {
        let reader = reader();
        let reference = "c".repeat(40_000);
        // White space at the beginning of a line would count as indentation.
        let text = text(3).trim_start().to_owned();
        for scheme in schemes(reader.vocabulary().size()) {
            let evidence = |text: &str| {
                let read = TextObservations::of(&reader, &*scheme, text).unwrap();
                let mut pool = Pool::default();
                pool.add(read.observations);
                pool.evidence(&*scheme, read.tokens)
            };
            let plain = evidence(&text);
            let block = format!("# -----BEGIN C2PA MANIFEST----- {reference} -----END C2PA MANIFEST-----\n");
            for changed in [block + &text, text.replace(' ', "\u{A0}"), text.replace(' ', "\t ")] {
                assert_eq!(evidence(&changed), plain);
            }
        }
    }

    #[test]
    fn every_way_to_share_texts_out_gives_the_same() {
        let reader = reader();
        for scheme in schemes(reader.vocabulary().size()) {
            let read = |seed| TextObservations::of(&reader, &*scheme, &text(seed)).unwrap().observations;
            let mut whole = Pool::default();
            (0..30).for_each(|seed| whole.add(read(seed)));
            let whole = whole.evidence(&*scheme, 0);
            assert!(whole.scored > 0);
            let mut parts = vec![Pool::default(); 4];
            (0..30).rev().for_each(|seed| parts[seed % 4].add(read(seed)));
            // A repeated text adds no evidence.
            parts[1].add(read(4));
            let mut merged = Pool::default();
            for part in &mut parts {
                let (level, bytes) = part.bytes();
                merged.merge(Pool::of_bytes(level, &bytes).unwrap());
            }
            assert_eq!(merged.evidence(&*scheme, 0), whole);
        }
        assert!(Pool::of_bytes(0, &[0; BYTES + 1]).is_none());
    }

    #[test]
    fn past_its_capacity_it_keeps_the_same_sample_in_every_order() {
        let scheme = &*schemes(1000)[0];
        let one = |i: u64| {
            let name = |salt: u64| {
                (i ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
            };
            Observation { context: name(1), identity: name(2), score: f32::from(u8::from(i.is_multiple_of(4))) }
        };
        let of = |range: std::ops::Range<u64>| {
            let mut pool = Pool::default();
            range.step_by(1 << 16).for_each(|from| pool.add((from..from + (1 << 16)).map(one).collect()));
            pool
        };
        let n = 3 << 20;
        let whole = of(0..n).evidence(scheme, 0);
        let (mut small, large) = (of(n - (1 << 18)..n), of(0..n - (1 << 18)));
        small.merge(large);
        let merged = small.evidence(scheme, 0);
        assert_eq!(merged, whole);
        assert_eq!(whole.sampled, 0.25);
        assert!(whole.scored <= CAPACITY as u64);
        let share = whole.score / whole.scored as f64;
        assert!((share - 0.25).abs() < 0.01, "{share}");
    }
}
