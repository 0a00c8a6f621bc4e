//! Judges a text in several ways, with a p-value corrected for all of them.

use std::io::Read;
use std::ops::Range;

use verdigris_logits::TokenId;
use verdigris_watermark::normalize::Repair;
use verdigris_watermark::real::ln;
use verdigris_watermark::windows::{self, Passage};
use verdigris_watermark::{Detector, Evidence, Key, Level, Mark, payload};

use crate::course::course as grown;
use crate::error::{DetectError, LongText};
use crate::evidence::{carrier, of_each, read};
use crate::forged::is_forged;
use crate::look::{Look, MAX_TEXT};
use crate::manifest::Unwrapped;
use crate::reader::Reader;
use crate::reading::{Reading, from_each_start};
use crate::tokens::Tokens;
use crate::versions::Versions;

/// The result of examining a text under some keys.
#[derive(Debug)]
pub struct Judgement<'k> {
    /// The p-value at which the text is called marked.
    pub level: Level,
    /// The key with the least p-value of the whole text. If the whole text is not marked but a passage is, the key of
    /// the passage with the least p-value.
    pub key: &'k Key,
    /// The evidence of the whole text under that key, corrected for all looks.
    pub evidence: Evidence,
    /// A lower bound on the expected evidence of a marked text with the same choices; known only with the model.
    pub expected: Option<Evidence>,
    /// The payload of the mark, for keys that carry payloads.
    pub payload: Option<payload::PayloadReading>,
    /// The repairs of this look; empty for the original text.
    pub repairs: Vec<(Repair, usize)>,
    /// The number of bytes left out at the beginning.
    pub skipped: usize,
    /// The mark of each token, with its bytes in the original text; empty if not requested.
    pub tokens: Vec<(Range<usize>, Mark)>,
    /// The evidence of prefixes of the text, each of which ends with a counted token; the last is that of the whole.
    /// All are corrected for the looks of the whole. Empty if not requested.
    pub course: Vec<Evidence>,
    /// The marked passages of all keys, in order. Those of one key do not overlap.
    pub passages: Vec<MarkedPassage<'k>>,
    /// Whether marked passages were searched for.
    pub searched: bool,
    /// The number of variants of the key that the text is marked with. A writer uses one for each text, so with more
    /// than one in the same tokens, the text was forged with marks that were learned from other texts.
    pub variants: usize,
    /// Whether several variants are found in the same tokens.
    pub forged: bool,
    /// Whether the constraint that the text was written under was known.
    pub has_constraint: bool,
    /// The bytes of the C2PA manifests in the original text, which were removed before it was read.
    pub manifests: Vec<Range<usize>>,
    /// The readings that were tested, the original text first.
    pub readings: Vec<TriedReading>,
}

/// A way in which a text was read.
#[derive(Clone, Debug, Default)]
pub struct TriedReading {
    /// The repairs made before reading, each with the number of times; empty for the original text.
    pub repairs: Vec<(Repair, usize)>,
    /// The number of bytes left out at the beginning.
    pub skipped: usize,
}

/// A marked passage of a text.
#[derive(Clone, Debug)]
pub struct MarkedPassage<'k> {
    /// The key that it is marked with.
    pub key: &'k Key,
    /// Its bytes in the original text.
    pub range: Range<usize>,
    /// The number of counted observations in it.
    pub scored: u64,
    /// Standard deviations of their sum above that of unmarked text.
    pub z: f64,
    /// The natural logarithm of the p-value of the window that found it, corrected for all windows and all looks.
    pub ln_p: f64,
    /// The repairs of the look that found it.
    pub repairs: Vec<(Repair, usize)>,
}

impl<'k> Judgement<'k> {
    /// Creates a judgement from evidence alone: without the text there are no repairs, tokens or passages.
    pub fn of(key: &'k Key, evidence: Evidence, level: Level) -> Self {
        Self {
            level,
            key,
            evidence,
            expected: None,
            payload: None,
            repairs: Vec::new(),
            skipped: 0,
            tokens: Vec::new(),
            course: Vec::new(),
            passages: Vec::new(),
            searched: false,
            variants: 0,
            forged: false,
            has_constraint: false,
            manifests: Vec::new(),
            readings: vec![TriedReading::default()],
        }
    }

    /// Moves the positions of a judgement to those of the original text, with its manifests.
    fn of_wrapped(mut self, unwrapped: &Unwrapped<'_>) -> Self {
        if !unwrapped.manifests.is_empty() {
            self.tokens.iter_mut().for_each(|(range, _)| *range = unwrapped.origin(range.clone()));
            self.passages.iter_mut().for_each(|passage| passage.range = unwrapped.origin(passage.range.clone()));
            self.manifests.clone_from(&unwrapped.manifests);
        }
        self
    }
}

/// The evidence of one reading under one variant of a key.
#[derive(Clone, Copy)]
struct Seen {
    key: usize,
    variant: usize,
    reading: usize,
    evidence: Evidence,
    payload: Option<payload::PayloadReading>,
}

impl Seen {
    /// The logarithm of the corrected p-value, not capped at 0, so that p-values that the correction would make 1 still
    /// differ.
    fn rank(&self) -> f64 {
        self.evidence.ln_p + ln(self.evidence.tried)
    }
}

impl Reader {
    /// Judges a text under each of the keys, in every reading of it, after its C2PA manifests were removed. A text of
    /// more than [`MAX_TEXT`] bytes is judged as a stream ([`Reader::judge_stream`]).
    ///
    /// # Errors
    /// [`DetectError::NoKey`] without a key, [`DetectError::ForeignKey`] if one was made for another tokenizer,
    /// [`DetectError::Read`] if the text cannot be tokenized, and [`DetectError::Constraint`] if neither the original
    /// nor a repaired version obeys the reader's constraint.
    pub fn judge<'k>(&self, keys: &[&'k Key], text: &str, look: &Look) -> Result<Judgement<'k>, DetectError> {
        if text.len() > MAX_TEXT {
            return self.judge_stream(keys, text.as_bytes(), look);
        }
        let versions = Versions::of(text, look.repair);
        let offsets = look.offsets.value();
        let readings =
            versions.look(|version| from_each_start(self.tokenizer(), self.obeyed(), version, offsets))??;
        let readings: Vec<Reading<'_>> = readings.into_iter().flatten().collect();
        let unwrapped = versions.unwrapped();
        Ok(self.judge_readings(keys, &readings, unwrapped.text.len(), look)?.of_wrapped(unwrapped))
    }

    /// Judges a text of any length under one key, in one pass, in bounded memory and without repair. The judgement has
    /// no tokens and no course.
    ///
    /// # Errors
    /// [`DetectError::Long`] with several keys, passages, offsets or a constraint, which need the whole text, and those
    /// of [`Reader::detect`].
    pub fn judge_stream<'k>(
        &self,
        keys: &[&'k Key],
        text: impl Read,
        look: &Look,
    ) -> Result<Judgement<'k>, DetectError> {
        let key = match keys {
            [] => return Err(DetectError::NoKey),
            [key] => *key,
            _ => return Err(LongText::SeveralKeys.into()),
        };
        if look.passages || look.offsets.value() > 1 {
            return Err(LongText::Passages.into());
        }
        if self.has_constraint() {
            return Err(LongText::Constraint.into());
        }
        Ok(Judgement::of(key, self.detect_repeats(key, text, look.repeats)?, look.level))
    }

    /// Like [`Reader::judge`], for a text given as tokens, which are examined unchanged. Positions are in the bytes
    /// that the tokens decode to.
    ///
    /// # Errors
    /// Those of [`Reader::judge`].
    pub fn judge_tokens<'k>(
        &self,
        keys: &[&'k Key],
        tokens: &[TokenId],
        look: &Look,
    ) -> Result<Judgement<'k>, DetectError> {
        let reading = Reading::of_tokens(Tokens::new(tokens.to_vec(), self.obeyed(), b"")?);
        self.judge_readings(keys, &[reading], usize::MAX, look)
    }

    /// Judges the readings of a text of `bytes` bytes.
    fn judge_readings<'k>(
        &self,
        keys: &[&'k Key],
        readings: &[Reading<'_>],
        bytes: usize,
        look: &Look,
    ) -> Result<Judgement<'k>, DetectError> {
        let looks = (readings.len() * keys.len() * (1 + usize::from(look.passages))) as f64;
        let mut all: Vec<Seen> = Vec::new();
        let mut part: Option<(f64, Seen)> = None;
        let mut passages = Vec::new();
        let mut of_passages: Vec<(usize, usize, usize)> = Vec::new();
        let mut spans: Vec<Option<Vec<Range<usize>>>> = vec![None; readings.len()];
        for (k, &key) in keys.iter().enumerate() {
            self.fits(key)?;
            let schemes = if key.payload_bits().is_none() { key.schemes()? } else { Vec::new() };
            let variants = (0..schemes.len().max(1)).flat_map(|v| (0..readings.len()).map(move |r| (v, r)));
            if !look.passages && !schemes.is_empty() {
                let of = |reading: &Reading<'_>| of_each(key, schemes.clone(), &reading.tokens, look.repeats);
                let evidence: Vec<Vec<Evidence>> = readings.iter().map(of).collect();
                let tried = looks * schemes.len() as f64;
                all.extend(variants.map(|(variant, reading)| {
                    let evidence = evidence[reading][variant].best_of(tried);
                    Seen { key: k, variant, reading, evidence, payload: None }
                }));
                continue;
            }
            let mut found = Vec::new();
            for (v, r) in variants {
                let reading = &readings[r];
                let (scheme, payload, tried) = match schemes.get(v) {
                    Some(scheme) => (scheme.clone(), None, looks * schemes.len() as f64),
                    None => {
                        let (carrier, read, payloads) = carrier(key, &reading.tokens)?;
                        (carrier, Some(read), looks * payloads)
                    }
                };
                let mut detector = Detector::new(scheme).repeats(look.repeats);
                if look.passages {
                    detector = detector.recording();
                }
                let evidence = read(key, &reading.tokens, &mut detector);
                let seen = Seen { key: k, variant: v, reading: r, evidence: evidence.best_of(tried), payload };
                all.push(seen);
                if !look.passages {
                    continue;
                }
                let level = look.level.value() / tried;
                for passage in windows::passages(detector.distribution(), detector.record(), level) {
                    let spans = match &mut spans[r] {
                        Some(spans) => spans,
                        none => none.insert(reading.spans(self.tokenizer(), bytes)?),
                    };
                    let range = spans[passage.start].start..spans[passage.end - 1].end;
                    let Passage { scored, z, .. } = passage;
                    let ln_p = passage.ln_p + ln(tried);
                    of_passages.push((k, r, v));
                    if part.is_none_or(|(best, _)| ln_p < best) {
                        part = Some((ln_p, seen));
                    }
                    found.push(MarkedPassage { key, range, scored, z, ln_p, repairs: reading.repairs() });
                }
            }
            passages.extend(apart(found));
        }
        passages.sort_by_key(|passage| (passage.range.start, passage.range.end));
        let whole = all.iter().copied().min_by(|a, b| a.rank().total_cmp(&b.rank()));
        let mut seen = whole.ok_or(DetectError::NoKey)?;
        if let Some((_, of_passage)) = part
            && seen.evidence.ln_p_corrected() > look.level.ln()
        {
            seen = of_passage;
        }
        let (key, reading) = (keys[seen.key], &readings[seen.reading]);
        let (mut tokens, mut course) = (Vec::new(), Vec::new());
        let has_constraint = self.has_constraint();
        // With a constraint, the marks of the tokens say where it left a choice.
        let wants_tokens = look.tokens || has_constraint;
        if wants_tokens || look.course > 0 {
            let scheme = match seen.payload {
                Some(read) => key.carrier(read.payload)?,
                None => key.schemes()?[seen.variant].clone(),
            };
            let mut detector = Detector::new(scheme).repeats(look.repeats);
            let mut marks = Vec::with_capacity(reading.tokens.len());
            reading.tokens.read(&mut detector, |_, read| marks.extend_from_slice(read));
            course = grown(detector.distribution(), key, &marks, reading.tokens.choices(), seen.evidence, look.course);
            if wants_tokens {
                let spans = match spans[seen.reading].take() {
                    Some(spans) => spans,
                    None => reading.spans(self.tokenizer(), bytes)?,
                };
                tokens = spans.into_iter().zip(marks).collect();
            }
        }
        let same = all.iter().filter(|other| (other.key, other.reading) == (seen.key, seen.reading));
        let marked = same.filter(|&&Seen { key, reading, variant, evidence, .. }| {
            evidence.reaches(look.level) || of_passages.contains(&(key, reading, variant))
        });
        let marked: Vec<u8> = marked.map(|other| other.variant as u8).collect();
        let rules = (look.repeats, look.level);
        let forged = is_forged(key, &marked, &reading.tokens, rules, seen.evidence.tried)?;
        let variants = if key.variants() > 1 { marked.len() } else { 0 };
        let Seen { evidence, payload, .. } = seen;
        let (repairs, skipped) = (reading.repairs(), reading.skipped);
        let searched = look.passages;
        let tried = readings.iter().map(|one| TriedReading { repairs: one.repairs(), skipped: one.skipped });
        let bare = Judgement::of(key, evidence, look.level);
        Ok(Judgement {
            readings: tried.collect(),
            payload,
            repairs,
            skipped,
            tokens,
            course,
            passages,
            searched,
            variants,
            forged,
            has_constraint,
            ..bare
        })
    }
}

/// Of passages that overlap, such as those found in several readings, keeps those with the least p-values.
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

#[cfg(test)]
mod tests {
    use verdigris_watermark::{Embed, Strength};

    use super::*;
    use crate::verdict::Outcome;
    use crate::written::{numbered, reader, words, written};

    /// Some payload always fits best, but only that of a mark is reported.
    #[test]
    fn only_marked_texts_have_a_payload() {
        let reader = reader();
        let key = numbered(&reader);
        let words = words(&reader, |word| word.iter().all(u8::is_ascii_lowercase));
        let embed = Embed::new(key.carrier(0xbeef).unwrap(), Strength::Hard);
        let marked = written(&reader, &embed, 100, |_| &words);
        let plain: String = marked.split_inclusive(' ').rev().collect();
        for (text, outcome, payload) in [(&marked, Outcome::Marked, Some(0xbeef)), (&plain, Outcome::NotMarked, None)] {
            let judgement = reader.judge(&[&key], text, &Look::default()).unwrap();
            let verdict = judgement.verdict();
            assert_eq!((verdict.verdict, verdict.payload), (outcome, payload));
        }
    }

    /// Among passages of increasing length, none is found before its p-value is corrected for all payloads.
    #[test]
    fn passages_pay_for_payloads() {
        let reader = reader();
        let key = numbered(&reader);
        let embed = Embed::new(key.carrier(0xbeef).unwrap(), Strength::Hard);
        let words = words(&reader, |word| word.iter().all(u8::is_ascii_lowercase));
        let look = Look { passages: true, ..Look::default() };
        let found: Vec<f64> = (8..60)
            .flat_map(|length| {
                let text = written(&reader, &embed, length, |_| &words);
                reader.judge(&[&key], &text, &look).unwrap().passages
            })
            .map(|passage| passage.ln_p)
            .collect();
        assert!(found.len() > 10 && found.len() < 50, "{}", found.len());
        assert!(found.iter().all(|&ln_p| ln_p <= Level::DEFAULT.ln()), "{found:?}");
    }
}
