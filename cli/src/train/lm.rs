//! `verdigris train lm`: trains language models.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use verdigris_train::{Options, Progress, Summary, train};

use super::steps::StepOptions;
use crate::error::Failure;
use crate::model::ModelOption;
use crate::number::whole;
use crate::progress;
use crate::report::print_json;
use crate::run::RunOptions;

/// Train a language model, from a given one or from scratch
#[derive(Args)]
#[command(after_help = "\
The corpus is plain text (or .zst), with documents separated by <|endoftext|>. An interrupted run resumes at its last \
checkpoint when the same command is given again; a finished model is not trained again without --force. The output is \
a Hugging Face model folder.

Examples:
  verdigris train lm --init tale-small --corpus plays.txt --out my-expert
  verdigris train lm --corpus letters.txt --heldout other-letters.txt \\
      --out letters --steps 2000")]
pub(crate) struct Lm {
    /// The text to train on
    #[arg(long, value_name = "FILE")]
    corpus: PathBuf,
    /// Text that is not trained on, for measurements
    #[arg(long, value_name = "FILE")]
    heldout: Option<PathBuf>,
    /// The model folder to write
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Train again if the folder holds a finished model
    #[arg(long)]
    force: bool,
    /// The model folder to continue from [default: fresh weights]
    #[arg(long, value_name = "DIR")]
    init: Option<PathBuf>,
    /// For fresh weights: the model folder whose shape and tokenizer to use [default: the built-in one]
    #[arg(long, value_name = "DIR", conflicts_with = "init")]
    shape: Option<PathBuf>,
    /// Windows per step, 1 or more
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = whole::<usize>)]
    batch: usize,
    /// Tokens per window, 2 to the model's context
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = whole::<usize>)]
    window: usize,
    #[command(flatten)]
    steps: StepOptions,
    /// Print the summary as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    run: RunOptions,
}

impl Lm {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        self.run.begin()?;
        let (json, quiet) = (self.json, self.run.quiet);
        let options = self.options()?;
        let bar = progress::of_training(quiet);
        let summary = train(&options, |progress| {
            bar.set_position((progress.done * 1000.0) as u64);
            bar.set_message(describe(progress));
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

    fn options(self) -> Result<Options, Failure> {
        Ok(Options {
            corpus: self.corpus,
            heldout: self.heldout,
            out: self.out,
            replace: self.force,
            init: self.init.as_deref().map(crate::model::find).transpose()?,
            shape: ModelOption { model: self.shape }.folder()?,
            batch: self.batch,
            window: self.window,
            steps: self.steps.steps(),
        })
    }
}

fn describe(progress: &Progress<f64>) -> String {
    let heldout = progress.heldout.map(|loss| format!(", held out {loss:.3}")).unwrap_or_default();
    format!("step {}, loss {:.3}{heldout}, {:.0} tokens/s", progress.step, progress.loss, progress.tokens_per_second)
}

fn print(out: &mut impl Write, options: &Options, summary: &Summary) -> std::io::Result<()> {
    writeln!(out, "model          {}", options.out.display())?;
    writeln!(out, "parameters     {}", summary.parameters)?;
    writeln!(out, "steps          {}", summary.steps)?;
    writeln!(out, "tokens         {}", summary.tokens)?;
    writeln!(out, "minutes        {:.1}", summary.minutes)?;
    match (summary.heldout_loss_before, summary.heldout_loss) {
        (Some(before), Some(after)) => {
            writeln!(out, "held-out loss  {after:.4} nats a token, {before:.4} before")
        }
        _ => writeln!(out, "held-out loss  not measured: give --heldout"),
    }
}
