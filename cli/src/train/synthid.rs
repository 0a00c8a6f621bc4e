//! `verdigris train synthid-detector`: trains the Bayesian score of a SynthID key.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use verdigris::Key;
use verdigris::watermark::dialects::synthid::training::{Trained, train};

use crate::detect::{DocumentText, Fields, sources};
use crate::error::Failure;
use crate::model::ModelOption;
use crate::number::whole;
use crate::progress;
use crate::report::print_json;
use crate::run::RunOptions;
use crate::terminal::shown_line;

/// Train the Bayesian score of a SynthID key on texts with its mark
#[derive(Args)]
#[command(after_help = "\
Learns from marked texts how often each layer of the tournament had a choice, and writes a key file with this score: \
detect then weighs the layers by it. Unmarked texts are not needed, since their bits are fair coins. The p-value of the \
score needs no calibration: it is at most the inverse of its likelihood ratio, whatever the texts it was trained on. \
Some of the texts are held out, and the gain is measured on them: the mean of the score over their tokens, in nats.

Examples:
  verdigris key new s.key --dialect synthid --bits hash --hash-key 654,400,837
  verdigris generate \"The captain\" --key s.key --texts 200 --json -o texts.jsonl
  verdigris train synthid-detector texts.jsonl --key s.key -o trained.key")]
pub(crate) struct SynthidDetector {
    /// The texts: files of one text, or JSON Lines with a field `text`; - for standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The key that marks them
    #[arg(short, long, value_name = "FILE")]
    key: PathBuf,
    /// The key file to create; it must not exist. It has the same secret
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    model: ModelOption,
    /// The seed by which texts are held out and ordered
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    run: RunOptions,
}

impl SynthidDetector {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        self.run.begin()?;
        let key = Key::load(&self.key)?;
        let reader = self.model.reader()?;
        reader.fits(&key)?;
        let texts = self.texts(&reader)?;
        let bar = progress::of_training(self.run.quiet);
        let trained = train(&key, &texts, self.seed, |epoch, gain| {
            bar.set_message(format!("epoch {epoch}: {gain:.4} nats a token on held-out texts"));
        });
        bar.finish_and_clear();
        let Trained { key, texts, tokens, gain, epochs } = trained.map_err(|e| Failure::Usage(e.to_string()))?;
        key.save(&self.output)?;
        let file = self.output.display().to_string();
        if self.json {
            return print_json(&json!({
                "format": "verdigris-synthid-detector-1", "key": file, "id": key.id(), "epochs": epochs, "gain": gain,
                "texts": texts[0], "tokens": tokens[0], "held_out_texts": texts[1], "held_out_tokens": tokens[1],
            }));
        }
        let mut out = anstream::stdout();
        let needed = (1e5f64.ln() / gain).ceil();
        writeln!(out, "trained   on {} texts, {} tokens", texts[0], tokens[0])?;
        writeln!(out, "held out  {} texts, {} tokens", texts[1], tokens[1])?;
        writeln!(out, "gain      {gain:.4} nats a token: p <= 1e-5 after about {needed} tokens")?;
        writeln!(out, "{} made: {} ({})", shown_line(&file), shown_line(key.id()), key.describe())?;
        Ok(ExitCode::SUCCESS)
    }

    /// The tokens of all texts.
    fn texts(&self, reader: &verdigris::Reader) -> Result<Vec<Vec<u32>>, Failure> {
        let fields = Fields::default();
        let (sources, _) = sources(&self.files, None, &fields)?;
        let hidden = indicatif::ProgressBar::hidden();
        let mut texts = Vec::new();
        for document in sources.into_iter().flat_map(|source| source.documents(&fields, false, &hidden)) {
            let fault = |why: &dyn std::fmt::Display| Failure::Usage(format!("{}: {why}", document.name));
            match &document.text {
                Ok(DocumentText::Whole(text)) => {
                    texts.push(reader.tokenizer().encode_long(text).map_err(|error| fault(&error))?);
                }
                Ok(DocumentText::Long(_)) => return Err(fault(&"it is too long to train on: give shorter texts")),
                Err(error) => return Err(fault(error)),
            }
        }
        Ok(texts)
    }
}
