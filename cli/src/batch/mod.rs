//! `verdigris batch`: answers a file of prompts.

mod answers;
mod prompts;
mod signing;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use indicatif::ProgressBar;
use sha2::{Digest, Sha256};
use verdigris::label::Label;
use verdigris::{Event, Key, Prompt, Request, Written};

use crate::constraint::TextConstraint;
use crate::engine::EngineOptions;
use crate::error::Failure;
use crate::generate::drafts::DraftOptions;
use crate::generate::guides::GuideOptions;
use crate::label::LabelOptions;
use crate::output::OutputFile;
use crate::payload::PayloadChoice;
use crate::progress;
use crate::proof::{Proof, is_proof};
use crate::reasoning::ReasoningOptions;
use crate::recorder::{Delivered, LedgerOption, Recorder};
use crate::request::RequestOptions;
use crate::run::RunOptions;
use crate::sampling::SamplingOptions;
use crate::signer::Signer;
use crate::steering::MemberPromptOptions;
use crate::tokens::TokenOptions;
use answers::{Answers, Names};
use prompts::{BatchPrompt, Prompts};
use signing::{Answer, BatchManifestOptions, Signature, SignedAnswer, Signing};

/// Write a text for each prompt of a file, many at a time
#[derive(Args)]
#[command(after_help = "\
Each line is a prompt, {\"id\": 7, \"prompt\": \"...\"} or {\"id\": \"a\", \"messages\": [{\"role\": \"user\", \
\"content\": \"...\"}]}; the id may be any JSON value, and is returned with the answer. Answers are lines too, in the \
order in which they finish, each with the line number of its prompt.

Run the same command again to resume after an interruption: whole lines are kept, and no prompt is answered twice. \
With --seed, the prompt in line 1 has that seed, line 2 the next one, and so on.

Exit status: 0 when all are answered, 2 on an error, 3 when some answers were cut short, or could not be written or \
signed.

Examples:
  verdigris batch questions.jsonl answers.jsonl --chat --model chat.gguf
  verdigris batch questions.jsonl answers.jsonl --chat --model chat.gguf \\
      --key my.key --json-schema person.schema.json --temperature 0")]
pub(crate) struct Batch {
    /// Prompts, in JSON Lines
    #[arg(value_name = "IN")]
    prompts: PathBuf,
    /// The file for the answers; it is resumed if it exists
    #[arg(value_name = "OUT")]
    answers: PathBuf,
    #[command(flatten)]
    asked: RequestOptions,
    /// Replace the file for the answers if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    ledger: LedgerOption,
    #[command(flatten)]
    run: RunOptions,
    // Groups with a heading come last, because a heading applies to all options after it.
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    member_prompts: MemberPromptOptions,
    #[command(flatten, next_help_heading = "Output format")]
    constraint: TextConstraint,
    #[command(flatten, next_help_heading = "C2PA")]
    manifest: BatchManifestOptions,
    #[command(flatten, next_help_heading = "Drafts")]
    drafts: DraftOptions,
    #[command(flatten, next_help_heading = "Guides")]
    guides: GuideOptions,
    #[command(flatten, next_help_heading = "Label")]
    label: LabelOptions,
    #[command(flatten, next_help_heading = "Reasoning")]
    reasoning: ReasoningOptions,
    #[command(flatten, next_help_heading = "Sampling")]
    sampling: SamplingOptions,
    #[command(flatten, next_help_heading = "Tokens")]
    tokens: TokenOptions,
}

/// The results so far.
#[derive(Default)]
struct Count {
    answers: usize,
    tokens: usize,
    cut: usize,
    failed: usize,
    /// The number of answers that could not be signed.
    unsigned: usize,
    /// The number of answers whose marks a detector would not find.
    unproved: usize,
}

/// The state of a run.
struct Desk<'r> {
    seed: Option<u64>,
    proof: Option<&'r Proof<'r>>,
    recorder: Option<Recorder>,
    payload: Option<u32>,
    label: Option<Label>,
    answers: Answers,
    count: Count,
    bar: ProgressBar,
    begun: Instant,
}

impl Batch {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.run.begin()?;
        let mark = self.asked.mark()?;
        self.reasoning.check_mark(self.asked.is_marked())?;
        self.drafts.check(self.asked.seed)?;
        // Refuses one of the files that are read here.
        let inputs = [Some(&*self.prompts), self.asked.key_file(), self.ledger.file()];
        let inputs: Vec<_> = inputs.into_iter().flatten().collect();
        OutputFile::new(&self.answers, true, &inputs)?;
        let begun = self.digest();
        // All lines are checked before anything is computed.
        let (mut asked, mut converse) = (0, false);
        for line in Prompts::open(&self.prompts, &self.asked, &begun)? {
            converse |= matches!(line?.prompt, Prompt::Chat(_));
            asked += 1;
        }
        let mut answers = Answers::open(&self.answers, self.force)?;
        if asked == 0 {
            // Not an error: it may be an empty shard of a larger file.
            answers.begin()?;
            if !self.run.quiet {
                let (prompts, answers) = (self.prompts.display(), self.answers.display());
                let said = format_args!("{prompts} has no prompts, so {answers} gets no answers");
                crate::terminal::headed("warning", said);
            }
            return Ok(ExitCode::SUCCESS);
        }
        let (mut open, mut changed) = (BTreeSet::new(), None);
        for line in Prompts::open(&self.prompts, &self.asked, &begun)? {
            let line = line?;
            if !answers.has(&line)? {
                open.insert(line.line);
            } else if answers.is_to_another(&line) {
                changed = changed.or(Some(line.line));
            }
        }
        if asked - open.len() < answers.len() {
            let (prompts, more) = (self.prompts.display(), answers.len() - (asked - open.len()));
            return Err(answers.of_another(&format!("{more} are to lines that {prompts} does not have")));
        }
        let label = self.label.label(self.constraint.is_given())?;
        let payload = match self.asked.payload {
            None => None,
            Some(PayloadChoice::Number(number)) => Some(number),
            Some(PayloadChoice::New) => {
                let why = "all answers of a batch carry the same number: give one, or use generate --payload new";
                return Err(Failure::Usage(why.into()));
            }
        };
        let recorder = self.ledger.recorder()?;
        let signer = self.manifest.signer(self.engine.model_name())?;
        let signer = signer.map(|signer| signer.keeping_stores(recorder.is_some()));
        if !self.run.quiet {
            self.engine.warn();
        }
        let engine = self.engine.engine()?;
        if converse {
            engine.chat_template()?;
        }
        let key = mark.key(engine.reader(), self.run.quiet)?;
        answers.are_of(key.as_ref().map(Key::id), self.asked.seed)?;
        // Checked last, since the other errors say what differs.
        if let Some(line) = changed {
            let how = format!("line {line} had another prompt, another model or other options");
            return Err(answers.of_another(&how));
        }
        let drafter = self.drafts.drafter(&self.engine)?;
        let request = self.reasoning.apply(self.asked.apply(engine.request(""), key.as_ref(), payload));
        let request = self.member_prompts.apply(request, self.asked.chat, None)?;
        let request = self.tokens.apply(self.sampling.apply(request));
        let request = self.constraint.apply(self.drafts.apply(request, drafter.as_ref(), self.asked.seed))?;
        let judges = self.guides.judges(&self.engine)?;
        let classes = judges.classes();
        let request = self.guides.apply(request, &judges, &classes);
        if answers.len() > 0 && !self.run.quiet {
            crate::terminal::say!(
                "{} has {} of {asked} answers; {} are left",
                self.answers.display(),
                answers.len(),
                open.len()
            );
        }
        crate::interrupt::clean_up(Some(format!(
            "the same command{} resumes {}",
            if self.force { " without --force" } else { "" },
            self.answers.display()
        )));
        let signer = signer.map(|signer| signer.marked(key.as_ref(), None));
        let warning = signer.as_ref().and_then(Signer::warning).filter(|_| !self.run.quiet);
        warning.into_iter().for_each(|said| crate::terminal::headed("warning", said));
        let constraint = if key.is_some() { self.constraint.grammar()? } else { None };
        let proof = key.as_ref().map(|key| Proof::new(key, engine.reader(), constraint));
        let (bar, proof, seed) = (self.bar(asked, asked - open.len()), proof.as_ref(), self.asked.seed);
        let (count, begun_at) = (Count::default(), Instant::now());
        let mut desk = Desk { seed, proof, recorder, payload, label, answers, count, bar, begun: begun_at };
        let lines = Prompts::open(&self.prompts, &self.asked, &begun)?;
        let lines = lines.filter(|line| line.as_ref().map_or(true, |line| open.contains(&line.line)));
        match &signer {
            None => desk.answer(request, lines, None)?,
            Some(signer) => std::thread::scope(|scope| {
                let mut signing = Signing::start(signer, scope);
                let answered = desk.answer(request, lines, Some(&mut signing));
                // What is written already is kept, whatever has failed.
                signing.finish(|signed| desk.keep(signed)).and(answered)
            })?,
        }
        desk.answers.begin()?;
        desk.bar.finish_and_clear();
        Ok(self.report(&desk))
    }

    /// A digest of everything but the prompts that answers depend on: the model and the options as given, and the files
    /// of the constraint, without options that change no answer, and without the seed, which each answer records.
    /// Nothing in it is secret, since keys are given as files that are not read here.
    fn digest(&self) -> Sha256 {
        const CHANGES_NOTHING: [&str; 3] = ["-q", "--quiet", "--force"];
        // With a value that changes nothing.
        const LONG: [&str; 3] = ["--seed", "--ledger", "--threads"];
        const SHORT: [&str; 2] = ["-s", "-t"];
        // Other texts that begin like these are values of other options.
        let is_number = |value: &str| value.strip_prefix('=').unwrap_or(value).parse::<u64>().is_ok();
        let mut digest = Sha256::new();
        let mut add = |bytes: &[u8]| {
            digest.update(bytes.len().to_le_bytes());
            digest.update(bytes);
        };
        let mut options = std::env::args_os().skip(2);
        while let Some(option) = options.next() {
            let is_file = [&self.prompts, &self.answers].iter().any(|path| path.as_os_str() == option);
            match option.to_str() {
                Some(option) if LONG.contains(&option) || SHORT.contains(&option) => _ = options.next(),
                Some(option)
                    if CHANGES_NOTHING.contains(&option)
                        || option.split_once('=').is_some_and(|(name, _)| LONG.contains(&name))
                        || SHORT.iter().filter_map(|short| option.strip_prefix(short)).any(is_number) => {}
                _ if is_file => (),
                _ => add(option.as_encoded_bytes()),
            }
        }
        // A file that cannot be read is reported when the constraint is made.
        self.constraint.files().iter().filter_map(|file| std::fs::read(file).ok()).for_each(|file| add(&file));
        digest
    }

    fn bar(&self, prompts: usize, done: usize) -> ProgressBar {
        let template = "{bar:32.green/dim} {pos} of {len} answers, {msg}{eta} left";
        let bar = progress::bar(prompts as u64, template, self.run.quiet);
        bar.set_position(done as u64);
        bar.reset_eta();
        bar
    }

    /// Prints a summary and returns the exit status.
    fn report(&self, desk: &Desk<'_>) -> ExitCode {
        let (Count { answers, tokens, cut, failed, unsigned, unproved }, seconds) =
            (&desk.count, desk.begun.elapsed().as_secs_f64());
        if std::io::stderr().is_terminal() && !self.run.quiet {
            let dim = anstyle::Style::new().dimmed();
            crate::terminal::say!(
                "{dim}{answers} answers, {tokens} tokens in {seconds:.1} s ({:.0} a second){dim:#}",
                *tokens as f64 / seconds
            );
        }
        if let Some(proof) = desk.proof.filter(|_| !self.run.quiet) {
            proof.warn(*unproved, *answers, &[]);
        }
        let [cut_before, failed_before, unsigned_before] = desk.answers.flawed();
        let (all, cut, failed) = (answers + failed + desk.answers.len(), cut + cut_before, failed + failed_before);
        let unsigned = unsigned + unsigned_before;
        let file = self.answers.display();
        if cut + failed > 0 {
            let said = format_args!(
                "of {all} answers {cut} were cut short and {failed} could not be written; see \"complete\" and \
                 \"error\" in {file}"
            );
            crate::terminal::headed("warning", said);
        }
        if unsigned > 0 {
            let said = format_args!("of {all} answers {unsigned} could not be signed; see \"c2pa_error\" in {file}");
            crate::terminal::headed("warning", said);
        }
        if cut + failed + unsigned == 0 { ExitCode::SUCCESS } else { ExitCode::from(3) }
    }
}

impl Desk<'_> {
    /// Answers prompts, which are read as there is room for them. The answer to a prompt that is refused is an error.
    fn answer(
        &mut self,
        request: Request<'_>,
        lines: impl Iterator<Item = Result<BatchPrompt, Failure>>,
        mut signing: Option<&mut Signing>,
    ) -> Result<(), Failure> {
        // Lines are read between answers, so both closures use these.
        let (asked, fault) = (RefCell::new(HashMap::new()), RefCell::new(None));
        let first = self.seed;
        let lines = lines.map_while(|line| line.map_err(|failure| fault.replace(Some(failure))).ok());
        let prompts = lines.enumerate().map(|(number, line)| {
            let seed = first.map(|seed| seed.wrapping_add(line.line as u64 - 1));
            let prompt = line.prompt.clone();
            asked.borrow_mut().insert(number, line);
            (prompt, seed)
        });
        request.stream_incoming(prompts, |number, event| {
            let asked = || asked.borrow_mut().remove(&number).expect("an answer to a line");
            let written = match event {
                Event::End(written) => self.answer_of(asked(), written).and_then(|answer| match &mut signing {
                    None => self.write(&answer, None),
                    Some(signing) => signing.sign(answer, |signed| self.keep(signed)),
                }),
                Event::Failed(error) => self.refuse(&asked(), error),
                _ => Ok(()),
            };
            match written {
                Ok(()) => ControlFlow::Continue(()),
                Err(failure) => {
                    fault.replace(Some(failure));
                    ControlFlow::Break(())
                }
            }
        })?;
        fault.into_inner().map_or(Ok(()), Err)
    }

    fn refuse(&mut self, asked: &BatchPrompt, error: &verdigris::Error) -> Result<(), Failure> {
        self.answers.write_error(asked, error)?;
        self.count.failed += 1;
        self.bar.inc(1);
        Ok(())
    }

    /// The answer to a prompt, as it is delivered.
    fn answer_of(&self, asked: BatchPrompt, written: &Written) -> Result<Answer, Failure> {
        let (mut written, id) = (written.clone(), crate::answer_id::new()?);
        let mut label = None;
        if let Some(given) = &self.label {
            written.text = given.around(&written.text);
            label = Some(given.metadata(&id, &written.text)?);
        }
        Ok(Answer { asked, id, written, label })
    }

    /// Writes an answer whose text has been signed, or could not be.
    fn keep(&mut self, SignedAnswer { answer, signed }: SignedAnswer) -> Result<(), Failure> {
        self.count.unsigned += usize::from(signed.is_err());
        self.write(&answer, Some(signed))
    }

    fn write(&mut self, answer: &Answer, signed: Option<Signature>) -> Result<(), Failure> {
        let Answer { asked, id, written, label } = answer;
        let evidence = self.proof.and_then(|proof| proof.evidence(&written.text));
        let key = self.proof.map(Proof::key);
        let (signed, manifest) = match signed.transpose() {
            Ok(signed) => {
                let (signed, manifest) = signed.unzip();
                (signed.map(Ok), manifest.flatten())
            }
            Err(error) => (Some(Err(error)), None),
        };
        // First, so that every answer in the file is in the ledger.
        if let Some(recorder) = &self.recorder {
            let (payload, manifest) = (self.payload, manifest.as_deref());
            recorder.record(&Delivered { id, part: 0, text: &written.text, key, payload, manifest })?;
        }
        let names = Names { ledger_id: self.recorder.as_ref().map(|_| &**id), label: label.as_ref() };
        self.answers.write(asked, written, self.proof, evidence.as_ref(), names, signed)?;
        self.count.unproved += usize::from(self.proof.is_some() && !is_proof(evidence.as_ref()));
        self.count.answers += 1;
        self.count.tokens += written.tokens.len();
        self.count.cut += usize::from(written.is_cut_short());
        self.bar.inc(1);
        let speed = self.count.tokens as f64 / self.begun.elapsed().as_secs_f64();
        self.bar.set_message(format!("{speed:.0} tokens a second, "));
        Ok(())
    }
}
