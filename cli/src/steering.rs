//! Options for steering a model.

use std::path::PathBuf;

use clap::Args;
use verdigris::{Alpha, Device, Engine, Message, Request, Steering, TokenClass};

use crate::error::Failure;
use crate::model::{Backend, load};
use crate::number::whole;

/// The default weight of experts.
const ALPHA: &str = "0.75";

/// Models that steer a larger one, and how far.
#[derive(Args)]
pub(crate) struct SteerOptions {
    /// Steer by what this small model has learned (proxy-tuning), relative to its --anti; may be given several times
    #[arg(long, value_name = "PATH|NAME", requires = "anti")]
    expert: Vec<PathBuf>,
    /// The expert before its training; one for each expert. Without experts: a smaller model, whose preferences are
    /// subtracted (contrastive decoding)
    #[arg(long, value_name = "PATH|NAME")]
    anti: Vec<PathBuf>,
    /// The weight of each expert; one for all or one for each. 0.75:100 applies to the first 100 tokens, and 1..0:100
    /// falls linearly from 1 to 0 over them
    #[arg(long, value_name = "A", default_value = ALPHA, allow_negative_numbers = true)]
    alpha: Vec<String>,
    /// The weight of experts for a class of tokens, instead of --alpha: digits, words, punctuation, space, /EXPRESSION/
    /// or ids as in 13,220, such as digits=0; may be given several times, and the first class of a token counts
    #[arg(long, value_name = "CLASS=A")]
    alpha_of: Vec<String>,
    /// Compute experts with auto or candle [default: as --backend]
    #[arg(long, value_name = "LIBRARY", requires = "expert")]
    expert_backend: Option<Backend>,
    /// Steer away from what the model would write after --negative-prompt, with this strength: 1 is not at all, 1.5 is
    /// usual (classifier-free guidance)
    #[arg(long, value_name = "G", alias = "cfg-scale")]
    guidance_scale: Option<f64>,
    /// Before experts are added, leave out all but the model's own N most probable tokens
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    base_top_k: Option<usize>,
    /// Before experts are added, leave out all but the model's own most probable tokens that together have this
    /// probability; DExperts has 0.9
    #[arg(long, value_name = "P", alias = "filter-p")]
    base_top_p: Option<f64>,
    /// Before experts are added, leave out tokens that the model finds less than P times as probable as the best one;
    /// contrastive decoding has 0.1
    #[arg(long, value_name = "P")]
    base_min_p: Option<f64>,
    /// Limit the distance of each token's distribution from the model's own to this many nats, and report with --json
    /// what was spent; inf only reports it
    #[arg(long, value_name = "NATS")]
    steer_budget: Option<f64>,
}

impl SteerOptions {
    pub(crate) fn is_none(&self) -> bool {
        self.anti.is_empty() && self.guidance_scale.is_none()
    }

    pub(crate) fn backend(&self) -> Option<Backend> {
        self.expert_backend
    }

    /// Steers an engine, if options for that are given.
    pub(crate) fn steer(&self, engine: Engine, device: &Device) -> Result<Engine, Failure> {
        let (experts, antis) = (self.expert.len(), self.anti.len());
        if experts > 0 && experts != antis {
            let message = format!("--expert is given {experts} times, but --anti {antis} times: give one for each");
            return Err(Failure::Usage(message));
        }
        if antis > 0 && self.alpha.len() != 1 && self.alpha.len() != antis {
            let count = self.alpha.len();
            let what = if experts > 0 { "experts" } else { "anti-experts" };
            let message = format!("--alpha is given {count} times for {antis} {what}: give one for all or for each");
            return Err(Failure::Usage(message));
        }
        let weights = [("--alpha-of", !self.alpha_of.is_empty()), ("--alpha", self.alpha != [ALPHA])];
        if let Some((option, _)) = weights.iter().find(|(_, is_given)| *is_given && antis == 0) {
            let message = format!("{option} is a weight of experts: give --expert and --anti, or --anti alone");
            return Err(Failure::Usage(message));
        }
        if self.is_none() {
            let unused = [
                ("--base-top-k", self.base_top_k.is_some()),
                ("--base-top-p", self.base_top_p.is_some()),
                ("--base-min-p", self.base_min_p.is_some()),
                ("--steer-budget", self.steer_budget.is_some()),
            ];
            return match unused.iter().find(|(_, is_given)| *is_given) {
                Some((option, _)) => Err(Failure::Usage(format!(
                    "{option} needs something that steers: --expert and --anti, --anti alone, or --guidance-scale"
                ))),
                None => Ok(engine),
            };
        }
        let parsed = self.alpha.iter().map(|alpha| alpha.parse::<Alpha>().map_err(verdigris::Error::from));
        let alphas = parsed.collect::<Result<Vec<_>, _>>()?;
        // A model that is named twice is loaded once, and reads its prompts in one call.
        let mut engines: Vec<(&PathBuf, Engine)> = Vec::new();
        for path in self.expert.iter().chain(&self.anti) {
            if engines.iter().all(|(loaded, _)| *loaded != path) {
                engines.push((path, load(path, device)?));
            }
        }
        let named = |path: &PathBuf| &engines.iter().find(|(loaded, _)| *loaded == path).expect("it is loaded").1;
        let mut steering = Steering::new();
        for (i, anti) in self.anti.iter().enumerate() {
            let alpha = alphas[i % alphas.len()];
            steering = match self.expert.get(i) {
                Some(expert) => steering.pair(named(expert), named(anti), alpha),
                None => steering.away_from(named(anti), alpha),
            };
        }
        for of in &self.alpha_of {
            let (class, alpha) = token_class_and_alpha(of)?;
            steering = steering.alpha_of(class, alpha);
        }
        if let Some(scale) = self.guidance_scale {
            steering = steering.guidance_scale(scale);
        }
        if let Some(k) = self.base_top_k {
            steering = steering.base_top_k(k);
        }
        if let Some(p) = self.base_top_p {
            steering = steering.base_top_p(p);
        }
        if let Some(p) = self.base_min_p {
            steering = steering.base_min_p(p);
        }
        if let Some(nats) = self.steer_budget {
            steering = steering.budget(nats);
        }
        Ok(engine.steered_by(&steering)?)
    }
}

/// Splits an argument at the last `=` into a class of tokens and a weight.
fn token_class_and_alpha(argument: &str) -> Result<(TokenClass, Alpha), Failure> {
    let Some((class, alpha)) = argument.rsplit_once('=') else {
        let message = format!("--alpha-of {argument:?} has no = before the weight: give CLASS=WEIGHT, as in digits=0");
        return Err(Failure::Usage(message));
    };
    let class = class.parse().map_err(|bad: verdigris::BadTokenClass| Failure::Usage(format!("--alpha-of: {bad}")))?;
    Ok((class, alpha.parse().map_err(verdigris::Error::from)?))
}

/// The prompts of the members of a steered model, instead of the prompt.
#[derive(Args)]
pub(crate) struct MemberPromptOptions {
    /// With --guidance-scale: the prompt to steer away from, with --chat a message [default: the last token of the
    /// prompt]
    #[arg(long, value_name = "TEXT", requires = "guidance_scale", allow_hyphen_values = true)]
    negative_prompt: Option<String>,
    /// With --guidance-scale and --chat: the system prompt to steer away from; the message stays the same
    #[arg(long, value_name = "TEXT", requires_all = ["guidance_scale", "with_chat"], allow_hyphen_values = true)]
    negative_system: Option<String>,
    /// The prompt of experts; one for all or one for each
    #[arg(long, value_name = "TEXT", requires = "expert", allow_hyphen_values = true)]
    expert_prompt: Vec<String>,
    /// The prompt of anti-experts; one for all or one for each
    #[arg(long, value_name = "TEXT", requires = "anti", allow_hyphen_values = true)]
    anti_prompt: Vec<String>,
    /// Treat the prompt of experts as a chat message, with their own chat template
    #[arg(long, requires = "expert")]
    expert_chat: bool,
    /// Treat the prompt of anti-experts as a chat message, with their own chat template
    #[arg(long, requires = "anti")]
    anti_chat: bool,
}

impl MemberPromptOptions {
    /// The request with the given prompts. In a conversation they are messages; `message` is the request's own, if
    /// there is one for all texts.
    pub(crate) fn apply<'r>(
        &self,
        mut request: Request<'r>,
        chat: bool,
        message: Option<&str>,
    ) -> Result<Request<'r>, Failure> {
        for prompt in &self.expert_prompt {
            request = request.expert_prompt(prompt);
        }
        for prompt in &self.anti_prompt {
            request = request.anti_prompt(prompt);
        }
        if self.expert_chat {
            request = request.expert_chat();
        }
        if self.anti_chat {
            request = request.anti_chat();
        }
        let (prompt, system) = (self.negative_prompt.as_deref(), self.negative_system.as_deref());
        if prompt.is_none() && system.is_none() {
            return Ok(request);
        }
        if !chat {
            return Ok(request.negative_prompt(prompt.unwrap_or("")));
        }
        let Some(message) = prompt.or(message) else {
            return Err(Failure::Usage("--negative-system needs --negative-prompt for a batch of prompts".into()));
        };
        let messages = system.map(Message::system).into_iter().chain([Message::user(message)]);
        Ok(request.negative_prompt(messages.collect::<Vec<_>>()))
    }
}
