//! The dialect of SBW: colours as independent Bernoulli draws from Philox.
//!
//! Ceppi and Sanchez, *Flip, Don't Shuffle*, EMNLP 2026, as in the package `sbw` 1.0: a function of KGW's turns the
//! context into a 64-bit seed, with an integer mix instead of KGW's table, and token `v` is green when the low 31 bits
//! of word `v mod 4` of Philox4x32-10 at counter `v / 4` are below `int(gamma * (2^31 - 1))`. It uses integers only, so
//! every device makes the same lists.
//!
//! The package's schemes whose names begin with `gpu-` work like this; four of them are supported ([`Seeding`]). Those
//! without (`simple_1`, its default, `selfhash` and so on) are KGW's torch permutations: the dialect
//! [`kgw`](super::kgw) reads them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use verdigris_kernels::philox;
use verdigris_logits::{TokenId, TokenSet};
use zeroize::Zeroizing;

use super::deciders::Deciders;
use super::error::BadDialect;
use super::kgw::{BadSplit, DEFAULT_HASH_KEY, Prf, SeedingScheme, Width};
use super::seeded::{List, Seed, Seeded, SelfSalt};
use super::spec::{Secret, Spec, colours};
use crate::green_share::GreenShare;
use crate::random::{halves, jenkins};
use crate::scheme::Scheme;
use crate::score_distribution::ScoreDistribution;

/// SBW's schemes, by the package's names. Older key files omit the prefix (`gpu-` or `gpu-fused-`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seeding {
    /// `gpu-simple_1`: the previous token.
    #[serde(rename = "gpu-simple_1", alias = "simple_1")]
    Simple1,
    /// `gpu-fused-simple_4`: the sum of four tokens.
    #[serde(rename = "gpu-fused-simple_4", alias = "simple_4")]
    Simple4,
    /// `gpu-fused-selfhash`: the smallest over three tokens and the candidate, for the 40 best candidates.
    #[serde(rename = "gpu-fused-selfhash", alias = "selfhash")]
    SelfHash,
    /// `gpu-fused-selfhash-fullvocab`: the same for all tokens.
    #[serde(rename = "gpu-fused-selfhash-fullvocab", alias = "selfhash-fullvocab")]
    SelfHashFullVocab,
}

/// All schemes.
const SEEDINGS: [Seeding; 4] = [Seeding::Simple1, Seeding::Simple4, Seeding::SelfHash, Seeding::SelfHashFullVocab];

/// A name that is not one of SBW's own schemes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is none of SBW's schemes: gpu-simple_1, gpu-fused-simple_4, gpu-fused-selfhash or \
     gpu-fused-selfhash-fullvocab"
)]
pub struct BadSeeding(String);

impl Seeding {
    /// The package's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple1 => "gpu-simple_1",
            Self::Simple4 => "gpu-fused-simple_4",
            Self::SelfHash => "gpu-fused-selfhash",
            Self::SelfHashFullVocab => "gpu-fused-selfhash-fullvocab",
        }
    }
}

impl FromStr for Seeding {
    type Err = BadSeeding;

    /// Parses the package's name.
    fn from_str(name: &str) -> Result<Self, BadSeeding> {
        let found = SEEDINGS.into_iter().find(|seeding| seeding.name() == name);
        found.ok_or_else(|| BadSeeding(name.chars().take(60).collect()))
    }
}

/// SBW's own schemes as represented in key files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// The seeding scheme.
    pub seeding: Seeding,
    /// The green share.
    pub gamma: GreenShare,
}

impl Spec for Parameters {
    colours!();

    fn scheme(&self, secret: &Secret<'_>, vocabulary: usize) -> Result<Arc<dyn Scheme>, BadDialect> {
        Ok(Arc::new(sbw(secret.number()?, self.seeding, self.gamma.value(), vocabulary)?))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", {}", self.seeding.name())
    }

    fn is_public(&self, numbers: &[u64]) -> bool {
        numbers == [DEFAULT_HASH_KEY]
    }
}

struct Seeds {
    key: Zeroizing<u64>,
    seeding: Seeding,
    scheme: SeedingScheme,
}

impl fmt::Debug for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sbw {{ seeding: {:?}, key: redacted }}", self.seeding)
    }
}

impl Seed for Seeds {
    fn context_width(&self) -> usize {
        self.scheme.width - usize::from(self.scheme.self_salt)
    }

    fn self_salt(&self) -> SelfSalt {
        match self.seeding {
            Seeding::Simple1 | Seeding::Simple4 => SelfSalt::No,
            Seeding::SelfHash => SelfSalt::Best(40),
            Seeding::SelfHashFullVocab => SelfSalt::All,
        }
    }

    fn deciders(&self) -> Deciders {
        self.scheme.deciders()
    }

    fn seed(&self, context: &[TokenId], token: TokenId) -> u64 {
        self.scheme.value(*self.key, context, token, jenkins::hash, Width::Torch) as u64
    }
}

/// Colours made by Philox.
#[derive(Debug)]
struct Flips {
    threshold: u32,
    vocabulary: usize,
}

impl List for Flips {
    fn distribution(&self) -> ScoreDistribution {
        ScoreDistribution::Green { gamma: f64::from(self.threshold) / f64::from(1u32 << 31) }
    }

    fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    fn fill(&self, seed: u64, green: &mut TokenSet) {
        green.fill_words(|words| philox::below(halves(seed), self.threshold, words));
    }

    fn judge(&self, questions: &[(u64, TokenId)], green: &mut Vec<bool>) {
        green.clear();
        for batch in questions.chunks(16) {
            let (mut words, mut keys) = ([[0; 16]; 4], [[0; 16]; 2]);
            for (lane, &(seed, token)) in batch.iter().enumerate() {
                words[0][lane] = token / 4;
                [keys[0][lane], keys[1][lane]] = halves(seed);
            }
            philox::philox4x32(&mut words, &keys);
            let word = |(lane, &(_, token)): (usize, &(u64, TokenId))| words[token as usize % 4][lane];
            green.extend(batch.iter().enumerate().map(word).map(|word| word & 0x7fff_ffff < self.threshold));
        }
    }
}

/// The scheme of a key.
///
/// # Errors
/// [`BadSplit`] if the share is not above 0 and below 1, or there are no tokens to split.
pub fn sbw(key: u64, seeding: Seeding, gamma: f64, vocabulary: usize) -> Result<impl Scheme, BadSplit> {
    let threshold = (gamma * f64::from(0x7fff_ffffu32)) as u32;
    if !(gamma > 0.0 && gamma < 1.0) || threshold == 0 {
        return Err(BadSplit::Gamma(gamma));
    }
    if vocabulary == 0 || TokenId::try_from(vocabulary).is_err() {
        return Err(BadSplit::Vocabulary(vocabulary));
    }
    let (prf, width, self_salt) = match seeding {
        Seeding::Simple1 => (Prf::Additive, 1, false),
        Seeding::Simple4 => (Prf::Additive, 4, false),
        Seeding::SelfHash | Seeding::SelfHashFullVocab => (Prf::AnchoredMinhash, 4, true),
    };
    let scheme = SeedingScheme { prf, width, self_salt };
    let seed = Seeds { key: Zeroizing::new(key), seeding, scheme };
    Ok(Seeded { seed, list: Flips { threshold, vocabulary } })
}
