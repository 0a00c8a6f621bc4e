//! `verdigris key`: make keys and look at them.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use verdigris::watermark::{Context, ContextFunction, kgw::DEFAULT_HASH_KEY};
use verdigris::{Gamma, Key, Marking, Strength};

use crate::error::Failure;
use crate::model::ModelOption;

/// Make a key, or see what a key is for
#[derive(Subcommand)]
pub(crate) enum KeyCommand {
    New(New),
    Show(Show),
}

/// Make a new key in a file that only you can read
#[derive(Args)]
#[command(after_help = "\
Whoever has the file can detect the mark and can forge it: keep it as you keep a password, and keep it, for
without it nothing can be proved. A key works with one tokenizer, that of --model.

Examples:
  verdigris key new my.key
  verdigris key new strong.key --gamma 0.5 --delta 4 --context all --width 2
  verdigris key new kgw.key --dialect kgw-simple-1 --gamma 0.5    reads what the KGW reference wrote")]
pub(crate) struct New {
    /// The file to make; it must not exist
    file: PathBuf,
    #[command(flatten)]
    model: ModelOption,
    /// The share of green tokens
    #[arg(long, default_value_t = 0.25)]
    gamma: f64,
    /// What is added to the logits of green tokens
    #[arg(long, default_value_t = 2.0, conflicts_with = "hard")]
    delta: f64,
    /// Write green tokens only
    #[arg(long)]
    hard: bool,
    /// How the tokens before a position choose its green list
    #[arg(long, value_enum, default_value_t = Function::Min)]
    context: Function,
    /// How many of them take part
    #[arg(long, value_name = "H", default_value_t = 4)]
    width: usize,
    /// The public name of the key [default: a random one]
    #[arg(long)]
    id: Option<String>,
    /// Whose key it is; every tenant has lists of their own
    #[arg(long)]
    tenant: Option<String>,
    /// The scheme: our own, or one that another system embeds
    #[arg(long, value_enum, default_value_t = Dialect::Native)]
    dialect: Dialect,
    /// For kgw-simple-1: the integer key of the other system
    #[arg(long, value_name = "N", default_value_t = DEFAULT_HASH_KEY)]
    hash_key: u64,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Function {
    /// All of them together
    All,
    /// The smallest of their hashes: edits hurt least
    Min,
    /// The candidate takes part too: hardest to learn
    SelfSalted,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Dialect {
    Native,
    #[value(name = "kgw-simple-1")]
    KgwSimple1,
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
        strength: if hard { Strength::Hard } else { Strength::soft(delta).map_err(|error| usage(&error))? },
    })
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
        let vocabulary = self.model.reader()?.vocabulary();
        let mut key = match self.dialect {
            Dialect::Native => {
                let marking = marking(self.gamma, self.delta, self.hard, self.context, self.width)?;
                Key::generate(marking, vocabulary)
            }
            Dialect::KgwSimple1 => {
                let strength = marking(0.5, self.delta, self.hard, Function::All, 1)?.strength;
                Key::kgw_simple_1(self.hash_key, self.gamma, strength, vocabulary)?
            }
        };
        if let Some(id) = self.id {
            key = key.with_id(id);
        }
        if let Some(tenant) = self.tenant {
            key = key.with_tenant(tenant);
        }
        key.scheme()?;
        key.save(&self.file)?;
        anstream::println!("{} made: {} ({})", self.file.display(), key.id(), key.describe());
        Ok(ExitCode::SUCCESS)
    }
}

impl Show {
    fn run(self) -> Result<ExitCode, Failure> {
        let key = Key::load(&self.file)?;
        let strength = match key.strength() {
            Strength::Soft(delta) => format!("soft, delta {delta}"),
            Strength::Hard => "hard: green tokens only".into(),
        };
        let vocabulary = key.vocabulary();
        if self.json {
            let json = serde_json::json!({
                "id": key.id(), "tenant": key.tenant(), "scheme": key.describe(), "strength": strength,
                "vocabulary": vocabulary,
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
        anstream::println!("secret      not shown");
        Ok(ExitCode::SUCCESS)
    }
}
