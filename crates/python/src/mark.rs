//! Marks on rows of logits of other engines.

use std::sync::Arc;

use pyo3::prelude::*;
use rayon::prelude::*;
use verdigris_detector::Strength;
use verdigris_detector::watermark::embed::Embed;
use verdigris_detector::watermark::scheme::{MAX_CONTEXT, Scheme};
use verdigris_logits::steps::Step;
use verdigris_logits::{Row, Steps, TokenId, Transform};

use crate::argument::{array, write};
use crate::bitmask;
use crate::error;
use crate::key::Key;
use crate::pool;

/// Marks rows of logits with a key, for engines that run a model themselves. It supports only schemes with colours,
/// since schemes of noise replace the engine's sampler.
#[pyclass(frozen, module = "verdigris")]
pub(crate) struct Mark {
    key_id: String,
    scheme: Arc<dyn Scheme>,
    embed: Embed,
    /// Like `embed`, but lists can be computed without logits.
    lists: Embed,
    delta: Option<f64>,
    reads_logits: bool,
}

/// Tokens given by the caller: the ends of some texts, a row each.
struct Contexts {
    tokens: Vec<TokenId>,
    columns: usize,
    rows: usize,
}

impl Contexts {
    fn of(py: Python<'_>, given: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = array::<i64>(given, "tokens", "int64")?;
        let &[rows, columns] = buffer.shape() else {
            return Err(error::argument("tokens have two dimensions: a row of int64 for each text"));
        };
        let all = buffer.to_vec(py)?;
        // The scheme reads at most this many.
        let kept = columns.min(MAX_CONTEXT);
        let tails = all.chunks(columns.max(1)).flat_map(|row| &row[columns - kept..]);
        let token =
            |&token: &i64| TokenId::try_from(token).map_err(|_| error::argument(format!("{token} is not a token")));
        Ok(Self { tokens: tails.map(token).collect::<PyResult<_>>()?, columns: kept, rows })
    }

    fn row(&self, row: usize) -> &[TokenId] {
        &self.tokens[row * self.columns..][..self.columns]
    }
}

/// The words of the green list after a context; `None` if the list depends on logits.
fn list(embed: &Embed, tokens: usize, context: &[TokenId], row: &mut Row, steps: &mut Steps) -> Option<Vec<u64>> {
    let state = embed.start(context);
    let recorded = row.record(tokens, steps, |row| embed.apply(&state, row));
    let words = |step: &Step| match *step {
        Step::Bias(set, _) => Some(steps.words()[set.from..][..set.count].to_vec()),
        _ => None,
    };
    recorded.then(|| steps.steps().iter().find_map(words).unwrap_or_default())
}

#[pymethods]
impl Mark {
    /// Makes the mark of a key. `payload` is required if the key carries payloads.
    #[new]
    #[pyo3(signature = (key, payload=None))]
    fn new(key: &Bound<'_, Key>, payload: Option<u32>) -> PyResult<Self> {
        let key = &key.get().0;
        let scheme = payload.map_or_else(|| key.scheme(), |payload| key.carrier(payload)).map_err(error::key)?;
        let embed = payload.map_or_else(|| key.embed(), |payload| key.embed_payload(payload)).map_err(error::key)?;
        let rules = scheme.embed_rules();
        if !scheme.distribution().is_of_colours() || rules.memory > 0 || !rules.sees_prompt {
            let name = key.dialect().name();
            return Err(error::key(format!(
                "the key {} marks by {name}, which logits processors of other engines cannot do: use a key of colours, \
                 such as native or hugging-face",
                key.id()
            )));
        }
        let delta = match key.strength() {
            Some(Strength::Soft(delta)) => Some(delta.value()),
            _ => None,
        };
        let lists = Embed::new(scheme.clone(), Strength::soft(1.0).map_err(error::key)?);
        let any = vec![0; MAX_CONTEXT];
        let (mut row, mut steps) = (Row::default(), Steps::default());
        let reads_logits = list(&lists, scheme.vocabulary_size(), &any, &mut row, &mut steps).is_none();
        Ok(Self { key_id: key.id().into(), scheme, embed, lists, delta, reads_logits })
    }

    /// The id of the key.
    #[getter]
    fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The bias added to the logits of green tokens; `None` if all others are forbidden.
    #[getter]
    fn delta(&self) -> Option<f64> {
        self.delta
    }

    /// The number of tokens before a position that choose its list.
    #[getter]
    fn context_width(&self) -> usize {
        self.scheme.context_width()
    }

    /// The number of tokens of a list. Columns past it are padding, and never green.
    #[getter]
    fn vocabulary_size(&self) -> usize {
        self.scheme.vocabulary_size()
    }

    /// The number of 32-bit words in a row of a bitmask.
    #[getter]
    fn bitmask_words(&self) -> usize {
        self.scheme.vocabulary_size().div_ceil(32)
    }

    /// Whether lists depend on logits, so that `fill_bitmask` cannot be used.
    #[getter]
    fn reads_logits(&self) -> bool {
        self.reads_logits
    }

    /// Writes the green lists of the next tokens of some texts into a bitmask: an array of `int32` with a row for each
    /// text, in which token `i` is bit `i % 32` of word `i / 32`. `tokens` is an array of `int64` with the ends of the
    /// texts, a row each. A row that is too short for a context has no green tokens.
    fn fill_bitmask(&self, py: Python<'_>, tokens: &Bound<'_, PyAny>, bitmask: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.reads_logits {
            return Err(error::key(format!("the lists of {} depend on logits: use apply", self.key_id)));
        }
        let contexts = Contexts::of(py, tokens)?;
        let (rows, size) = (contexts.rows, self.scheme.vocabulary_size());
        let lists: Vec<Vec<u64>> = pool::work(py, || {
            let scratch = || (Row::default(), Steps::default());
            let made = (0..rows).into_par_iter().map_init(scratch, |(row, steps), text| {
                list(&self.lists, size, contexts.row(text), row, steps).unwrap_or_default()
            });
            made.collect()
        })?;
        bitmask::write_all(py, bitmask, &lists, size)
    }

    /// Marks rows of logits in place: an array of `float32`, a row for each text. `tokens` is an array of `int64` with
    /// the ends of the texts.
    fn apply(&self, py: Python<'_>, tokens: &Bound<'_, PyAny>, logits: &Bound<'_, PyAny>) -> PyResult<()> {
        let (contexts, buffer) = (Contexts::of(py, tokens)?, array::<f32>(logits, "logits", "float32")?);
        let &[rows, columns] = buffer.shape() else {
            return Err(error::argument("logits have two dimensions: a row of float32 for each text"));
        };
        if rows != contexts.rows {
            return Err(error::argument(format!("there are {} texts, but {rows} rows of logits", contexts.rows)));
        }
        let size = self.scheme.vocabulary_size();
        if columns < size {
            return Err(error::argument(format!(
                "a row has {columns} logits, but the key {} is for {size} tokens: give whole rows",
                self.key_id
            )));
        }
        let mut all = buffer.to_vec(py)?;
        pool::work(py, || {
            all.par_chunks_mut(columns.max(1)).enumerate().for_each_init(Row::default, |row, (text, logits)| {
                row.load(logits);
                self.embed.apply(&self.embed.start(contexts.row(text)), row);
                logits.copy_from_slice(row.logits());
            });
        })?;
        write(py, &buffer, &all)
    }

    /// Returns the same object, since marks are immutable.
    fn __copy__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __deepcopy__(this: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        this
    }

    fn __repr__(&self) -> String {
        format!("Mark({:?})", self.key_id)
    }
}
