//! `verdigris train draft` and `verdigris train medusa`: train draft heads for a model.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use verdigris_train::draft::agreement::Agreement;
use verdigris_train::draft::options::{HeadShape, Options, TextSource};
use verdigris_train::draft::{Event, Summary};
use verdigris_train::{Progress, train_draft};

use super::steps::StepOptions;
use crate::error::Failure;
use crate::model::ModelOption;
use crate::number::whole;
use crate::progress;
use crate::report::print_json;
use crate::run::RunOptions;

/// Train a feature drafter: one layer that continues from a model's hidden states
#[derive(Args)]
#[command(after_help = "\
The model writes a text for each prompt, at temperatures 0, 0.7 and 1, and the drafter learns to predict its output at \
every position, from the model's states and from its own (EAGLE). Texts are kept in texts.jsonl in the output folder; \
an interrupted run resumes when the same command is given again. One text in sixteen is held out: progress shows how \
often the most likely token of each step of a draft is the model's on these.

Examples:
  verdigris train draft --target tale-small --prompts prompts.txt --out drafter
  verdigris train draft --target chat.gguf --prompts questions.jsonl --chat \\
      --max-tokens 256 --max-minutes 60 --out drafter")]
pub(crate) struct Draft {
    #[command(flatten)]
    common: Common,
    /// The width of the feed-forward part, 1 or more [default: that of the target]
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    inner: Option<usize>,
}

/// Train Medusa heads: each guesses a token further on, from one hidden state
#[derive(Args)]
#[command(after_help = "\
The model writes a text for each prompt, at temperatures 0, 0.7 and 1, and each head learns to predict its output one \
position further on than the previous head (Medusa; the model does not change). Texts are kept in texts.jsonl in the \
output folder; an interrupted run resumes when the same command is given again. One text in sixteen is held out: \
progress shows how often the most likely token of each head is the model's on these.

Examples:
  verdigris train medusa --target tale-small --prompts prompts.txt --out heads
  verdigris train medusa --target tale-small --texts drafter/texts.jsonl \\
      --heads 3 --out heads")]
pub(crate) struct Medusa {
    #[command(flatten)]
    common: Common,
    /// The number of heads, 1 to 16
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = whole::<usize>)]
    heads: usize,
    /// Give each head its own output matrix, initialized from that of the target; without this they share the target's,
    /// and the folder is small
    #[arg(long)]
    own_outputs: bool,
}

/// The options that both have in common.
#[derive(Args)]
struct Common {
    /// The model to draft for: a model folder, a GGUF file, a model on the Hugging Face hub, or one that is built in
    #[arg(long, value_name = "PATH|NAME")]
    target: PathBuf,
    /// Beginnings of the texts to train on, one per line, or JSON Lines with a field `prompt`; plain or .zst
    #[arg(long, value_name = "FILE", required_unless_present = "texts")]
    prompts: Option<PathBuf>,
    /// Train on the texts that another run wrote for this target (its texts.jsonl), instead of writing texts
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompts", "chat", "max_tokens"])]
    texts: Option<PathBuf>,
    /// Treat prompts as chat messages, with the model's chat template, and write its answers
    #[arg(long)]
    chat: bool,
    /// The most tokens that are written after a prompt, 2 or more
    #[arg(short = 'n', long, value_name = "N", default_value_t = 256, value_parser = whole::<usize>)]
    max_tokens: usize,
    /// The folder to write
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Train again if the folder holds a finished head
    #[arg(long)]
    force: bool,
    /// Guess among the N tokens that are written most often, 2 or more [default: all that are written, up to 8192]
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    draft_vocabulary: Option<usize>,
    /// Texts per step, 1 or more
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = whole::<usize>)]
    batch: usize,
    /// The number of tokens that are read of a text and its prompt, 4 to the target's context
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = whole::<usize>)]
    window: usize,
    #[command(flatten)]
    steps: StepOptions,
    /// Print the summary as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    run: RunOptions,
}

impl Draft {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        self.common.train(HeadShape::Feature { inner: self.inner })
    }
}

impl Medusa {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        self.common.train(HeadShape::Medusa { heads: self.heads, own_outputs: self.own_outputs })
    }
}

impl Common {
    fn train(self, head: HeadShape) -> Result<ExitCode, Failure> {
        self.run.begin()?;
        let (json, quiet) = (self.json, self.run.quiet);
        let options = self.options(head)?;
        let bar = progress::of_training(quiet);
        let summary = train_draft(&options, |event| {
            match event {
                Event::Writing { texts, of } => {
                    bar.set_position((1000 * texts / of) as u64);
                    bar.set_message(format!("{texts} of {of} texts written"));
                }
                Event::Step(progress) => {
                    bar.set_position((progress.done * 1000.0) as u64);
                    bar.set_message(describe(progress));
                }
            }
            true
        })?
        .expect("this run is never stopped early");
        bar.finish_and_clear();
        if json {
            return print_json(&summary);
        }
        print(&mut anstream::stdout(), &options, &summary)?;
        Ok(ExitCode::SUCCESS)
    }

    fn options(self, head: HeadShape) -> Result<Options, Failure> {
        let target = ModelOption { model: Some(self.target) };
        let source = match (self.texts, self.prompts) {
            (Some(texts), _) => TextSource::Texts(texts),
            (None, Some(path)) => TextSource::Prompts { path, chat: self.chat, max_tokens: self.max_tokens },
            (None, None) => unreachable!("one of them is required"),
        };
        Ok(Options {
            target_name: target.name(),
            target: target.folder()?,
            source,
            head,
            out: self.out,
            replace: self.force,
            draft_vocabulary: self.draft_vocabulary,
            batch: self.batch,
            window: self.window,
            steps: self.steps.steps(),
        })
    }
}

/// Formats shares in per cent, the nearest guess first.
fn shares(all: &[f64]) -> String {
    all.iter().map(|share| format!("{:.0}", 100.0 * share)).collect::<Vec<_>>().join(" ")
}

fn describe(progress: &Progress<Agreement>) -> String {
    let same = progress.heldout.as_ref().map(|heldout| format!(", accepted {} %", shares(&heldout.same)));
    let (step, loss, speed) = (progress.step, progress.loss, progress.tokens_per_second);
    format!("step {step}, loss {loss:.3}{}, {speed:.0} tokens/s", same.unwrap_or_default())
}

fn print(out: &mut impl Write, options: &Options, summary: &Summary) -> std::io::Result<()> {
    writeln!(out, "head           {} ({})", options.out.display(), summary.head)?;
    writeln!(out, "target         {}", summary.target)?;
    writeln!(out, "parameters     {}", summary.parameters)?;
    writeln!(out, "guesses among  {} tokens", summary.draft_vocabulary)?;
    writeln!(out, "texts          {}, {} held out", summary.texts, summary.heldout_texts)?;
    writeln!(out, "steps          {}", summary.steps)?;
    writeln!(out, "minutes        {:.1}", summary.minutes)?;
    if let (Some(before), Some(after)) = (&summary.heldout_before, &summary.heldout) {
        writeln!(out, "likeliest same {} %, {} % before", shares(&after.same), shares(&before.same))?;
        writeln!(out, "overlap        {} %, {} % before", shares(&after.overlap), shares(&before.overlap))?;
    }
    Ok(())
}
