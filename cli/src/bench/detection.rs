//! `verdigris bench detection`: counts how many marked texts are found.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use verdigris::logits::{Purpose, Random};
use verdigris::watermark::ContextFunction;
use verdigris::{Engine, Evidence, Key};

use crate::choice::OneOf;
use crate::demo::secret;
use crate::error::Failure;
use crate::key::{FUNCTIONS, marking};
use crate::model::{DeviceOption, ModelOption};
use crate::number::{samples, some};
use crate::progress;
use crate::report::print_json;

/// Write many texts, marked and not, and count how many are found
#[derive(Args)]
#[command(after_help = "\
Each sample is a new text with its own seed and key, and is judged with that key whether it was marked or not. The \
same command gives the same table on every machine.

Examples:
  verdigris bench detection --gamma 0.5 --delta 2     table 2 of the KGW paper
  verdigris bench detection --samples 50 --tokens 100 --context all --width 1")]
pub(crate) struct Detection {
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    device: DeviceOption,
    /// Texts of each kind
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = samples::<u64>)]
    samples: u64,
    /// Tokens of each text
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = some::<usize>)]
    tokens: usize,
    /// The share of green tokens
    #[arg(long, default_value_t = 0.25)]
    gamma: f64,
    /// The bias added to the logits of green tokens
    #[arg(long, default_value_t = 2.0)]
    delta: f64,
    /// Write green tokens only
    #[arg(long, conflicts_with = "delta")]
    hard: bool,
    /// The function by which the tokens before a position choose its green list
    #[arg(long, value_parser = OneOf(FUNCTIONS), default_value = "min")]
    context: ContextFunction,
    /// The number of tokens before a position that choose its green list
    #[arg(long, value_name = "H", default_value_t = 4)]
    width: usize,
    /// The sampling temperature
    #[arg(long, value_name = "T", default_value_t = 1.0)]
    temperature: f64,
    /// Delete this share of the words before detection, as an editor might
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    delete_words: f64,
    /// The seed of all texts and keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The results for one kind of text.
#[derive(Serialize)]
struct DetectionRow {
    texts: &'static str,
    samples: usize,
    mean_z: f64,
    least_z: f64,
    most_z: f64,
    z_above_4: usize,
    p_at_most_1e_5: usize,
    mean_green_share: f64,
    median_scored: u64,
}

impl Detection {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if self.samples == 0 {
            return Err(Failure::Usage("--samples is 0, but must be at least 1".into()));
        }
        if !(0.0..1.0).contains(&self.delete_words) {
            let message = format!("--delete-words is {}, but must be at least 0 and below 1", self.delete_words);
            return Err(Failure::Usage(message));
        }
        let marking = marking(self.gamma, self.delta, self.hard, self.context, self.width)?;
        let engine = self.model.engine(None, &self.device.device()?)?;
        if self.tokens >= engine.context_length() {
            let (tokens, context) = (self.tokens, engine.context_length());
            let message = format!("--tokens is {tokens}, but the model's context has {context}: give fewer");
            return Err(Failure::Usage(message));
        }
        let bar = progress::of_texts(2 * self.samples);
        let (mut marked, mut plain) = (Vec::new(), Vec::new());
        for sample in 0..self.samples {
            let vocabulary = engine.reader().vocabulary();
            let key = Key::from_secret(secret(self.seed, sample as u32), "bench", marking, vocabulary)?;
            for (watermark, into) in [(true, &mut marked), (false, &mut plain)] {
                into.push(self.sample(&engine, &key, watermark, sample)?);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let rows = [row("marked", &marked), row("not marked", &plain)];
        if self.json {
            return print_json(&rows);
        }
        let mut out = anstream::stdout();
        writeln!(
            out,
            "gamma {}, delta {}, {} tokens, temperature {}\n",
            self.gamma,
            if self.hard { "hard".into() } else { self.delta.to_string() },
            self.tokens,
            self.temperature
        )?;
        let titles = ["texts", "samples", "mean z", "least z", "most z", "z > 4", "p <= 1e-5", "green", "scored"];
        let [a, b, c, d, e, f, g, h, i] = titles;
        writeln!(out, "| {a:<10} | {b:>7} | {c:>6} | {d:>7} | {e:>6} | {f:>7} | {g:>9} | {h:>6} | {i:>6} |")?;
        writeln!(out, "|---|--:|--:|--:|--:|--:|--:|--:|--:|")?;
        for r in &rows {
            let share = |n: usize| format!("{:.1} %", 100.0 * n as f64 / r.samples as f64);
            writeln!(
                out,
                "| {:<10} | {:>7} | {:>6.2} | {:>7.2} | {:>6.2} | {:>7} | {:>9} | {:>6.3} | {:>6} |",
                r.texts,
                r.samples,
                r.mean_z,
                r.least_z,
                r.most_z,
                share(r.z_above_4),
                share(r.p_at_most_1e_5),
                r.mean_green_share,
                r.median_scored
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn sample(&self, engine: &Engine, key: &Key, watermark: bool, sample: u64) -> Result<Evidence, Failure> {
        let seed = self.seed << 32 | sample;
        let request = engine.request("").max_tokens(self.tokens).through_end();
        let mut request = request.temperature(self.temperature).top_p(1.0).seed(seed);
        if watermark {
            request = request.watermark(key);
        }
        // As a reader would judge it: from the text, tokenized again.
        let text = self.edit(request.text()?.text, seed);
        Ok(engine.reader().detect(key, text.as_bytes())?)
    }

    fn edit(&self, text: String, seed: u64) -> String {
        if self.delete_words == 0.0 {
            return text;
        }
        let random = Random::new(seed);
        let words = text.split(' ').zip(0..);
        let kept = words.filter(|&(_, i)| random.uniform(i, Purpose::Data) >= self.delete_words);
        kept.map(|(word, _)| word).collect::<Vec<_>>().join(" ")
    }
}

fn row(texts: &'static str, evidence: &[Evidence]) -> DetectionRow {
    let n = evidence.len() as f64;
    let z = || evidence.iter().map(|e| e.z);
    let mut scored: Vec<u64> = evidence.iter().map(|e| e.scored).collect();
    scored.sort_unstable();
    DetectionRow {
        texts,
        samples: evidence.len(),
        mean_z: z().sum::<f64>() / n,
        least_z: z().fold(f64::INFINITY, f64::min),
        most_z: z().fold(f64::NEG_INFINITY, f64::max),
        z_above_4: z().filter(|&z| z > 4.0).count(),
        p_at_most_1e_5: evidence.iter().filter(|e| e.ln_p <= 1e-5f64.ln()).count(),
        mean_green_share: evidence.iter().map(|e| e.score / e.scored.max(1) as f64).sum::<f64>() / n,
        median_scored: scored[scored.len() / 2],
    }
}
