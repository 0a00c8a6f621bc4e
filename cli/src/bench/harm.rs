//! `verdigris bench harm`: measures how often a mark makes right answers wrong.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;

use clap::Args;
use serde::Serialize;
use verdigris::schedule::Capacity;
use verdigris::{Engine, Event, Key, Message, Prompt, Request, Service};

use super::marks::{MarkConfig, RowOptions};
use super::questions::{self, Question};
use super::strength;
use crate::error::Failure;
use crate::model::{DeviceOption, ModelOption};
use crate::number::samples;
use crate::progress;
use crate::report::print_json;

/// The number of answers that are written together.
const TOGETHER: usize = 16;

/// The maximum number of tokens of an answer.
const MAX_TOKENS: usize = 48;

/// Compare how many answers are right with a mark and without
#[derive(Args)]
#[command(after_help = "\
Each question is answered once with each key and once without a mark, with the same seeds. Right: the share of right \
answers. Difference: to the share without a mark, in points, with the 95 % interval over questions. Changed: answers \
that differ from the one without a mark. Nats: the mean of -ln p per token, to the unmarked model. A file of questions \
has one JSON object per line, as fixtures/prompts/questions.py describes.

Example:
  verdigris bench harm -m chat.gguf --questions questions.jsonl --keys 2")]
pub(crate) struct Harm {
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    device: DeviceOption,
    /// Questions in JSON Lines
    #[arg(long, value_name = "FILE")]
    questions: PathBuf,
    /// Ask in chat messages; else the prompt is `Question: ...`, and the text after `Answer:` is judged
    #[arg(long)]
    chat: bool,
    /// The number of keys that each question is answered with
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = samples::<u32>)]
    keys: u32,
    #[command(flatten)]
    rows: RowOptions,
}

/// The answers to all questions with one way of marking.
struct Answers {
    texts: Vec<Vec<String>>,
    /// The sum of `-ln p`, and the number of tokens.
    nats: (f64, f64),
}

/// The results of one way of marking.
#[derive(Serialize)]
struct HarmRow<'w> {
    marked: &'w str,
    answers: usize,
    right: f64,
    /// The share of right answers minus the share without a mark, and half its 95 % interval; `None` without a mark.
    difference: Option<(f64, f64)>,
    changed: f64,
    nats_a_token: f64,
    /// The share of right answers by kind of question.
    kinds: BTreeMap<String, f64>,
}

impl Harm {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if self.keys == 0 {
            return Err(Failure::Usage("--keys must be at least 1".into()));
        }
        let questions = questions::read(&self.questions)?;
        let ways = self.rows.ways()?;
        let engine = self.model.engine(None, &self.device.device()?)?;
        let bar = progress::of_texts(questions.len() as u64 * u64::from(self.keys) * (ways.len() as u64 + 1));
        let mut out = anstream::stdout();
        let plain = self.answers(&engine, &questions, None, &bar)?;
        let row = self.row("nothing", &questions, &plain, None);
        if !self.rows.json {
            writeln!(
                out,
                "temperature {}, top-p {}, {} questions, {} keys\n",
                self.rows.temperature,
                self.rows.top_p,
                questions.len(),
                self.keys
            )?;
            write!(out, "| marked with | right | difference | changed | nats a token |")?;
            row.kinds.keys().try_for_each(|kind| write!(out, " {kind} |"))?;
            writeln!(out, "\n|---{}|", "|--:".repeat(4 + row.kinds.len()))?;
        }
        bar.suspend(|| self.print(&mut out, &row))?;
        for way in &ways {
            let answers = self.answers(&engine, &questions, Some(way), &bar)?;
            let row = self.row(way.name, &questions, &answers, Some(&plain));
            bar.suspend(|| self.print(&mut out, &row))?;
        }
        bar.finish_and_clear();
        Ok(ExitCode::SUCCESS)
    }

    /// Answers all questions with each key. The answers to one question are written at the same time, so its prompt is
    /// read once.
    fn answers(
        &self,
        engine: &Engine,
        questions: &[Question],
        way: Option<&MarkConfig>,
        bar: &indicatif::ProgressBar,
    ) -> Result<Answers, Failure> {
        let key = |number| way.map(|way| way.key(engine, self.rows.seed, number)).transpose();
        let keys: Vec<Option<Key>> = (0..self.keys).map(key).collect::<Result<_, _>>()?;
        let capacity = Capacity::of_texts(&**engine.model(), TOGETHER, engine.context_length());
        let service = Service::start(engine, capacity);
        let (sender, ended) = mpsc::channel();
        let mut all = Answers { texts: vec![vec![String::new(); keys.len()]; questions.len()], nats: (0.0, 0.0) };
        let mut left = (0..questions.len()).flat_map(|i| (0..keys.len()).map(move |number| (i, number)));
        let (mut written, mut constraint) = (HashMap::new(), None);
        loop {
            while written.len() < 2 * TOGETHER
                && let Some((i, number)) = left.next()
            {
                if number == 0 {
                    let schema = questions[i].schema.clone();
                    constraint =
                        schema.into_iter().fold(engine.request(""), Request::json_schema).compiled_constraint()?;
                }
                let request = self.request(engine, way, keys[number].as_ref(), &questions[i]);
                let request = request.seed(self.rows.seed << 40 | (number as u64) << 20 | i as u64);
                let request = constraint.iter().fold(request, |request, constraint| request.constraint(constraint));
                let sender = sender.clone();
                let handle = request.submit(&service, move |event| {
                    let sent = match event {
                        Event::End(ending) => sender.send(((i, number), Ok(ending))),
                        Event::Failed(error) => sender.send(((i, number), Err(error))),
                        Event::Begun | Event::Reasoning(_) | Event::Text(_) => Ok(()),
                    };
                    // The receiver is gone if another answer has failed.
                    sent.map_or(ControlFlow::Break(()), |()| ControlFlow::Continue(()))
                })?;
                written.insert((i, number), (request, handle));
            }
            if written.is_empty() {
                return Ok(all);
            }
            let (answer, ending) = ended.recv().expect("this function has a sender");
            let (request, _) = written.remove(&answer).expect("an answer ends once");
            let text = ending?.written(&request)?;
            bar.inc(1);
            all.nats.0 -= text.logprobs.iter().flatten().map(|of| of.chosen.logprob).sum::<f64>();
            all.nats.1 += text.tokens.len() as f64;
            all.texts[answer.0][answer.1] = text.text;
        }
    }

    /// The request of an answer, without its seed and its constraint.
    fn request<'e>(
        &self,
        engine: &'e Engine,
        way: Option<&MarkConfig>,
        key: Option<&'e Key>,
        question: &Question,
    ) -> Request<'e> {
        let prompt = match self.chat {
            true => Prompt::from(vec![Message::user(question.prompt.clone())]),
            false => Prompt::Text(format!("Question: {}\nAnswer:", question.prompt)),
        };
        self.rows.request(engine, way, key).prompt(prompt).max_tokens(MAX_TOKENS)
    }

    fn row<'w>(
        &self,
        marked: &'w str,
        questions: &[Question],
        answers: &Answers,
        plain: Option<&Answers>,
    ) -> HarmRow<'w> {
        let share = |answers: &Answers, i: usize| {
            let right = answers.texts[i].iter().filter(|text| questions[i].is_right(text)).count();
            right as f64 / answers.texts[i].len() as f64
        };
        let rights: Vec<f64> = (0..questions.len()).map(|i| share(answers, i)).collect();
        let mut kinds: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (question, right) in questions.iter().zip(&rights) {
            kinds.entry(question.kind.clone()).or_default().push(*right);
        }
        let changed = |plain: &Answers| {
            let pairs = answers.texts.iter().flatten().zip(plain.texts.iter().flatten());
            pairs.filter(|(text, plain)| text != plain).count() as f64
        };
        let count = answers.texts.iter().map(Vec::len).sum();
        HarmRow {
            marked,
            answers: count,
            right: mean(&rights),
            difference: plain.map(|plain| {
                interval(&rights.iter().enumerate().map(|(i, right)| right - share(plain, i)).collect::<Vec<_>>())
            }),
            changed: plain.map_or(0.0, changed) / count as f64,
            nats_a_token: answers.nats.0 / answers.nats.1,
            kinds: kinds.into_iter().map(|(kind, rights)| (kind, mean(&rights))).collect(),
        }
    }

    fn print(&self, out: &mut impl Write, row: &HarmRow<'_>) -> Result<(), Failure> {
        if self.rows.json {
            return print_json(row).map(drop);
        }
        let HarmRow { marked, right, difference, changed, nats_a_token, kinds, .. } = row;
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let (difference, changed) = match difference {
            None => (String::new(), String::new()),
            Some((mean, half)) => (format!("{:+.1} ± {:.1}", 100.0 * mean, 100.0 * half), percent(*changed)),
        };
        write!(out, "| {marked} | {} | {difference} | {changed} | {nats_a_token:.2} |", percent(*right))?;
        kinds.values().try_for_each(|right| write!(out, " {} |", percent(*right)))?;
        Ok(writeln!(out)?)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The mean of independent values, and half its 95 % interval.
fn interval(values: &[f64]) -> (f64, f64) {
    let (mean, error) = strength::mean(values);
    (mean, 1.96 * error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_its_half_width() {
        let (mean, half) = interval(&[1.0, 0.0, -1.0, 0.0]);
        // Variance 2/3, over four values.
        assert!(mean == 0.0 && (half - 1.96 * (1.0f64 / 6.0).sqrt()).abs() < 1e-12, "{half}");
    }
}
