//! `verdigris detect`: is a text marked, and how sure is that?

use std::fmt::Write as _;
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use verdigris::watermark::DEFAULT_LEVEL;
use verdigris::{Evidence, Key, Verdict};

use crate::error::Failure;
use crate::model::ModelOption;
use crate::report;

/// Files above this size show a progress bar.
const LONG: u64 = 4 << 20;

/// No more than this is shown in colour, and then no more is read.
const COLOR_LIMIT: u64 = 16 << 20;

/// Judge whether a text is marked with a key, from the text alone
#[derive(Args)]
#[command(after_help = "\
Exit status:
  0  the text is marked
  1  it is not
  2  no verdict: an error, or a text too short to decide

Examples:
  verdigris detect tale.txt --key my.key
  verdigris detect tale.txt --key my.key --color | less -R
  curl -s https://example.com/post.txt | verdigris detect --key my.key --json")]
pub(crate) struct Detect {
    /// The text; - or nothing for standard input
    #[arg(default_value = "-", hide_default_value = true, value_name = "FILE")]
    file: PathBuf,
    /// The key to look for
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    #[command(flatten)]
    model: ModelOption,
    /// Call a text marked when an unmarked one would look so with at most this probability
    #[arg(long, value_name = "P", default_value_t = DEFAULT_LEVEL)]
    level: f64,
    /// Show the text with its green and red tokens first (of a long text the first 16 MiB, and judge those)
    #[arg(long)]
    color: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Output<'a> {
    verdict: &'static str,
    key_id: &'a str,
    tokens: u64,
    scored: u64,
    green: u64,
    gamma: f64,
    z: f64,
    p: f64,
    log10_p: f64,
    level: f64,
    sampled: f64,
}

impl Detect {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if !(self.level > 0.0 && self.level < 1.0) {
            return Err(Failure::Usage(format!("--level is {}, but must be above 0 and below 1", self.level)));
        }
        let key = Key::load(&self.key)?;
        let reader = self.model.reader()?;
        let (input, name) = self.input()?;
        let mut out = anstream::AutoStream::new(std::io::stdout(), color_choice(self.color));
        let (mut text, mut characters) = (String::new(), report::Characters::default());
        let evidence = if self.color && !self.json {
            // Kept until the verdict is known: a fault at the end must not leave half a text on the screen.
            reader.detect_marked(&key, input.take(COLOR_LIMIT), |bytes, mark| {
                let style = report::mark_style(mark);
                let _ = write!(text, "{style}{}{style:#}", characters.push(bytes));
            })
        } else {
            reader.detect(&key, input)
        };
        let named = |source: verdigris::Error| match source {
            verdigris::Error::Read(_) | verdigris::Error::TooShort(_) => Failure::Text { name: name.clone(), source },
            other => other.into(),
        };
        let evidence = evidence.map_err(named)?;
        let verdict = evidence.verdict(self.level).map_err(|short| named(short.into()))?;
        if !text.is_empty() {
            writeln!(out, "{text}\n")?;
        }
        if self.json {
            self.print_json(&key, &evidence, verdict)?;
        } else {
            let style = report::verdict_style(verdict);
            writeln!(out, "tokens    {}", evidence.tokens)?;
            writeln!(out, "scored    {}{}", evidence.scored, sampled(&evidence))?;
            writeln!(out, "green     {}", report::green_count(&evidence))?;
            writeln!(out, "z         {:.2}", evidence.z)?;
            writeln!(out, "p         {}", report::p_value(evidence.ln_p))?;
            writeln!(
                out,
                "verdict   {style}{}{style:#} ({}, level {})",
                report::verdict(verdict),
                key.id(),
                self.level
            )?;
        }
        Ok(match verdict {
            Verdict::Marked => ExitCode::SUCCESS,
            Verdict::NotMarked => ExitCode::from(1),
        })
    }

    /// The text and its name; a long file shows how far it is.
    fn input(&self) -> Result<(Box<dyn Read>, String), Failure> {
        if self.file == Path::new("-") {
            return Ok((Box::new(std::io::stdin().lock()), "standard input".into()));
        }
        let open = |source| Failure::Open { path: self.file.clone(), source };
        let file = File::open(&self.file).map_err(open)?;
        let metadata = file.metadata().map_err(open)?;
        if metadata.is_dir() {
            return Err(open(std::io::Error::other("it is a folder, not a text file")));
        }
        let name = self.file.display().to_string();
        if metadata.len() < LONG || !std::io::stderr().is_terminal() {
            return Ok((Box::new(file), name));
        }
        let template = "{bar:40} {decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left";
        let style = ProgressStyle::with_template(template).expect("a valid template");
        Ok((Box::new(ProgressBar::new(metadata.len()).with_style(style).wrap_read(file)), name))
    }

    fn print_json(&self, key: &Key, evidence: &Evidence, verdict: Verdict) -> Result<(), Failure> {
        let output = Output {
            verdict: report::verdict(verdict),
            key_id: key.id(),
            tokens: evidence.tokens,
            scored: evidence.scored,
            green: evidence.green,
            gamma: evidence.gamma,
            z: evidence.z,
            p: evidence.p(),
            log10_p: evidence.ln_p / std::f64::consts::LN_10,
            level: self.level,
            sampled: evidence.sampled,
        };
        let json = serde_json::to_string(&output).expect("the output serialises");
        Ok(writeln!(std::io::stdout(), "{json}")?)
    }
}

/// Asked for by name, colour is shown even through a pipe; but never against NO_COLOR.
fn color_choice(asked: bool) -> anstream::ColorChoice {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if asked && !no_color { anstream::ColorChoice::Always } else { anstream::ColorChoice::Auto }
}

fn sampled(evidence: &Evidence) -> String {
    if evidence.sampled < 1.0 {
        format!(" (a sample of 1 in {} distinct ones)", 1.0 / evidence.sampled)
    } else {
        String::new()
    }
}
