//! What a text is under some keys.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use verdigris_detector::watermark::normalize::Repair;
use verdigris_detector::{DetectError, Judgement, Key as Inner, Mark, MarkedPassage, Outcome, Reader};

use crate::argument::Text;
use crate::constraint::Constraint;
use crate::error::{self, BadText};
use crate::keys::Keys;
use crate::look::Options;
use crate::pool;
use crate::tokenizer::tokenizer;

/// A longer text is read once, in bounded memory, as a whole: as `verdigris detect` does.
const LONG: usize = 16 << 20;

/// What a text is under some keys: the fields of `verdigris detect --json`.
#[pyclass(frozen, get_all, module = "verdigris")]
#[derive(Clone)]
pub(crate) struct Detection {
    /// `marked`, `marked in part`, `not marked` or `too short`.
    verdict: &'static str,
    /// Whether there is a mark, in the whole or in a passage.
    marked: bool,
    /// Why there is no verdict, where the text is too short.
    error: Option<String>,
    /// The id of the key under which the text looks most marked.
    key_id: String,
    /// The dialect of that key.
    dialect: &'static str,
    /// Tokens of the text.
    tokens: u64,
    /// Tokens that were counted.
    scored: u64,
    /// The sum of their scores: green tokens, where there are colours.
    score: f64,
    /// What that is by chance.
    expected: f64,
    /// How many tokens are green; `None` where scores are no colours, or have weights.
    green: Option<u64>,
    /// By how many standard deviations the score is above the expected one.
    z: f64,
    /// How often an unmarked text would look as marked, at most.
    p: f64,
    /// The logarithm of `p` to base 10, exact where `p` is 0.
    log10_p: f64,
    /// How many looks `p` pays for.
    looks: f64,
    /// The p-value at which a text is called marked.
    level: f64,
    /// The share of the tokens to be counted that was.
    sampled: f64,
    /// What was repaired, and how often, if the repaired text is the one judged.
    repairs: Vec<(&'static str, usize)>,
    /// Bytes left out at the beginning.
    skipped: usize,
    /// Marked passages; `None` where they were not looked for.
    passages: Option<Vec<Passage>>,
    /// How many tokens the form left no choice about; `None` without a form.
    forced: Option<usize>,
    /// The first byte of each token that was counted, and the one after it; `None` without a form.
    counted: Option<Vec<(usize, usize)>>,
    /// The number that the mark carries, if there is a mark.
    payload: Option<u32>,
    /// Files of rings that are no keys for the tokenizer.
    skipped_keys: Vec<String>,
}

/// A marked passage of a text.
#[pyclass(frozen, get_all, module = "verdigris")]
#[derive(Clone)]
pub(crate) struct Passage {
    /// The id of the key that it is marked with.
    key_id: String,
    /// Its first byte, of the text as UTF-8.
    start: usize,
    /// The byte after it.
    end: usize,
    /// Tokens that were counted in it.
    scored: u64,
    /// By how many standard deviations their score is above the expected one.
    z: f64,
    /// The logarithm of its p-value to base 10, which pays for all windows and looks.
    log10_p: f64,
    /// What was repaired, and how often, if it was found after that.
    repairs: Vec<(&'static str, usize)>,
}

fn log10(ln: f64) -> f64 {
    ln / std::f64::consts::LN_10
}

/// JSON has no numbers that are not finite.
fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

pub(crate) fn repairs(repairs: &[(Repair, usize)]) -> Vec<(&'static str, usize)> {
    repairs.iter().map(|&(repair, times)| (repair.name(), times)).collect()
}

impl Passage {
    fn of(passage: &MarkedPassage<'_>) -> Self {
        Self {
            key_id: passage.key.id().into(),
            start: passage.range.start,
            end: passage.range.end,
            scored: passage.scored,
            z: passage.z,
            log10_p: log10(passage.ln_p),
            repairs: repairs(&passage.repairs),
        }
    }
}

impl Detection {
    fn of(judgement: &Judgement<'_>, options: &Options, form: bool, skipped_keys: &[String]) -> Self {
        let (evidence, outcome) = (&judgement.evidence, judgement.outcome(options.level));
        let short = evidence.verdict(options.level).err().filter(|_| outcome == Outcome::TooShort);
        let weighed = form && !judgement.tokens.is_empty();
        let counted = judgement.tokens.iter().filter(|(_, mark)| matches!(mark, Mark::Counted { .. }));
        let forced = judgement.tokens.iter().filter(|(_, mark)| *mark == Mark::Forced).count();
        Self {
            verdict: outcome.name(),
            marked: outcome.is_marked(),
            error: short.map(|short| short.to_string()),
            key_id: judgement.key.id().into(),
            dialect: judgement.key.dialect().name(),
            tokens: evidence.tokens,
            scored: evidence.scored,
            score: evidence.score,
            expected: evidence.expected,
            green: (evidence.colours && !form).then_some(evidence.score as u64),
            z: evidence.z,
            p: evidence.p(),
            log10_p: log10(evidence.ln_p_corrected()),
            looks: evidence.tried,
            level: options.level,
            sampled: evidence.sampled,
            repairs: repairs(&judgement.repairs),
            skipped: judgement.skipped,
            passages: options.look.passages.map(|_| judgement.passages.iter().map(Passage::of).collect()),
            forced: weighed.then_some(forced),
            counted: weighed.then(|| counted.map(|(range, _)| (range.start, range.end)).collect()),
            payload: judgement.payload.map(|read| read.payload),
            skipped_keys: skipped_keys.to_vec(),
        }
    }

    /// The columns of many texts.
    pub(crate) fn figures(&self) -> Figures<'_> {
        let Self { verdict, marked, ref key_id, dialect, tokens, scored, score, expected, z, .. } = *self;
        let Self { p, log10_p, looks, payload, .. } = *self;
        let error = self.error.as_deref();
        Figures {
            verdict,
            marked,
            key_id,
            dialect,
            tokens,
            scored,
            score,
            expected,
            z,
            p,
            log10_p,
            looks,
            payload,
            error,
        }
    }
}

/// What many texts are told of one by one.
pub(crate) struct Figures<'a> {
    pub(crate) verdict: &'static str,
    pub(crate) marked: bool,
    pub(crate) key_id: &'a str,
    pub(crate) dialect: &'static str,
    pub(crate) tokens: u64,
    pub(crate) scored: u64,
    pub(crate) score: f64,
    pub(crate) expected: f64,
    pub(crate) z: f64,
    pub(crate) p: f64,
    pub(crate) log10_p: f64,
    pub(crate) looks: f64,
    pub(crate) payload: Option<u32>,
    pub(crate) error: Option<&'a str>,
}

#[pymethods]
impl Passage {
    /// The fields as `verdigris detect --json` has them.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        fields.set_item("key_id", &self.key_id)?;
        fields.set_item("start", self.start)?;
        fields.set_item("end", self.end)?;
        fields.set_item("scored", self.scored)?;
        fields.set_item("z", finite(self.z))?;
        fields.set_item("log10_p", finite(self.log10_p))?;
        if !self.repairs.is_empty() {
            fields.set_item("repairs", pairs(py, &self.repairs)?)?;
        }
        Ok(fields)
    }

    fn __repr__(&self) -> String {
        format!("Passage({}..{}, z={:.2}, log10_p={:.1})", self.start, self.end, self.z, self.log10_p)
    }
}

fn pairs<'py>(py: Python<'py>, pairs: &[(&'static str, usize)]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    pairs.iter().map(|&(repair, times)| (repair, times).into_pyobject(py).map(Bound::into_any)).collect()
}

#[pymethods]
impl Detection {
    /// The fields as `verdigris detect --json` has them, but for the format and the name of the text.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        fields.set_item("verdict", self.verdict)?;
        if let Some(error) = &self.error {
            fields.set_item("error", error)?;
        }
        fields.set_item("key_id", &self.key_id)?;
        fields.set_item("dialect", self.dialect)?;
        fields.set_item("tokens", self.tokens)?;
        fields.set_item("scored", self.scored)?;
        fields.set_item("score", finite(self.score))?;
        fields.set_item("expected", finite(self.expected))?;
        fields.set_item("z", finite(self.z))?;
        fields.set_item("p", finite(self.p))?;
        fields.set_item("log10_p", finite(self.log10_p))?;
        fields.set_item("looks", finite(self.looks))?;
        fields.set_item("level", self.level)?;
        fields.set_item("sampled", self.sampled)?;
        if !self.repairs.is_empty() {
            fields.set_item("repairs", pairs(py, &self.repairs)?)?;
        }
        if self.skipped > 0 {
            fields.set_item("skipped", self.skipped)?;
        }
        if let Some(passages) = &self.passages {
            let passages: Vec<_> = passages.iter().map(|passage| passage.to_dict(py)).collect::<PyResult<_>>()?;
            fields.set_item("passages", passages)?;
        }
        if let (Some(forced), Some(counted)) = (self.forced, &self.counted) {
            fields.set_item("forced", forced)?;
            fields.set_item("counted", counted)?;
        }
        if let Some(payload) = self.payload {
            fields.set_item("payload", payload)?;
        }
        if !self.skipped_keys.is_empty() {
            fields.set_item("skipped_keys", &self.skipped_keys)?;
        }
        Ok(fields)
    }

    fn __repr__(&self) -> String {
        format!(
            "Detection({:?}, p={:.3e}, z={:.2}, scored={}, key_id={:?})",
            self.verdict, self.p, self.z, self.scored, self.key_id
        )
    }
}

/// What texts are judged with.
pub(crate) struct Judge {
    reader: Reader,
    keys: Vec<Arc<Inner>>,
    skipped: Vec<String>,
    options: Options,
}

impl Judge {
    pub(crate) fn new(
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        given: Option<&Bound<'_, PyAny>>,
        form: Option<&Bound<'_, Constraint>>,
        options: Options,
    ) -> PyResult<Self> {
        let mut reader = tokenizer(py, given)?.get().reader();
        if let Some(form) = form {
            reader = reader.of_form(form.get().grammar());
        }
        let Keys { keys, skipped } = Keys::fitting(key, &reader)?;
        Ok(Self { reader, keys, skipped, options })
    }

    /// Judges a text.
    pub(crate) fn judge(&self, text: &str) -> PyResult<Detection> {
        let keys: Vec<&Inner> = self.keys.iter().map(|key| &**key).collect();
        let judgement = match text.len() > LONG {
            true => self.judge_long(&keys, text)?,
            false => self.reader.judge(&keys, text, &self.options.look).map_err(error::detect)?,
        };
        Ok(Detection::of(&judgement, &self.options, self.reader.form().is_some(), &self.skipped))
    }

    fn judge_long<'k>(&self, keys: &[&'k Inner], text: &str) -> PyResult<Judgement<'k>> {
        let long = |fault: &str| Err(BadText::new_err(format!("it is longer than 16 MiB: {fault}")));
        let &[key] = keys else { return long("such a text is judged under one key at a time") };
        if self.options.look.passages.is_some() || self.options.look.offsets > 1 {
            return long("windows and offsets need a shorter text");
        }
        if self.reader.form().is_some() {
            return long("the form of such a text cannot be taken into account");
        }
        let evidence = self.reader.detect_repeats(key, text.as_bytes(), self.options.look.repeats);
        Ok(Judgement::of(key, evidence.map_err(|error: DetectError| error::detect(error))?))
    }
}

/// Judges a text under a key, a `Ring`, or several of them, each of which pays for itself in the p-value. The tokenizer
/// is that of the model that wrote: a `Tokenizer`, its path, one of `transformers`, or `None` for that of `tale`. With
/// `form`, the constraint that the text was written under, only tokens that it left a choice about are counted.
#[pyfunction]
#[pyo3(signature = (text, key, tokenizer=None, *, level=None, repeats="context", windows=false, repair=true, offsets=1,
                    form=None))]
#[allow(clippy::too_many_arguments, reason = "Python's callers name them")]
pub(crate) fn detect(
    py: Python<'_>,
    text: Text,
    key: &Bound<'_, PyAny>,
    tokenizer: Option<&Bound<'_, PyAny>>,
    level: Option<f64>,
    repeats: &str,
    windows: bool,
    repair: bool,
    offsets: usize,
    form: Option<&Bound<'_, Constraint>>,
) -> PyResult<Detection> {
    let options = Options::new(level, repeats, windows, repair, offsets, form.is_some())?;
    let judge = Judge::new(py, key, tokenizer, form, options)?;
    pool::work(py, || judge.judge(&text))?
}
