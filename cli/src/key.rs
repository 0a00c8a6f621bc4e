//! `verdigris key`: make keys and look at them.

mod dialect;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use verdigris::watermark::key::{random_id, random_secret};
use verdigris::watermark::{Context, ContextFunction, Period, Vocabulary};
use verdigris::{Gamma, Key, KeyRing, Marking, Reader, Strength};

use crate::error::Failure;
use crate::key::dialect::DialectOptions;
use crate::model::ModelOption;

/// Make a key, or see what a key is for
#[derive(Subcommand)]
pub(crate) enum KeyCommand {
    New(Box<New>),
    Show(Show),
}

/// Make a new key in a file that only you can read
#[derive(Args)]
#[command(after_help = "\
Whoever has the file can detect the mark and can forge it: keep it as you keep a password, and keep it, for without it \
nothing can be proved. A key works with one tokenizer, that of --model.

Examples:
  verdigris key new my.key
  verdigris key new strong.key --gamma 0.5 --delta 4 --context all --width 2
  verdigris key new numbered.key --payload-bits 16        to carry a number
  verdigris key new 2027.key --valid-from 2027-01-01      see detect --ring
  verdigris key new quiet.key --dialect native-gumbel     keeps the model's law
  verdigris key new kgw.key --dialect kgw --seeding selfhash
  verdigris key new theirs.key --dialect vllm --import key.txt")]
pub(crate) struct New {
    /// The file to make; it must not exist
    file: PathBuf,
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    dialect: DialectOptions,
    /// The public name of the key [default: a random one]
    #[arg(long)]
    id: Option<String>,
    /// Whose key it is; every tenant has lists of their own
    #[arg(long)]
    tenant: Option<String>,
    /// The first day on which a ring writes with it
    #[arg(long, value_name = "DAY")]
    valid_from: Option<String>,
    /// The last day on which a ring writes with it
    #[arg(long, value_name = "DAY")]
    valid_until: Option<String>,
}

/// How green lists follow from the text before.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Function {
    /// All of them together
    All,
    /// The smallest of their hashes: edits hurt least
    Min,
    /// The candidate takes part too: hardest to learn
    SelfSalted,
}

impl From<Function> for ContextFunction {
    fn from(function: Function) -> Self {
        match function {
            Function::All => Self::All,
            Function::Min => Self::Min,
            Function::SelfSalted => Self::SelfSalted,
        }
    }
}

/// Show what a key marks with; never its secret
#[derive(Args)]
pub(crate) struct Show {
    /// The key file
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Keys to read with: files, or a folder of them.
#[derive(Args)]
#[group(required = true, multiple = true)]
pub(crate) struct KeysOption {
    /// The key to look for; give it again for more keys
    #[arg(short, long, value_name = "FILE")]
    pub(crate) key: Vec<PathBuf>,
    /// A folder of keys (files that end in .key or .json), all of which are looked for
    #[arg(long, value_name = "DIR")]
    pub(crate) ring: Option<PathBuf>,
}

impl KeysOption {
    /// All of them. More keys mean more looks, and p-values that are larger by as much.
    pub(crate) fn load(&self) -> Result<Vec<Key>, Failure> {
        let mut keys = self.key.iter().map(|file| Key::load(file)).collect::<Result<Vec<_>, _>>()?;
        if let Some(ring) = &self.ring {
            keys.extend(KeyRing::load(ring)?.into_keys());
        }
        Ok(keys)
    }
}

/// The key that a ring writes with today.
pub(crate) fn writer_of(ring: &Path, tenant: &str) -> Result<Key, Failure> {
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    Ok(KeyRing::load(ring)?.into_writer(today, tenant)?)
}

/// The marking that options describe; the error is one line.
pub(crate) fn marking(
    gamma: f64,
    delta: f64,
    hard: bool,
    function: Function,
    width: usize,
) -> Result<Marking, Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
    Ok(Marking {
        gamma: Gamma::new(gamma).map_err(|error| usage(&error))?,
        context: Context { function: function.into(), width },
        strength: strength(delta, hard)?,
    })
}

fn strength(delta: f64, hard: bool) -> Result<Strength, Failure> {
    let usage = |error: verdigris::watermark::embed::BadDelta| Failure::Usage(error.to_string());
    if hard { Ok(Strength::Hard) } else { Strength::soft(delta).map_err(usage) }
}

impl KeyCommand {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::New(new) => new.run(),
            Self::Show(show) => show.run(),
        }
    }
}

impl New {
    fn run(self) -> Result<ExitCode, Failure> {
        let period = Period::new(self.valid_from.as_deref(), self.valid_until.as_deref())?;
        let key = self.dialect.key(&self.model.reader()?)?;
        let key = match self.id {
            Some(id) => key.with_id(id),
            None => key,
        };
        let key = key.with_tenant(self.tenant.unwrap_or_default()).with_period(period);
        key.save(&self.file)?;
        anstream::println!("{} made: {} ({})", self.file.display(), key.id(), key.describe());
        Ok(ExitCode::SUCCESS)
    }
}

/// A new key of our own dialects.
fn fresh(
    dialect: verdigris::Dialect,
    strength: Option<Strength>,
    reader: &Reader,
    size: Option<usize>,
) -> Result<Key, Failure> {
    Ok(Key::new(random_secret(), random_id(), dialect, strength, vocabulary(reader, size))?)
}

/// The tokenizer's vocabulary, or as much of it as another system splits.
fn vocabulary(reader: &Reader, size: Option<usize>) -> Vocabulary {
    let vocabulary = reader.vocabulary();
    Vocabulary { size: size.unwrap_or(vocabulary.size), ..vocabulary }
}

impl Show {
    fn run(self) -> Result<ExitCode, Failure> {
        let key = Key::load(&self.file)?;
        let strength = match key.strength() {
            Some(Strength::Soft(delta)) => format!("soft, delta {delta}"),
            Some(Strength::Hard) => "hard: green tokens only".into(),
            None => "none: noise decides, and the model's law stays".into(),
        };
        let (vocabulary, period) = (key.vocabulary(), key.period());
        if self.json {
            let json = serde_json::json!({
                "id": key.id(), "tenant": key.tenant(), "dialect": key.dialect(), "scheme": key.describe(),
                "strength": strength, "vocabulary": vocabulary, "period": period, "public": key.is_public(),
            });
            anstream::println!("{json}");
            return Ok(ExitCode::SUCCESS);
        }
        anstream::println!("id          {}", key.id());
        if !key.tenant().is_empty() {
            anstream::println!("tenant      {}", key.tenant());
        }
        anstream::println!("scheme      {}", key.describe());
        anstream::println!("strength    {strength}");
        anstream::println!("vocabulary  {} tokens, {}", vocabulary.size, vocabulary.fingerprint);
        if period != Period::default() {
            let day = |day: Option<jiff::civil::Date>| day.map_or("open".into(), |day| day.to_string());
            anstream::println!("period      {} to {}", day(period.from), day(period.until));
        }
        anstream::println!("secret      not shown");
        Ok(ExitCode::SUCCESS)
    }
}
