//! The evidence of tokens under one key.

use std::sync::Arc;

use verdigris_watermark::{Detector, Detectors, Evidence, Key, Repeats, Scheme, payload, weighted};

use crate::error::DetectError;
use crate::tokens::Tokens;

/// Returns the scheme of the payload that a text under this key most likely carries, that payload, and the number of
/// payloads of which it is the best.
pub(crate) fn carrier(
    key: &Key,
    tokens: &Tokens,
) -> Result<(Arc<dyn Scheme>, payload::PayloadReading, f64), DetectError> {
    let mut reader = key.payload_reader()?;
    tokens.read_payload(&mut reader);
    let read = reader.read();
    Ok((key.carrier(read.payload)?, read, reader.payloads()))
}

/// Returns the evidence of the tokens under a key for any tokenizer, corrected for the payloads or variants that are
/// tried.
pub(crate) fn evidence(key: &Key, tokens: &Tokens, repeats: Repeats) -> Result<Evidence, DetectError> {
    let (schemes, tried) = match key.payload_bits() {
        None => (key.schemes()?, f64::from(key.variants())),
        Some(_) => {
            let (carrier, _, payloads) = carrier(key, tokens)?;
            (vec![carrier], payloads)
        }
    };
    Ok(best_of(of_each(key, schemes, tokens, repeats), tried))
}

/// Returns the evidence of the tokens under each scheme of a key, as [`read`] does.
pub(crate) fn of_each(key: &Key, schemes: Vec<Arc<dyn Scheme>>, tokens: &Tokens, repeats: Repeats) -> Vec<Evidence> {
    if tokens.choices().is_some() {
        // Their choices weigh the tokens, one by one.
        let weighed = |scheme| read(key, tokens, &mut Detector::new(scheme).repeats(repeats));
        return schemes.into_iter().map(weighed).collect();
    }
    let mut detectors = Detectors::new(schemes, repeats);
    detectors.push(tokens.ids());
    detectors.evidence()
}

/// Returns the strongest evidence, corrected for what was tried to find it.
pub(crate) fn best_of(each: Vec<Evidence>, tried: f64) -> Evidence {
    let best = each.into_iter().min_by(|a, b| a.ln_p.total_cmp(&b.ln_p));
    best.expect("a key has at least one variant").best_of(tried)
}

/// Returns the evidence of the tokens that the detector reads. If the constraint of the text is known, colours are
/// weighted by the choice that it left; the weights do not depend on the key, so the p-value is exact.
pub(crate) fn read(key: &Key, tokens: &Tokens, detector: &mut Detector) -> Evidence {
    let mut marks = Vec::new();
    tokens.read(detector, |_, read| {
        if tokens.choices().is_some() {
            marks.extend_from_slice(read);
        }
    });
    let counted = detector.evidence();
    let weighed = |ways| weighted::evidence_of_ways(detector.distribution(), &marks, ways, key.delta());
    let weighed = tokens.choices().and_then(weighed);
    weighed.map_or(counted, |weighed| weighed.of_sample(counted.sampled))
}
