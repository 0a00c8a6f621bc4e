//! `verdigris bench speculation`: measures what drafting costs and gains.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use verdigris::decoding::Acceptance;
use verdigris::{Constraint, Engine, Key, Marking, Message, Reader, Request};

use super::costs::{between, call_costs, expert_cost, source_cost};
use super::fewest::LEVEL;
use super::name_of;
use super::prompts::{self, Prompt};
use crate::constraint::ConstraintOptions;
use crate::demo::secret;
use crate::engine::{DraftSource, EngineOptions};
use crate::error::Failure;
use crate::number::samples;
use crate::progress;
use crate::report::print_json;

/// Measure what drafting costs and gains, and what it should gain
#[derive(Args)]
#[command(after_help = "\
First come the costs, as multiples of a call with one row: v(m), a call of the model with m rows, and c, a drafted \
token of each drafter, all in a text of the mean length. Then texts are written plainly and with drafts, in turn, so \
that other load on the machine affects all of them; the time to the first token does not count. \
The predicted speedup is E / (v(1 + g) + g c), with E tokens and g drafts per call. A file of prompts has one JSON \
object per line: {\"kind\": \"code\", \"prompt\": \"...\"}. Texts without a constraint continue past their end. For \
marked texts the table has the share found at p <= 1e-5 by a reader that knows the constraint, and for texts with a \
constraint the share that is whole.

Examples:
  verdigris bench speculation --draft tale-small
  verdigris bench speculation --model chat.gguf --draft head \\
      --prompts chat.jsonl --chat --temperature 0 --temperature 0.7 --tokens 200")]
pub(crate) struct Speculation {
    #[command(flatten)]
    engine: EngineOptions,
    /// A model or a draft head that drafts, or mtp; may be given several times
    #[arg(long, value_name = "PATH|NAME")]
    draft: Vec<PathBuf>,
    /// The text to continue
    #[arg(long, value_name = "TEXT", default_value = "The captain", conflicts_with = "prompts")]
    prompt: String,
    /// Prompts of several kinds, in JSON Lines
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// Treat prompts as chat messages
    #[arg(long)]
    chat: bool,
    /// Numbers of drafts per call to try, besides the automatic one; may be given several times
    #[arg(long, value_name = "N", default_values_t = [2, 4])]
    draft_tokens: Vec<usize>,
    /// Try each drafter also in the mode in which a seed repeats its text
    #[arg(long)]
    repeatable: bool,
    /// Texts of each kind; with a file of prompts, at most its number of that kind
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = samples::<usize>)]
    samples: usize,
    /// Tokens of each text
    #[arg(long, value_name = "N", default_value_t = 300)]
    tokens: usize,
    /// The sampling temperature; may be given several times
    #[arg(long, value_name = "T", default_values_t = [0.8])]
    temperature: Vec<f64>,
    /// The sampling top-p
    #[arg(long, value_name = "P", default_value_t = 0.95)]
    top_p: f64,
    /// Mark each text with its own key
    #[arg(long)]
    mark: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Constraint on the texts")]
    constraint: ConstraintOptions,
}

#[derive(Serialize)]
struct Report {
    /// The number of tokens in the texts in which costs were measured.
    held: usize,
    /// Milliseconds of a call with one row.
    call_ms: f64,
    /// v(1), v(2), ...
    v: Vec<f64>,
    /// The cost of a drafted token, by drafter.
    c: BTreeMap<String, f64>,
    rows: Vec<SpeculationRow>,
}

/// The results of one way of drafting, with one kind of prompt at one temperature.
#[derive(Serialize)]
struct SpeculationRow {
    temperature: f64,
    kind: String,
    drafts: String,
    /// The share of drafts that were accepted.
    accepted: f64,
    tokens_a_call: f64,
    predicted: f64,
    /// The speedup over plain decoding in the same rounds.
    measured: f64,
    tokens_a_second: f64,
    /// The share of texts that match their constraint to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    whole: Option<f64>,
    /// The share of texts whose mark is found.
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<f64>,
}

/// One way of writing texts.
struct DraftingMode<'a> {
    name: String,
    drafter: Option<Drafter<'a>>,
    /// The number of drafts per call; `None` is automatic.
    drafts: Option<usize>,
    repeatable: bool,
}

#[derive(Clone, Copy)]
enum Drafter<'a> {
    Lookup,
    Expert(f64),
    Source(&'a DraftSource, f64),
    BesideLookup(&'a DraftSource, f64),
}

impl DraftingMode<'_> {
    fn of<'r>(&'r self, mut request: Request<'r>) -> Request<'r> {
        request = match self.drafter {
            None => request,
            Some(Drafter::Lookup) => request.lookup(),
            Some(Drafter::Expert(_)) => request.draft_by_expert(),
            Some(Drafter::Source(source, _)) => source.draft(request),
            Some(Drafter::BesideLookup(source, _)) => source.draft(request).lookup(),
        };
        if let Some(drafts) = self.drafts {
            request = request.draft_tokens(drafts);
        }
        if self.repeatable { request.repeatable() } else { request }
    }

    /// The cost of a drafted token.
    fn c(&self) -> f64 {
        match self.drafter {
            Some(Drafter::Expert(c) | Drafter::Source(_, c) | Drafter::BesideLookup(_, c)) => c,
            _ => 0.0,
        }
    }
}

/// The totals over the texts of a way.
#[derive(Clone, Copy, Default)]
struct Sum {
    texts: usize,
    whole: usize,
    found: usize,
    seconds: f64,
    tokens: usize,
    acceptance: Acceptance,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.texts += other.texts;
        self.whole += other.whole;
        self.found += other.found;
        self.seconds += other.seconds;
        self.tokens += other.tokens;
        self.acceptance.calls += other.acceptance.calls;
        self.acceptance.drafted += other.acceptance.drafted;
        self.acceptance.accepted += other.acceptance.accepted;
    }

    fn speed(&self) -> f64 {
        self.tokens as f64 / self.seconds
    }

    /// A share of the texts.
    fn share(&self, count: usize) -> f64 {
        count as f64 / self.texts as f64
    }
}

/// The engine that writes texts, and the reader that judges them.
struct Desk {
    engine: Engine,
    constraint: Option<Constraint>,
    reader: Reader,
}

impl Speculation {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if self.samples == 0 || self.tokens < 2 {
            return Err(Failure::Usage("--samples must be at least 1, and --tokens at least 2".into()));
        }
        let prompts = self.asked()?;
        let (engine, grammar) = (self.engine.engine()?, self.constraint.grammar()?);
        let held = self.mean_length(&engine, &prompts)?;
        let (call, v) = call_costs(engine.model(), held)?;
        let constraint = grammar.clone().map(|grammar| engine.constraint(grammar));
        let reader = engine.reader().clone();
        let reader = grammar.map_or(reader.clone(), |grammar| reader.of_grammar(grammar));
        let expert =
            engine.drafting_expert().map(|expert| expert_cost(expert, held)).transpose()?.map(|seconds| seconds / call);
        let desk = Desk { engine, constraint, reader };
        let mut drafters = Vec::new();
        for path in &self.draft {
            let name = name_of(path);
            let source = self.engine.drafter(path)?;
            let c = source_cost(&source, desk.engine.model(), held)? / call;
            drafters.push((name, source, c));
        }
        let ways = self.ways(&drafters, expert);
        let texts = self.temperature.len() * prompts.len() * ways.len();
        let bar = progress::of_texts(texts as u64);
        let mut sums: BTreeMap<(usize, String), Vec<Sum>> = BTreeMap::new();
        for (at, &temperature) in self.temperature.iter().enumerate() {
            for (seed, prompt) in (0..).zip(&prompts) {
                let of_prompt =
                    sums.entry((at, prompt.kind.clone())).or_insert_with(|| vec![Sum::default(); ways.len()]);
                for (way, sum) in ways.iter().zip(of_prompt) {
                    sum.add(self.write(&desk, way, prompt, temperature, seed)?);
                    bar.inc(1);
                }
            }
        }
        bar.finish_and_clear();
        self.add_totals(&mut sums, ways.len());
        let mut rows = Vec::new();
        for ((at, kind), of_kind) in &sums {
            for (way, sum) in ways.iter().zip(of_kind) {
                let Acceptance { calls, drafted, accepted } = sum.acceptance;
                let tokens_a_call = if calls == 0 { 1.0 } else { sum.tokens as f64 / calls as f64 };
                let drafts_a_call = drafted as f64 / calls.max(1) as f64;
                rows.push(SpeculationRow {
                    temperature: self.temperature[*at],
                    kind: kind.clone(),
                    drafts: way.name.clone(),
                    accepted: accepted as f64 / drafted.max(1) as f64,
                    tokens_a_call,
                    predicted: tokens_a_call / (between(&v, drafts_a_call) + drafts_a_call * way.c()),
                    measured: sum.speed() / of_kind[0].speed(),
                    tokens_a_second: sum.speed(),
                    whole: desk.constraint.is_some().then(|| sum.share(sum.whole)),
                    found: self.mark.then(|| sum.share(sum.found)),
                });
            }
        }
        let heads = drafters.iter().map(|(name, _, c)| (name.clone(), *c));
        let c = heads.chain(expert.map(|c| ("expert".to_owned(), c))).collect();
        self.report(&Report { held, call_ms: 1e3 * call, v, c, rows })
    }

    /// The prompts, at most `samples` of each kind.
    fn asked(&self) -> Result<Vec<Prompt>, Failure> {
        let Some(path) = &self.prompts else {
            let one = Prompt { kind: String::new(), prompt: self.prompt.clone() };
            return Ok(vec![one; self.samples]);
        };
        let mut counts = BTreeMap::new();
        let mut prompts = prompts::read(path)?;
        prompts.retain(|prompt| {
            let count = counts.entry(prompt.kind.clone()).or_insert(0);
            *count += 1;
            *count <= self.samples
        });
        Ok(prompts)
    }

    /// A prompt as the engine takes it.
    fn prompt_of(&self, Prompt { prompt, .. }: &Prompt) -> verdigris::Prompt {
        match self.chat {
            true => vec![Message::user(prompt)].into(),
            false => prompt.into(),
        }
    }

    /// The mean length of texts while they are written, prompts included.
    fn mean_length(&self, engine: &Engine, prompts: &[Prompt]) -> Result<usize, Failure> {
        let mut tokens = 0;
        for prompt in prompts {
            tokens += engine.prompt_tokens(&self.prompt_of(prompt))?.len();
        }
        Ok(tokens / prompts.len().max(1) + self.tokens / 2)
    }

    /// The ways to compare, plain decoding first.
    fn ways<'a>(&self, drafters: &'a [(String, DraftSource, f64)], expert: Option<f64>) -> Vec<DraftingMode<'a>> {
        let way =
            |name: &str, drafter, drafts| DraftingMode { name: name.to_owned(), drafter, drafts, repeatable: false };
        let mut ways = vec![way("none", None, None), way("lookup, automatic", Some(Drafter::Lookup), None)];
        let experts = expert.map(|c| ("expert", Drafter::Expert(c)));
        let sources = drafters.iter().map(|(name, source, c)| (name.as_str(), Drafter::Source(source, *c)));
        for (name, drafter) in experts.into_iter().chain(sources) {
            let drafter = Some(drafter);
            ways.extend(self.draft_tokens.iter().map(|&n| way(&format!("{name}, {n}"), drafter, Some(n))));
            ways.push(way(&format!("{name}, automatic"), drafter, None));
            if let Some(Drafter::Source(source, c)) = drafter {
                ways.push(way(&format!("{name} and lookup, automatic"), Some(Drafter::BesideLookup(source, c)), None));
            }
            if let (Some(&n), true) = (self.draft_tokens.last(), self.repeatable) {
                ways.push(DraftingMode {
                    repeatable: true,
                    ..way(&format!("{name}, {n}, repeatable"), drafter, Some(n))
                });
            }
        }
        ways
    }

    fn write(
        &self,
        desk: &Desk,
        way: &DraftingMode<'_>,
        prompt: &Prompt,
        temperature: f64,
        seed: u64,
    ) -> Result<Sum, Failure> {
        let Desk { engine, constraint, reader } = desk;
        let request = engine.request("").prompt(self.prompt_of(prompt));
        let key = Key::from_secret(secret(1, seed as u32), "bench", Marking::lists(), reader.vocabulary())?;
        let request = if self.mark { request.watermark(&key) } else { request };
        let request = match constraint {
            Some(constraint) => request.constraint(constraint),
            None => request.through_end(),
        };
        let request = request.max_tokens(self.tokens).seed(seed);
        let request = way.of(request.temperature(temperature).top_p(self.top_p));
        // Reading the prompt does not count: time begins with the first token.
        let mut begun = None;
        let written = request.stream(|_| {
            begun.get_or_insert_with(Instant::now);
            ControlFlow::Continue(())
        })?;
        let seconds = begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
        let (tokens, mut acceptance) = (written.tokens.len().saturating_sub(1), written.acceptance.unwrap_or_default());
        acceptance.calls = acceptance.calls.saturating_sub(1);
        let found = self.mark && reader.detect(&key, written.text.as_bytes())?.ln_p <= LEVEL.ln();
        let (whole, found) = (usize::from(written.complete == Some(true)), usize::from(found));
        Ok(Sum { texts: 1, whole, found, seconds, tokens, acceptance })
    }

    /// Adds totals over all kinds of prompts, if there are several.
    fn add_totals(&self, sums: &mut BTreeMap<(usize, String), Vec<Sum>>, ways: usize) {
        for at in 0..self.temperature.len() {
            let of_temperature: Vec<_> =
                sums.iter().filter(|((of, _), _)| *of == at).map(|(_, all)| all.clone()).collect();
            if of_temperature.len() < 2 {
                continue;
            }
            let mut total = vec![Sum::default(); ways];
            of_temperature.iter().for_each(|all| total.iter_mut().zip(all).for_each(|(total, sum)| total.add(*sum)));
            sums.insert((at, "all".into()), total);
        }
    }

    fn report(&self, report: &Report) -> Result<ExitCode, Failure> {
        if self.json {
            return print_json(report);
        }
        let mut out = anstream::stdout();
        writeln!(out, "a call with one row takes {:.3} ms after {} tokens", report.call_ms, report.held)?;
        for (name, c) in &report.c {
            writeln!(out, "a token drafted by {name} costs c = {c:.2}")?;
        }
        let shown = [1, 2, 3, 4, 5, 6, 8, 12, 16].map(|m| (m, report.v[m - 1]));
        let numbers: Vec<String> = shown.iter().map(|(m, _)| m.to_string()).collect();
        writeln!(out, "\n| rows m | {} |\n|---|{}", numbers.join(" | "), "--:|".repeat(shown.len()))?;
        let costs: Vec<String> = shown.iter().map(|(_, v)| format!("{v:.2}")).collect();
        writeln!(out, "| v(m) | {} |", costs.join(" | "))?;
        for rows in report.rows.chunk_by(|a, b| (a.temperature, &a.kind) == (b.temperature, &b.kind)) {
            let (temperature, kind) = (rows[0].temperature, &rows[0].kind);
            let kind = if kind.is_empty() { String::new() } else { format!("{kind}, ") };
            writeln!(out, "\n{kind}temperature {temperature}\n")?;
            write!(out, "| drafts a call | accepted | tokens a call | predicted | measured | tokens/s |")?;
            let more = [("whole", rows[0].whole), ("found", rows[0].found)];
            let more: Vec<&str> = more.iter().filter_map(|(name, share)| share.map(|_| *name)).collect();
            more.iter().try_for_each(|name| write!(out, " {name} |"))?;
            writeln!(out, "\n|---|{}", "--:|".repeat(5 + more.len()))?;
            for row in rows {
                let (accepted, tokens) = (100.0 * row.accepted, row.tokens_a_call);
                write!(out, "| {} | {accepted:.0} % | {tokens:.2} | {:.2} |", row.drafts, row.predicted)?;
                write!(out, " {:.2} | {:.1} |", row.measured, row.tokens_a_second)?;
                [row.whole, row.found].into_iter().flatten().try_for_each(|share| write!(out, " {share:.2} |"))?;
                writeln!(out)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
