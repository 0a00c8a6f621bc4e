//! The dialect of the KGW reference implementation: all its seeding schemes.
//!
//! Kirchenbauer, Geiping, Wen, Katz, Miers and Goldstein, *A Watermark for Large Language Models*, ICML 2023, and *On
//! the Reliability of Watermarks for Large Language Models*, ICLR 2024, as in the authors' code (`lm-watermarking`): a
//! pseudo-random function turns the context into a seed, and the green list is the first `int(V * gamma)` entries of
//! torch's CPU `randperm(V)` under that seed. On a CUDA device the same code makes unrelated lists. Text Generation
//! Inference embeds `simple_1` with other defaults.
//!
//! The dialect reads and writes the marks of that code. As a secret it is weak: 32 bits of the seed take part, and the
//! default key is public.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use verdigris_logits::TokenId;
use zeroize::Zeroizing;

use super::deciders::Deciders;
use super::error::BadDialect;
use super::spec::{Secret, Spec, colours};

pub use super::permutation::BadSplit;
use super::permutation::Permutation;
use super::seeded::{Seed, Seeded, SelfSalt};
use crate::green_share::GreenShare;
use crate::random::mt19937::randperm;
use crate::scheme::{MAX_CONTEXT, Scheme};

/// The default key of the reference implementation, Hugging Face and SBW. Public.
pub const DEFAULT_HASH_KEY: u64 = 15_485_863;

/// The number of tokens that a self-salted writer judges: the reference tests the indices 0 to 40 and then stops.
const CANDIDATES: usize = 41;

/// The function that turns a context into a seed, by its name in the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation: they are those of the reference")]
pub enum Prf {
    Multiplicative,
    Additive,
    Minfunc,
    SimpleSkip,
    Skipgram,
    AnchoredSkipgram,
    Minhash,
    AnchoredMinhash,
    Minskipgram,
    Noncomm,
    Position,
}

/// All functions with their names.
pub(crate) const PRFS: [(&str, Prf); 11] = [
    ("multiplicative_prf", Prf::Multiplicative),
    ("additive_prf", Prf::Additive),
    ("minfunc_prf", Prf::Minfunc),
    ("simple_skip_prf", Prf::SimpleSkip),
    ("skipgram_prf", Prf::Skipgram),
    ("anchored_skipgram_prf", Prf::AnchoredSkipgram),
    ("minhash_prf", Prf::Minhash),
    ("anchored_minhash_prf", Prf::AnchoredMinhash),
    ("minskipgram_prf", Prf::Minskipgram),
    ("noncomm_prf", Prf::Noncomm),
    ("position_prf", Prf::Position),
];

/// A seeding scheme: a function, the number of tokens it sees, and whether the judged token is one of them.
///
/// Its name is the reference's: `simple_1` (also `lefthash`), `minhash`, `skipgram`, `selfhash` (also `algorithm-3`),
/// or `ff-FUNCTION-WIDTH-SELFSALT` such as `ff-anchored_minhash_prf-4-True`. The latter may have a fifth part, the hash
/// key: see [`SeedingScheme::with_key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeedingScheme {
    /// The function that turns tokens into a seed.
    pub prf: Prf,
    /// The number of tokens it sees, including the judged one where `self_salt` is set.
    pub width: usize,
    /// Whether the judged token is the last of them.
    pub self_salt: bool,
}

/// A name that is not a seeding scheme.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a seeding scheme: try simple_1, minhash, skipgram, selfhash or ff-FUNCTION-WIDTH-True|False with a \
     width of 1 to {MAX_CONTEXT}"
)]
pub struct BadSeedingScheme(String);

impl SeedingScheme {
    /// Parses a name that may include the hash key, such as `ff-anchored_minhash_prf-4-True-15485863`.
    ///
    /// # Errors
    /// [`BadSeedingScheme`] if the reference has no such name.
    pub fn with_key(text: &str) -> Result<(Self, Option<u64>), BadSeedingScheme> {
        let whole = || BadSeedingScheme(text.chars().take(60).collect());
        match text.rsplit_once('-') {
            Some((scheme, key)) if text.starts_with("ff-") && text.split('-').count() == 5 => {
                Ok((scheme.parse().map_err(|_| whole())?, Some(key.parse().map_err(|_| whole())?)))
            }
            _ => Ok((text.parse()?, None)),
        }
    }
}

impl FromStr for SeedingScheme {
    type Err = BadSeedingScheme;

    fn from_str(text: &str) -> Result<Self, BadSeedingScheme> {
        let scheme = |prf, width, self_salt| Self { prf, width, self_salt };
        let bad = || BadSeedingScheme(text.chars().take(60).collect());
        Ok(match text {
            "simple_1" | "lefthash" => scheme(Prf::Additive, 1, false),
            "minhash" => scheme(Prf::Minhash, 4, false),
            "skipgram" => scheme(Prf::Skipgram, 5, false),
            "selfhash" | "algorithm-3" => scheme(Prf::AnchoredMinhash, 4, true),
            _ => {
                let parts: Vec<&str> = text.split('-').collect();
                let ["ff", prf, width, self_salt] = parts[..] else { return Err(bad()) };
                let prf = PRFS.iter().find(|(name, _)| *name == prf).ok_or_else(bad)?.1;
                let width = width.parse().ok().filter(|width| (1..=MAX_CONTEXT).contains(width)).ok_or_else(bad)?;
                let self_salt = match self_salt {
                    "True" => true,
                    "False" => false,
                    _ => return Err(bad()),
                };
                if prf == Prf::Minskipgram && width < 2 {
                    return Err(bad());
                }
                scheme(prf, width, self_salt)
            }
        })
    }
}

impl fmt::Display for SeedingScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in ["simple_1", "minhash", "skipgram", "selfhash"] {
            if name.parse() == Ok(*self) {
                return f.write_str(name);
            }
        }
        let name = PRFS.iter().find(|(_, prf)| *prf == self.prf).expect("every function has a name").0;
        write!(f, "ff-{name}-{}-{}", self.width, if self.self_salt { "True" } else { "False" })
    }
}

/// The reference's schemes as represented in key files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// The seeding scheme.
    #[serde(default = "simple_1", serialize_with = "as_text", deserialize_with = "from_text")]
    pub seeding: SeedingScheme,
    /// The green share.
    pub gamma: GreenShare,
}

/// The reference's default.
pub(super) fn simple_1() -> SeedingScheme {
    "simple_1".parse().expect("a name of the reference")
}

fn as_text<S: Serializer>(scheme: &SeedingScheme, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(scheme)
}

fn from_text<'de, D: Deserializer<'de>>(from: D) -> Result<SeedingScheme, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

impl Spec for Parameters {
    colours!();

    fn scheme(&self, secret: &Secret<'_>, vocabulary: usize) -> Result<Arc<dyn Scheme>, BadDialect> {
        Ok(Arc::new(kgw(secret.number()?, self.seeding, self.gamma.value(), vocabulary)?))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", {}", self.seeding)
    }

    fn is_public(&self, numbers: &[u64]) -> bool {
        numbers == [DEFAULT_HASH_KEY]
    }
}

/// A hash of one number.
pub(crate) type HashInt = fn(i64) -> i64;

/// Seeds of the reference under one key.
pub(crate) struct Seeds {
    pub(crate) scheme: SeedingScheme,
    pub(crate) key: Zeroizing<u64>,
}

impl fmt::Debug for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kgw {{ scheme: {}, key: redacted }}", self.scheme)
    }
}

impl Seed for Seeds {
    fn context_width(&self) -> usize {
        self.scheme.width - usize::from(self.scheme.self_salt)
    }

    fn self_salt(&self) -> SelfSalt {
        if self.scheme.self_salt { SelfSalt::Best(CANDIDATES) } else { SelfSalt::No }
    }

    fn deciders(&self) -> Deciders {
        self.scheme.deciders()
    }

    fn seed(&self, context: &[TokenId], token: TokenId) -> u64 {
        modulo(self.scheme.value(*self.key, context, token, table_hash, Width::Python))
    }
}

/// The integers for products over whole contexts: Python's, which grow, or torch's, which wrap.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    Python,
    Torch,
}

impl SeedingScheme {
    /// The tokens of the function's input that decide its output.
    pub(crate) fn deciders(self) -> Deciders {
        match self.prf {
            Prf::Skipgram => Deciders::First,
            Prf::AnchoredSkipgram => Deciders::Ends,
            Prf::SimpleSkip => Deciders::EverySecond,
            // Where the smallest of several hashes decides, it can be any of them.
            Prf::Multiplicative
            | Prf::Additive
            | Prf::Minfunc
            | Prf::Minhash
            | Prf::AnchoredMinhash
            | Prf::Minskipgram
            | Prf::Noncomm
            | Prf::Position => Deciders::All,
        }
    }

    /// The function's value for a context and, if self-salted, the judged token.
    pub(crate) fn value(self, key: u64, context: &[TokenId], token: TokenId, hash: HashInt, width: Width) -> i128 {
        let mut tokens = [0i64; MAX_CONTEXT];
        for (to, &from) in tokens.iter_mut().zip(context) {
            *to = i64::from(from);
        }
        tokens[context.len()..].iter_mut().take(usize::from(self.self_salt)).for_each(|to| *to = i64::from(token));
        let tokens = &tokens[..self.width];
        let last = tokens[self.width - 1];
        // Inside tensors torch's numbers wrap at 64 bits.
        let k = key as i64;
        let of = |x: i64| hash(k.wrapping_mul(x));
        let scaled = |x: i64| match width {
            Width::Python => i128::from(key) * i128::from(x),
            Width::Torch => i128::from(k.wrapping_mul(x)),
        };
        let wide = i128::from;
        match self.prf {
            Prf::Multiplicative => scaled(tokens.iter().fold(1, |product, &x| i64::wrapping_mul(product, x))),
            Prf::Additive => scaled(tokens.iter().sum()),
            Prf::Minfunc => scaled(least(tokens.iter().copied())),
            Prf::SimpleSkip => wide(tokens.iter().step_by(2).fold(1, |product, &x| i64::wrapping_mul(product, of(x)))),
            Prf::Skipgram => wide(of(tokens[0])),
            Prf::AnchoredSkipgram => wide(of(tokens[0]).wrapping_mul(of(last))),
            Prf::Minhash => wide(least(tokens.iter().map(|&x| of(x)))),
            Prf::AnchoredMinhash => {
                let anchor = hash(last);
                wide(least(tokens.iter().map(|&x| k.wrapping_mul(hash(x)).wrapping_mul(anchor))))
            }
            Prf::Minskipgram => {
                let mut hashes = [0; MAX_CONTEXT];
                hashes.iter_mut().zip(tokens).for_each(|(to, &x)| *to = of(x));
                let hashes = &hashes[..self.width];
                let pairs = hashes.iter().enumerate().flat_map(|(i, a)| hashes[i + 1..].iter().map(move |b| (*a, *b)));
                wide(least(pairs.map(|(a, b)| a.wrapping_mul(b))))
            }
            Prf::Noncomm => wide(
                tokens.iter().fold(k, |state, &x| state.wrapping_mul(hash(state.wrapping_mul(x))).rem_euclid(1 << 32)),
            ),
            Prf::Position => {
                let terms = (1..).zip(tokens).map(|(i, &x)| k.wrapping_mul(x).wrapping_mul(i));
                wide(terms.fold(0, i64::wrapping_add))
            }
        }
    }
}

fn least(values: impl Iterator<Item = i64>) -> i64 {
    values.min().expect("a context has at least one token")
}

/// `value % (2**64 - 1)` with Python's semantics, never negative.
pub(crate) fn modulo(value: i128) -> u64 {
    value.rem_euclid(i128::from(u64::MAX)) as u64
}

/// `fixed_table[x % 1_000_003] + 1`: the reference's hash of integers.
pub(crate) fn table_hash(x: i64) -> i64 {
    static TABLE: OnceLock<Vec<u32>> = OnceLock::new();
    let table = TABLE.get_or_init(|| fixed_table(2_971_215_073));
    i64::from(table[x.rem_euclid(TABLE_SIZE) as usize]) + 1
}

pub(crate) const TABLE_SIZE: i64 = 1_000_003;

/// A permutation of a million numbers under a seed.
pub(crate) fn fixed_table(seed: u32) -> Vec<u32> {
    let mut table = Vec::with_capacity(TABLE_SIZE as usize);
    randperm(TABLE_SIZE as usize, TABLE_SIZE as usize, seed, &mut Vec::new(), |entry| table.push(entry));
    table
}

/// The reference's scheme under a key, over a vocabulary. `vocabulary` must be the size that the writer used: the
/// reference takes `len(tokenizer.get_vocab())`, TGI the width of the logits.
///
/// # Errors
/// [`BadSplit`] if the share does not split the vocabulary.
pub fn kgw(key: u64, scheme: SeedingScheme, gamma: f64, vocabulary: usize) -> Result<impl Scheme, BadSplit> {
    let seed = Seeds { scheme, key: Zeroizing::new(key) };
    Ok(Seeded { seed, list: Permutation::new(gamma, vocabulary)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::seeded::List;
    use data_encoding::HEXLOWER;
    use sha3::{Digest, Sha3_256};
    use verdigris_logits::TokenSet;

    /// A line of the golden file: the parameters and the digest of all lists.
    #[derive(serde::Deserialize)]
    struct Case {
        hash_key: u64,
        gamma: f64,
        vocabulary: usize,
        previous: Vec<u32>,
        sha3_256: String,
    }

    #[test]
    fn whole_names_say_the_hash_key() {
        let read = |text: &str| SeedingScheme::with_key(text).map(|(scheme, key)| (scheme.to_string(), key));
        assert_eq!(read("ff-anchored_minhash_prf-4-True-15485863"), Ok(("selfhash".into(), Some(15_485_863))));
        assert_eq!(read("ff-minhash_prf-3-False"), Ok(("ff-minhash_prf-3-False".into(), None)));
        assert_eq!(read("algorithm-3"), Ok(("selfhash".into(), None)));
        for bad in ["ff-minhash_prf-3-False-x", "ff-minhash_prf-3-False-1-2", "ff-no_prf-3-False-1", "simple_1-7", ""] {
            assert!(read(bad).unwrap_err().to_string().contains(&format!("{bad:?}")), "{bad}");
        }
    }

    /// `fixtures/golden/kgw_simple_1.json`, made with torch by the script next to it.
    #[test]
    fn lists_equal_torch_in_a_million_memberships() {
        let cases: Vec<Case> =
            serde_json::from_str(include_str!("../../../../fixtures/golden/kgw_simple_1.json")).unwrap();
        let mut memberships = 0;
        for case in cases {
            let seeds = Seeds { scheme: "simple_1".parse().unwrap(), key: Zeroizing::new(case.hash_key) };
            let list = Permutation::new(case.gamma, case.vocabulary).unwrap();
            let mut digest = Sha3_256::new();
            let mut green = TokenSet::new(case.vocabulary);
            for &previous in &case.previous {
                let seed = seeds.seed(&[previous], 0);
                list.fill(seed, &mut green);
                memberships += case.vocabulary;
                let bytes = green.words().iter().flat_map(|word| word.to_le_bytes());
                digest.update(bytes.take(case.vocabulary.div_ceil(8)).collect::<Vec<_>>());
                let questions =
                    (0..case.vocabulary as u32).step_by(case.vocabulary / 40 + 1).map(|token| (seed, token));
                let questions: Vec<_> = questions.collect();
                let mut answers = Vec::new();
                list.judge(&questions, &mut answers);
                for ((_, token), answer) in questions.iter().zip(answers) {
                    assert_eq!(answer, green.contains(*token));
                }
            }
            assert_eq!(HEXLOWER.encode(&digest.finalize()), case.sha3_256, "V = {}", case.vocabulary);
        }
        assert!(memberships >= 1_000_000, "{memberships}");
    }

    /// Determined by trial: a token decides exactly if changing it changes the seed.
    #[test]
    fn contexts_are_named_by_the_tokens_that_decide() {
        for (name, prf) in PRFS {
            for (width, self_salt) in [(5, false), (5, true), (4, true), (2, false), (2, true)] {
                let seeds = Seeds { scheme: SeedingScheme { prf, width, self_salt }, key: Zeroizing::new(15_485_863) };
                let seed = |window: &[TokenId]| {
                    let (context, token) = window.split_at(seeds.context_width());
                    seeds.seed(context, token.first().copied().unwrap_or(0))
                };
                for place in 0..width {
                    let (mut seed_changes, mut name_changes) = (false, false);
                    for i in 0..60 {
                        let window: Vec<TokenId> = (0..5).map(|j| 1000 + 7919 * i + 104_729 * j).take(width).collect();
                        let mut other = window.clone();
                        other[place] = 3 + 31 * i;
                        seed_changes |= seed(&window) != seed(&other);
                        name_changes |= seeds.deciders().name(&window) != seeds.deciders().name(&other);
                    }
                    assert_eq!(name_changes, seed_changes, "{name} over {width}, {self_salt}: token {place}");
                }
            }
        }
    }

    #[test]
    fn names_come_back() {
        for text in ["simple_1", "minhash", "skipgram", "selfhash", "ff-noncomm_prf-3-False", "ff-minhash_prf-2-True"] {
            assert_eq!(text.parse::<SeedingScheme>().unwrap().to_string(), text);
        }
        assert_eq!("lefthash".parse::<SeedingScheme>(), "simple_1".parse());
        for bad in
            ["", "simple_2", "ff-additive_prf-0-True", "ff-additive_prf-99-True", "ff-x-1-True", "ff-minhash_prf-1"]
        {
            assert!(bad.parse::<SeedingScheme>().is_err(), "{bad}");
        }
    }

    #[test]
    fn bad_splits_are_refused() {
        let scheme = "simple_1".parse().unwrap();
        for (gamma, vocabulary) in [(1.0, 10), (f64::NAN, 10), (0.5, 0), (0.5, usize::MAX), (0.01, 50)] {
            assert!(kgw(1, scheme, gamma, vocabulary).is_err(), "{gamma} {vocabulary}");
        }
    }
}
