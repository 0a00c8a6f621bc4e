//! `verdigris generate`: write text.

mod drafts;
mod prompt;
mod rewards;
mod texts;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use verdigris::constrain::ForcedText;
use verdigris::{Key, KeyRing, LogprobsMode, Message, Request};

use crate::error::Failure;
use crate::form::FormOptions;
use crate::generate::drafts::DraftOptions;
use crate::generate::prompt::PromptOptions;
use crate::generate::rewards::RewardOptions;
use crate::key::writer_of;
use crate::model::EngineOptions;
use crate::number::whole;
use crate::output::OutputFile;
use crate::ranks::RankOptions;
use crate::run::RunOptions;
use crate::sampling::SamplingOptions;
use crate::tokens::TokenOptions;

/// Write text, marked with a key or plain, as it comes
#[derive(Args)]
#[command(after_help = "\
The text goes to standard output as it is, byte for byte, and one line end after it. A terminal shows control characters \
as escapes, and the prompt before the text.

Exit status: 0 when the text is written, 2 on an error, 3 when it was cut short: it is not yet JSON, a match of the \
expression, or one of the choices.

Examples:
  verdigris generate                               a tale from its beginning
  verdigris generate \"The captain\" -n 100
  verdigris generate \"The captain\" -k my.key > tale.txt
  verdigris generate -f letter.txt -k my.key -o answer.txt
  echo \"The captain\" | verdigris generate --stop \".\"
  verdigris generate \"She was born in\" --regex \" 1[0-9]{3}\"
  verdigris generate \"Was he afraid?\" --choice \" yes, no, perhaps\"
  verdigris generate \"The captain: \" --json-schema person.schema.json
  verdigris generate \"His age: \" --json-schema '{\"type\": \"integer\"}'
  verdigris generate \"The captain\" --texts 8 --json > eight.jsonl
  verdigris generate --seed 7 --temperature 1 --top-p 1 --json
  verdigris generate \"The captain\" --typical-p 0.9 --no-repeat-ngram-size 4
  verdigris generate \"The captain\" --bad-words \"sea\" --min-tokens 50
  verdigris generate \"The captain\" --logit-bias 13=-5 --json --logprobs 3
  verdigris generate \"The captain\" --draft tale-small
  verdigris generate --expert tale-expert --anti tale-small
  verdigris generate -m Qwen/Qwen2.5-0.5B-Instruct --chat \"What is a spar?\" \\
      --system \"Be brief.\"")]
pub(crate) struct Generate {
    #[command(flatten)]
    prompt: PromptOptions,
    /// Take the prompt for a message to the model, and write its answer, as its chat template has it
    #[arg(long)]
    chat: bool,
    /// In a conversation: what the model is told to be
    #[arg(long, value_name = "TEXT", requires = "chat", allow_hyphen_values = true)]
    system: Option<String>,
    /// Mark the text with this key
    #[arg(short, long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Mark the text with the key of this folder that is to be used today
    #[arg(long, value_name = "DIR", conflicts_with = "key")]
    ring: Option<PathBuf>,
    /// For a ring: whose key
    #[arg(long, value_name = "NAME", requires = "ring", default_value = "", hide_default_value = true)]
    tenant: String,
    /// For a key that carries numbers: the number, such as 0xbeef
    #[arg(long, value_name = "N", value_parser = crate::payload::number)]
    payload: Option<u32>,
    /// The most tokens to write
    #[arg(short = 'n', long, value_name = "N", default_value_t = Request::MAX_TOKENS, value_parser = whole::<usize>)]
    max_tokens: usize,
    /// End the text where this comes in it, which is then not part of it; may be given several times. A line end is
    /// $'\n' in most shells
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Repeat a text: the same seed gives the same one [default: a new one each time, below 2^53, for programs that
    /// read numbers in JSON as fractions]
    #[arg(short, long, value_name = "N", value_parser = whole::<u64>)]
    seed: Option<u64>,
    /// Write so many texts side by side, with this seed and the ones after it, and print each when it ends
    #[arg(long, value_name = "N", default_value = "1", hide_default_value = true,
          value_parser = clap::value_parser!(u16).range(1..))]
    texts: u16,
    /// Print a JSON object for each text at its end instead of text as it comes
    #[arg(long)]
    json: bool,
    /// With --json: how probable each token of the text was, and the N tokens that were most probable in its place
    #[arg(long, value_name = "N", requires = "json", value_parser = whole::<usize>)]
    logprobs: Option<usize>,
    /// With --logprobs: of the model's own law, or of the one that was drawn from
    #[arg(long, value_name = "LAW", requires = "logprobs", default_value = "raw", hide_default_value = true)]
    logprobs_mode: LawOfLogprobs,
    /// Write to this file instead of standard output; it is there when all is written
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// With --output: replace a file that is there
    #[arg(long, requires = "output")]
    force: bool,
    #[command(flatten)]
    run: RunOptions,
    // Groups with a heading come last: it would hold for what follows.
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten, next_help_heading = "Output format")]
    form: WrittenForm,
    #[command(flatten, next_help_heading = "Drafts")]
    drafts: DraftOptions,
    #[command(flatten, next_help_heading = "Ranks")]
    ranks: RankOptions,
    #[command(flatten, next_help_heading = "Rewards")]
    rewards: RewardOptions,
    #[command(flatten, next_help_heading = "Sampling")]
    sampling: SamplingOptions,
    #[command(flatten, next_help_heading = "Tokens")]
    tokens: TokenOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum LawOfLogprobs {
    /// The model's own, before any option acts on it
    Raw,
    /// The one that the token was drawn from, after all of them
    Processed,
}

impl From<LawOfLogprobs> for LogprobsMode {
    fn from(law: LawOfLogprobs) -> Self {
        match law {
            LawOfLogprobs::Raw => Self::Raw,
            LawOfLogprobs::Processed => Self::Processed,
        }
    }
}

/// What the text must look like, and how it is written.
#[derive(Args)]
struct WrittenForm {
    #[command(flatten)]
    form: FormOptions,
    /// Write what the form leaves no choice about with the tokens that the tokenizer has for it
    #[arg(long, requires = "Form")]
    canonical: bool,
}

impl Generate {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.run.begin()?;
        let mut key = self.key.as_deref().map(Key::load).transpose()?;
        let ring = self.ring.as_deref().map(KeyRing::load).transpose()?;
        if self.payload.is_some() && key.is_none() && ring.is_none() {
            return Err(Failure::Usage("a payload needs a key that carries it: --key FILE".into()));
        }
        self.drafts.check(self.seed)?;
        // Told before anything is computed.
        let inputs: Vec<_> = self.prompt.file().into_iter().chain(self.key.as_deref()).collect();
        let file = self.output.as_deref().map(|path| OutputFile::new(path, self.force, &inputs)).transpose()?;
        let prompt = self.prompt.read(self.run.quiet)?;
        if self.chat && prompt.is_empty() {
            return Err(Failure::Usage("--chat needs a message: generate --chat \"What is a spar?\"".into()));
        }
        let engine = self.engine.engine_on(&self.ranks)?;
        if let (None, Some(ring)) = (&key, ring) {
            key = Some(writer_of(ring, &self.tenant, engine.reader())?);
        }
        let request = match self.chat {
            true => engine.chat(self.system.iter().map(Message::system).chain([Message::user(&prompt)])),
            false => engine.request(&prompt),
        };
        let mut request = self.tokens.apply(self.sampling.apply(request.max_tokens(self.max_tokens)));
        if let Some(top) = self.logprobs {
            request = request.logprobs(top).logprobs_mode(self.logprobs_mode.into());
        }
        for stop in &self.stop {
            request = request.stop(stop);
        }
        if let Some(key) = &key {
            request = request.watermark(key);
            if let Some(payload) = self.payload {
                request = request.payload(payload);
            }
        }
        let drafter = self.drafts.drafter(&self.engine)?;
        request = self.drafts.apply(request, drafter.as_ref());
        if let Some(seed) = self.seed {
            request = request.seed(seed);
            if !self.drafts.are_counted() {
                // How many drafts pay is a matter of time, which must not show in a text that is to be repeated.
                request = request.repeatable();
            }
        }
        request = self.form.form.apply(request)?;
        if self.form.canonical {
            request = request.forced_text(ForcedText::Canonical);
        }
        let (judge, guide) = (self.rewards.judge()?, self.rewards.guide()?);
        if let Some(guide) = &guide {
            request = request.guide(guide, self.rewards.guide_weight, self.rewards.guide_top_k);
        }
        self.write(request, &prompt, key.as_ref(), judge.as_ref(), file)
    }
}
