//! Writes texts, and reports on them.

use std::collections::HashSet;
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use serde::Serialize;
use verdigris::label::{Label, LabelMetadata};
use verdigris::watermark::scheme::Stage;
use verdigris::{
    BestOf, Event, Evidence, Hypothesis, Key, Logprob, PromptCache, Request, Reward, Section, Stop, TokenLogprobs,
    Written,
};

use crate::error::Failure;
use crate::generate::Generate;
use crate::generate::context::WritingContext;
use crate::generate::explain::{self, ExplainedFields};
use crate::generate::labels::Labels;
use crate::generate::log::Log;
use crate::generate::manifest::Manifests;
use crate::output::OutputFile;
use crate::progress;
use crate::proof::{Carried, Proof, is_proof};
use crate::report;
use crate::terminal::{shown, shown_line};

/// The output of `--json`.
#[derive(Serialize)]
struct Output<'a> {
    format: &'static str,
    index: usize,
    prompt: &'a str,
    /// The id in the ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    ledger_id: Option<&'a str>,
    /// The field `AIGC`.
    #[serde(flatten)]
    label: Option<LabelMetadata>,
    #[serde(flatten)]
    text: TextFields<'a>,
    /// The text with its C2PA manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    signed: Option<String>,
    /// The reason why it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    c2pa_error: Option<String>,
    seconds: f64,
    /// The tokens of the prompt that were taken from the prompt cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drafted: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<usize>,
    /// The draft rule that changed the distribution of the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    lossy: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reward: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rewards: Option<&'a [f32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kl_bound: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprob: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling_logprob: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inclusion: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<Vec<Expected<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<Vec<ExplainedFields<'a>>>,
}

/// The reason why a text is printed, and not others.
#[derive(Clone, Copy)]
enum Chosen<'c> {
    ByReward(&'c BestOf),
    BySearch(&'c Hypothesis),
}

/// The JSON fields of a text, for all commands.
#[derive(Serialize)]
pub(crate) struct TextFields<'a> {
    text: &'a str,
    /// The thought before the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_tokens: Option<usize>,
    tokens: &'a [u32],
    prompt_tokens: usize,
    stop: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<&'a str>,
    complete: Option<bool>,
    /// Whether its tokens ran out before it matched the constraint, which then closed it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    closed: bool,
    seed: u64,
    key_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<Carried>,
    /// The mean KL divergence, in nats, by which steering moved a token's distribution from the model's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    steering_kl: Option<f64>,
}

impl<'a> TextFields<'a> {
    pub(crate) fn new(written: &'a Written, proof: Option<&'a Proof<'_>>, evidence: Option<&Evidence>) -> Self {
        Self {
            text: &written.text,
            reasoning: written.reasoning.as_deref(),
            reasoning_tokens: written.reasoning.as_ref().map(|_| written.reasoning_tokens),
            tokens: &written.tokens,
            prompt_tokens: written.prompt_tokens,
            stop: stop_name(written.stop),
            stop_reason: written.stop_string.as_deref(),
            complete: written.complete,
            closed: written.closed,
            seed: written.seed,
            key_id: proof.map(|proof| proof.key().id()),
            mark: proof.zip(evidence).map(|(proof, evidence)| proof.carried(evidence, &written.text)),
            steering_kl: written.steering_kl.as_deref().map(mean),
        }
    }

    /// Adds the evidence that was expected of its mark.
    fn expecting(mut self, expected: Option<Evidence>) -> Self {
        self.mark = self.mark.map(|mark| mark.expecting(expected));
        self
    }
}

/// The mean; 0 without numbers.
fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len().max(1) as f64
}

/// The log-probabilities at the position of a token.
#[derive(Serialize)]
struct Expected<'a> {
    #[serde(flatten)]
    chosen: Probable<'a>,
    top: Vec<Probable<'a>>,
}

/// The log-probability of a token.
#[derive(Serialize)]
struct Probable<'a> {
    token: u32,
    text: &'a str,
    logprob: f64,
    rank: usize,
}

impl<'a> From<&'a Logprob> for Probable<'a> {
    fn from(of: &'a Logprob) -> Self {
        Self { token: of.token, text: &of.text, logprob: of.logprob, rank: of.rank }
    }
}

impl<'a> From<&'a TokenLogprobs> for Expected<'a> {
    fn from(of: &'a TokenLogprobs) -> Self {
        Self { chosen: (&of.chosen).into(), top: of.top.iter().map(Probable::from).collect() }
    }
}

/// The destination of texts.
struct Paper<'w> {
    out: &'w mut dyn Write,
    /// Whether it is a terminal.
    terminal: bool,
    /// The signer of texts that are printed as JSON.
    manifests: Option<&'w Manifests>,
    /// Whether all that is written is signed together, and then recorded as one text.
    is_draft: bool,
    context: &'w WritingContext<'w>,
}

impl Paper<'_> {
    /// Records the text with a number.
    fn record(&self, part: usize, text: &str) {
        if !self.is_draft {
            self.context.record(part, text, None);
        }
    }

    /// Writes text unchanged, or for a terminal without what would move the cursor.
    fn text(&mut self, text: &str) -> io::Result<()> {
        match self.terminal {
            true => self.out.write_all(shown(text).as_bytes()),
            false => self.out.write_all(text.as_bytes()),
        }
    }

    /// Begins a text, if it has not begun: the label before it, and the prompt.
    fn begin(&mut self, before: Option<String>) -> io::Result<()> {
        let Some(before) = before else { return Ok(()) };
        self.text(&before)?;
        self.faint(self.context.shown_prompt)
    }

    /// Writes a piece of a section. A thought is shown only on a terminal, with a blank line after it.
    fn section(&mut self, section: Section, piece: &str, in_thought: &mut bool) -> io::Result<()> {
        match section {
            Section::Thought => {
                *in_thought = true;
                self.faint(piece)
            }
            Section::Answer => {
                if std::mem::take(in_thought) {
                    self.faint("\n\n")?;
                }
                self.text(piece)
            }
        }
    }

    /// Writes what is not part of a text, only to a terminal.
    fn faint(&mut self, text: &str) -> io::Result<()> {
        if !self.terminal || text.is_empty() {
            return Ok(());
        }
        let dim = anstyle::Style::new().dimmed();
        write!(self.out, "{dim}{}{dim:#}", shown(text))
    }
}

impl Generate {
    /// Writes the texts of a request.
    pub(super) fn write(
        &self,
        request: Request<'_>,
        judge: Option<&Reward>,
        file: Option<OutputFile>,
        manifests: Option<Manifests>,
        context: &WritingContext<'_>,
    ) -> Result<ExitCode, Failure> {
        let proof = context.proof;
        let count = self.texts.unwrap_or(1);
        let write = |mut paper: Paper<'_>| match (self.rewards.best_of, self.search.beams) {
            (Some(count), _) => Ok(vec![self.best_of(request, count, judge, &mut paper)?]),
            (None, Some(beams)) => self.found(request, beams, &mut paper),
            (None, None) if count == 1 => Ok(vec![self.stream(request, &mut paper)?]),
            (None, None) => self.side_by_side(request, count, &mut paper),
        };
        // A manifest covers the whole output, including the line end.
        let write = |paper: Paper<'_>| match paper.manifests.filter(|_| !self.json) {
            None => write(paper),
            Some(manifests) => {
                let mut unsigned = Vec::new();
                let draft = Paper { out: &mut unsigned, terminal: false, manifests: None, is_draft: true, context };
                let texts = write(draft)?;
                let unsigned = String::from_utf8(unsigned).expect("texts are UTF-8");
                let signed = manifests.sign(&unsigned).inspect_err(|_| {
                    // The text that was computed must not be lost.
                    crate::terminal::say!("{}", shown(&unsigned));
                })?;
                context.record(0, &unsigned, manifests.store().as_deref());
                paper.out.write_all(signed.as_bytes())?;
                paper.out.flush()?;
                Ok(texts)
            }
        };
        let by = manifests.as_ref();
        let texts = match file {
            Some(file) => {
                let mut written = None;
                let saved = file.write(|out| {
                    match written.insert(write(Paper { out, terminal: false, manifests: by, is_draft: false, context }))
                    {
                        Err(Failure::Output(fault)) => Err(std::mem::replace(fault, io::ErrorKind::Other.into())),
                        Err(_) => Err(io::Error::other("the text could not be written completely")),
                        Ok(_) => Ok(()),
                    }
                });
                match (saved, written) {
                    (_, Some(Err(failure))) if !matches!(failure, Failure::Output(_)) => return Err(failure),
                    // Failures of the file itself include its name.
                    (Err(failure), _) => return Err(failure),
                    (Ok(()), written) => written.expect("a file that is saved was filled")?,
                }
            }
            None if io::stdout().is_terminal() => {
                write(Paper { out: &mut anstream::stdout(), terminal: true, manifests: by, is_draft: false, context })?
            }
            None => write(Paper { out: &mut io::stdout(), terminal: false, manifests: by, is_draft: false, context })?,
        };
        manifests.map(Manifests::finish).transpose()?;
        if let (Some(labels), [written]) = (context.labels, &texts[..]) {
            labels.write(&written.text)?;
        }
        if !self.json {
            texts.iter().for_each(|written| explain::say(written, texts.len() > 1));
        }
        if io::stderr().is_terminal() && !self.json && !self.run.quiet {
            report(&texts, context.started.elapsed().as_secs_f64(), proof);
        }
        self.warn_of_equal(&texts, proof);
        self.warn_of_lossy(&texts);
        self.warn_of_unproved(&texts, context.request, proof);
        Ok(self.say_whether_whole(&texts))
    }

    /// Writes one text as it is generated.
    fn stream(&self, request: Request<'_>, paper: &mut Paper<'_>) -> Result<Written, Failure> {
        let mut fault = None;
        let label = paper.context.labels.map(Labels::label);
        let mut before = Some(label.map(Label::before).unwrap_or_default());
        let mut in_thought = false;
        let written = request.stream_sections(|section, piece| {
            if self.json {
                return ControlFlow::Continue(());
            }
            // The prompt is printed with the first piece, so that nothing is printed for a request that fails.
            let begun = paper.begin(before.take());
            let printed = begun.and_then(|()| paper.section(section, piece, &mut in_thought));
            match printed.and_then(|()| paper.out.flush()) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    fault = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        if let Some(fault) = fault {
            return Err(fault.into());
        }
        let written = paper.context.labelled(written);
        match self.json {
            true => self.print(paper, 0, &written, None)?,
            false => {
                paper.record(0, &written.text);
                paper.begin(before.take())?;
                paper.text(&label.map(Label::after).unwrap_or_default())?;
                writeln!(paper.out)?;
            }
        }
        paper.out.flush()?;
        Ok(written)
    }

    /// Writes the best of several texts.
    fn best_of(
        &self,
        request: Request<'_>,
        count: u16,
        judge: Option<&Reward>,
        paper: &mut Paper<'_>,
    ) -> Result<Written, Failure> {
        let (count, temperature) = (usize::from(count), self.rewards.reward_temperature);
        let (best, what) = match judge {
            Some(judge) => (request.best_of(count, judge, temperature)?, "reward"),
            None => (request.likeliest_of(count, temperature)?, "mean log-probability"),
        };
        let written = &paper.context.labelled(best.text().clone());
        match self.json {
            true => self.print(paper, best.index, written, Some(Chosen::ByReward(&best)))?,
            false => {
                paper.record(best.index, &written.text);
                paper.faint(paper.context.shown_prompt)?;
                paper.text(&written.text)?;
                writeln!(paper.out)?;
            }
        }
        paper.out.flush()?;
        if !self.json && !self.run.quiet {
            crate::terminal::say!(
                "text {} of {count}, seed {}, {what} {:.3}; at most {:.3} nats from the model's own distribution",
                best.index + 1,
                written.seed,
                best.rewards[best.index],
                best.kl_bound()
            );
        }
        Ok(written.clone())
    }

    /// Writes the texts that a search finds, the best first.
    fn found(&self, request: Request<'_>, beams: u16, paper: &mut Paper<'_>) -> Result<Vec<Written>, Failure> {
        let mut found = self.search.found(request, beams, self.texts)?;
        for hypothesis in &mut found {
            hypothesis.written = paper.context.labelled(hypothesis.written.clone());
        }
        for (i, hypothesis) in found.iter().enumerate() {
            let written = &hypothesis.written;
            if self.json {
                self.print(paper, i, written, Some(Chosen::BySearch(hypothesis)))?;
                continue;
            }
            paper.record(i, &written.text);
            if found.len() > 1 {
                paper.faint(&format!("score {:.3}\n", hypothesis.score))?;
            }
            paper.faint(paper.context.shown_prompt)?;
            paper.text(&written.text)?;
            paper.out.write_all(if found.len() > 1 { b"\n\n" } else { b"\n" })?;
        }
        paper.out.flush()?;
        Ok(found.into_iter().map(|hypothesis| hypothesis.written).collect())
    }

    /// Writes several texts together, and prints each when it is complete.
    fn side_by_side(&self, request: Request<'_>, count: u16, paper: &mut Paper<'_>) -> Result<Vec<Written>, Failure> {
        let count = usize::from(count);
        let most = (count * self.asked.max_tokens) as u64;
        let bar = progress::bar(most, "{bar:32.green/dim} {msg}", self.run.quiet);
        let (mut fault, mut pieces) = (None, 0u64);
        let texts = request.stream_texts(count, |i, event| {
            let printed = match event {
                Event::End(written) => bar.suspend(|| {
                    let written = &paper.context.labelled(written.clone());
                    match self.json {
                        true => self.print(paper, i, written, None)?,
                        false => {
                            paper.record(i, &written.text);
                            paper.faint(&format!("seed {}\n", written.seed))?;
                            paper.faint(paper.context.shown_prompt)?;
                            paper.text(&written.text)?;
                            paper.out.write_all(b"\n\n")?;
                        }
                    }
                    paper.out.flush()
                }),
                _ => {
                    pieces += 1;
                    bar.set_position(pieces);
                    let speed = pieces as f64 / paper.context.started.elapsed().as_secs_f64();
                    bar.set_message(format!("{speed:.0} tokens a second"));
                    Ok(())
                }
            };
            match printed {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    fault = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        bar.finish_and_clear();
        let texts = texts.into_iter().map(|written| paper.context.labelled(written)).collect();
        fault.map_or(Ok(texts), |fault| Err(fault.into()))
    }

    /// Prints a text as JSON.
    fn print(
        &self,
        paper: &mut Paper<'_>,
        index: usize,
        written: &Written,
        chosen: Option<Chosen<'_>>,
    ) -> io::Result<()> {
        let &WritingContext { prompt, request, proof, labels, log, cache, started, .. } = paper.context;
        let (best, found) = match chosen {
            Some(Chosen::ByReward(best)) => (Some(best), None),
            Some(Chosen::BySearch(found)) => (None, Some(found)),
            None => (None, None),
        };
        let evidence = proof.and_then(|proof| proof.evidence(&written.text));
        // The model reads the text again for this, so only if the mark is not proved.
        let expected = match is_proof(evidence.as_ref()) {
            false if proof.is_some() => request.expected_mark(written).ok().flatten(),
            _ => None,
        };
        let (signed, c2pa_error) = match paper.manifests.map(|manifests| manifests.sign(&written.text)) {
            Some(Ok(signed)) => (Some(signed), None),
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, None),
        };
        let store = paper.manifests.and_then(Manifests::store);
        paper.context.record(index, &written.text, store.as_deref());
        let output = Output {
            format: "verdigris-generate-1",
            index,
            prompt,
            ledger_id: log.map(Log::id),
            label: labels.map(|labels| labels.metadata(index, &written.text)),
            text: TextFields::new(written, proof, evidence.as_ref()).expecting(expected),
            signed,
            c2pa_error,
            seconds: started.elapsed().as_secs_f64(),
            cached_tokens: cache.map(PromptCache::restored),
            calls: written.acceptance.map(|a| a.calls),
            drafted: written.acceptance.map(|a| a.drafted),
            accepted: written.acceptance.map(|a| a.accepted),
            lossy: written.lossy,
            reward: best.map(|best| best.rewards[best.index]),
            rewards: best.map(|best| &best.rewards[..]),
            kl_bound: best.map(BestOf::kl_bound),
            logprob: found.map(|found| found.logprob),
            score: found.map(|found| found.score),
            sampling_logprob: found.and_then(|found| found.sampling_logprob),
            inclusion: found.and_then(|found| found.inclusion),
            logprobs: written.logprobs.as_ref().map(|all| all.iter().map(Expected::from).collect()),
            explained: written.explained.as_ref().map(|all| all.iter().map(ExplainedFields::from).collect()),
        };
        writeln!(paper.out, "{}", serde_json::to_string(&output).expect("the output serialises"))
    }

    /// Warns if different seeds gave equal texts, with the reason.
    fn warn_of_equal(&self, texts: &[Written], proof: Option<&Proof<'_>>) {
        let different: HashSet<&[u32]> = texts.iter().map(|written| &written.tokens[..]).collect();
        if self.run.quiet || different.len() == texts.len() {
            return;
        }
        let is_noise = |key: &&Key| key.stage() == Stage::Warped;
        let why = match proof.map(Proof::key).filter(is_noise) {
            Some(key) => format!(
                "the key {} chooses each token by those before it, whatever the seed: vary the prompt, or use a key \
                 with green lists",
                shown_line(key.id())
            ),
            None if self.sampling.is_greedy() => "at temperature 0 the seed has no effect: raise --temperature".into(),
            None => return,
        };
        let said = format_args!("of {} texts {} are different: {why}", texts.len(), different.len());
        crate::terminal::headed("warning", said);
    }

    /// Warns if drafts changed the distribution of texts.
    fn warn_of_lossy(&self, texts: &[Written]) {
        let Some(rule) = texts.iter().find_map(|written| written.lossy).filter(|_| !self.run.quiet) else { return };
        let said = format_args!("drafts are accepted by {rule} acceptance, which changes the distribution of the text");
        crate::terminal::headed("warning", said);
    }

    /// Warns if the marks of texts would not be found.
    fn warn_of_unproved(&self, texts: &[Written], request: &Request<'_>, proof: Option<&Proof<'_>>) {
        let Some(proof) = proof.filter(|_| !self.run.quiet) else { return };
        let is_unproved = |written: &&Written| !is_proof(proof.evidence(&written.text).as_ref());
        let unproved: Vec<&Written> = texts.iter().filter(is_unproved).collect();
        // The model reads the texts again for this. With --json, the line of each text has these figures.
        let expected = unproved.iter().filter(|_| !self.json).filter_map(|of| request.expected_mark(of).ok().flatten());
        proof.warn(unproved.len(), texts.len(), &expected.collect::<Vec<_>>());
    }

    /// Returns the exit status, and prints the reason if it is not 0.
    fn say_whether_whole(&self, texts: &[Written]) -> ExitCode {
        let cut: Vec<&Written> = texts.iter().filter(|written| written.is_cut_short()).collect();
        let Some(first) = cut.first() else { return ExitCode::SUCCESS };
        let which = match texts.len() {
            1 => "the text".into(),
            all => format!("{} of {all} texts", cut.len()),
        };
        let why = match (&first.stop_string, first.stop) {
            (Some(stop), _) => format!("the stop string {stop:?} came first; choose another --stop"),
            (None, Some(Stop::Context)) => "the model's context is full; shorten the prompt".into(),
            _ => format!("no ending within {} tokens was found; raise --max-tokens", self.asked.max_tokens),
        };
        let how = match first.closed {
            true => "was closed by the constraint when its tokens ran out, so its last values may be cut or made up",
            false => "ended before the constraint was met",
        };
        crate::terminal::headed("cut short", format_args!("{which} {how}: {why}"));
        ExitCode::from(3)
    }
}

/// The reason why a text ended, as in JSON.
fn stop_name(stop: Option<Stop>) -> &'static str {
    match stop {
        Some(Stop::End) => "end",
        Some(Stop::Length) => "length",
        Some(Stop::Context) => "context",
        Some(Stop::StopString) => "stop_string",
        None => "cancelled",
    }
}

/// Prints a summary on the terminal.
fn report(texts: &[Written], seconds: f64, proof: Option<&Proof<'_>>) {
    let tokens: usize = texts.iter().map(|written| written.tokens.len()).sum();
    let found = |proof: &Proof<'_>| match texts {
        [text] => {
            proof.evidence(&text.text).map(|of| format!(": z {:.1}, p {}", of.z, report::p_value(of.ln_p_corrected())))
        }
        _ => None,
    };
    let by = |proof: &Proof<'_>| format!("{}{}", shown_line(proof.key().id()), found(proof).unwrap_or_default());
    let marked = proof.map(|proof| format!(", marked with {}", by(proof)));
    let marked = marked.unwrap_or_default();
    let acceptance = texts.iter().find_map(|written| written.acceptance);
    let drafts = acceptance.map(|a| format!(", {} of {} drafts accepted", a.accepted, a.drafted)).unwrap_or_default();
    let seed = texts.iter().map(|written| written.seed).min().unwrap_or(0);
    let dim = anstyle::Style::new().dimmed();
    crate::terminal::say!(
        "{dim}{tokens} tokens in {seconds:.1} s ({:.0} a second), seed {seed}{marked}{drafts}{dim:#}",
        tokens as f64 / seconds
    );
}
