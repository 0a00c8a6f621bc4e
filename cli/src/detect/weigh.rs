//! Detection with the model at hand: tokens that could hardly have been others count less.

use verdigris::detector::Unwrapped;
use verdigris::watermark::weighted::Weighting;
use verdigris::{Device, Judgement, Key, Reader};

use super::options::{Detect, Method};
use crate::error::Failure;

/// Judges one text under one key; the error does not name it.
pub(super) fn judge<'k>(
    options: &Detect,
    method: Method,
    reader: &Reader,
    keys: &'k [Key],
    text: &str,
) -> Result<Judgement<'k>, Failure> {
    let temperature = options.weigh.temperature;
    if !(temperature > 0.0 && temperature <= 100.0) {
        return Err(Failure::Usage(format!("--temperature is {temperature}, but must be above 0 and at most 100")));
    }
    let [key] = keys else { return Err(Failure::Usage("--weigh takes one key".into())) };
    let engine = options.model.engine(None, &Device::Cpu)?;
    let weighting = match method {
        Method::LikelihoodRatio => Weighting::LikelihoodRatio { delta: key.delta() / temperature },
        Method::Ewd => Weighting::Ewd,
        Method::Sweet => Weighting::Sweet(options.weigh.entropy_threshold),
    };
    let form = options.form.grammar()?.map(|grammar| engine.constraint(grammar));
    let unwrapped = Unwrapped::new(text);
    let text = &unwrapped.text[reader.extent(&unwrapped.text)];
    let tokens = engine.reader().tokenizer().encode(text).map_err(verdigris::Error::from)?;
    let weighed = engine.weigh(key, &tokens, weighting, temperature, options.repeats.into(), form.as_ref())?;
    let Some(weighed) = weighed else {
        let message = format!("--weigh is for keys with colours, and {} is {}", key.id(), key.dialect().name());
        return Err(Failure::Usage(message));
    };
    let manifests = unwrapped.manifests;
    Ok(Judgement { expected: Some(weighed.expected), manifests, ..Judgement::of(key, weighed.evidence) })
}
