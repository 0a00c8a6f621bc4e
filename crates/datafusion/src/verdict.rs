//! What became of texts, as columns: those of `detect_many` of the wheel.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, StringArray, StructArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use verdigris_detector::{Judgement, Outcome};

/// What became of a row.
#[derive(Clone, Debug)]
pub enum Found<'j> {
    /// It had no text.
    Missing,
    /// Its text was judged.
    Judged(Figures<'j>),
    /// Its text could not be judged, and why.
    Fault(String),
}

/// What is told of one text; `docs/json.md` says what each is.
#[derive(Clone, Debug)]
pub struct Figures<'j> {
    pub(crate) verdict: &'static str,
    pub(crate) marked: bool,
    pub(crate) p: f64,
    pub(crate) log10_p: f64,
    pub(crate) z: f64,
    pub(crate) tokens: u64,
    pub(crate) scored: u64,
    pub(crate) score: f64,
    pub(crate) expected: f64,
    pub(crate) looks: f64,
    pub(crate) sampled: f64,
    pub(crate) key_id: &'j str,
    pub(crate) dialect: &'static str,
    pub(crate) payload: Option<u32>,
    /// Why there is no verdict, where the text is too short.
    pub(crate) error: Option<String>,
}

impl<'j> Figures<'j> {
    pub(crate) fn of(judgement: &Judgement<'j>, level: f64) -> Self {
        let (evidence, outcome) = (&judgement.evidence, judgement.outcome(level));
        let short = evidence.verdict(level).err().filter(|_| outcome == Outcome::TooShort);
        Self {
            verdict: outcome.name(),
            marked: outcome.is_marked(),
            p: evidence.p(),
            log10_p: evidence.ln_p_corrected() / std::f64::consts::LN_10,
            z: evidence.z,
            tokens: evidence.tokens,
            scored: evidence.scored,
            score: evidence.score,
            expected: evidence.expected,
            looks: evidence.tried,
            sampled: evidence.sampled,
            key_id: judgement.key.id(),
            dialect: judgement.key.dialect().name(),
            payload: judgement.payload.map(|read| read.payload),
            error: short.map(|short| short.to_string()),
        }
    }

    /// The p-value, which pays for all looks.
    pub fn p(&self) -> f64 {
        self.p
    }
}

impl<'j> Found<'j> {
    /// The figures, where it was judged.
    pub fn figures(&self) -> Option<&Figures<'j>> {
        match self {
            Self::Judged(figures) => Some(figures),
            _ => None,
        }
    }
}

/// The columns of a verdict. All are null where there is no text; where it could not be judged, all but `verdict`,
/// which is `error`, and `error`, which says why.
pub fn verdict_fields() -> Fields {
    let of = |name: &str, kind| Field::new(name, kind, true);
    Fields::from(vec![
        of("verdict", DataType::Utf8),
        of("marked", DataType::Boolean),
        of("p", DataType::Float64),
        of("log10_p", DataType::Float64),
        of("z", DataType::Float64),
        of("tokens", DataType::UInt64),
        of("scored", DataType::UInt64),
        of("score", DataType::Float64),
        of("expected", DataType::Float64),
        of("looks", DataType::Float64),
        of("key_id", DataType::Utf8),
        of("dialect", DataType::Utf8),
        of("payload", DataType::UInt32),
        of("error", DataType::Utf8),
    ])
}

/// What became of rows, as a struct of [`verdict_fields`] that is null where there is no text.
pub fn verdicts(found: &[Found<'_>]) -> StructArray {
    fn column<'f, 'j: 'f, T, A: FromIterator<Option<T>> + Array + 'static>(
        found: &'f [Found<'j>],
        value: impl Fn(&'f Figures<'j>) -> Option<T>,
    ) -> ArrayRef {
        Arc::new(found.iter().map(|found| found.figures().and_then(&value)).collect::<A>())
    }
    let verdicts = found.iter().map(|found| match found {
        Found::Missing => None,
        Found::Judged(figures) => Some(figures.verdict),
        Found::Fault(_) => Some("error"),
    });
    let faults = found.iter().map(|found| match found {
        Found::Missing => None,
        Found::Judged(figures) => figures.error.as_deref(),
        Found::Fault(fault) => Some(&**fault),
    });
    let columns: [ArrayRef; 14] = [
        Arc::new(verdicts.collect::<StringArray>()),
        column::<_, BooleanArray>(found, |figures| Some(figures.marked)),
        column::<_, Float64Array>(found, |figures| Some(figures.p)),
        column::<_, Float64Array>(found, |figures| Some(figures.log10_p)),
        column::<_, Float64Array>(found, |figures| Some(figures.z)),
        column::<_, UInt64Array>(found, |figures| Some(figures.tokens)),
        column::<_, UInt64Array>(found, |figures| Some(figures.scored)),
        column::<_, Float64Array>(found, |figures| Some(figures.score)),
        column::<_, Float64Array>(found, |figures| Some(figures.expected)),
        column::<_, Float64Array>(found, |figures| Some(figures.looks)),
        column::<_, StringArray>(found, |figures| Some(figures.key_id)),
        column::<_, StringArray>(found, |figures| Some(figures.dialect)),
        column::<_, UInt32Array>(found, |figures| figures.payload),
        Arc::new(faults.collect::<StringArray>()),
    ];
    let there: NullBuffer = found.iter().map(|found| !matches!(found, Found::Missing)).collect();
    StructArray::new(verdict_fields(), columns.into(), Some(there))
}
