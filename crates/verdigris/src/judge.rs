//! Judging a text from every side, and paying for each look.

use std::ops::Range;

use verdigris_logits::TokenId;
use verdigris_watermark::normalize::{Normalized, Repair, normalize};
use verdigris_watermark::windows::{self, Passage};
use verdigris_watermark::{Detector, Evidence, Key, Mark, Repeats, payload};

use crate::error::Error;
use crate::reader::Reader;

/// How a text is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// What counts as the same evidence again.
    pub repeats: Repeats,
    /// Whether a text with invisible, look-alike or decomposed characters is looked at once more after repair.
    pub normalize: bool,
    /// From how many places the text is tokenized: the first is its beginning, each next one a character later. For
    /// texts that were cut out in the middle of a token.
    pub offsets: usize,
    /// Whether [`Judgement::tokens`] are wanted. Passages need them.
    pub places: bool,
    /// Whether marked passages are looked for, found if their family-wise p-value is at or under this.
    pub passages: Option<f64>,
}

impl Default for Look {
    /// Repeats by context, with repair, from the beginning, as a whole.
    fn default() -> Self {
        Self { repeats: Repeats::default(), normalize: true, offsets: 1, places: true, passages: None }
    }
}

/// What a text is under the best of some keys.
#[derive(Debug)]
pub struct Judgement<'k> {
    /// The key with the least p-value.
    pub key: &'k Key,
    /// The evidence of the whole text, which pays for all looks.
    pub evidence: Evidence,
    /// What the mark carries, for keys that carry something.
    pub payload: Option<payload::Reading>,
    /// The repairs that this look needed; empty where the text was read as it came.
    pub repairs: Vec<(Repair, usize)>,
    /// Bytes left out at the beginning.
    pub skipped: usize,
    /// What the key sees in each token, with the bytes of the text as it came; empty where it is not wanted.
    pub tokens: Vec<(Range<usize>, Mark)>,
    /// Marked passages, with the bytes of the text as it came. Their p-values pay for all looks.
    pub passages: Vec<(Range<usize>, Passage)>,
}

impl<'k> Judgement<'k> {
    /// Of a text of which no more is known than its evidence.
    pub fn of(key: &'k Key, evidence: Evidence) -> Self {
        let (repairs, tokens, passages) = (Vec::new(), Vec::new(), Vec::new());
        Self { key, evidence, payload: None, repairs, skipped: 0, tokens, passages }
    }
}

/// One way to read the text.
struct Reading<'t> {
    repaired: Option<&'t Normalized>,
    skipped: usize,
    text: &'t str,
    tokens: Vec<TokenId>,
}

impl Reader {
    /// Judges a text under some keys, of which there must be at least one.
    ///
    /// # Panics
    /// If there is no key.
    pub fn judge<'k>(&self, keys: &[&'k Key], text: &str, look: &Look) -> Result<Judgement<'k>, Error> {
        let repaired = look.normalize.then(|| normalize(text)).filter(|normalized| !normalized.changes.is_empty());
        let mut readings = self.readings(text, None, look.offsets);
        if let Some(normalized) = &repaired {
            readings.extend(self.readings(&normalized.text, repaired.as_ref(), look.offsets));
        }
        let looks = readings.len() * keys.len() * (1 + usize::from(look.passages.is_some()));
        let mut best: Option<(f64, usize, usize)> = None;
        for (r, reading) in readings.iter().enumerate() {
            for (k, key) in keys.iter().enumerate() {
                let evidence = self.evidence(key, &reading.tokens, look.repeats)?;
                let ln_p = evidence.ln_p_corrected();
                if best.is_none_or(|best| ln_p < best.0) {
                    best = Some((ln_p, r, k));
                }
            }
        }
        let (_, r, k) = best.expect("at least one key");
        self.report(keys[k], text, &readings[r], look, looks as f64)
    }

    /// A text from each of its first places.
    fn readings<'t>(&self, text: &'t str, repaired: Option<&'t Normalized>, offsets: usize) -> Vec<Reading<'t>> {
        let starts = text.char_indices().map(|(at, _)| at).skip(1).take(offsets.max(1) - 1);
        let read = |skipped| {
            let text = &text[skipped..];
            Reading { repaired, skipped, text, tokens: self.tokenizer().encode_long(text) }
        };
        std::iter::once(0).chain(starts).map(read).collect()
    }

    /// The evidence of some tokens under one key: one look, which pays for the payloads that it tries.
    pub fn evidence(&self, key: &Key, tokens: &[TokenId], repeats: Repeats) -> Result<Evidence, Error> {
        self.fits(key)?;
        evidence(key, tokens, repeats)
    }

    fn report<'k>(
        &self,
        key: &'k Key,
        text: &str,
        reading: &Reading<'_>,
        look: &Look,
        looks: f64,
    ) -> Result<Judgement<'k>, Error> {
        let wanted = look.places || look.passages.is_some();
        let places = if wanted { self.tokenizer().encode_with_places(reading.text) } else { Vec::new() };
        let tokens = &reading.tokens;
        let (mut payload, mut tried) = (None, looks);
        let scheme = match key.payload_bits() {
            Some(bits) => {
                let mut reader = key.payload_reader()?;
                reader.push(tokens);
                let read = reader.read();
                payload = Some(read);
                tried *= 2f64.powi(i32::from(bits));
                key.carrier(read.payload)?
            }
            None => self.scheme(key)?,
        };
        let mut detector = Detector::new(scheme).repeats(look.repeats);
        if wanted {
            detector = detector.recording();
        }
        let marks = detector.push(tokens).to_vec();
        let evidence = detector.evidence().best_of(tried);
        let origin = |at: usize| match reading.repaired {
            Some(normalized) => normalized.origin(at + reading.skipped),
            None => at + reading.skipped,
        };
        let place = |range: &Range<usize>| origin(range.start)..origin(range.end).min(text.len());
        let tokens: Vec<_> = places.iter().map(|(_, range)| place(range)).zip(marks).collect();
        let level = look.passages.map(|level| level / tried);
        let found = level.map_or(Vec::new(), |level| windows::passages(detector.law(), detector.record(), level));
        let passages = found
            .into_iter()
            .map(|passage| {
                let range = tokens[passage.start].0.start..tokens[passage.end - 1].0.end;
                (range, Passage { ln_p: passage.ln_p + tried.ln(), ..passage })
            })
            .collect();
        let repairs = reading.repaired.map_or(Vec::new(), Normalized::summary);
        Ok(Judgement { key, evidence, payload, repairs, skipped: reading.skipped, tokens, passages })
    }
}

/// The evidence of some tokens under a key of whatever tokenizer.
fn evidence(key: &Key, tokens: &[TokenId], repeats: Repeats) -> Result<Evidence, Error> {
    if let Some(bits) = key.payload_bits() {
        let mut reader = key.payload_reader()?;
        reader.push(tokens);
        return Ok(payload_evidence(&reader.read(), bits, tokens.len() as u64));
    }
    let mut detector = Detector::new(key.scheme()?).repeats(repeats);
    detector.push(tokens);
    Ok(detector.evidence())
}

/// The evidence that a text carries some payload: all of them were tried.
pub(crate) fn payload_evidence(read: &payload::Reading, bits: u8, tokens: u64) -> Evidence {
    let law = verdigris_watermark::Law::Green { gamma: 0.25 };
    let evidence = Evidence::from_sum(&law, read.scored, read.green as f64);
    evidence.of_tokens(tokens).best_of(2f64.powi(i32::from(bits)))
}

/// Whether an origin goes with a name: which key wrote a text, if any did.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What was tried, such as a key's id with the vocabulary size.
    pub label: String,
    /// Its evidence, which pays for everything that was tried.
    pub evidence: Evidence,
}

impl Reader {
    /// Tries keys that may differ in dialect, vocabulary size and green share; the best come first. Keys here need
    /// not know this tokenizer: the text is tokenized by it all the same.
    pub fn identify(&self, candidates: &[(String, Key)], text: &str, repeats: Repeats) -> Result<Vec<Finding>, Error> {
        use rayon::prelude::*;
        let tokens = self.tokenizer().encode_long(text);
        let tried = candidates.len() as f64;
        let mut findings = candidates
            .par_iter()
            .map(|(label, key)| {
                let evidence = evidence(key, &tokens, repeats)?;
                let evidence = evidence.best_of(evidence.tried * tried);
                Ok(Finding { label: label.clone(), evidence })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        findings.sort_by(|a, b| a.evidence.ln_p_corrected().total_cmp(&b.evidence.ln_p_corrected()));
        Ok(findings)
    }
}
