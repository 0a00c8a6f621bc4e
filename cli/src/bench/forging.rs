//! `verdigris bench forging`: measures how many answers an attacker needs to forge a mark.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use verdigris::logits::TokenId;
use verdigris::{Engine, Key, Look, Outcome, Request};

use super::marks::{MarkConfig, by_forging, named};
use super::thief::{Forger, Learned};
use crate::error::Failure;
use crate::model::ModelOption;
use crate::number::samples;
use crate::progress;
use crate::report::print_json;

/// The biases that the attacker tries for a score of 1.
const STRENGTHS: [f32; 3] = [1.0, 2.0, 4.0];

/// Texts that are written between two steps of the progress bar.
const TOGETHER: usize = 256;

/// Measure how many answers an attacker needs to forge a mark
#[derive(Args)]
#[command(after_help = "\
The attacker has equal numbers of marked and unmarked answers, learns from them which tokens the key favours after \
which tokens (Jovanovic, Staab, Vechev, Watermark stealing in large language models, ICML 2024), and writes texts with \
the unmarked model and a bias to those. Of three strengths of the bias the one with most texts that pass as genuine is \
shown. Genuine: forged texts that are judged as marked. Forged: those whose verdict is that they are forged. Nats: the \
mean of -ln p per token of a forged text, to the unmarked model.

Example:
  verdigris bench forging --answers 1000 --variants 1,8")]
pub(crate) struct Forging {
    #[command(flatten)]
    model: ModelOption,
    /// The prompt of all answers and forged texts
    #[arg(long, value_name = "TEXT", default_value = "")]
    prompt: String,
    /// Numbers of answers that the attacker has
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1000,10000,30000")]
    answers: Vec<usize>,
    /// The maximum number of tokens of an answer
    #[arg(long, value_name = "N", default_value_t = 100)]
    answer_tokens: usize,
    /// Numbers of variants of the key
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1,4,8")]
    variants: Vec<u8>,
    /// Forged texts for each strength
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = samples::<usize>)]
    samples: usize,
    /// Tokens of a forged text
    #[arg(long, value_name = "N", default_value_t = 200)]
    tokens: usize,
    /// Only rows with this in their name; may be given several times
    #[arg(long, value_name = "WORD")]
    only: Vec<String>,
    /// The seed of all texts and keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object per row
    #[arg(long)]
    json: bool,
}

/// The best result of an attacker.
#[derive(Serialize)]
struct ForgingRow<'w> {
    marked: &'w str,
    variants: u8,
    answers: usize,
    #[serde(flatten)]
    best: Try,
}

/// The result of one strength of the bias.
#[derive(Serialize)]
struct Try {
    strength: f32,
    /// The shares of texts with these verdicts.
    genuine: f64,
    forged: f64,
    nats_a_token: f64,
}

impl Forging {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let Some(&most) = self.answers.iter().max().filter(|_| !self.variants.is_empty()) else {
            return Err(Failure::Usage("--answers and --variants need a number".into()));
        };
        let ways = self.variants.iter().map(|&variants| Ok((variants, named(by_forging(variants), &self.only)?)));
        let ways: Vec<(u8, Vec<MarkConfig>)> = ways.collect::<Result<_, Failure>>()?;
        let engine = self.model.engine(None, &verdigris::Device::Cpu)?;
        let rows = ways.iter().map(|(_, ways)| ways.len()).sum::<usize>();
        let forged = rows * self.answers.len() * STRENGTHS.len() * self.samples;
        let bar = progress::of_texts((most * (rows + 1) + forged) as u64);
        let mut out = anstream::stdout();
        if !self.json {
            writeln!(
                out,
                "answers of at most {} tokens; {} forged texts of {} tokens\n",
                self.answer_tokens, self.samples, self.tokens
            )?;
            writeln!(out, "| marked with | variants | answers | strength | genuine | forged | nats a token |")?;
            writeln!(out, "|---|--:|--:|--:|--:|--:|--:|")?;
        }
        let plain = self.texts(&engine, None, most, &bar)?;
        for at in 0..ways[0].1.len() {
            for (variants, ways) in &ways {
                let way = &ways[at];
                let key = way.key(&engine, self.seed, at as u32)?;
                let marked = self.texts(&engine, Some(&key), most, &bar)?;
                for &answers in &self.answers {
                    let learned = Arc::new(Learned::new(&marked[..answers], &plain[..answers]));
                    let tries = STRENGTHS.map(|strength| self.forge(&engine, &key, answers, &learned, strength));
                    let tries = tries.into_iter().collect::<Result<Vec<_>, _>>()?;
                    let best = tries.into_iter().max_by(|a, b| a.genuine.total_cmp(&b.genuine)).expect("strengths");
                    let best = ForgingRow { marked: way.name, variants: *variants, answers, best };
                    bar.inc((STRENGTHS.len() * self.samples) as u64);
                    bar.suspend(|| self.print(&mut out, &best))?;
                }
            }
        }
        bar.finish_and_clear();
        Ok(ExitCode::SUCCESS)
    }

    /// The tokens of answers.
    fn texts(
        &self,
        engine: &Engine,
        key: Option<&Key>,
        count: usize,
        bar: &indicatif::ProgressBar,
    ) -> Result<Vec<Vec<TokenId>>, Failure> {
        let mut all = Vec::with_capacity(count);
        while all.len() < count {
            // Marked and unmarked answers have different seeds.
            let seed = (self.seed * 2 + u64::from(key.is_some())) << 32 | all.len() as u64;
            let request = engine.request(&*self.prompt).max_tokens(self.answer_tokens).seed(seed);
            let texts = key.into_iter().fold(request, Request::watermark).texts(TOGETHER.min(count - all.len()))?;
            bar.inc(texts.len() as u64);
            all.extend(texts.into_iter().map(|text| text.tokens));
        }
        Ok(all)
    }

    /// Forges texts and has them judged.
    fn forge(
        &self,
        engine: &Engine,
        key: &Key,
        answers: usize,
        learned: &Arc<Learned>,
        strength: f32,
    ) -> Result<Try, Failure> {
        let forger = Forger { learned: learned.clone(), strength };
        let request = engine.request(&*self.prompt).max_tokens(self.tokens).through_end().logprobs(0);
        let texts = request.transform(forger).seed(self.seed << 40 | answers as u64).texts(self.samples)?;
        let (mut genuine, mut forged, mut nats, mut tokens) = (0, 0, 0.0, 0);
        for text in texts {
            tokens += text.tokens.len();
            nats -= text.logprobs.iter().flatten().map(|of| of.chosen.logprob).sum::<f64>();
            let judgement = engine.reader().judge(&[key], &text.text, &Look::default())?;
            genuine += usize::from(judgement.outcome() == Outcome::Marked);
            forged += usize::from(judgement.outcome() == Outcome::Forged);
        }
        let share = |count: usize| count as f64 / self.samples as f64;
        Ok(Try { strength, genuine: share(genuine), forged: share(forged), nats_a_token: nats / tokens as f64 })
    }

    fn print(&self, out: &mut impl Write, row: &ForgingRow<'_>) -> Result<(), Failure> {
        if self.json {
            return print_json(row).map(drop);
        }
        let ForgingRow { marked, variants, answers, best } = row;
        let Try { strength, genuine, forged, nats_a_token } = best;
        let [genuine, forged] = [genuine, forged].map(|share| format!("{:.0} %", 100.0 * share));
        Ok(writeln!(
            out,
            "| {marked} | {variants} | {answers} | {strength} | {genuine} | {forged} | {nats_a_token:.2} |"
        )?)
    }
}
