//! Detection with the model at hand: tokens that could hardly have been others count less.

use clap::{Args, ValueEnum};
use verdigris::watermark::weighted::Weighting;
use verdigris::{Device, Judgement, Key};

use super::Detect;
use crate::error::Failure;

#[derive(Args)]
pub(super) struct WeighOptions {
    /// Weigh tokens by what the model of --model expected, which must be the one that wrote: finds a mark in fewer
    /// tokens where the text had little choice
    #[arg(long, value_enum, value_name = "METHOD", conflicts_with_all = ["windows", "html", "color", "ring"])]
    pub(super) weigh: Option<Method>,
    /// The temperature at which the text is thought to be written
    #[arg(long, value_name = "T", default_value_t = 1.0, requires = "weigh")]
    temperature: f64,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Method {
    /// By how much likelier the mark made a token
    LikelihoodRatio,
    /// By the spike entropy at its place
    Ewd,
    /// Only tokens at places with more than .9 nats of entropy
    Sweet,
}

/// Judges one text under one key; the error does not name it.
pub(super) fn judge<'k>(
    options: &Detect,
    method: Method,
    keys: &'k [Key],
    text: &str,
) -> Result<Judgement<'k>, Failure> {
    let temperature = options.weigh.temperature;
    if !(temperature > 0.0 && temperature <= 100.0) {
        return Err(Failure::Usage(format!("--temperature is {temperature}, but must be above 0 and at most 100")));
    }
    let [key] = keys else { return Err(Failure::Usage("--weigh takes one key".into())) };
    let engine = options.model.engine(&Device::Cpu)?;
    let weighting = match method {
        Method::LikelihoodRatio => Weighting::LikelihoodRatio { delta: key.delta() / temperature },
        Method::Ewd => Weighting::Ewd,
        Method::Sweet => Weighting::Sweet(0.9),
    };
    let tokens = engine.reader().tokenizer().encode(text).map_err(verdigris::Error::from)?;
    let evidence = engine.weigh(key, &tokens, weighting, temperature, options.repeats.into())?;
    let Some(evidence) = evidence else {
        let message = format!("--weigh is for keys with colours, and {} is {}", key.id(), key.dialect().name());
        return Err(Failure::Usage(message));
    };
    Ok(Judgement::of(key, evidence))
}
