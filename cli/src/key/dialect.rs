//! Options for the dialect of a new key.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use verdigris::watermark::dialects::kgw::{self, DEFAULT_HASH_KEY, Prf, SeedingScheme};
use verdigris::watermark::dialects::synthid::{Bayesian, Bits, Score};
use verdigris::watermark::dialects::three_bricks::DEFAULT_SALT;
use verdigris::watermark::dialects::{native, native_gumbel, sbw};
use verdigris::watermark::key::{MAX_FILE, random_id, random_secret};
use verdigris::watermark::{Context, ContextFunction, VocabularyId};
use verdigris::{Dialect, Key, Marking};

use super::marking::{FUNCTIONS, strength, usage};
use crate::choice::{Choice, OneOf};
use crate::error::Failure;

const OTHERS: &str = "Dialects of other systems";

#[derive(Args)]
pub(super) struct DialectOptions {
    /// The scheme: one of our own, or one that another system embeds [default: native-gumbel; with options of green
    /// lists: native]
    #[arg(long, value_enum)]
    dialect: Option<DialectRow>,
    /// The share of green tokens, above 0 and below 1; for native a multiple of 1/256 [default: .25; tgi, unigram and
    /// sbw: .5]
    #[arg(long)]
    gamma: Option<f64>,
    /// The bias added to the logits of green tokens, above 0 and at most 100 [default: 2]
    #[arg(long, conflicts_with = "hard")]
    delta: Option<f64>,
    /// The strength of the mark, a name for a --delta: a stronger mark costs the text more and is found in fewer tokens
    #[arg(long, value_parser = OneOf(STRENGTHS), value_name = "NAME", conflicts_with_all = ["delta", "hard"])]
    strength: Option<f64>,
    /// Write green tokens only
    #[arg(long)]
    hard: bool,
    /// The function by which the tokens before a position choose its green list [default: min; native-gumbel: all]
    #[arg(long, value_parser = OneOf(FUNCTIONS))]
    context: Option<ContextFunction>,
    /// The number of tokens before a position that choose its green list, 1 to 8, or to 16 for other systems
    /// [default: 4; hugging-face: 1]
    #[arg(long, value_name = "H")]
    width: Option<usize>,
    /// Let the mark carry a number of this many bits (8 to 32): see payload
    #[arg(long, value_name = "BITS")]
    payload_bits: Option<u8>,
    /// The number of variants, 1 to 64. Each text is written with one and read with all, so that a text is recognized
    /// as forged if its marks were learned from other texts [default: 8 for native-gumbel, 1 for native]
    #[arg(long, value_name = "N")]
    variants: Option<u8>,
    /// For native-gumbel: give half of the mark to a public part, whose key `key publish` writes. It takes twice the
    /// tokens to find either half
    #[arg(long)]
    public_part: bool,
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
    #[arg(long, value_parser = OneOf(BITS), help_heading = OTHERS)]
    bits: Option<Bits>,
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

/// A dialect, as the options name it.
#[derive(Clone, Copy)]
struct DialectRow {
    name: &'static str,
    help: &'static str,
    /// Its default parameters, as in key files. It takes the options for these parameters.
    parameters: &'static str,
    /// The numbers of its default secret, which replace the last ones if too few are given. `None` for our own
    /// dialects, which make their secrets.
    secret: Option<&'static [u64]>,
}

/// Our own dialects.
const LISTS: &str = "native";
const NOISE: &str = "native-gumbel";

/// All dialects, in the order of the help.
#[rustfmt::skip]
static DIALECTS: [DialectRow; 14] = [
    row(LISTS, "Green lists from AES",
        r#"{"gamma": 0.25, "context": {"function": "min", "width": 4}, "payload_bits": null}"#, None),
    row(NOISE, "Gumbel noise from AES: keeps the model's distribution",
        r#"{"context": {"function": "all", "width": 4}}"#, None),
    row("kgw", "The KGW reference", r#"{"seeding": "simple_1", "gamma": 0.25}"#, Some(&[DEFAULT_HASH_KEY])),
    row("tgi", "Text Generation Inference", r#"{"gamma": 0.5}"#, Some(&[DEFAULT_HASH_KEY])),
    row("hugging-face", "Transformers' WatermarkingConfig",
        r#"{"seeding": "lefthash", "width": 1, "gamma": 0.25}"#, Some(&[DEFAULT_HASH_KEY])),
    row("unigram", "One list for all texts", r#"{"gamma": 0.5}"#, Some(&[0])),
    row("sbw", "Bernoulli lists from Philox", r#"{"seeding": "simple_1", "gamma": 0.5}"#, Some(&[DEFAULT_HASH_KEY])),
    row("synthid", "SynthID-Text", r#"{"bits": "table", "ngram_len": 5, "score": "weighted-mean"}"#, Some(&[])),
    row("vllm", "vLLM, Gumbel with one key", r#"{"width": 4}"#, Some(&[])),
    row("vllm-dual", "vLLM, Gumbel with two keys", r#"{"width": 4, "alpha": 0.1}"#, Some(&[])),
    row("sglang", "SGLang, Gumbel with one key", r#"{"width": 4}"#, Some(&[])),
    row("sglang-dual", "SGLang, Gumbel with two keys", r#"{"width": 4, "mixing": 0.5}"#, Some(&[])),
    row("three-bricks-maryland", "Three Bricks, green lists",
        r#"{"width": 4, "gamma": 0.25}"#, Some(&[0, DEFAULT_SALT])),
    row("three-bricks-openai", "Three Bricks, Gumbel", r#"{"width": 4}"#, Some(&[0, DEFAULT_SALT])),
];

const fn row(
    name: &'static str,
    help: &'static str,
    parameters: &'static str,
    secret: Option<&'static [u64]>,
) -> DialectRow {
    DialectRow { name, help, parameters, secret }
}

impl DialectRow {
    /// Whether one of its parameters, or a part of one, has this name.
    fn has(self, parameter: &str) -> bool {
        self.parameters.contains(&format!("\"{parameter}\":"))
    }

    /// The dialect with its default parameters, as in key files.
    fn object(self) -> Value {
        let mut parameters: Value = serde_json::from_str(self.parameters).expect("the table holds JSON");
        parameters["name"] = self.name.into();
        parameters
    }
}

impl ValueEnum for DialectRow {
    fn value_variants<'a>() -> &'a [Self] {
        &DIALECTS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let value = PossibleValue::new(self.name).help(self.help);
        Some(if self.name == "kgw" { value.alias("kgw-simple-1") } else { value })
    }
}

/// Strengths of green lists. The price table in docs/watermark.md has their costs.
const STRENGTHS: &[Choice<f64>] = &[
    ("light", 1.0, "Delta 1: for long texts"),
    ("normal", DELTA, "Delta 2, the default of native"),
    ("strong", 4.0, "Delta 4: for short texts"),
];

/// The default delta.
const DELTA: f64 = 2.0;

const BITS: &[Choice<Bits>] = &[("table", Bits::Table, ""), ("hash", Bits::Hash, "")];

impl DialectOptions {
    /// The dialect that is named, or else that of the options.
    fn row(&self) -> DialectRow {
        let lists = self.gamma.is_some()
            || self.delta.is_some()
            || self.strength.is_some()
            || self.hard
            || self.payload_bits.is_some()
            || self.context == Some(ContextFunction::SelfSalted);
        let name = if lists { LISTS } else { NOISE };
        self.dialect.unwrap_or_else(|| *DIALECTS.iter().find(|row| row.name == name).expect("one of our own"))
    }

    /// Makes a new key of the dialect, or imports a key of another system.
    pub(super) fn key(&self, vocabulary: VocabularyId) -> Result<Key, Failure> {
        let vocabulary = match self.vocabulary_size {
            Some(size) => vocabulary.with_size(size).map_err(usage)?,
            None => vocabulary,
        };
        self.refuse_what_is_not_used()?;
        let (dialect, named_key) = self.dialect()?;
        let delta = self.delta.or(self.strength).unwrap_or(DELTA);
        let strength = dialect.has_strength().then(|| strength(delta, self.hard)).transpose()?;
        let Some(usual) = self.row().secret else {
            let usual = if dialect.has_strength() { 1 } else { Marking::VARIANTS };
            let key = Key::new(random_secret(), random_id("vg"), dialect, strength, vocabulary)?;
            let key = key.with_variants(self.variants.unwrap_or(usual))?;
            return if self.public_part { key.with_public_part().map_err(usage) } else { Ok(key) };
        };
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
        if secret.is_empty() && usual.is_empty() {
            let name = dialect.name();
            return Err(Failure::Usage(format!("{name} needs the key of the other system: --import FILE")));
        }
        for number in usual.iter().skip(secret.len() / 8) {
            secret.extend_from_slice(&number.to_be_bytes());
        }
        if let ("sbw", Dialect::Kgw(kgw::Parameters { seeding, .. })) = (self.row().name, &dialect)
            && let Some(first) = secret.first_chunk()
            && wraps(seeding.prf, u64::from_be_bytes(*first))
        {
            let message =
                format!("SBW's {seeding} wraps at 64 bits with such a key, but KGW's does not: it is not supported");
            return Err(Failure::Usage(message));
        }
        let id = random_id(dialect.name());
        Key::new(secret, id, dialect, strength, vocabulary).map_err(usage)
    }

    /// Refuses options that the dialect does not use.
    fn refuse_what_is_not_used(&self) -> Result<(), Failure> {
        let row = self.row();
        let (colours, foreign) = (row.has("gamma"), row.secret.is_some());
        let lists = "dialects with green lists";
        let widths = "native, native-gumbel, hugging-face, vllm, sglang and three-bricks";
        let own = "dialects of other systems, since our own make their secrets";
        let split = "dialects of other systems, since our own split the vocabulary of the tokenizer";
        let options = [
            ("--gamma", self.gamma.is_some(), colours, lists),
            ("--delta", self.delta.is_some(), colours, lists),
            ("--strength", self.strength.is_some(), colours, lists),
            ("--hard", self.hard, colours, lists),
            ("--context", self.context.is_some(), row.has("context"), "native and native-gumbel"),
            ("--width", self.width.is_some(), row.has("width"), widths),
            ("--payload-bits", self.payload_bits.is_some(), row.has("payload_bits"), "native"),
            ("--variants", self.variants.is_some(), !foreign, "native and native-gumbel"),
            ("--public-part", self.public_part, row.name == NOISE, NOISE),
            ("--seeding", self.seeding.is_some(), row.has("seeding"), "kgw, hugging-face and sbw"),
            ("--hash-key", !self.hash_key.is_empty(), foreign, own),
            ("--import", self.import.is_some(), foreign, own),
            ("--vocabulary-size", self.vocabulary_size.is_some(), foreign, split),
            ("--bits", self.bits.is_some(), row.has("bits"), "synthid"),
            ("--ngram-len", self.ngram_len.is_some(), row.has("ngram_len"), "synthid"),
            ("--score", self.score.is_some(), row.has("score"), "synthid"),
            ("--alpha", self.alpha.is_some(), row.has("alpha"), "vllm-dual"),
            ("--mixing", self.mixing.is_some(), row.has("mixing"), "sglang-dual"),
        ];
        match options.into_iter().find(|&(_, given, used, _)| given && !used) {
            Some((option, _, _, whose)) => Err(Failure::Usage(format!("{option} is for {whose}: leave it out"))),
            None => Ok(()),
        }
    }

    /// The dialect, and the hash key if the name of the seeding scheme includes one.
    fn dialect(&self) -> Result<(Dialect, Option<u64>), Failure> {
        let (mut parameters, mut named_key) = (self.row().object(), None);
        let seeding = self.seeding.as_deref().or(parameters["seeding"].as_str()).unwrap_or_default();
        let seeding = match self.row().name {
            "kgw" => {
                let (seeding, key) = SeedingScheme::with_key(seeding).map_err(usage)?;
                named_key = key;
                seeding.to_string()
            }
            "hugging-face" if !["lefthash", "selfhash"].contains(&seeding) => {
                return Err(Failure::Usage(format!("--seeding is {seeding:?}, but must be lefthash or selfhash")));
            }
            "sbw" if seeding.starts_with("gpu-") => seeding.parse::<sbw::Seeding>().map_err(usage)?.name().to_owned(),
            // Schemes without gpu- in their names, including the default, are those of the reference.
            "sbw" => {
                let seeding = seeding.parse::<SeedingScheme>().map_err(usage)?.to_string();
                parameters["name"] = "kgw".into();
                seeding
            }
            _ => seeding.to_owned(),
        };
        for (parameter, value) in [
            ("seeding", Some(Value::from(seeding))),
            ("width", self.width.map(Value::from)),
            ("payload_bits", self.payload_bits.map(Value::from)),
            ("bits", self.bits.map(|bits| json!(bits))),
            ("ngram_len", self.ngram_len.map(Value::from)),
            ("score", self.score.as_deref().map(score).transpose()?.map(|score| json!(score))),
        ] {
            if let (Some(usual), Some(value)) = (parameters.get_mut(parameter), value) {
                *usual = value;
            }
        }
        let mut dialect: Dialect = serde_json::from_value(parameters).map_err(usage)?;
        if let Some(gamma) = self.gamma {
            dialect = dialect.with_gamma(gamma).map_err(usage)?;
        }
        match &mut dialect {
            Dialect::Native(native::Parameters { context, .. })
            | Dialect::NativeGumbel(native_gumbel::Parameters { context, .. }) => {
                let function = self.context.unwrap_or(context.function());
                *context = Context::new(function, self.width.unwrap_or(context.width())).map_err(usage)?;
            }
            Dialect::VllmDual(parameters) => parameters.alpha = self.alpha.unwrap_or(parameters.alpha),
            Dialect::SglangDual(parameters) => parameters.mixing = self.mixing.unwrap_or(parameters.mixing),
            _ => {}
        }
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
            secret.extend_from_slice(&number(key, self.row().name.starts_with("sglang"))?.to_be_bytes());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_parameters_of_the_registry() {
        for row in &DIALECTS {
            let dialect: Dialect = serde_json::from_value(row.object()).unwrap_or_else(|e| panic!("{}: {e}", row.name));
            assert_eq!((dialect.name(), dialect.is_native()), (row.name, row.secret.is_none()));
            assert_eq!(dialect.has_strength(), row.has("gamma"), "{}", row.name);
        }
    }
}
