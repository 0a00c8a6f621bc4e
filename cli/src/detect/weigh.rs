//! Detection with the help of the model: tokens that had few alternatives count less.

use std::sync::Arc;

use verdigris::detector::{TriedReading, Versions};
use verdigris::watermark::weighted::Weighting;
use verdigris::{DetectError, Device, Judgement, Key, Reader, Weighed};

use super::options::{Detect, Method};
use crate::error::Failure;

/// The default entropy threshold, in nats.
const ENTROPY: f64 = 0.9;

/// Checks options and keys before anything is read.
pub(super) fn check(options: &Detect, method: Method, keys: &[Key]) -> Result<(), Failure> {
    let temperature = options.weigh.temperature;
    if !(temperature > 0.0 && temperature <= 100.0) {
        return Err(Failure::Usage(format!("--temperature is {temperature}, but must be above 0 and at most 100")));
    }
    if let Some(nats) = options.weigh.entropy_threshold {
        if !matches!(method, Method::Sweet) {
            return Err(Failure::Usage("--entropy-threshold is for --weigh sweet: leave it out".into()));
        }
        if !(nats.is_finite() && nats >= 0.0) {
            return Err(Failure::Usage(format!("--entropy-threshold is {nats}, but must be a number, 0 or more")));
        }
    }
    let [key] = keys else { return Err(Failure::Usage("--weigh takes one key".into())) };
    match key.payload_bits() {
        None => Ok(()),
        Some(_) => Err(Failure::Usage(format!(
            "--weigh is for keys that carry no payload, but {} carries one: leave --weigh out",
            key.id()
        ))),
    }
}

/// Judges one text in all its versions under one key. The error does not name the text.
pub(super) fn judge<'k>(
    options: &Detect,
    method: Method,
    reader: &Reader,
    keys: &'k [Key],
    text: &str,
) -> Result<Judgement<'k>, Failure> {
    let temperature = options.weigh.temperature;
    let [key] = keys else { return Err(Failure::Usage("--weigh takes one key".into())) };
    let engine = options.model.engine(None, &Device::Cpu)?;
    let weighting = match method {
        Method::LikelihoodRatio => Weighting::LikelihoodRatio { delta: key.delta() / temperature },
        Method::Ewd => Weighting::Ewd,
        Method::Sweet => Weighting::Sweet(options.weigh.entropy_threshold.unwrap_or(ENTROPY)),
    };
    let constraints = options.grammars()?.into_iter().map(|grammar| engine.constraint(Arc::unwrap_or_clone(grammar)));
    let weighing = engine.reader().clone().of_constraints(constraints);
    let look = |text: &str| {
        let text = &text[reader.extent(text)];
        let tokens = weighing.tokenizer().encode_long(text).map_err(verdigris::Error::from)?;
        let constraint = weighing.constraint_of(&tokens)?;
        engine.weigh(key, &tokens, weighting, temperature, options.repeats, constraint)
    };
    let versions = Versions::of(text, !options.no_repair);
    let looks = versions.look(|version| match look(version.text) {
        Ok(Some(weighed)) => Ok(Ok((weighed, version.repairs()))),
        Ok(None) => Err(Failure::Usage(format!(
            "--weigh is for keys with green lists, but {} is {}",
            key.id(),
            key.dialect().name()
        ))),
        Err(verdigris::Error::Detect(DetectError::Constraint(departure))) => Ok(Err(departure)),
        Err(error) => Err(error.into()),
    })?;
    let looks = looks.map_err(DetectError::from)?;
    let tried = looks.len() as f64;
    let readings = looks.iter().map(|(_, repairs)| TriedReading { repairs: repairs.clone(), skipped: 0 }).collect();
    let best = looks.into_iter().min_by(|(a, _), (b, _)| a.evidence.ln_p.total_cmp(&b.evidence.ln_p));
    let (Weighed { evidence, mut expected }, repairs) = best.expect("the original, or a version that matches");
    // The expected p-value is corrected for the number of looks in the same way.
    expected.ln_p = expected.best_of(tried).ln_p_corrected();
    let manifests = versions.unwrapped().manifests.clone();
    let judgement = Judgement::of(key, evidence.best_of(tried), options.level);
    Ok(Judgement { expected: Some(expected), repairs, manifests, readings, ..judgement })
}
