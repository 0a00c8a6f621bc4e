//! `verdigris key`: makes and shows keys.

mod days;
mod dialect;
mod list;
mod marking;
mod publish;
mod read;
mod report;
mod retire;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use verdigris::models::whole_file;
use verdigris::watermark::{KeyError, Period};
use verdigris::{Key, KeyRing, Strength};

use crate::error::Failure;
use crate::key::days::days;
pub(crate) use crate::key::days::today;
use crate::key::dialect::DialectOptions;
pub(crate) use crate::key::marking::{FUNCTIONS, marking};
pub(crate) use crate::key::read::{KeysOption, fitting, writer_of};
use crate::model::ModelOption;
use crate::report::print_json;
use crate::terminal::shown_line;

/// Make, show and list keys
#[derive(Subcommand)]
pub(crate) enum KeyCommand {
    New(Box<New>),
    Show(Show),
    List(list::List),
    Publish(publish::Publish),
    Retire(retire::Retire),
    Report(report::Report),
}

/// Make a new key in a file that only you can read
#[derive(Args)]
#[command(after_help = "\
Anyone who has the file can detect the mark and forge it: protect it like a password. Do not lose it, since without it \
nothing can be proved. A key works with one tokenizer, that of --model.

The default, noise, keeps the model's distribution. Green lists cost the text more the stronger they are: \
docs/watermark.md has the price and the harm of each.

Examples:
  verdigris key new my.key
  verdigris key new lists.key --dialect native            green lists
  verdigris key new strong.key --strength strong
  verdigris key new own.key --gamma 0.5 --delta 4 --context all --width 2
  verdigris key new numbered.key --payload-bits 16        to carry a number
  verdigris key new both.key --public-part                see key publish
  verdigris key new 2027.key --valid-from 2027-01-01      see detect --ring
  verdigris key new kgw.key --dialect kgw --seeding selfhash
  verdigris key new theirs.key --dialect vllm --import key.txt")]
pub(crate) struct New {
    /// The file to create; it must not exist
    file: PathBuf,
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    dialect: DialectOptions,
    /// The public name of the key [default: a random one]
    #[arg(long)]
    id: Option<String>,
    /// The tenant of the key; each tenant has its own lists
    #[arg(long)]
    tenant: Option<String>,
    /// The first day on which a ring writes with the key
    #[arg(long, value_name = "DAY")]
    valid_from: Option<String>,
    /// The last day on which a ring writes with the key
    #[arg(long, value_name = "DAY")]
    valid_until: Option<String>,
}

/// Show the parameters of a key, but never its secret
#[derive(Args)]
pub(crate) struct Show {
    /// The key file
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl KeyCommand {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::New(new) => new.run(),
            Self::Show(show) => show.run(),
            Self::List(list) => list.run(),
            Self::Publish(publish) => publish.run(),
            Self::Retire(retire) => retire.run(),
            Self::Report(report) => report.run(),
        }
    }
}

impl New {
    fn run(self) -> Result<ExitCode, Failure> {
        if self.file.as_os_str() == "-" {
            return Err(Failure::Usage("- is not a name for a key file: a key is not printed".into()));
        }
        let period = Period::new(self.valid_from.as_deref(), self.valid_until.as_deref()).map_err(KeyError::from)?;
        let vocabulary = self.model.reader()?.vocabulary().with_model(&self.model.name());
        let key = self.dialect.key(vocabulary)?;
        let key = match &self.id {
            Some(id) => key.with_id(name("--id", id)?)?,
            None => key,
        };
        let key = match &self.tenant {
            Some(tenant) => key.with_tenant(name("--tenant", tenant)?)?,
            None => key,
        };
        let key = key.with_period(period);
        // A verdict names a key by its id and its tenant.
        let others = self.id.as_ref().and_then(|_| KeyRing::load(whole_file::folder(&self.file)).ok());
        let same = |(_, other): &(&Path, &Key)| (other.id(), other.tenant()) == (key.id(), key.tenant());
        if let Some((other, _)) = others.as_ref().and_then(|others| others.files().find(same)) {
            let (other, id) = (other.display(), key.id());
            return Err(Failure::Usage(format!(
                "{other} has the id {id} already: give another --id, or another folder"
            )));
        }
        key.save(&self.file)?;
        if key.is_public() {
            crate::terminal::headed(
                "warning",
                "this key is public: anyone can find its mark, forge it and remove \
                 it; use a key of your own with --import",
            );
        }
        let (file, id) = (self.file.display().to_string(), shown_line(key.id()));
        writeln!(anstream::stdout(), "{} made: {id} ({})", shown_line(&file), key.describe())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Checks that a name fits on a line.
fn name<'a>(option: &str, name: &'a str) -> Result<&'a str, Failure> {
    match name.is_empty() || name.contains(char::is_control) {
        true => Err(Failure::Usage(format!("{option} is empty or has control characters in it: give another name"))),
        false => Ok(name),
    }
}

impl Show {
    fn run(self) -> Result<ExitCode, Failure> {
        let key = Key::load(&self.file)?;
        let strength = match key.strength() {
            Some(Strength::Soft(delta)) => format!("soft, delta {}", delta.value()),
            Some(Strength::Hard) => "hard: green tokens only".into(),
            None => "none: noise decides, and the model's distribution stays".into(),
        };
        let (vocabulary, period) = (key.vocabulary(), key.period());
        if self.json {
            // docs/json.md describes the fields.
            return print_json(&serde_json::json!({
                "format": "verdigris-key-show-1", "id": key.id(), "tenant": key.tenant(), "dialect": key.dialect(),
                "scheme": key.describe(), "strength": strength, "vocabulary": vocabulary, "period": period,
                "variants": key.variants(), "public": key.is_public(),
            }));
        }
        let mut out = anstream::stdout();
        // The file may come from a stranger: its names must not reach the terminal as control sequences.
        writeln!(out, "id          {}", shown_line(key.id()))?;
        if !key.tenant().is_empty() {
            writeln!(out, "tenant      {}", shown_line(key.tenant()))?;
        }
        writeln!(out, "scheme      {}", key.describe())?;
        writeln!(out, "strength    {strength}")?;
        if let Some(model) = vocabulary.model() {
            writeln!(out, "model       {}", shown_line(model))?;
        }
        writeln!(out, "vocabulary  {} tokens, {}", vocabulary.size(), shown_line(vocabulary.fingerprint()))?;
        if !period.is_open() {
            writeln!(out, "period      {}", days(period))?;
        }
        writeln!(out, "secret      not shown")?;
        Ok(ExitCode::SUCCESS)
    }
}
