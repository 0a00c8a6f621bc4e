//! `verdigris bench price`: measures what a mark costs the answers of a model, and how well it is found.

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use verdigris::logits::TokenId;
use verdigris::{Engine, Key, Look, Message, Prompt, Written};

use super::fewest::{LEVEL, STEP, fewest, half};
use super::marks::{MarkConfig, RowOptions};
use super::prompts;
use crate::error::Failure;
use crate::model::{DeviceOption, ModelOption};
use crate::number::samples;
use crate::progress;
use crate::report::print_json;

/// The number of texts that share a key and are written together.
const OF_ONE_KEY: usize = 16;

/// The number of prompts from which several texts are written with one key, to see whether they differ.
const PROMPTS_AGAIN: usize = 10;

/// The number of these texts, and their length in tokens.
const AGAIN: (usize, usize) = (8, 40);

/// Compare what a mark costs a text with the number of tokens that a verdict needs
#[derive(Args)]
#[command(after_help = "\
Nats: the mean of -ln p per token, to the unmarked model. Repeated: the share of 4-grams that occur earlier in the \
text (seq-rep-4). Different: the number of distinct texts among 8 of 40 tokens, from one prompt with one key. Found: \
texts with p <= 1e-5. Of long ones: the same of texts of the maximum length. Half found at: the number of tokens after \
which half of all texts are found. A file of prompts \
has one JSON object per line: {\"prompt\": \"...\"}.

Examples:
  verdigris bench price --samples 20
  verdigris bench price --model chat.gguf --prompts chat.jsonl --chat")]
pub(crate) struct Price {
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    device: DeviceOption,
    /// The text to continue
    #[arg(long, value_name = "TEXT", default_value = "The captain", conflicts_with = "prompts")]
    prompt: String,
    /// Prompts in JSON Lines
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// Treat prompts as chat messages
    #[arg(long)]
    chat: bool,
    /// Texts of each row; prompts are used in turn
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = samples::<usize>)]
    samples: usize,
    /// Maximum number of tokens of a text
    #[arg(long, value_name = "N", default_value_t = 200)]
    tokens: usize,
    #[command(flatten)]
    rows: RowOptions,
}

/// The results of one way of marking.
#[derive(Serialize)]
struct PriceRow<'w> {
    marked: &'w str,
    /// The mean length of a text.
    tokens: f64,
    nats_a_token: f64,
    /// The standard error of the mean over texts.
    error: f64,
    repeated: f64,
    different: f64,
    /// The share of texts that are found; `None` without a mark.
    found: Option<f64>,
    /// The same of texts of the maximum length; `None` if there are none.
    found_of_long: Option<f64>,
    /// The number of tokens after which half of all texts are found; `None` if fewer are found.
    half_found_at: Option<usize>,
}

impl Price {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if self.samples == 0 || self.tokens == 0 {
            return Err(Failure::Usage("--samples and --tokens must be at least 1".into()));
        }
        let prompts = self.asked()?;
        let ways = self.rows.ways()?;
        let engine = self.model.engine(None, &self.device.device()?)?;
        // Requests that fail do so before anything is printed.
        for way in std::iter::once(None).chain(ways.iter().map(Some)) {
            let key = way.map(|way| way.key(&engine, self.rows.seed, 0)).transpose()?;
            self.write(&engine, way, key.as_ref(), 1, 0, prompts.first().cloned())?;
        }
        let bar = progress::of_texts((self.samples * (ways.len() + 1)) as u64);
        let mut out = anstream::stdout();
        if !self.rows.json {
            writeln!(
                out,
                "temperature {}, top-p {}, {} texts each, at most {} tokens\n",
                self.rows.temperature, self.rows.top_p, self.samples, self.tokens
            )?;
            writeln!(
                out,
                "| marked with | tokens | nats a token | repeated | different | found | of long ones | half found at |"
            )?;
            writeln!(out, "|---|--:|--:|--:|--:|--:|--:|--:|")?;
        }
        for way in std::iter::once(None).chain(ways.iter().map(Some)) {
            let row = self.measure(&engine, &prompts, way, &bar)?;
            bar.suspend(|| self.print(&mut out, &row))?;
        }
        bar.finish_and_clear();
        Ok(ExitCode::SUCCESS)
    }

    fn asked(&self) -> Result<Vec<Prompt>, Failure> {
        let texts = match &self.prompts {
            None => vec![self.prompt.clone()],
            Some(path) => prompts::read(path)?.into_iter().map(|line| line.prompt).collect(),
        };
        Ok(texts
            .into_iter()
            .map(|text| if self.chat { vec![Message::user(text)].into() } else { Prompt::Text(text) })
            .collect())
    }

    fn measure<'w>(
        &self,
        engine: &Engine,
        prompts: &[Prompt],
        way: Option<&'w MarkConfig>,
        bar: &indicatif::ProgressBar,
    ) -> Result<PriceRow<'w>, Failure> {
        let (mut nats, mut lengths, mut repeated, mut fewest) = (Vec::new(), 0, Vec::new(), Vec::new());
        let mut long = Vec::new();
        let all: Vec<usize> = (0..self.samples).collect();
        for (group, samples) in all.chunks(OF_ONE_KEY).enumerate() {
            let key = way.map(|way| way.key(engine, self.rows.seed, group as u32)).transpose()?;
            let asked = samples.iter().map(|&i| prompts[i % prompts.len()].clone());
            let texts = self.write(engine, way, key.as_ref(), self.tokens, samples[0] as u64, asked)?;
            for text in &texts {
                bar.inc(1);
                lengths += text.tokens.len();
                let expected = text.logprobs.iter().flatten().map(|of| -of.chosen.logprob);
                nats.push((expected.sum::<f64>(), text.tokens.len() as f64));
                repeated.extend(seq_rep_4(&text.tokens));
                if let Some(key) = &key {
                    fewest.push(fewest_tokens(engine, key, &text.text)?);
                    if text.tokens.len() == self.tokens {
                        long.push(fewest.last().is_some_and(Option::is_some));
                    }
                }
            }
        }
        let (nats_a_token, error) = ratio(&nats);
        let found = fewest.iter().flatten().count();
        Ok(PriceRow {
            marked: way.map_or("nothing", |way| way.name),
            tokens: lengths as f64 / self.samples as f64,
            nats_a_token,
            error,
            repeated: repeated.iter().sum::<f64>() / repeated.len().max(1) as f64,
            different: self.different(engine, prompts, way)?,
            found: way.map(|_| found as f64 / self.samples as f64),
            found_of_long: share(&long),
            half_found_at: half(fewest),
        })
    }

    /// The mean number of distinct texts among several from one prompt, with one key.
    fn different(&self, engine: &Engine, prompts: &[Prompt], way: Option<&MarkConfig>) -> Result<f64, Failure> {
        let key = way.map(|way| way.key(engine, self.rows.seed, 0)).transpose()?;
        let (copies, tokens) = AGAIN;
        let again = &prompts[..prompts.len().min(PROMPTS_AGAIN)];
        let mut different = 0;
        for prompt in again {
            let texts = self.write(engine, way, key.as_ref(), tokens, 0, vec![prompt.clone(); copies])?;
            different += texts.iter().map(|text| &text.tokens).collect::<HashSet<_>>().len();
        }
        Ok(different as f64 / again.len() as f64)
    }

    /// Writes texts together.
    fn write(
        &self,
        engine: &Engine,
        way: Option<&MarkConfig>,
        key: Option<&Key>,
        tokens: usize,
        seed: u64,
        prompts: impl IntoIterator<Item = Prompt>,
    ) -> Result<Vec<Written>, Failure> {
        let request = self.rows.request(engine, way, key).max_tokens(tokens).seed(self.rows.seed << 32 | seed);
        Ok(request.prompts(prompts)?)
    }

    fn print(&self, out: &mut impl Write, row: &PriceRow<'_>) -> Result<(), Failure> {
        if self.rows.json {
            return print_json(row).map(drop);
        }
        let PriceRow { marked, tokens, nats_a_token, error, repeated, different, found, found_of_long, half_found_at } =
            row;
        let [found, of_long] =
            [found, found_of_long].map(|found| found.map_or(String::new(), |found| format!("{:.0} %", 100.0 * found)));
        let half = match (half_found_at, found.is_empty()) {
            (Some(tokens), _) => tokens.to_string(),
            (None, true) => String::new(),
            (None, false) => "never".into(),
        };
        Ok(writeln!(
            out,
            "| {marked} | {tokens:.0} | {nats_a_token:.2} ± {error:.2} | {:.1} % | {different:.1} | {found} | {of_long} \
             | {half} |",
            100.0 * repeated
        )?)
    }
}

/// The fewest tokens after which a text is found; `None` if all are not enough.
fn fewest_tokens(engine: &Engine, key: &Key, text: &str) -> Result<Option<usize>, Failure> {
    let tokens = engine.reader().tokenizer().encode(text).map_err(verdigris::Error::from)?;
    fewest((STEP..tokens.len()).step_by(STEP).chain([tokens.len()]), |length| {
        Ok(engine.reader().judge_tokens(&[key], &tokens[..length], &Look::default())?.evidence.ln_p_corrected()
            <= LEVEL.ln())
    })
}

/// The share of a text's 4-grams that occur earlier in it (Welleck et al., *Neural Text Generation with Unlikelihood
/// Training*, 2020, section 6: seq-rep-4); `None` for fewer than four tokens.
fn seq_rep_4(tokens: &[TokenId]) -> Option<f64> {
    let all = tokens.len().checked_sub(3).filter(|&all| all > 0)?;
    let different = tokens.windows(4).collect::<HashSet<_>>().len();
    Some(1.0 - different as f64 / all as f64)
}

/// The share of those that are true; `None` without any.
fn share(all: &[bool]) -> Option<f64> {
    (!all.is_empty()).then(|| all.iter().filter(|&&is| is).count() as f64 / all.len() as f64)
}

/// The total of the sums over the total of the counts, and its standard error if the pairs are independent.
fn ratio(pairs: &[(f64, f64)]) -> (f64, f64) {
    let (sum, count) = pairs.iter().fold((0.0, 0.0), |(sum, count), pair| (sum + pair.0, count + pair.1));
    let (mean, n) = (sum / count, pairs.len() as f64);
    let variance = pairs.iter().map(|(sum, count)| (sum - mean * count).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, (variance * n).sqrt() / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_counted_after_their_first_time() {
        assert_eq!(seq_rep_4(&[1, 2, 3]), None);
        assert_eq!(seq_rep_4(&[1, 2, 3, 4]), Some(0.0));
        // 1234 2341 3412 4123 1234: one of five.
        assert_eq!(seq_rep_4(&[1, 2, 3, 4, 1, 2, 3, 4]), Some(1.0 - 4.0 / 5.0));
        assert_eq!(seq_rep_4(&[7; 104]), Some(1.0 - 1.0 / 101.0));
    }

    #[test]
    fn a_mean_of_texts_counts_tokens() {
        let (mean, error) = ratio(&[(2.0, 1.0), (3.0, 3.0), (1.0, 2.0)]);
        assert_eq!(mean, 1.0);
        // Residuals 1, 0, -1: variance 1, times 3, over 6 tokens.
        assert!((error - 3f64.sqrt() / 6.0).abs() < 1e-12, "{error}");
    }
}
