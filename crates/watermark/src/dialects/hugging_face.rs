//! The dialect of Hugging Face transformers (`WatermarkingConfig`, `WatermarkLogitsProcessor`).
//!
//! Left-hash gives the lists of KGW's `simple_1`. Self-hash differs from KGW's scheme of that name: its table is seeded
//! with the key itself, and 40 candidates are judged instead of 41. With the default context width of 1 self-hash sees
//! the candidate alone, so that one list serves all texts.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use verdigris_logits::TokenId;
use zeroize::Zeroizing;

use super::deciders::Deciders;
use super::error::BadDialect;
use super::kgw::{BadSplit, DEFAULT_HASH_KEY, TABLE_SIZE, fixed_table, modulo};
use super::permutation::Permutation;
use super::seeded::{Seed, Seeded, SelfSalt};
use super::spec::{Secret, Spec, colours, tokens, width};
use crate::green_share::GreenShare;
use crate::scheme::Scheme;

/// The number of candidates that a self-hash writer judges.
const CANDIDATES: usize = 40;

/// The `seeding_scheme` of transformers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Seeding {
    /// The previous token.
    LeftHash,
    /// The context and the candidate itself.
    SelfHash,
}

/// A `WatermarkingConfig` as represented in key files.
#[doc(alias = "WatermarkingConfig")]
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// `seeding_scheme`.
    pub seeding: Seeding,
    /// `context_width`.
    pub width: usize,
    /// `greenlist_ratio`.
    pub gamma: GreenShare,
}

impl Spec for Parameters {
    colours!();

    fn scheme(&self, secret: &Secret<'_>, vocabulary: usize) -> Result<Arc<dyn Scheme>, BadDialect> {
        Ok(Arc::new(hugging_face(secret.number()?, self.seeding, width(self.width)?, self.gamma.value(), vocabulary)?))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seeding = match self.seeding {
            Seeding::LeftHash => "lefthash",
            Seeding::SelfHash => "selfhash",
        };
        write!(f, ", {seeding} over {}", tokens(self.width))
    }

    fn is_public(&self, numbers: &[u64]) -> bool {
        numbers == [DEFAULT_HASH_KEY]
    }
}

struct Seeds {
    key: Zeroizing<u64>,
    seeding: Seeding,
    /// `context_width` in transformers. For self-hash it includes the candidate.
    width: usize,
    /// The table of self-hash; made from the key, so equally secret.
    table: Zeroizing<Vec<u32>>,
}

impl fmt::Debug for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HuggingFace {{ seeding: {:?}, width: {}, key: redacted }}", self.seeding, self.width)
    }
}

impl Seed for Seeds {
    fn context_width(&self) -> usize {
        match self.seeding {
            Seeding::LeftHash => self.width,
            Seeding::SelfHash => self.width - 1,
        }
    }

    fn self_salt(&self) -> SelfSalt {
        match self.seeding {
            Seeding::LeftHash => SelfSalt::No,
            Seeding::SelfHash => SelfSalt::Best(CANDIDATES),
        }
    }

    fn deciders(&self) -> Deciders {
        match self.seeding {
            Seeding::LeftHash => Deciders::Last,
            Seeding::SelfHash => Deciders::All,
        }
    }

    fn seed(&self, context: &[TokenId], token: TokenId) -> u64 {
        match self.seeding {
            Seeding::LeftHash => modulo(i128::from(*self.key) * i128::from(context[context.len() - 1])),
            Seeding::SelfHash => {
                let hash = |token: TokenId| i64::from(self.table[token as usize % TABLE_SIZE as usize]) + 1;
                let last = hash(token);
                let seeds = context
                    .iter()
                    .chain([&token])
                    .map(|&c| (*self.key as i64).wrapping_mul(hash(c)).wrapping_mul(last));
                modulo(i128::from(seeds.min().expect("the candidate is there")))
            }
        }
    }
}

/// The scheme of a `WatermarkingConfig`. `vocabulary` is the model config's `vocab_size`.
///
/// `width` is `context_width`: with left-hash it only sets how many tokens must come before one is marked.
///
/// # Errors
/// [`BadSplit`] if the share does not split the vocabulary.
pub fn hugging_face(
    key: u64,
    seeding: Seeding,
    width: usize,
    gamma: f64,
    vocabulary: usize,
) -> Result<impl Scheme, BadSplit> {
    let list = Permutation::new(gamma, vocabulary)?;
    let table = match seeding {
        Seeding::LeftHash => Vec::new(),
        Seeding::SelfHash => fixed_table(key as u32),
    };
    Ok(Seeded { seed: Seeds { key: Zeroizing::new(key), seeding, width, table: Zeroizing::new(table) }, list })
}
