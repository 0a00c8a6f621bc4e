//! `verdigris generate`: writes text.

mod context;
pub(crate) mod drafts;
mod explain;
pub(crate) mod guides;
mod labels;
mod log;
mod manifest;
mod prompt;
mod rewards;
mod search;
mod texts;

pub(crate) use texts::TextFields;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use verdigris::{LogprobsMode, PromptCache};

use crate::choice::{Choice, OneOf};
use crate::constraint::TextConstraint;
use crate::engine::EngineOptions;
use crate::error::Failure;
use crate::generate::context::WritingContext;
use crate::generate::drafts::DraftOptions;
use crate::generate::guides::GuideOptions;
use crate::generate::labels::Labels;
use crate::generate::log::Log;
use crate::generate::manifest::{ManifestOptions, Manifests};
use crate::generate::prompt::PromptOptions;
use crate::generate::rewards::RewardOptions;
use crate::generate::search::SearchOptions;
use crate::label::LabelOptions;
use crate::number::whole;
use crate::output::OutputFile;
use crate::payload::PayloadChoice;
use crate::proof::Proof;
use crate::ranks::RankOptions;
use crate::reasoning::ReasoningOptions;
use crate::recorder::LedgerOption;
use crate::request::RequestOptions;
use crate::run::RunOptions;
use crate::sampling::SamplingOptions;
use crate::steering::MemberPromptOptions;
use crate::terminal::{headed, shown_line};
use crate::tokens::TokenOptions;

/// Write text, marked with a key or plain, as it is generated
#[derive(Args)]
#[command(after_help = "\
The text goes to standard output unchanged, byte for byte, followed by one line end. On a terminal, control characters \
are shown as escapes, and the prompt is shown before the text.

Exit status: 0 when the text is written, 2 on an error, 3 when it was cut short before it was JSON, a match of the \
expression, or one of the choices.

Examples:
  verdigris generate                               a tale from its beginning
  verdigris generate \"The captain\" -n 100
  verdigris generate \"The captain\" -k my.key > tale.txt
  verdigris generate -f letter.txt -k my.key -o answer.txt
  verdigris generate -k my.key -o tale.txt --c2pa-cert try.cert.pem \\
      --c2pa-key try.key.pem
  echo \"The captain\" | verdigris generate --stop \".\"
  verdigris generate \"She was born in\" --regex \" 1[0-9]{3}\"
  verdigris generate \"Was he afraid?\" --choice \" yes\" --choice \" no\"
  verdigris generate \"The captain: \" --json-schema person.schema.json
  verdigris generate \"His age: \" --json-schema '{\"type\": \"integer\"}'
  verdigris generate \"The captain\" --texts 8 --json > eight.jsonl
  verdigris generate --seed 7 --temperature 1 --top-p 1 --json
  verdigris generate \"The captain\" --typical-p 0.9 --no-repeat-ngram-size 4
  verdigris generate \"The captain\" --bad-words \"sea\" --min-tokens 50
  verdigris generate \"The captain\" --logit-bias 13=-5 --json --logprobs 3
  verdigris generate -f letter.txt --prompt-cache letter.cache
  verdigris generate \"The captain\" --label gb --label-producer my-company
  verdigris generate \"The captain\" --draft tale-small --explain
  verdigris generate \"The captain\" --beams 4 --texts 4
  verdigris generate \"The captain\" --penalty-alpha 0.6 --top-k 4
  verdigris generate --expert tale-expert --anti tale-small
  verdigris generate --class-model tale-small --class-prompt \"A merry day.\" \\
      --class-prompt \"A sad day.\"
  verdigris generate \"The captain\" --guidance-scale 1.5 \\
      --negative-prompt \"The queen\"
  verdigris generate -m Qwen/Qwen2.5-0.5B-Instruct --chat \"What is a spar?\" \\
      --system \"Be brief.\"")]
pub(crate) struct Generate {
    #[command(flatten)]
    prompt: PromptOptions,
    #[command(flatten)]
    asked: RequestOptions,
    /// Write N texts at the same time, with this seed and the ones after it, and print each when it is complete
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    texts: Option<u16>,
    /// Print a JSON object for each complete text, instead of text as it is generated
    #[arg(long)]
    json: bool,
    /// With --json: the log-probability of each token of the text, and the N most probable tokens at its position
    #[arg(long, value_name = "N", requires = "json", value_parser = whole::<usize>)]
    logprobs: Option<usize>,
    /// With --logprobs: the distribution that log-probabilities are taken from
    #[arg(long, value_name = "MODE", requires = "logprobs", value_parser = OneOf(LOGPROBS_MODES), default_value = "raw",
          hide_default_value = true)]
    logprobs_mode: LogprobsMode,
    /// After each text, print the origin of each token, its probability, and the effect of each option on standard
    /// error; with --json as fields
    #[arg(long)]
    explain: bool,
    /// Keep what the model computed from the prompt in this file, and take from it what the prompt has in common with
    /// the one before: a long prompt is read once. A read-only file is not replaced
    #[arg(long, value_name = "FILE")]
    prompt_cache: Option<PathBuf>,
    /// Write to this file instead of standard output; the file appears when it is complete
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// With --output: replace an existing file
    #[arg(long, requires = "output")]
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
    manifest: ManifestOptions,
    #[command(flatten, next_help_heading = "Drafts")]
    drafts: DraftOptions,
    #[command(flatten, next_help_heading = "Guides")]
    guides: GuideOptions,
    #[command(flatten, next_help_heading = "Label")]
    label: LabelOptions,
    #[command(flatten, next_help_heading = "Ranks")]
    ranks: RankOptions,
    #[command(flatten, next_help_heading = "Reasoning")]
    reasoning: ReasoningOptions,
    #[command(flatten, next_help_heading = "Rewards")]
    rewards: RewardOptions,
    #[command(flatten, next_help_heading = "Sampling")]
    sampling: SamplingOptions,
    #[command(flatten, next_help_heading = "Search")]
    search: SearchOptions,
    #[command(flatten, next_help_heading = "Tokens")]
    tokens: TokenOptions,
}

const LOGPROBS_MODES: &[Choice<LogprobsMode>] = &[
    ("raw", LogprobsMode::Raw, "The model's own, before any option acts on it"),
    ("processed", LogprobsMode::Processed, "The one that the token was sampled from, after all options"),
];

impl Generate {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.run.begin()?;
        let mark = self.asked.mark()?;
        self.reasoning.check(self.asked.chat)?;
        self.reasoning.check_mark(self.asked.is_marked())?;
        self.drafts.check(self.asked.seed)?;
        self.search.check(self.texts, self.rewards.best_of.is_some())?;
        // Faults are reported before anything is computed.
        let inputs = [self.prompt.file(), self.asked.key_file(), self.ledger.file()];
        let inputs: Vec<_> = inputs.into_iter().flatten().chain(self.prompt_cache.as_deref()).collect();
        if self.prompt_cache.is_some() && self.prompt_cache == self.output {
            return Err(Failure::Usage("--prompt-cache and --output name the same file: give two".into()));
        }
        let file = self.output.as_deref().map(|path| OutputFile::new(path, self.force, &inputs)).transpose()?;
        let (output, model) = (self.output.as_deref(), self.engine.model_name());
        let manifests = self.manifest.manifests(output, self.force, self.json, self.texts, model, &inputs)?;
        let id = crate::answer_id::new()?;
        let label = self.label.label(self.constraint.is_given())?;
        let several = self.texts.is_some_and(|texts| texts > 1);
        let labels =
            label.map(|label| Labels::new(label, &id, output.filter(|_| !self.json), several, self.force, &inputs));
        let labels = labels.transpose()?;
        if self.asked.payload == Some(PayloadChoice::New) {
            if self.ledger.file().is_none() {
                let why = "--payload new needs a ledger, which remembers the numbers: give --ledger FILE";
                return Err(Failure::Usage(why.into()));
            }
            if several || self.search.writes_all() {
                let why =
                    "--payload new is one number for one text: write the texts one at a time, or give their number";
                return Err(Failure::Usage(why.into()));
            }
        }
        let recorder = self.ledger.recorder()?;
        let prompt = self.prompt.read(self.run.quiet)?;
        if self.asked.chat && prompt.is_empty() {
            return Err(Failure::Usage("--chat needs a message: generate --chat \"What is a spar?\"".into()));
        }
        if !self.run.quiet {
            self.engine.warn();
        }
        let engine = self.engine.engine_on(&self.ranks)?;
        let cache = self.prompt_cache.as_ref().map(|path| PromptCache::open(&engine, path)).transpose()?;
        let key = mark.key(engine.reader(), self.run.quiet)?;
        let drafter = self.drafts.drafter(&self.engine)?;
        let payload = match (self.asked.payload, &recorder, &key) {
            (Some(PayloadChoice::New), Some(recorder), Some(key)) => Some(recorder.new_payload(key)?),
            (Some(PayloadChoice::Number(number)), ..) => Some(number),
            _ => None,
        };
        let is_bound = self.asked.payload == Some(PayloadChoice::New);
        let mut request = self.asked.apply(engine.request(""), key.as_ref(), payload);
        request = self.reasoning.apply(request.prompt(self.asked.prompt(&prompt)));
        request = self.member_prompts.apply(request, self.asked.chat, Some(&prompt))?;
        request = self.drafts.apply(self.tokens.apply(self.sampling.apply(request)), drafter.as_ref(), self.asked.seed);
        if let Some(top) = self.logprobs {
            request = request.logprobs(top).logprobs_mode(self.logprobs_mode);
        }
        if self.explain {
            request = request.explain();
        }
        if let Some(cache) = &cache {
            request = request.prompt_cache(cache);
        }
        request = self.search.apply(self.constraint.apply(request)?);
        let judge = self.rewards.judge()?;
        let judges = self.guides.judges(&self.engine)?;
        let classes = judges.classes();
        request = self.guides.apply(request, &judges, &classes);
        let constraint = if key.is_some() { self.constraint.grammar()? } else { None };
        let proof = key.as_ref().map(|key| Proof::new(key, engine.reader(), constraint));
        let manifests = manifests.map(|manifests| {
            let bound = payload.filter(|_| is_bound);
            manifests.marked(key.as_ref(), bound).keeping_stores(recorder.is_some())
        });
        manifests.iter().filter(|_| !self.run.quiet).for_each(Manifests::warn);
        let log = recorder.map(|recorder| Log::new(recorder, id, key.as_ref(), payload));
        let context = WritingContext {
            labels: labels.as_ref(),
            log: log.as_ref(),
            cache: cache.as_ref(),
            ..WritingContext::new(&prompt, self.asked.chat, &request, proof.as_ref())
        };
        let status = self.write(request.clone(), judge.as_ref(), file, manifests, &context)?;
        drop(request);
        cache.into_iter().flat_map(PromptCache::finish).for_each(|fault| headed("warning", shown_line(&fault)));
        log.map_or(Ok(status), |log| log.finish(status))
    }
}
