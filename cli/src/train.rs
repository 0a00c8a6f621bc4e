//! `verdigris train`: make models.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use verdigris_train::{Options, Progress, Summary, train};

use crate::error::Failure;
use crate::model::ModelOption;

/// Train a model on a text
#[derive(Subcommand)]
pub(crate) enum Train {
    Lm(Lm),
}

/// Train a language model, from a given one or from nothing
#[derive(Args)]
#[command(after_help = "\
The corpus is plain text (or .zst), documents separated by <|endoftext|>. A run that is interrupted goes on
where its last checkpoint was when the same command is given again. The folder it writes is a Hugging Face
model folder.

Examples:
  verdigris train lm --init tale-small --corpus plays.txt --out my-expert --max-minutes 10
  verdigris train lm --corpus letters.txt --heldout other-letters.txt --out letters --steps 2000")]
pub(crate) struct Lm {
    /// The text to train on
    #[arg(long, value_name = "FILE")]
    corpus: PathBuf,
    /// Text that is never trained on, to measure with
    #[arg(long, value_name = "FILE")]
    heldout: Option<PathBuf>,
    /// The model folder to write
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The model folder to go on from [default: fresh weights]
    #[arg(long, value_name = "DIR")]
    init: Option<PathBuf>,
    /// For fresh weights: the model folder whose shape and tokenizer to take [default: the one built in]
    #[arg(long, value_name = "DIR", conflicts_with = "init")]
    shape: Option<PathBuf>,
    /// Steps at most
    #[arg(long, value_name = "N", default_value_t = 1000)]
    steps: u64,
    /// Minutes at most; the learning rate falls to its end by then
    #[arg(long, value_name = "M")]
    max_minutes: Option<f64>,
    /// Windows a step
    #[arg(long, value_name = "N", default_value_t = 4)]
    batch: usize,
    /// Tokens a window
    #[arg(long, value_name = "N", default_value_t = 256)]
    window: usize,
    /// The highest learning rate
    #[arg(long, value_name = "RATE", default_value_t = 1e-3)]
    learning_rate: f64,
    /// Steps over which the learning rate rises to it
    #[arg(long, value_name = "N", default_value_t = 50)]
    warm_up: u64,
    /// Weight decay of matrices
    #[arg(long, value_name = "W", default_value_t = 0.1)]
    weight_decay: f64,
    /// The norm to which gradients are clipped
    #[arg(long, value_name = "NORM", default_value_t = 1.0)]
    clip: f64,
    /// The seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Minutes between checkpoints
    #[arg(long, value_name = "M", default_value_t = 5.0)]
    checkpoint_minutes: f64,
    /// Steps between measurements on the held-out text
    #[arg(long, value_name = "N", default_value_t = 200)]
    heldout_every: u64,
    /// Print the summary as one JSON object
    #[arg(long)]
    json: bool,
}

impl Train {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Lm(lm) => lm.run(),
        }
    }
}

impl Lm {
    fn run(self) -> Result<ExitCode, Failure> {
        let json = self.json;
        let options = self.options()?;
        let bar = ProgressBar::new(1000).with_style(
            ProgressStyle::with_template("{bar:30} {percent:>3} %  {elapsed} of about {duration}  {msg}")
                .expect("a valid template"),
        );
        let summary = train(&options, |progress| {
            bar.set_position((progress.done * 1000.0) as u64);
            bar.set_message(describe(progress));
            true
        })?
        .expect("this run is never stopped early");
        bar.finish_and_clear();
        if json {
            anstream::println!("{}", serde_json::to_string(&summary).expect("a summary serialises"));
        } else {
            print(&options, &summary);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn options(self) -> Result<Options, Failure> {
        Ok(Options {
            corpus: self.corpus,
            heldout: self.heldout,
            out: self.out,
            init: self.init.as_deref().map(crate::model::find).transpose()?,
            shape: ModelOption { model: self.shape }.folder()?,
            steps: self.steps,
            max_minutes: self.max_minutes,
            batch: self.batch,
            window: self.window,
            learning_rate: self.learning_rate,
            warm_up: self.warm_up,
            weight_decay: self.weight_decay,
            max_norm: self.clip,
            seed: self.seed,
            checkpoint_minutes: self.checkpoint_minutes,
            heldout_every: self.heldout_every,
        })
    }
}

fn describe(progress: &Progress) -> String {
    let heldout = progress.heldout_loss.map(|loss| format!(", held out {loss:.3}")).unwrap_or_default();
    format!("step {}, loss {:.3}{heldout}, {:.0} tokens/s", progress.step, progress.loss, progress.tokens_per_second)
}

fn print(options: &Options, summary: &Summary) {
    anstream::println!("model          {}", options.out.display());
    anstream::println!("parameters     {}", summary.parameters);
    anstream::println!("steps          {}", summary.steps);
    anstream::println!("tokens         {}", summary.tokens);
    anstream::println!("minutes        {:.1}", summary.minutes);
    match (summary.heldout_loss_before, summary.heldout_loss) {
        (Some(before), Some(after)) => {
            anstream::println!("held-out loss  {after:.4} nats a token, {before:.4} before");
        }
        _ => anstream::println!("held-out loss  not measured: give --heldout"),
    }
}
