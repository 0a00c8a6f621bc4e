//! What `verdigris detect` is asked.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use verdigris::{Level, Offsets, Repeats, Sampling};

use crate::detect::documents::Format;
use crate::form::FormOptions;
use crate::key::KeysOption;
use crate::model::ModelOption;

/// Judge whether texts are marked with a key, from the texts alone
#[derive(Args)]
#[command(after_help = "\
Exit status:
  0  the text is marked (of several: at least one is)
  1  it is not (none is, and at least one could be judged)
  2  no verdict at all: an error, no text, or texts too short to decide (with
     --weigh also one that left too little choice)

Texts are UTF-8, or UTF-16 with a byte order mark. A file's name says what is in it: .jsonl and .ndjson hold a JSON \
object with a text, or a string, on each line; .json may hold an array of such objects; .parquet holds columns; all \
else is one text. --format says it for pipes and other names. In folders .txt, .text, .md, \
.jsonl, .ndjson and .parquet files are read, and a note counts the others.

Every look is paid for: with several keys, with each repair of characters, white space and case, with --offsets and with \
--windows the p-value is that of one look times the number of looks.

With the form that the texts were written in, only tokens about which it left a choice are scored: a mark is found in \
fewer tokens. Give the options that generate was given, or ones that allow more. A text may be cut short, and white \
space may stand around it; any other text that is not of the form is an error.

docs/json.md says what the fields of --json are.

Examples:
  verdigris detect tale.txt --key my.key
  verdigris detect tale.txt --key my.key --color=always | less -R
  verdigris detect tale.txt --key my.key --html report.html
  verdigris detect answers/ more.jsonl --column answer --key my.key --json
  verdigris generate --texts 8 --json --key my.key \\
      | verdigris detect --format jsonl --key my.key
  verdigris detect crew.json --key my.key --json-schema crew.schema.json \\
      --closed")]
pub(crate) struct Detect {
    /// Texts; folders of them; .jsonl, .json and .parquet files; - or nothing for standard input
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) keys: KeysOption,
    #[command(flatten)]
    pub(super) model: ModelOption,
    /// Call a text marked when an unmarked one would look so with at most this probability
    #[arg(long, value_name = "P", default_value_t)]
    pub(super) level: Level,
    /// What the files that are named, or standard input, hold [default: by their names]
    #[arg(long, value_enum)]
    pub(super) format: Option<Format>,
    /// The field of JSON records, or the column of Parquet files, that holds the text [default: text]
    #[arg(long, value_name = "NAME")]
    pub(super) column: Option<String>,
    /// The field, or the column, that holds what the text is called; --json passes it on [default: id]
    #[arg(long, value_name = "NAME")]
    pub(super) id_field: Option<String>,
    /// What counts as the same evidence again, and is counted once
    #[arg(long, value_enum, default_value_t = RepeatsName::Context)]
    pub(super) repeats: RepeatsName,
    /// Look for marked passages inside the text, too
    #[arg(long)]
    pub(super) windows: bool,
    /// Do not look again after repair of characters, white space and letter case
    #[arg(long)]
    pub(super) no_repair: bool,
    /// Tokenize from so many places at the beginning (1 to 64), for a text that was cut out in the middle of a word
    #[arg(long, value_name = "N", default_value_t)]
    pub(super) offsets: Offsets,
    #[command(flatten)]
    pub(super) weigh: WeighOptions,
    /// Show the text first (of a long text the first 16 MiB, and judge those), with the tokens that the key favours in
    /// blue and bold and the others in orange; or with the first in brackets, where there is no colour
    #[arg(long, value_name = "WHEN", value_enum, num_args = 0..=1, require_equals = true,
          default_missing_value = "auto", conflicts_with_all = ["json", "html"])]
    pub(super) color: Option<When>,
    /// Print one JSON object a text, whatever becomes of it
    #[arg(long)]
    pub(super) json: bool,
    /// Write a report with the text in colours, for people: one file that needs no other. It has marked passages, so p
    /// is that of --windows
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Let --html replace a file that is there
    #[arg(long, requires = "html")]
    pub(super) force: bool,
    // A group with a heading comes last: it would hold for what follows.
    #[command(flatten, next_help_heading = "Form of the texts")]
    pub(super) form: FormOptions,
    /// The files of the ring that are no keys for this tokenizer.
    #[arg(skip)]
    pub(super) skipped: Vec<String>,
}

impl Detect {
    /// Whether passages are looked for.
    pub(super) fn searches(&self) -> bool {
        self.windows || self.html.is_some()
    }
}

/// When there are colours.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum When {
    /// On a terminal that has them, unless NO_COLOR is set
    Auto,
    /// In a pipe or file, too
    Always,
    /// Brackets
    Never,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum RepeatsName {
    /// The same context, whatever follows
    Context,
    /// The same token after the same context
    Draw,
    /// Nothing: then a text that repeats itself looks marked too easily
    Nothing,
}

impl From<RepeatsName> for Repeats {
    fn from(name: RepeatsName) -> Self {
        match name {
            RepeatsName::Context => Self::Context,
            RepeatsName::Draw => Self::Observation,
            RepeatsName::Nothing => Self::Nothing,
        }
    }
}

#[derive(Args)]
pub(super) struct WeighOptions {
    /// Weigh tokens by what the model of --model expected, which must be the one that wrote: finds a mark in fewer
    /// tokens where the text had little choice
    #[arg(long, value_enum, value_name = "METHOD",
          conflicts_with_all = ["windows", "html", "color", "ring", "offsets"])]
    pub(super) weigh: Option<Method>,
    /// The temperature at which the text is thought to be written
    #[arg(long, value_name = "T", default_value_t = Sampling::default().temperature, requires = "weigh")]
    pub(super) temperature: f64,
    /// For --weigh sweet: how much choice is enough, in nats of entropy
    #[arg(long, value_name = "NATS", requires = "weigh")]
    pub(super) entropy_threshold: Option<f64>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Method {
    /// By how much likelier the mark made a token
    LikelihoodRatio,
    /// By the spike entropy at its place
    Ewd,
    /// Only tokens at places with more entropy than --entropy-threshold [default: .9]
    Sweet,
}
