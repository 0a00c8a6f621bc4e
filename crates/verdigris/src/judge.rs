//! Judging a text from every side, and paying for each look.

use std::ops::Range;
use std::sync::Arc;

use verdigris_logits::TokenId;
use verdigris_text::Tokenizer;
use verdigris_watermark::normalize::{Normalized, Repair, normalize};
use verdigris_watermark::windows::{self, Passage};
use verdigris_watermark::{Detector, Evidence, Key, Mark, Repeats, Scheme, TooShort, Verdict, payload};

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
    /// Whether [`Judgement::tokens`] are wanted.
    pub places: bool,
    /// Whether marked passages are looked for, found if their family-wise p-value, which pays for all looks, is at or
    /// under this.
    pub passages: Option<f64>,
}

impl Default for Look {
    /// Repeats by context, with repair, from the beginning, as a whole.
    fn default() -> Self {
        Self { repeats: Repeats::default(), normalize: true, offsets: 1, places: true, passages: None }
    }
}

/// What a text is under some keys.
#[derive(Debug)]
pub struct Judgement<'k> {
    /// The key with the least p-value of the whole text. Where that is no mark but a passage is, the key of the most
    /// striking passage.
    pub key: &'k Key,
    /// The evidence of the whole text under that key, which pays for all looks.
    pub evidence: Evidence,
    /// What the mark carries, for keys that carry something.
    pub payload: Option<payload::PayloadReading>,
    /// The repairs that this look needed; empty where the text was read as it came.
    pub repairs: Vec<(Repair, usize)>,
    /// Bytes left out at the beginning.
    pub skipped: usize,
    /// What the key sees in each token, with the bytes of the text as it came; empty where it is not wanted.
    pub tokens: Vec<(Range<usize>, Mark)>,
    /// The marked passages of all keys, in order. Those of one key do not overlap.
    pub passages: Vec<MarkedPassage<'k>>,
}

/// A marked passage of a text.
#[derive(Clone, Debug)]
pub struct MarkedPassage<'k> {
    /// The key that it is marked with.
    pub key: &'k Key,
    /// Its bytes, of the text as it came.
    pub range: Range<usize>,
    /// Draws counted in it.
    pub scored: u64,
    /// Standard deviations of their sum above that of unmarked text.
    pub z: f64,
    /// The natural logarithm of the p-value of the window that found it, which pays for all windows and all looks.
    pub ln_p: f64,
    /// The repairs that the look needed which found it.
    pub repairs: Vec<(Repair, usize)>,
}

impl<'k> Judgement<'k> {
    /// Of a text of which no more is known than its evidence.
    pub fn of(key: &'k Key, evidence: Evidence) -> Self {
        let (repairs, tokens, passages) = (Vec::new(), Vec::new(), Vec::new());
        Self { key, evidence, payload: None, repairs, skipped: 0, tokens, passages }
    }

    /// Whether there is a mark at a level: in the whole text, or in a passage.
    pub fn verdict(&self, level: f64) -> Result<Verdict, TooShort> {
        // A passage was found at a level that pays for all looks.
        if self.passages.is_empty() { self.evidence.verdict(level) } else { Ok(Verdict::Marked) }
    }
}

/// One way to read the text.
struct Reading<'t> {
    repaired: Option<&'t Normalized>,
    skipped: usize,
    text: &'t str,
    tokens: Vec<TokenId>,
}

impl Reading<'_> {
    /// The bytes of each token, of the text as it came.
    fn places(&self, tokenizer: &Tokenizer, original: &str) -> Result<Vec<Range<usize>>, Error> {
        let origin = |at: usize| match self.repaired {
            Some(normalized) => normalized.origin(at + self.skipped),
            None => at + self.skipped,
        };
        let places = tokenizer.encode_with_places(self.text)?.into_iter();
        Ok(places.map(|(_, range)| origin(range.start)..origin(range.end).min(original.len())).collect())
    }

    fn repairs(&self) -> Vec<(Repair, usize)> {
        self.repaired.map_or(Vec::new(), Normalized::summary)
    }
}

/// What one key sees in one reading.
#[derive(Clone, Copy)]
struct Sight {
    key: usize,
    reading: usize,
    evidence: Evidence,
    payload: Option<payload::PayloadReading>,
}

impl Sight {
    /// The p-value's logarithm, not cut off at 1: so p-values are told apart that are 1 after all looks are paid for.
    fn rank(&self) -> f64 {
        self.evidence.ln_p + self.evidence.tried.ln()
    }
}

impl Reader {
    /// Judges a text under some keys, each of which looks at every reading of it.
    ///
    /// # Errors
    /// [`Error::NoKey`] without a key, and [`Error::ForeignKey`] where one was made for another tokenizer.
    pub fn judge<'k>(&self, keys: &[&'k Key], text: &str, look: &Look) -> Result<Judgement<'k>, Error> {
        let repaired = look.normalize.then(|| normalize(text)).filter(|normalized| !normalized.changes.is_empty());
        let mut readings = self.readings(text, None, look.offsets)?;
        if let Some(normalized) = &repaired {
            readings.extend(self.readings(&normalized.text, repaired.as_ref(), look.offsets)?);
        }
        let looks = (readings.len() * keys.len() * (1 + usize::from(look.passages.is_some()))) as f64;
        let mut whole: Option<Sight> = None;
        let mut part: Option<(f64, Sight)> = None;
        let mut passages = Vec::new();
        let mut places: Vec<Option<Vec<Range<usize>>>> = vec![None; readings.len()];
        for (k, &key) in keys.iter().enumerate() {
            self.fits(key)?;
            let scheme = if key.payload_bits().is_none() { Some(key.scheme()?) } else { None };
            let mut found = Vec::new();
            for (r, reading) in readings.iter().enumerate() {
                let (scheme, payload, tried) = match &scheme {
                    Some(scheme) => (scheme.clone(), None, looks),
                    None => {
                        let (carrier, read, payloads) = carrier(key, &reading.tokens)?;
                        (carrier, Some(read), looks * payloads)
                    }
                };
                let mut detector = Detector::new(scheme).repeats(look.repeats);
                if look.passages.is_some() {
                    detector = detector.recording();
                }
                read(&mut detector, &reading.tokens);
                let sight = Sight { key: k, reading: r, evidence: detector.evidence().best_of(tried), payload };
                if whole.is_none_or(|best| sight.rank() < best.rank()) {
                    whole = Some(sight);
                }
                let Some(level) = look.passages else { continue };
                for passage in windows::passages(detector.law(), detector.record(), level / tried) {
                    let places = match &mut places[r] {
                        Some(places) => places,
                        none => none.insert(reading.places(self.tokenizer(), text)?),
                    };
                    let range = places[passage.start].start..places[passage.end - 1].end;
                    let Passage { scored, z, .. } = passage;
                    let ln_p = passage.ln_p + tried.ln();
                    if part.is_none_or(|(best, _)| ln_p < best) {
                        part = Some((ln_p, sight));
                    }
                    found.push(MarkedPassage { key, range, scored, z, ln_p, repairs: reading.repairs() });
                }
            }
            passages.extend(apart(found));
        }
        passages.sort_by_key(|passage| (passage.range.start, passage.range.end));
        let mut sight = whole.ok_or(Error::NoKey)?;
        if let (Some(level), Some((_, of_passage))) = (look.passages, part)
            && sight.evidence.ln_p_corrected() > level.ln()
        {
            sight = of_passage;
        }
        let (key, reading) = (keys[sight.key], &readings[sight.reading]);
        let mut tokens = Vec::new();
        if look.places {
            let scheme = match sight.payload {
                Some(read) => key.carrier(read.payload)?,
                None => key.scheme()?,
            };
            let mut detector = Detector::new(scheme).repeats(look.repeats);
            let marks = detector.push(&reading.tokens).iter().copied();
            let places = match places[sight.reading].take() {
                Some(places) => places,
                None => reading.places(self.tokenizer(), text)?,
            };
            tokens = places.into_iter().zip(marks).collect();
        }
        let Sight { evidence, payload, .. } = sight;
        let (repairs, skipped) = (reading.repairs(), reading.skipped);
        Ok(Judgement { key, evidence, payload, repairs, skipped, tokens, passages })
    }

    /// A text from each of its first places.
    fn readings<'t>(
        &self,
        text: &'t str,
        repaired: Option<&'t Normalized>,
        offsets: usize,
    ) -> Result<Vec<Reading<'t>>, Error> {
        let starts = text.char_indices().map(|(at, _)| at).skip(1).take(offsets.max(1) - 1);
        let read = |skipped| {
            let text = &text[skipped..];
            Ok(Reading { repaired, skipped, text, tokens: self.tokenizer().encode_long(text)? })
        };
        std::iter::once(0).chain(starts).map(read).collect()
    }

    /// The evidence of some tokens under one key: one look, which pays for the payloads that it tries.
    pub fn evidence(&self, key: &Key, tokens: &[TokenId], repeats: Repeats) -> Result<Evidence, Error> {
        self.fits(key)?;
        evidence(key, tokens, repeats)
    }
}

/// Tokens that a detector gets at once: while it reads one it holds many times its bytes.
const AT_ONCE: usize = 1 << 16;

fn read(detector: &mut Detector, tokens: &[TokenId]) {
    tokens.chunks(AT_ONCE).for_each(|tokens| {
        detector.push(tokens);
    });
}

/// Of passages that overlap, as those do that several readings show, the most striking ones.
fn apart(mut found: Vec<MarkedPassage<'_>>) -> Vec<MarkedPassage<'_>> {
    found.sort_by(|a, b| a.ln_p.total_cmp(&b.ln_p));
    let mut kept: Vec<MarkedPassage<'_>> = Vec::new();
    for passage in found {
        let Range { start, end } = passage.range;
        if kept.iter().all(|other| end <= other.range.start || other.range.end <= start) {
            kept.push(passage);
        }
    }
    kept
}

/// The scheme of the payload that a text under a key most likely carries, that payload, and of how many it is the
/// best.
fn carrier(key: &Key, tokens: &[TokenId]) -> Result<(Arc<dyn Scheme>, payload::PayloadReading, f64), Error> {
    let mut reader = key.payload_reader()?;
    tokens.chunks(AT_ONCE).for_each(|tokens| reader.push(tokens));
    let read = reader.read();
    Ok((key.carrier(read.payload)?, read, reader.payloads()))
}

/// The evidence of some tokens under a key of whatever tokenizer.
fn evidence(key: &Key, tokens: &[TokenId], repeats: Repeats) -> Result<Evidence, Error> {
    if key.payload_bits().is_some() {
        let mut reader = key.payload_reader()?;
        tokens.chunks(AT_ONCE).for_each(|tokens| reader.push(tokens));
        return Ok(reader.evidence(tokens.len() as u64));
    }
    let mut detector = Detector::new(key.scheme()?).repeats(repeats);
    read(&mut detector, tokens);
    Ok(detector.evidence())
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
        let tokens = self.tokenizer().encode_long(text)?;
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
