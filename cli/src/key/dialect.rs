//! What a new key marks with, from the options of the command line.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use verdigris::watermark::Context;
use verdigris::watermark::dialects::kgw::DEFAULT_HASH_KEY;
use verdigris::watermark::dialects::synthid::{Bayesian, Bits, Score};
use verdigris::watermark::dialects::three_bricks::DEFAULT_SALT;
use verdigris::watermark::dialects::{hugging_face, sbw};
use verdigris::{Dialect, Gamma, Key, Reader};

use super::{Function, fresh, strength, vocabulary};
use crate::error::Failure;

#[derive(Args)]
pub(super) struct DialectOptions {
    /// The scheme: one of our own, or one that another system embeds
    #[arg(long, value_enum, default_value_t = Name::Native)]
    dialect: Name,
    /// The share of green tokens [default: .25; tgi, unigram and sbw: .5]
    #[arg(long)]
    gamma: Option<f64>,
    /// What is added to the logits of green tokens
    #[arg(long, default_value_t = 2.0, conflicts_with = "hard")]
    delta: f64,
    /// Write green tokens only
    #[arg(long)]
    hard: bool,
    /// How the tokens before a position choose its green list [default: min; native-gumbel: all]
    #[arg(long, value_enum)]
    context: Option<Function>,
    /// How many of them take part [default: 4; hugging-face: 1]
    #[arg(long, value_name = "H")]
    width: Option<usize>,
    /// Let the mark carry a number of so many bits (8 to 32): see payload
    #[arg(long, value_name = "BITS")]
    payload_bits: Option<u8>,
    /// For kgw, hugging-face and sbw: the seeding scheme by its name there, such as simple_1, selfhash or
    /// ff-minhash_prf-4-False
    #[arg(long, value_name = "NAME", help_heading = "Dialects of other systems")]
    seeding: Option<String>,
    /// The integer key of the other system (0x.. in hexadecimal), or its keys, separated by commas. Other users of this
    /// machine can see it while the command runs: prefer --import
    #[arg(
        long,
        value_name = "N,..",
        value_delimiter = ',',
        conflicts_with = "import",
        allow_hyphen_values = true,
        help_heading = "Dialects of other systems"
    )]
    hash_key: Vec<String>,
    /// A file with that key or those keys, or - for standard input
    #[arg(long, value_name = "FILE", help_heading = "Dialects of other systems")]
    import: Option<PathBuf>,
    /// The number of tokens that the other system splits, where that is not the tokenizer's
    #[arg(long, value_name = "N", help_heading = "Dialects of other systems")]
    vocabulary_size: Option<usize>,
    /// For synthid: where bits come from. Transformers and PyPI have the table, its repository the hash
    #[arg(long, value_enum, default_value_t = BitsName::Table, help_heading = "Dialects of other systems")]
    bits: BitsName,
    /// For synthid: tokens of an n-gram
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = "Dialects of other systems")]
    ngram_len: usize,
    /// For synthid: mean, weighted-mean, or a JSON file with prior, beta and delta of a Bayesian detector
    #[arg(long, value_name = "SCORE", default_value = "weighted-mean", help_heading = "Dialects of other systems")]
    score: String,
    /// For vllm-dual: the share of the second key
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, help_heading = "Dialects of other systems")]
    alpha: f64,
    /// For sglang-dual: the share of the first key
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, help_heading = "Dialects of other systems")]
    mixing: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Green lists out of AES
    Native,
    /// Gumbel noise out of AES: leaves the model's law as it is
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
    /// Bernoulli lists out of Philox
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

#[derive(Clone, Copy, ValueEnum)]
enum BitsName {
    Table,
    Hash,
}

impl DialectOptions {
    /// A new key of that dialect, or a key of another system taken over.
    pub(super) fn key(&self, reader: &Reader) -> Result<Key, Failure> {
        let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
        let dialect = self.dialect()?;
        if self.payload_bits.is_some() && self.dialect != Name::Native {
            return Err(Failure::Usage("--payload-bits is for the native dialect".into()));
        }
        let strength = dialect.has_strength().then(|| strength(self.delta, self.hard)).transpose()?;
        if matches!(self.dialect, Name::Native | Name::NativeGumbel) {
            if !self.hash_key.is_empty() || self.import.is_some() {
                return Err(Failure::Usage(
                    "our own dialects make their secrets: leave --hash-key and --import out".into(),
                ));
            }
            return fresh(dialect, strength, reader, self.vocabulary_size);
        }
        let mut numbers = self.numbers()?;
        if numbers.is_empty() {
            numbers = match self.dialect {
                Name::Kgw | Name::Tgi | Name::HuggingFace | Name::Sbw => vec![DEFAULT_HASH_KEY],
                Name::Unigram => vec![0],
                Name::ThreeBricksMaryland | Name::ThreeBricksOpenai => vec![0],
                _ => {
                    return Err(Failure::Usage(format!(
                        "{} needs the key of the other system: --import FILE",
                        dialect.name()
                    )));
                }
            };
        }
        if matches!(self.dialect, Name::ThreeBricksMaryland | Name::ThreeBricksOpenai) && numbers.len() == 1 {
            numbers.push(DEFAULT_SALT);
        }
        let secret: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        let id = dialect.name();
        Key::new(secret, id, dialect, strength, vocabulary(reader, self.vocabulary_size)).map_err(|error| usage(&error))
    }

    fn dialect(&self) -> Result<Dialect, Failure> {
        let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
        let gamma = |usual| self.gamma.unwrap_or(usual);
        let width = |usual| self.width.unwrap_or(usual);
        let context = |usual: Function| Context { function: self.context.unwrap_or(usual).into(), width: width(4) };
        let seeding = |usual: &str| self.seeding.clone().unwrap_or_else(|| usual.to_owned());
        Ok(match self.dialect {
            Name::Native => Dialect::Native {
                gamma: Gamma::new(gamma(0.25)).map_err(|error| usage(&error))?,
                context: context(Function::Min),
                payload_bits: self.payload_bits,
            },
            Name::NativeGumbel => Dialect::NativeGumbel { context: context(Function::All) },
            Name::Kgw => Dialect::Kgw {
                seeding: seeding("simple_1").parse().map_err(|error| usage(&error))?,
                gamma: gamma(0.25),
            },
            Name::Tgi => Dialect::Tgi { gamma: gamma(0.5) },
            Name::HuggingFace => {
                let seeding: hugging_face::Seeding = named(&seeding("lefthash"), "lefthash or selfhash")?;
                Dialect::HuggingFace { seeding, width: width(1), gamma: gamma(0.25) }
            }
            Name::Unigram => Dialect::Unigram { gamma: gamma(0.5) },
            Name::Sbw => {
                let seeding: sbw::Seeding =
                    named(&seeding("simple_4"), "simple_1, simple_4, selfhash or selfhash-fullvocab")?;
                Dialect::Sbw { seeding, gamma: gamma(0.5) }
            }
            Name::Synthid => {
                let bits = match self.bits {
                    BitsName::Table => Bits::Table,
                    BitsName::Hash => Bits::Hash,
                };
                Dialect::Synthid { bits, ngram_len: self.ngram_len, score: score(&self.score)? }
            }
            Name::Vllm => Dialect::Vllm { width: width(4) },
            Name::VllmDual => Dialect::VllmDual { width: width(4), alpha: self.alpha },
            Name::Sglang => Dialect::Sglang { width: width(4) },
            Name::SglangDual => Dialect::SglangDual { width: width(4), mixing: self.mixing },
            Name::ThreeBricksMaryland => Dialect::ThreeBricksMaryland { width: width(4), gamma: gamma(0.25) },
            Name::ThreeBricksOpenai => Dialect::ThreeBricksOpenai { width: width(4) },
        })
    }

    fn numbers(&self) -> Result<Vec<u64>, Failure> {
        match &self.import {
            None => self.hash_key.iter().map(|text| number(text)).collect(),
            Some(file) => {
                let open = |source| Failure::Open { path: file.clone(), source };
                let text = match file.to_str() {
                    Some("-") => std::io::read_to_string(std::io::stdin()).map_err(open)?,
                    _ => std::fs::read_to_string(file).map_err(open)?,
                };
                let parts = text.split(|c: char| c.is_whitespace() || c == ',').filter(|part| !part.is_empty());
                let numbers = parts.map(number).collect::<Result<Vec<_>, _>>();
                let numbers = numbers.map_err(|_| {
                    Failure::Usage(format!("{} does not hold whole numbers of 64 bits", file.display()))
                })?;
                if numbers.is_empty() {
                    return Err(Failure::Usage(format!("{} holds no key", file.display())));
                }
                Ok(numbers)
            }
        }
    }
}

/// A name as it stands in key files.
fn named<T: serde::de::DeserializeOwned>(name: &str, choices: &str) -> Result<T, Failure> {
    let value = serde_json::Value::String(name.to_owned());
    serde_json::from_value(value).map_err(|_| Failure::Usage(format!("--seeding is {name:?}, but must be {choices}")))
}

fn score(text: &str) -> Result<Score, Failure> {
    Ok(match text {
        "mean" => Score::Mean,
        "weighted-mean" => Score::WeightedMean,
        file => {
            let path = Path::new(file);
            let json = std::fs::read(path).map_err(|source| Failure::Open { path: path.into(), source })?;
            let parameters: Bayesian = serde_json::from_slice(&json)
                .map_err(|error| Failure::Usage(format!("{file} does not hold prior, beta and delta: {error}")))?;
            Score::Bayesian(parameters)
        }
    })
}

/// A whole number of 64 bits, as others write their keys; a negative one by its two's complement.
fn number(text: &str) -> Result<u64, Failure> {
    let bad = || Failure::Usage("a key is a whole number of 64 bits, such as 15485863 or 0x0123456789abcdef".into());
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    match digits {
        Some(digits) => u64::from_str_radix(digits, 16).map_err(|_| bad()),
        None if text.starts_with('-') => text.parse::<i64>().map(|number| number as u64).map_err(|_| bad()),
        None => text.parse().map_err(|_| bad()),
    }
}
