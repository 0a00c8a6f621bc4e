//! Options for the dialect of a new key.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use verdigris::watermark::dialects::kgw::{self, DEFAULT_HASH_KEY, Prf, SeedingScheme};
use verdigris::watermark::dialects::synthid::{self, Bayesian, Bits, Score};
use verdigris::watermark::dialects::three_bricks::{self, DEFAULT_SALT};
use verdigris::watermark::dialects::{hugging_face, native, native_gumbel, sbw, sglang, tgi, unigram, vllm};
use verdigris::watermark::key::{MAX_FILE, random_id, random_secret};
use verdigris::watermark::{Context, GreenShare, VocabularyId};
use verdigris::{Dialect, Gamma, Key};

use super::marking::{Function, strength};
use crate::error::Failure;

/// The dialects that take a secret, for messages.
const OWN: &str = "dialects of other systems, since our own make their secrets";

/// The dialects that take a vocabulary size, for messages.
const SPLIT: &str = "dialects of other systems, since our own split the vocabulary of the tokenizer";

const OTHERS: &str = "Dialects of other systems";

#[derive(Args)]
pub(super) struct DialectOptions {
    /// The scheme: one of our own, or one that another system embeds
    #[arg(long, value_enum, default_value_t = Name::Native)]
    dialect: Name,
    /// The share of green tokens, above 0 and below 1; for native a multiple of 1/256 [default: .25; tgi, unigram and
    /// sbw: .5]
    #[arg(long)]
    gamma: Option<f64>,
    /// The bias added to the logits of green tokens, above 0 and at most 100 [default: 2]
    #[arg(long, conflicts_with = "hard")]
    delta: Option<f64>,
    /// The strength of the mark, a name for a --delta: a stronger mark costs the text more and is found in fewer tokens
    #[arg(long, value_enum, value_name = "NAME", conflicts_with_all = ["delta", "hard"])]
    strength: Option<Grade>,
    /// Write green tokens only
    #[arg(long)]
    hard: bool,
    /// The function by which the tokens before a position choose its green list [default: min; native-gumbel: all]
    #[arg(long, value_enum)]
    context: Option<Function>,
    /// The number of tokens before a position that choose its green list, 1 to 8, or to 16 for other systems
    /// [default: 4; hugging-face: 1]
    #[arg(long, value_name = "H")]
    width: Option<usize>,
    /// Let the mark carry a number of this many bits (8 to 32): see payload
    #[arg(long, value_name = "BITS")]
    payload_bits: Option<u8>,
    /// For kgw, hugging-face and sbw: the seeding scheme by its name there, such as simple_1, selfhash,
    /// gpu-fused-simple_4 or ff-minhash_prf-4-False [default: simple_1; hugging-face: lefthash]
    #[arg(long, value_name = "NAME", help_heading = OTHERS)]
    seeding: Option<String>,
    /// The key of the other system, or its keys, separated by commas: integers (0x.. in hexadecimal), and for sglang
    /// hexadecimal numbers. Other users of this machine can see it while the command runs: prefer --import
    #[arg(
        long,
        value_name = "N,..",
        value_delimiter = ',',
        conflicts_with = "import",
        allow_hyphen_values = true,
        help_heading = OTHERS
    )]
    hash_key: Vec<String>,
    /// A file with the key or keys of the other system, or - for standard input
    #[arg(long, value_name = "FILE", help_heading = OTHERS)]
    import: Option<PathBuf>,
    /// The number of tokens that the other system splits, if it is not the tokenizer's
    #[arg(long, value_name = "N", help_heading = OTHERS)]
    vocabulary_size: Option<usize>,
    /// For synthid: the source of bits. Transformers and PyPI have the table, its repository the hash
    /// [default: table]
    #[arg(long, value_enum, help_heading = OTHERS)]
    bits: Option<BitsName>,
    /// For synthid: tokens of an n-gram, 2 to 17 [default: 5]
    #[arg(long, value_name = "N", help_heading = OTHERS)]
    ngram_len: Option<usize>,
    /// For synthid: mean, weighted-mean, or a JSON file with prior, beta and delta of a Bayesian detector
    /// [default: weighted-mean]
    #[arg(long, value_name = "SCORE", help_heading = OTHERS)]
    score: Option<String>,
    /// For vllm-dual: the share of the second key, above 0 and below 1 [default: .1]
    #[arg(long, value_name = "SHARE", help_heading = OTHERS)]
    alpha: Option<f64>,
    /// For sglang-dual: the share of the first key, above 0 and below 1 [default: .5]
    #[arg(long, value_name = "SHARE", help_heading = OTHERS)]
    mixing: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Green lists from AES
    Native,
    /// Gumbel noise from AES: keeps the model's distribution
    NativeGumbel,
    /// The KGW reference
    #[value(alias = "kgw-simple-1")]
    Kgw,
    /// Text Generation Inference
    Tgi,
    /// Transformers' WatermarkingConfig
    HuggingFace,
    /// One list for all texts
    Unigram,
    /// Bernoulli lists from Philox
    Sbw,
    /// SynthID-Text
    Synthid,
    /// vLLM, Gumbel with one key
    Vllm,
    /// vLLM, Gumbel with two keys
    VllmDual,
    /// SGLang, Gumbel with one key
    Sglang,
    /// SGLang, Gumbel with two keys
    SglangDual,
    /// Three Bricks, green lists
    ThreeBricksMaryland,
    /// Three Bricks, Gumbel
    ThreeBricksOpenai,
}

/// Strengths of green lists. The price table in docs/watermark.md has their costs.
#[derive(Clone, Copy, ValueEnum)]
enum Grade {
    /// Delta 1: for long texts
    Light,
    /// Delta 2, the default
    Normal,
    /// Delta 4: for short texts
    Strong,
}

impl Grade {
    fn delta(self) -> f64 {
        match self {
            Self::Light => 1.0,
            Self::Normal => 2.0,
            Self::Strong => 4.0,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum BitsName {
    Table,
    Hash,
}

impl Name {
    fn is_native(self) -> bool {
        matches!(self, Self::Native | Self::NativeGumbel)
    }

    fn is_synthid(self) -> bool {
        self == Self::Synthid
    }

    fn is_bricks(self) -> bool {
        matches!(self, Self::ThreeBricksMaryland | Self::ThreeBricksOpenai)
    }

    /// Whether it has green lists.
    fn has_colours(self) -> bool {
        use Name::{HuggingFace, Kgw, Native, Sbw, Tgi, ThreeBricksMaryland, Unigram};
        matches!(self, Native | Kgw | Tgi | HuggingFace | Unigram | Sbw | ThreeBricksMaryland)
    }

    /// Whether the width of its contexts is an option, rather than a part of the name of a seeding scheme.
    fn has_width(self) -> bool {
        use Name::{Kgw, Sbw, Synthid, Tgi, Unigram};
        !matches!(self, Kgw | Tgi | Unigram | Sbw | Synthid)
    }

    fn has_seeding(self) -> bool {
        matches!(self, Self::Kgw | Self::HuggingFace | Self::Sbw)
    }

    /// Whether its keys are written in hexadecimal, with 0x or without.
    fn is_hexadecimal(self) -> bool {
        matches!(self, Self::Sglang | Self::SglangDual)
    }
}

impl DialectOptions {
    /// Makes a new key of the dialect, or imports a key of another system.
    pub(super) fn key(&self, vocabulary: VocabularyId) -> Result<Key, Failure> {
        let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
        let vocabulary = match self.vocabulary_size {
            Some(size) => vocabulary.with_size(size).map_err(|error| usage(&error))?,
            None => vocabulary,
        };
        self.refuse_what_is_not_used()?;
        let (dialect, named_key) = self.dialect()?;
        let delta = self.delta.unwrap_or(self.strength.unwrap_or(Grade::Normal).delta());
        let strength = dialect.has_strength().then(|| strength(delta, self.hard)).transpose()?;
        if dialect.is_native() {
            return Ok(Key::new(random_secret(), random_id("vg"), dialect, strength, vocabulary)?);
        }
        // A buffer that is wiped on drop. It has room for all numbers of a file, so that it leaves no copy behind.
        let mut secret = random_secret();
        secret.clear();
        secret.reserve_exact(8 * MAX_NUMBERS);
        self.numbers(&mut secret)?;
        if let Some(key) = named_key {
            if !secret.is_empty() && secret[..] != key.to_be_bytes() {
                let message = "--seeding names another hash key than --hash-key or --import: give one of them";
                return Err(Failure::Usage(message.into()));
            }
            secret.clear();
            secret.extend_from_slice(&key.to_be_bytes());
        }
        if secret.is_empty() {
            let usual: u64 = match self.dialect {
                Name::Kgw | Name::Tgi | Name::HuggingFace | Name::Sbw => DEFAULT_HASH_KEY,
                Name::Unigram | Name::ThreeBricksMaryland | Name::ThreeBricksOpenai => 0,
                _ => {
                    return Err(Failure::Usage(format!(
                        "{} needs the key of the other system: --import FILE",
                        dialect.name()
                    )));
                }
            };
            secret.extend_from_slice(&usual.to_be_bytes());
        }
        if let (Name::Sbw, Dialect::Kgw(kgw::Parameters { seeding, .. })) = (self.dialect, &dialect)
            && let Some(first) = secret.first_chunk()
            && wraps(seeding.prf, u64::from_be_bytes(*first))
        {
            let message =
                format!("SBW's {seeding} wraps at 64 bits with such a key, but KGW's does not: it is not supported");
            return Err(Failure::Usage(message));
        }
        if self.dialect.is_bricks() && secret.len() == 8 {
            secret.extend_from_slice(&DEFAULT_SALT.to_be_bytes());
        }
        let id = random_id(dialect.name());
        Key::new(secret, id, dialect, strength, vocabulary).map_err(|error| usage(&error))
    }

    /// Refuses options that the dialect does not use.
    fn refuse_what_is_not_used(&self) -> Result<(), Failure> {
        let name = self.dialect;
        let lists = "dialects with green lists";
        let widths = "native, native-gumbel, hugging-face, vllm, sglang and three-bricks";
        let options = [
            ("--gamma", self.gamma.is_some(), name.has_colours(), lists),
            ("--delta", self.delta.is_some(), name.has_colours(), lists),
            ("--strength", self.strength.is_some(), name.has_colours(), lists),
            ("--hard", self.hard, name.has_colours(), lists),
            ("--context", self.context.is_some(), name.is_native(), "native and native-gumbel"),
            ("--width", self.width.is_some(), name.has_width(), widths),
            ("--payload-bits", self.payload_bits.is_some(), name == Name::Native, "native"),
            ("--seeding", self.seeding.is_some(), name.has_seeding(), "kgw, hugging-face and sbw"),
            ("--hash-key", !self.hash_key.is_empty(), !name.is_native(), OWN),
            ("--import", self.import.is_some(), !name.is_native(), OWN),
            ("--vocabulary-size", self.vocabulary_size.is_some(), !name.is_native(), SPLIT),
            ("--bits", self.bits.is_some(), name.is_synthid(), "synthid"),
            ("--ngram-len", self.ngram_len.is_some(), name.is_synthid(), "synthid"),
            ("--score", self.score.is_some(), name.is_synthid(), "synthid"),
            ("--alpha", self.alpha.is_some(), name == Name::VllmDual, "vllm-dual"),
            ("--mixing", self.mixing.is_some(), name == Name::SglangDual, "sglang-dual"),
        ];
        match options.into_iter().find(|&(_, given, used, _)| given && !used) {
            Some((option, _, _, whose)) => Err(Failure::Usage(format!("{option} is for {whose}: leave it out"))),
            None => Ok(()),
        }
    }

    /// The dialect, and the hash key if the name of the seeding scheme includes one.
    fn dialect(&self) -> Result<(Dialect, Option<u64>), Failure> {
        let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
        let share = |usual: GreenShare| self.gamma.map_or(Ok(usual), GreenShare::new).map_err(|error| usage(&error));
        let width = self.width.unwrap_or(if self.dialect == Name::HuggingFace { 1 } else { 4 });
        let context =
            |usual: Function| Context::new(self.context.unwrap_or(usual).into(), width).map_err(|error| usage(&error));
        let mut named_key = None;
        let seeding = self.seeding.as_deref();
        let dialect = match self.dialect {
            Name::Native => Dialect::Native(native::Parameters {
                gamma: Gamma::new(self.gamma.unwrap_or(0.25)).map_err(|error| usage(&error))?,
                context: context(Function::Min)?,
                payload_bits: self.payload_bits,
            }),
            Name::NativeGumbel => Dialect::NativeGumbel(native_gumbel::Parameters { context: context(Function::All)? }),
            Name::Kgw => {
                let seeding = SeedingScheme::with_key(seeding.unwrap_or("simple_1"));
                let (seeding, key) = seeding.map_err(|error| usage(&error))?;
                named_key = key;
                Dialect::Kgw(kgw::Parameters { seeding, gamma: share(GreenShare::QUARTER)? })
            }
            Name::Tgi => Dialect::Tgi(tgi::Parameters { gamma: share(GreenShare::HALF)? }),
            Name::HuggingFace => {
                let seeding = match seeding.unwrap_or("lefthash") {
                    "lefthash" => hugging_face::Seeding::LeftHash,
                    "selfhash" => hugging_face::Seeding::SelfHash,
                    other => {
                        let message = format!("--seeding is {other:?}, but must be lefthash or selfhash");
                        return Err(Failure::Usage(message));
                    }
                };
                Dialect::HuggingFace(hugging_face::Parameters { seeding, width, gamma: share(GreenShare::QUARTER)? })
            }
            Name::Unigram => Dialect::Unigram(unigram::Parameters { gamma: share(GreenShare::HALF)? }),
            // Schemes without gpu- in their names, including the default, are those of the reference.
            Name::Sbw => match seeding.unwrap_or("simple_1") {
                name if name.starts_with("gpu-") => {
                    let seeding: sbw::Seeding = name.parse().map_err(|error| usage(&error))?;
                    Dialect::Sbw(sbw::Parameters { seeding, gamma: share(GreenShare::HALF)? })
                }
                name => {
                    let seeding = name.parse().map_err(|error| usage(&error))?;
                    Dialect::Kgw(kgw::Parameters { seeding, gamma: share(GreenShare::HALF)? })
                }
            },
            Name::Synthid => {
                let bits = match self.bits.unwrap_or(BitsName::Table) {
                    BitsName::Table => Bits::Table,
                    BitsName::Hash => Bits::Hash,
                };
                let score = self.score.as_deref().map_or(Ok(Score::WeightedMean), score)?;
                Dialect::Synthid(synthid::Parameters { bits, ngram_len: self.ngram_len.unwrap_or(5), score })
            }
            Name::Vllm => Dialect::Vllm(vllm::Parameters { width }),
            Name::VllmDual => Dialect::VllmDual(vllm::DualParameters { width, alpha: self.alpha.unwrap_or(0.1) }),
            Name::Sglang => Dialect::Sglang(sglang::Parameters { width }),
            Name::SglangDual => {
                Dialect::SglangDual(sglang::DualParameters { width, mixing: self.mixing.unwrap_or(0.5) })
            }
            Name::ThreeBricksMaryland => Dialect::ThreeBricksMaryland(three_bricks::MarylandParameters {
                width,
                gamma: share(GreenShare::QUARTER)?,
            }),
            Name::ThreeBricksOpenai => Dialect::ThreeBricksOpenai(three_bricks::OpenaiParameters { width }),
        };
        Ok((dialect, named_key))
    }

    /// Adds the given keys of the other system to `secret`, eight bytes each, the highest first.
    fn numbers(&self, secret: &mut Vec<u8>) -> Result<(), Failure> {
        let Some(file) = &self.import else {
            let keys = self.hash_key.iter().map(String::as_str);
            return self.add(keys, secret).map_err(Failure::Usage);
        };
        // Wiped on drop, as above.
        let mut text = random_secret();
        text.clear();
        match file.to_str() {
            Some("-") => read(io::stdin(), file, &mut text)?,
            _ => read(open(file)?, file, &mut text)?,
        }
        let name = file.display();
        let text = std::str::from_utf8(&text)
            .map_err(|_| Failure::Usage(format!("{name} is not text: keys are written as numbers")))?;
        let keys = text.split(|c: char| c.is_whitespace() || c == ',').filter(|key| !key.is_empty());
        self.add(keys, secret).map_err(|fault| Failure::Usage(format!("{name}: {fault}")))?;
        match secret.is_empty() {
            true => Err(Failure::Usage(format!("{name} holds no key"))),
            false => Ok(()),
        }
    }

    fn add<'t>(&self, keys: impl Iterator<Item = &'t str>, secret: &mut Vec<u8>) -> Result<(), String> {
        for key in keys {
            if secret.len() == 8 * MAX_NUMBERS {
                return Err(format!("there are more than {MAX_NUMBERS} keys, which is more than any system has"));
            }
            secret.extend_from_slice(&number(key, self.dialect.is_hexadecimal())?.to_be_bytes());
        }
        Ok(())
    }
}

/// The most keys that are read of another system, which is more than any has.
const MAX_NUMBERS: usize = 1 << 10;

fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|source| Failure::Open { path: path.into(), source })
}

/// Reads a file that is not longer than a key file may be.
fn read(input: impl Read, path: &Path, into: &mut Vec<u8>) -> Result<(), Failure> {
    // Reserved at once, since a growing buffer would leave copies of a secret behind.
    into.reserve_exact(MAX_FILE as usize + 1);
    let read = input.take(MAX_FILE + 1).read_to_end(into);
    read.map_err(|source| Failure::Open { path: path.into(), source })?;
    match into.len() as u64 > MAX_FILE {
        true => Err(Failure::Usage(format!(
            "{} is longer than {} KiB, the most for such a file: is it another one?",
            path.display(),
            MAX_FILE >> 10
        ))),
        false => Ok(()),
    }
}

/// Whether the product of a key and a whole context can have more than 64 bits, which SBW's tensors lose and the
/// reference's integers keep.
fn wraps(prf: Prf, key: u64) -> bool {
    match prf {
        Prf::Multiplicative => true,
        Prf::Additive | Prf::Minfunc => key >> 40 != 0,
        _ => false,
    }
}

fn score(text: &str) -> Result<Score, Failure> {
    Ok(match text {
        "mean" => Score::Mean,
        "weighted-mean" => Score::WeightedMean,
        file => {
            let (path, mut json) = (Path::new(file), Vec::new());
            read(open(path)?, path, &mut json)?;
            let parameters: Bayesian = serde_json::from_slice(&json)
                .map_err(|error| Failure::Usage(format!("{file} does not hold prior, beta and delta: {error}")))?;
            Score::Bayesian(parameters)
        }
    })
}

/// Parses a whole number of 64 bits, as other systems write their keys, a negative one as its two's complement. The
/// error does not quote it.
fn number(text: &str, is_hexadecimal: bool) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    let parsed = match digits {
        // Without a sign, which from_str_radix would take.
        Some(digits) if digits.starts_with(['+', '-']) => None,
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if is_hexadecimal && !text.starts_with(['+', '-']) => u64::from_str_radix(text, 16).ok(),
        None if is_hexadecimal => None,
        None if text.starts_with('-') => text.parse::<i64>().map(|number| number as u64).ok(),
        None => text.parse().ok(),
    };
    parsed.ok_or_else(|| match is_hexadecimal {
        true => {
            "a key of SGLang is a hexadecimal number of 64 bits, such as 0x0123456789abcdef or 0123456789abcdef".into()
        }
        false => "a key is a whole number of 64 bits, such as 15485863, or 0x0123456789abcdef in hexadecimal".into(),
    })
}
