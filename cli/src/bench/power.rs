//! `verdigris bench power`: measures how many tokens a verdict needs, and what the mark costs the text.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use verdigris::logits::TokenId;
use verdigris::watermark::Detector;
use verdigris::watermark::ScoreDistribution;
use verdigris::watermark::weighted::{self, Bias, Surprise, Weighting};
use verdigris::{Constraint, Engine, Evidence, Key, Mark, Repeats};

use super::fewest::{LEVEL, STEP, fewest, half};
use super::marks::{MarkConfig, by_power};
use crate::constraint::ConstraintOptions;
use crate::error::Failure;
use crate::model::{DeviceOption, ModelOption};
use crate::number::samples;
use crate::progress;

/// Count the tokens that a verdict needs, by scheme and strength
#[derive(Args)]
#[command(after_help = "\
Each text has its own seed and key, and is judged from its text, tokenized again, at each length. The cost is the \
difference in mean surprise between the marked and the plain texts of the same seeds, to the model that wrote them. \
'weighed' rows judge the same texts with the help of the model. With a constraint, more rows judge them with the \
constraint known, with the model, and with both.

Examples:
  verdigris bench power
  verdigris bench power --temperature 0.5 --only min    texts of low entropy
  verdigris bench power --json-schema crew.json     with the schema known")]
pub(crate) struct Power {
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    device: DeviceOption,
    /// Texts of each way
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = samples::<u32>)]
    samples: u32,
    /// Lengths at which texts are judged, in tokens; texts of the longest are written
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "25,50,100,200,400")]
    tokens: Vec<usize>,
    /// The sampling temperature
    #[arg(long, value_name = "T", default_value_t = 1.0)]
    temperature: f64,
    /// Only rows with this in their name
    #[arg(long, value_name = "WORD", default_value = "", hide_default_value = true)]
    only: String,
    /// The seed of all texts and keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    // A group with a heading comes last, because the heading applies to all options after it.
    #[command(flatten, next_help_heading = "Constraint on the texts")]
    constraint: ConstraintOptions,
}

/// The results of one way of judging one way of marking.
struct PowerRow {
    name: String,
    /// Texts found at each length.
    found: Vec<u32>,
    /// The fewest tokens at which each text is found; `None` if all are not enough.
    fewest: Vec<Option<usize>>,
}

/// The score distribution of a scheme, the marks of a text's tokens, and what the model expected at each.
type Seen = (ScoreDistribution, Vec<Mark>, Vec<Surprise>);

impl Power {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let Some(&longest) = self.tokens.iter().max().filter(|_| self.samples > 0) else {
            return Err(Failure::Usage("--samples and --tokens must be at least 1".into()));
        };
        let engine = self.model.engine(None, &self.device.device()?)?;
        let ways: Vec<_> = by_power().into_iter().filter(|way| way.name.contains(&self.only)).collect();
        if ways.is_empty() {
            return Err(Failure::Usage(format!("no row has {:?} in its name", self.only)));
        }
        let constraint = self.constraint.grammar()?.map(|grammar| engine.constraint(grammar));
        let bar = progress::of_texts(u64::from(self.samples) * (ways.len() as u64 + 1));
        let plain = self.texts(&engine, longest, constraint.as_ref(), |_| Ok(None), &bar)?;
        let plain_nats = nats(&engine, &plain)?;
        let mut out = anstream::stdout();
        write!(out, "share of texts with p <= {LEVEL:e} by number of tokens; temperature {}; ", self.temperature)?;
        writeln!(out, "{} texts each; plain texts: {plain_nats:.3} nats a token\n", self.samples)?;
        let lengths: Vec<String> = self.tokens.iter().map(|n| format!("{n:>5} |")).collect();
        writeln!(out, "| {:<46} | {} half found at | cost, nats a token |", "marked with", lengths.join(" "))?;
        writeln!(out, "|---|{}--:|--:|", "--:|".repeat(self.tokens.len()))?;
        for way in ways {
            let keys = (0..self.samples).map(|i| way.key(&engine, self.seed, i)).collect::<Result<Vec<_>, _>>()?;
            let texts = self.texts(&engine, longest, constraint.as_ref(), |i| Ok(Some(&keys[i as usize])), &bar)?;
            let cost = nats(&engine, &texts)? - plain_nats;
            let plain = |i: usize, length: usize| -> Result<Evidence, Failure> {
                Ok(engine.reader().evidence(&keys[i], &texts[i][..length], Repeats::Context)?)
            };
            self.print(&mut out, &self.judge(way.name.to_owned(), &texts, plain)?, Some(cost))?;
            if let Some(constraint) = &constraint {
                self.knowing(&mut out, &engine, constraint, &way, &keys, &texts)?;
                continue;
            }
            if !way.name.contains("native min 4, .25") {
                continue;
            }
            // The bias after division by the temperature.
            let delta = way.delta / self.temperature;
            let seen = keys.iter().zip(&texts).map(|(key, text)| self.see(&engine, key, text, delta, None));
            let seen = seen.collect::<Result<Vec<_>, _>>()?;
            for (name, weighting) in [
                ("SWEET", Weighting::Sweet(0.9)),
                ("EWD", Weighting::Ewd),
                ("likelihood ratio", Weighting::LikelihoodRatio { delta }),
            ] {
                let weighed = |i: usize, length: usize| -> Result<Evidence, Failure> {
                    let (distribution, marks, surprises) = &seen[i];
                    Ok(weighted::evidence(distribution, &marks[..length], &surprises[..length], weighting)
                        .expect("colours"))
                };
                self.print(&mut out, &self.judge(format!("  the same, weighed by {name}"), &texts, weighed)?, None)?;
            }
        }
        bar.finish_and_clear();
        Ok(ExitCode::SUCCESS)
    }

    /// Writes texts, and returns their tokens as a reader gets them.
    fn texts<'k>(
        &self,
        engine: &Engine,
        tokens: usize,
        constraint: Option<&Constraint>,
        key: impl Fn(u32) -> Result<Option<&'k Key>, Failure>,
        bar: &indicatif::ProgressBar,
    ) -> Result<Vec<Vec<TokenId>>, Failure> {
        (0..self.samples)
            .map(|i| {
                let seed = self.seed << 32 | u64::from(i);
                // A few more, since tokenizing the text again can merge tokens.
                let request = engine.request("").max_tokens(tokens.saturating_add(tokens / 10)).seed(seed);
                let request = match constraint {
                    Some(constraint) => request.constraint(constraint),
                    None => request.through_end(),
                };
                let request = request.temperature(self.temperature).top_p(1.0);
                let text = match key(i)? {
                    Some(key) => request.watermark(key).text()?.text,
                    None => request.text()?.text,
                };
                bar.inc(1);
                let mut tokens_of_text = engine.reader().tokenizer().encode(&text).map_err(verdigris::Error::from)?;
                tokens_of_text.truncate(tokens);
                Ok(tokens_of_text)
            })
            .collect()
    }

    /// The marks of a text's tokens under a key, and what the model expected.
    fn see(
        &self,
        engine: &Engine,
        key: &Key,
        text: &[TokenId],
        delta: f64,
        constraint: Option<&Constraint>,
    ) -> Result<Seen, Failure> {
        let mut detector = Detector::new(engine.reader().scheme(key)?);
        let marks = match constraint {
            Some(constraint) => detector.push_choices(text, &choices(constraint, text)?).to_vec(),
            None => detector.push(text).to_vec(),
        };
        let gamma = key.dialect().gamma().expect("a way with colours");
        let surprises = engine.surprises(text, self.temperature, Bias { gamma, delta }, constraint)?;
        Ok((detector.distribution().clone(), marks, surprises))
    }

    /// Prints the rows of readers that know the constraint on the texts.
    fn knowing(
        &self,
        out: &mut impl Write,
        engine: &Engine,
        constraint: &Constraint,
        way: &MarkConfig,
        keys: &[Key],
        texts: &[Vec<TokenId>],
    ) -> Result<(), Failure> {
        let free = texts.iter().map(|text| choices(constraint, text)).collect::<Result<Vec<_>, _>>()?;
        let counted = |i: usize, length: usize| -> Result<Evidence, Failure> {
            let mut detector = Detector::new(engine.reader().scheme(&keys[i])?);
            detector.push_choices(&texts[i][..length], &free[i][..length]);
            Ok(detector.evidence())
        };
        self.print(out, &self.judge("  the same, knowing the constraint".into(), texts, counted)?, None)?;
        if !matches!(engine.reader().scheme(&keys[0])?.distribution(), ScoreDistribution::Green { .. }) {
            return Ok(());
        }
        let delta = way.delta / self.temperature;
        let see = |constraint| -> Result<Vec<Seen>, Failure> {
            keys.iter().zip(texts).map(|(key, text)| self.see(engine, key, text, delta, constraint)).collect()
        };
        let (without, with) = (see(None)?, see(Some(constraint))?);
        let by_ways = |i: usize, length: usize| -> Result<Evidence, Failure> {
            let (distribution, marks, _) = &with[i];
            Ok(weighted::evidence_of_ways(distribution, &marks[..length], &free[i], delta).expect("colours"))
        };
        self.print(out, &self.judge("  the constraint, by the number of ways".into(), texts, by_ways)?, None)?;
        for (name, seen) in [("  the model alone", without), ("  the constraint and the model", with)] {
            let weighed = |i: usize, length: usize| -> Result<Evidence, Failure> {
                let (distribution, marks, surprises) = &seen[i];
                let weighting = Weighting::LikelihoodRatio { delta };
                Ok(weighted::evidence(distribution, &marks[..length], &surprises[..length], weighting)
                    .expect("colours"))
            };
            self.print(out, &self.judge(name.into(), texts, weighed)?, None)?;
        }
        Ok(())
    }

    fn judge(
        &self,
        name: String,
        texts: &[Vec<TokenId>],
        look: impl Fn(usize, usize) -> Result<Evidence, Failure>,
    ) -> Result<PowerRow, Failure> {
        let is_found = |i: usize, length: usize| -> Result<bool, Failure> { Ok(look(i, length)?.ln_p <= LEVEL.ln()) };
        let mut row = PowerRow { name, found: vec![0; self.tokens.len()], fewest: Vec::new() };
        for (i, text) in texts.iter().enumerate() {
            for (found, &length) in row.found.iter_mut().zip(&self.tokens) {
                *found += u32::from(is_found(i, length.min(text.len()))?);
            }
            row.fewest.push(fewest((STEP..=text.len()).step_by(STEP), |length| is_found(i, length))?);
        }
        Ok(row)
    }

    fn print(&self, out: &mut impl Write, row: &PowerRow, cost: Option<f64>) -> Result<(), Failure> {
        let n = f64::from(self.samples);
        let shares: Vec<String> = row.found.iter().map(|&found| format!("{:>5.2} |", f64::from(found) / n)).collect();
        let half = half(row.fewest.clone()).map_or("never".into(), |length| length.to_string());
        let cost = cost.map_or(String::new(), |cost| format!("{cost:+.3}"));
        Ok(writeln!(out, "| {:<46} | {} {half:>13} | {cost:>18} |", row.name, shares.join(" "))?)
    }
}

/// The number of choices that the constraint left at each token of a text.
fn choices(constraint: &Constraint, text: &[TokenId]) -> Result<Vec<u32>, Failure> {
    constraint.choices(b"", text).map_err(|departure| Failure::Usage(departure.to_string()))
}

/// The mean surprise of texts to the model.
fn nats(engine: &Engine, texts: &[Vec<TokenId>]) -> Result<f64, Failure> {
    let found = engine.perplexity(texts.iter().map(Vec::as_slice))?;
    Ok(found.nats / found.tokens.max(1) as f64)
}
