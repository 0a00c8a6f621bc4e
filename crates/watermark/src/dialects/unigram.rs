//! The dialect of Unigram: one green list for all texts.
//!
//! Zhao, Ananth, Li and Wang, *Provable Robust Watermarking for AI-Generated Text*, ICLR 2024, as in the authors' code:
//! `int(gamma * V)` entries are true, shuffled by numpy's `default_rng` under the first four bytes of the SHA-256 of
//! the key. An edit changes no other token's colour, and anyone with enough text learns the list.
//!
//! A repeated token repeats its colour, so each is counted once, and since no token is drawn twice the count is
//! hypergeometric: the authors' unique-token detector with the exact distribution instead of its bound.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use verdigris_logits::{Row, TokenId, TokenSet};

use super::error::BadDialect;
use super::permutation::BadSplit;
use super::spec::{Secret, Spec, colours};
use crate::green_share::GreenShare;
use crate::random::pcg64::Pcg64;
use crate::scheme::{Observation, Scheme, mark_list, mix};
use crate::score_distribution::ScoreDistribution;
use crate::strength::Strength;

/// One list for all texts, as represented in key files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// The green share.
    pub gamma: GreenShare,
}

impl Spec for Parameters {
    colours!();

    fn scheme(&self, secret: &Secret<'_>, vocabulary: usize) -> Result<Arc<dyn Scheme>, BadDialect> {
        Ok(Arc::new(Unigram::new(secret.number()? as i64, self.gamma.value(), vocabulary)?))
    }
}

/// One green list for all contexts.
#[derive(Clone)]
pub struct Unigram {
    green: Arc<TokenSet>,
    size: usize,
}

impl fmt::Debug for Unigram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unigram {{ green: {} of {}, list: redacted }}", self.size, self.green.capacity())
    }
}

impl Unigram {
    /// The list of a key.
    ///
    /// # Errors
    /// [`BadSplit`] if the share does not split the vocabulary.
    pub fn new(key: i64, gamma: f64, vocabulary: usize) -> Result<Self, BadSplit> {
        if !(gamma > 0.0 && gamma < 1.0) {
            return Err(BadSplit::Gamma(gamma));
        }
        if vocabulary == 0 || TokenId::try_from(vocabulary).is_err() {
            return Err(BadSplit::Vocabulary(vocabulary));
        }
        let size = (gamma * vocabulary as f64) as usize;
        if size == 0 || size == vocabulary {
            return Err(BadSplit::OneColour { gamma, vocabulary });
        }
        let digest = Sha256::digest(key.to_le_bytes());
        let seed = u32::from_le_bytes(digest[..4].try_into().expect("four bytes"));
        let mut colours: Vec<bool> = (0..vocabulary).map(|i| i < size).collect();
        Pcg64::new(seed).shuffle(&mut colours);
        let mut green = TokenSet::new(vocabulary);
        colours.iter().zip(0..).filter(|(green, _)| **green).for_each(|(_, token)| green.insert(token));
        Ok(Self { green: Arc::new(green), size })
    }
}

impl Scheme for Unigram {
    fn distribution(&self) -> ScoreDistribution {
        ScoreDistribution::OneList { population: self.green.capacity() as u64, green: self.size as u64 }
    }

    fn context_width(&self) -> usize {
        0
    }

    fn vocabulary_size(&self) -> usize {
        self.green.capacity()
    }

    fn observe(&self, tokens: &[TokenId], out: &mut Vec<Observation>) {
        out.extend(tokens.iter().map(|&token| {
            let identity = mix(u64::from(token) + 1);
            Observation { context: identity, identity, score: f32::from(u8::from(self.green.contains(token))) }
        }));
    }

    fn context_decides(&self) -> bool {
        true
    }

    fn mark(&self, _: &[TokenId], strength: Strength, row: &mut Row) {
        mark_list(row, self.green.capacity(), strength, |green| green.copy_from(&self.green));
    }
}
