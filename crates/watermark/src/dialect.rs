//! The registry: every dialect by name, with its parameters.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use crate::context::{BadContext, Context, ContextFunction};
use crate::dialects::hugging_face::{self, hugging_face};
use crate::dialects::kgw::{BadSplit, SeedingScheme, kgw};
use crate::dialects::native::Native;
use crate::dialects::native_gumbel::native_gumbel;
use crate::dialects::sbw::{self, sbw};
use crate::dialects::sglang::{sglang, sglang_dual};
use crate::dialects::synthid::{BadSynthId, Bits, Score, SynthId};
use crate::dialects::three_bricks::{maryland, openai};
use crate::dialects::unigram::Unigram;
use crate::dialects::vllm::{vllm, vllm_dual};
use crate::gamma::Gamma;
use crate::payload::{self, BadPayload};
use crate::scheme::{MAX_CONTEXT, Scheme};
use crate::vocabulary_id::BadVocabulary;

/// What a key marks with: a scheme without its secret. [`dialects`](crate::dialects) says whose each is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Dialect {
    /// Verdigris: green lists out of AES.
    Native {
        /// The green share.
        gamma: Gamma,
        /// How contexts choose lists.
        context: Context,
        /// How many bits of a payload the mark carries; none unless there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        payload_bits: Option<u8>,
    },
    /// Verdigris: Gumbel noise out of AES.
    NativeGumbel {
        /// How contexts choose noise.
        context: Context,
    },
    /// The KGW reference.
    #[serde(alias = "kgw-simple-1")]
    Kgw {
        /// The seeding scheme.
        #[serde(default = "simple_1", serialize_with = "as_text", deserialize_with = "from_text")]
        seeding: SeedingScheme,
        /// The green share.
        gamma: f64,
    },
    /// Text Generation Inference: KGW's `simple_1`.
    Tgi {
        /// The green share; `WATERMARK_GAMMA`, .5 by default.
        gamma: f64,
    },
    /// Hugging Face transformers.
    HuggingFace {
        /// `seeding_scheme`.
        seeding: hugging_face::Seeding,
        /// `context_width`.
        width: usize,
        /// `greenlist_ratio`.
        gamma: f64,
    },
    /// Unigram.
    Unigram {
        /// The green share.
        gamma: f64,
    },
    /// SBW.
    Sbw {
        /// The seeding scheme.
        seeding: sbw::Seeding,
        /// The green share.
        gamma: f64,
    },
    /// SynthID-Text.
    Synthid {
        /// Where bits come from: which of the two dialects it is.
        bits: Bits,
        /// Tokens of an n-gram.
        ngram_len: usize,
        /// How bits become a score.
        score: Score,
    },
    /// vLLM with one key.
    Vllm {
        /// Tokens of a context.
        width: usize,
    },
    /// vLLM with two keys out of one.
    VllmDual {
        /// Tokens of a context.
        width: usize,
        /// The share of the second key.
        alpha: f64,
    },
    /// SGLang with one key.
    Sglang {
        /// Tokens of a context.
        width: usize,
    },
    /// SGLang with two keys.
    SglangDual {
        /// Tokens of a context.
        width: usize,
        /// The share of the first key.
        mixing: f64,
    },
    /// Three Bricks, colours.
    ThreeBricksMaryland {
        /// Tokens of a context.
        width: usize,
        /// The green share.
        gamma: f64,
    },
    /// Three Bricks, Gumbel scores.
    ThreeBricksOpenai {
        /// Tokens of a context.
        width: usize,
    },
}

/// Parameters that make no scheme.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadDialect {
    /// A context that cannot be used.
    #[error(transparent)]
    Context(#[from] BadContext),
    /// A vocabulary that no key can be for.
    #[error(transparent)]
    Vocabulary(#[from] BadVocabulary),
    /// A share or a vocabulary that cannot be split.
    #[error(transparent)]
    Split(#[from] BadSplit),
    /// Parameters of SynthID.
    #[error(transparent)]
    SynthId(#[from] BadSynthId),
    /// Parameters of a payload.
    #[error(transparent)]
    Payload(#[from] BadPayload),
    /// A width out of range.
    #[error("context width is {0}, but must be 1 to {MAX_CONTEXT}")]
    Width(usize),
    /// A share of one of two keys.
    #[error("the share of a key is {0}, but must be above 0 and below 1")]
    Share(f64),
    /// A secret of the wrong length.
    #[error("the secret has {found} bytes, but {name} takes {wanted}")]
    Secret {
        /// The dialect.
        name: &'static str,
        /// Bytes there.
        found: usize,
        /// What it takes.
        wanted: &'static str,
    },
}

fn simple_1() -> SeedingScheme {
    "simple_1".parse().expect("a name of the reference")
}

fn as_text<S: Serializer>(scheme: &SeedingScheme, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(scheme)
}

fn from_text<'de, D: Deserializer<'de>>(from: D) -> Result<SeedingScheme, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

impl Dialect {
    /// Its name, as in key files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Native { .. } => "native",
            Self::NativeGumbel { .. } => "native-gumbel",
            Self::Kgw { .. } => "kgw",
            Self::Tgi { .. } => "tgi",
            Self::HuggingFace { .. } => "hugging-face",
            Self::Unigram { .. } => "unigram",
            Self::Sbw { .. } => "sbw",
            Self::Synthid { .. } => "synthid",
            Self::Vllm { .. } => "vllm",
            Self::VllmDual { .. } => "vllm-dual",
            Self::Sglang { .. } => "sglang",
            Self::SglangDual { .. } => "sglang-dual",
            Self::ThreeBricksMaryland { .. } => "three-bricks-maryland",
            Self::ThreeBricksOpenai { .. } => "three-bricks-openai",
        }
    }

    /// Whether it is one of our own, whose secrets have 32 bytes and whose sub-keys depend on the key's id and tenant.
    pub fn is_native(&self) -> bool {
        matches!(self, Self::Native { .. } | Self::NativeGumbel { .. })
    }

    /// Whether it prefers green tokens, by a strength; the others act on noise and have none.
    pub fn has_strength(&self) -> bool {
        self.gamma().is_some()
    }

    /// The green share, where there are colours.
    pub fn gamma(&self) -> Option<f64> {
        match *self {
            Self::Native { gamma, .. } => Some(gamma.value()),
            Self::Kgw { gamma, .. }
            | Self::Tgi { gamma }
            | Self::HuggingFace { gamma, .. }
            | Self::Unigram { gamma }
            | Self::Sbw { gamma, .. }
            | Self::ThreeBricksMaryland { gamma, .. } => Some(gamma),
            _ => None,
        }
    }

    /// The same dialect with another green share, where it has one.
    #[must_use]
    pub fn with_gamma(&self, share: f64) -> Option<Self> {
        let mut other = self.clone();
        match &mut other {
            Self::Native { gamma, .. } => *gamma = Gamma::new(share).ok()?,
            Self::Kgw { gamma, .. }
            | Self::Tgi { gamma }
            | Self::HuggingFace { gamma, .. }
            | Self::Unigram { gamma }
            | Self::Sbw { gamma, .. }
            | Self::ThreeBricksMaryland { gamma, .. } => *gamma = share,
            _ => return None,
        }
        Some(other)
    }

    /// The scheme under a secret. `id` and `tenant` take part in our own dialects only.
    pub fn scheme(
        &self,
        secret: &[u8],
        id: &str,
        tenant: &str,
        vocabulary: usize,
    ) -> Result<Arc<dyn Scheme>, BadDialect> {
        let size = |wanted| BadDialect::Secret { name: self.name(), found: secret.len(), wanted };
        let bytes = || <&[u8; 32]>::try_from(secret).map_err(|_| size("32"));
        let number = || match numbers(secret)[..] {
            [number] => Ok(number),
            _ => Err(size("8")),
        };
        let pair = || <[u64; 2]>::try_from(&numbers(secret)[..]).map_err(|_| size("16"));
        let wide = |width: usize| (1..=MAX_CONTEXT).contains(&width).then_some(width).ok_or(BadDialect::Width(width));
        let share = |share: f64| (share > 0.0 && share < 1.0).then_some(share).ok_or(BadDialect::Share(share));
        if vocabulary == 0 {
            return Err(BadSplit::Vocabulary(0).into());
        }
        Ok(match *self {
            Self::Native { gamma, context, payload_bits } => {
                if let Some(bits) = payload_bits {
                    payload::check(gamma, context, bits)?;
                }
                Arc::new(Native::new(bytes()?, id, tenant, gamma, context, vocabulary))
            }
            Self::NativeGumbel { context } => Arc::new(native_gumbel(bytes()?, id, tenant, context, vocabulary)?),
            Self::Kgw { seeding, gamma } => Arc::new(kgw(number()?, seeding, gamma, vocabulary)?),
            Self::Tgi { gamma } => Arc::new(kgw(number()?, simple_1(), gamma, vocabulary)?),
            Self::HuggingFace { seeding, width, gamma } => {
                Arc::new(hugging_face(number()?, seeding, wide(width)?, gamma, vocabulary)?)
            }
            Self::Unigram { gamma } => Arc::new(Unigram::new(number()? as i64, gamma, vocabulary)?),
            Self::Sbw { seeding, gamma } => Arc::new(sbw(number()?, seeding, gamma, vocabulary)?),
            Self::Synthid { bits, ngram_len, ref score } => {
                if !secret.len().is_multiple_of(8) {
                    return Err(size("8 for each of its keys"));
                }
                let keys: Zeroizing<Vec<i64>> = Zeroizing::new(numbers(secret).iter().map(|&key| key as i64).collect());
                Arc::new(SynthId::new(&keys, bits, ngram_len, score.clone(), vocabulary)?)
            }
            Self::Vllm { width } => Arc::new(vllm(number()?, wide(width)?, vocabulary)),
            Self::VllmDual { width, alpha } => Arc::new(vllm_dual(number()?, share(alpha)?, wide(width)?, vocabulary)),
            Self::Sglang { width } => Arc::new(sglang(number()?, wide(width)?, vocabulary)),
            Self::SglangDual { width, mixing } => {
                Arc::new(sglang_dual(pair()?, share(mixing)?, wide(width)?, vocabulary))
            }
            Self::ThreeBricksMaryland { width, gamma } => Arc::new(maryland(pair()?, wide(width)?, gamma, vocabulary)?),
            Self::ThreeBricksOpenai { width } => Arc::new(openai(pair()?, wide(width)?, vocabulary)),
        })
    }
}

/// Whole numbers of 64 bits, big-endian; none where bytes are left over.
fn numbers(secret: &[u8]) -> Zeroizing<Vec<u64>> {
    let (numbers, rest) = secret.as_chunks::<8>();
    Zeroizing::new(if rest.is_empty() { numbers.iter().map(|&n| u64::from_be_bytes(n)).collect() } else { Vec::new() })
}

/// In words, such as `native, gamma 0.25, minimum over 4 tokens`.
impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        if let Some(gamma) = self.gamma() {
            write!(f, ", gamma {gamma}")?;
        }
        let tokens = |n: &usize| format!("{n} token{}", if *n == 1 { "" } else { "s" });
        match self {
            Self::Native { context, .. } | Self::NativeGumbel { context } => {
                let function = match context.function() {
                    ContextFunction::All => "all of",
                    ContextFunction::Min => "minimum over",
                    ContextFunction::SelfSalted => "self-salted over",
                };
                write!(f, ", {function} {}", tokens(&context.width()))?;
            }
            Self::Kgw { seeding, .. } => write!(f, ", {seeding}")?,
            Self::HuggingFace { seeding, width, .. } => {
                write!(
                    f,
                    ", {} over {}",
                    if *seeding == hugging_face::Seeding::LeftHash { "lefthash" } else { "selfhash" },
                    tokens(width)
                )?;
            }
            Self::Sbw { seeding, .. } => write!(f, ", {}", seeding.name())?,
            Self::Synthid { bits, ngram_len, score } => {
                let bits = if *bits == Bits::Table { "table" } else { "hash" };
                let score = match score {
                    Score::Mean => "mean",
                    Score::WeightedMean => "weighted mean",
                    Score::Bayesian(_) => "Bayesian score",
                };
                write!(f, ", {bits}, n-grams of {ngram_len}, {score}")?;
            }
            Self::Vllm { width } | Self::Sglang { width } | Self::ThreeBricksOpenai { width } => {
                write!(f, ", after {}", tokens(width))?;
            }
            Self::VllmDual { width, alpha } => write!(f, ", after {}, alpha {alpha}", tokens(width))?,
            Self::SglangDual { width, mixing } => write!(f, ", after {}, mixing {mixing}", tokens(width))?,
            Self::ThreeBricksMaryland { width, .. } => write!(f, ", after {}", tokens(width))?,
            Self::Tgi { .. } | Self::Unigram { .. } => {}
        }
        if let Self::Native { payload_bits: Some(bits), .. } = self {
            write!(f, ", carries {bits} bits")?;
        }
        Ok(())
    }
}
