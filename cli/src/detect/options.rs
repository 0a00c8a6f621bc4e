//! The options of `verdigris detect`.

use std::path::PathBuf;
use std::sync::Arc;

use anstream::ColorChoice;
use clap::builder::PossibleValuesParser;
use clap::{ArgGroup, Args, ValueEnum};
use verdigris::detector::report::DetectorUrl;
use verdigris::{Grammar, Level, Offsets, ReasoningSyntax, Repeats, Sampling};

use crate::choice::{Choice, OneOf};
use crate::constraint::ConstraintOptions;
use crate::detect::documents::Format;
use crate::error::Failure;
use crate::key::KeysOption;
use crate::model::ModelOption;

/// Judge whether texts are marked with a key, from the texts alone
#[derive(Args)]
#[command(group = ArgGroup::new("reports").multiple(true))]
#[command(after_help = "\
Exit status:
  0  the text is marked (of several: at least one is)
  1  it is not (none is, and at least one could be judged)
  2  no verdict at all: an error, no text, or texts too short to decide (with
     --weigh also one that left too little choice)

Texts are UTF-8, or UTF-16 with a byte order mark. The name of a file gives its format: .jsonl and .ndjson hold a JSON \
object with a text, or a string, on each line; .json may hold an array of such objects; .parquet holds columns; any \
other file is one text. --format is for pipes and other names. In folders, .txt, .text, .md, \
.jsonl, .ndjson and .parquet files are read, and a note counts the others.

The p-value is corrected for every look at the text: with several keys, each repair of characters, white space and \
case, --offsets and --windows, it is that of one look times the number of looks.

With the constraint that the texts were written under, only tokens for which it left a choice are scored, so that a \
mark is found in fewer tokens. Give the same options as to generate, or ones that allow more. A text may be cut short, \
and may have white space around it; any other text that does not match is an error.

docs/json.md describes the fields of --json.

Examples:
  verdigris detect tale.txt --key my.key
  verdigris detect tale.txt --key my.key --color=always | less -R
  verdigris detect tale.txt --key my.key --html report.html
  verdigris detect tale.txt --key my.key --report signed.json \\
      --report-key report.pem
  verdigris detect answers/ more.jsonl --column answer --key my.key --json
  verdigris generate --texts 8 --json --key my.key \\
      | verdigris detect --format jsonl --key my.key
  verdigris detect crew.json --key my.key --json-schema crew.schema.json \\
      --closed")]
pub(crate) struct Detect {
    /// Texts, folders of texts, or .jsonl, .json and .parquet files; - or nothing for standard input
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) keys: KeysOption,
    #[command(flatten)]
    pub(super) model: ModelOption,
    /// The p-value at or below which a text is called marked
    #[arg(long, value_name = "P", default_value_t)]
    pub(super) level: Level,
    /// The format of the named files, or of standard input [default: by their names]
    #[arg(long, value_enum)]
    pub(super) format: Option<Format>,
    /// The field of JSON records, or the column of Parquet files, that holds the text [default: text]
    #[arg(long, value_name = "NAME")]
    pub(super) column: Option<String>,
    /// The field or column that holds the id of the text, which --json includes [default: id]
    #[arg(long, value_name = "NAME")]
    pub(super) id_field: Option<String>,
    /// The repetitions that are counted only once
    #[arg(long, value_parser = OneOf(REPEATS), default_value = "context")]
    pub(super) repeats: Repeats,
    /// Also look for marked passages inside the text
    #[arg(long)]
    pub(super) windows: bool,
    /// Do not judge the text again with repaired characters, white space and letter case
    #[arg(long)]
    pub(super) no_repair: bool,
    /// Tokenize from each of the first N characters (1 to 64), for a text that was cut out in the middle of a word
    #[arg(long, value_name = "N", default_value_t)]
    pub(super) offsets: Offsets,
    #[command(flatten)]
    pub(super) weigh: WeighOptions,
    /// Show the text first, with the tokens that the key favours in blue and bold and the others in orange, or the
    /// favoured ones in brackets without colours. Of a long text, the first 16 MiB are shown and judged
    #[arg(long, value_name = "WHEN", value_parser = OneOf(COLOURS), num_args = 0..=1, require_equals = true,
          default_missing_value = "auto", conflicts_with_all = ["json", "html", "report"])]
    pub(super) color: Option<ColorChoice>,
    /// Print one JSON object per text, also for errors
    #[arg(long)]
    pub(super) json: bool,
    /// Write a self-contained HTML report with the text in colours. It includes marked passages, so p is that of
    /// --windows
    #[arg(long, value_name = "FILE", group = "reports")]
    pub(super) html: Option<PathBuf>,
    /// Write a signed report for each text that has a verdict, one on each line: a JSON Web Signature with the hash of
    /// the text, the time, the keys and the verdict, which verify-report checks
    #[arg(long, value_name = "FILE", groups = ["reports", "with_report"], requires = "report_key")]
    pub(super) report: Option<PathBuf>,
    /// The private key that signs reports; `verdigris key report` makes one
    #[arg(long, value_name = "FILE", requires = "with_report")]
    pub(super) report_key: Option<PathBuf>,
    /// The address of this detector, which reports name
    #[arg(long, value_name = "URL", requires = "with_report")]
    pub(super) report_url: Option<DetectorUrl>,
    /// Let --html and --report replace existing files
    #[arg(long, requires = "reports")]
    pub(super) force: bool,
    // A group with a heading comes last, because the heading applies to all options after it.
    #[command(flatten, next_help_heading = "Constraint on the texts")]
    pub(super) constraint: ConstraintOptions,
    /// The constraint is that on the answer, and a text may have a thought before it, with these markers
    #[arg(long, value_name = "NAME", requires = "GrammarOptions", value_parser = PossibleValuesParser::new(ReasoningSyntax::names()))]
    pub(super) reasoning_format: Option<String>,
    /// The files of the ring that are not keys for this tokenizer.
    #[arg(skip)]
    pub(super) skipped: Vec<String>,
}

impl Detect {
    /// The constraints on whole texts. The first one that a text obeys counts.
    pub(super) fn grammars(&self) -> Result<Vec<Arc<Grammar>>, Failure> {
        let Some(answer) = self.constraint.grammar()? else { return Ok(Vec::new()) };
        let Some(syntax) = self.reasoning_format.as_deref().and_then(ReasoningSyntax::named) else {
            return Ok(vec![Arc::new(answer)]);
        };
        let readings = answer.readings_with_thought(syntax);
        let readings =
            readings.map_err(|fault| Failure::Usage(format!("a thought before this constraint: {fault}")))?;
        Ok(readings.map(Arc::new).into())
    }

    /// Whether to look for marked passages.
    pub(super) fn searches(&self) -> bool {
        self.windows || self.html.is_some()
    }
}

/// When to use colours.
const COLOURS: &[Choice<ColorChoice>] = &[
    ("auto", ColorChoice::Auto, "On a terminal that has them, unless NO_COLOR is set"),
    ("always", ColorChoice::Always, "Also in a pipe or file"),
    ("never", ColorChoice::Never, "Never; brackets instead"),
];

/// The repetitions that are counted only once.
pub(crate) const REPEATS: &[Choice<Repeats>] = &[
    ("context", Repeats::Context, "The same context, whatever follows"),
    ("draw", Repeats::Observation, "The same token after the same context"),
    ("nothing", Repeats::Nothing, "None: a text that repeats itself then looks marked too easily"),
];

#[derive(Args)]
pub(super) struct WeighOptions {
    /// Weigh tokens by the probabilities of --model, which must be the model that wrote the text: finds a mark in fewer
    /// tokens if the text had little choice
    #[arg(long, value_enum, value_name = "METHOD",
          conflicts_with_all = ["windows", "html", "color", "ring", "offsets", "report"], group = "with_weigh")]
    pub(super) weigh: Option<Method>,
    /// The temperature at which the text was presumably written
    #[arg(long, value_name = "T", default_value_t = Sampling::default().temperature, requires = "with_weigh")]
    pub(super) temperature: f64,
    /// For --weigh sweet: the entropy above which tokens count, in nats
    #[arg(long, value_name = "NATS", requires = "with_weigh")]
    pub(super) entropy_threshold: Option<f64>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Method {
    /// By how much more likely the mark made a token
    LikelihoodRatio,
    /// By the spike entropy at its position
    Ewd,
    /// Only tokens at positions with more entropy than --entropy-threshold [default: .9]
    Sweet,
}
