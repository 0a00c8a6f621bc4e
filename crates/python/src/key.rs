//! Keys.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use verdigris_detector::watermark::dialects::native::Parameters;
use verdigris_detector::watermark::key::{random_id, random_secret};
use verdigris_detector::watermark::{Context, ContextFunction, VocabularyId};
use verdigris_detector::{Dialect, Gamma, Key as Inner, Marking, Strength};
use zeroize::Zeroizing;

use crate::error;
use crate::tokenizer::tokenizer;

/// The functions of a context by their names.
const CONTEXTS: [(&str, ContextFunction); 3] =
    [("all", ContextFunction::All), ("min", ContextFunction::Min), ("self-salted", ContextFunction::SelfSalted)];

/// The vocabulary of a tokenizer, with the name of the model.
fn vocabulary(py: Python<'_>, tokenizer: Option<&Bound<'_, PyAny>>, model: Option<&str>) -> PyResult<VocabularyId> {
    let vocabulary = self::tokenizer(py, tokenizer)?.get().reader().vocabulary();
    Ok(match model.or(tokenizer.is_none().then_some("tale")) {
        Some(name) => vocabulary.with_model(name),
        None => vocabulary,
    })
}

// The default below, which Python shows as it is written.
const _: () = assert!(Marking::VARIANTS == 8);

/// A key. It shows its name and its scheme but never its secret, and cannot be pickled.
#[pyclass(frozen, module = "verdigris")]
pub(crate) struct Key(pub(crate) Arc<Inner>);

#[pymethods]
impl Key {
    /// Reads a key file, which must not be readable by others (mode 0600).
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Self> {
        Ok(Self(Arc::new(Inner::load(&path).map_err(error::key)?)))
    }

    /// Generates a key for a tokenizer, with a secret from the operating system: noise, which leaves the model's
    /// distribution as it is. Other engines need green lists: see `lists`. With `public_part`, half of the mark belongs
    /// to a key to publish: see `published`.
    #[staticmethod]
    #[pyo3(signature = (tokenizer=None, *, id=None, variants=8, public_part=false, model=None))]
    fn generate(
        py: Python<'_>,
        tokenizer: Option<&Bound<'_, PyAny>>,
        id: Option<String>,
        variants: u8,
        public_part: bool,
        model: Option<&str>,
    ) -> PyResult<Self> {
        let key = Inner::generate(Marking::Noise, vocabulary(py, tokenizer, model)?);
        let key = match id {
            Some(id) => key.with_id(id).map_err(error::key)?,
            None => key,
        };
        let key = key.with_variants(variants).map_err(error::key)?;
        let key = if public_part { key.with_public_part().map_err(error::key)? } else { key };
        Ok(Self(Arc::new(key)))
    }

    /// Generates a key of green lists, which can also be embedded by other engines. `delta` is added to the logits of
    /// green tokens; `None` forbids all other tokens.
    #[staticmethod]
    #[pyo3(signature = (tokenizer=None, *, id=None, gamma=0.25, delta=Some(2.0), context="min", width=4,
                        payload_bits=None, model=None))]
    #[allow(clippy::too_many_arguments, reason = "Python's callers name them")]
    fn lists(
        py: Python<'_>,
        tokenizer: Option<&Bound<'_, PyAny>>,
        id: Option<String>,
        gamma: f64,
        delta: Option<f64>,
        context: &str,
        width: usize,
        payload_bits: Option<u8>,
        model: Option<&str>,
    ) -> PyResult<Self> {
        let Some((_, function)) = CONTEXTS.into_iter().find(|(name, _)| *name == context) else {
            return Err(error::argument(format!("context is {context:?}, but must be all, min or self-salted")));
        };
        let gamma = Gamma::new(gamma).map_err(error::key)?;
        let context = Context::new(function, width).map_err(error::key)?;
        let strength = delta.map_or(Ok(Strength::Hard), Strength::soft).map_err(error::key)?;
        let dialect = Dialect::Native(Parameters { gamma, context, payload_bits });
        let vocabulary = vocabulary(py, tokenizer, model)?;
        let id = id.unwrap_or_else(|| random_id("vg"));
        let key = Inner::new(random_secret(), id, dialect, Some(strength), vocabulary);
        Ok(Self(Arc::new(key.map_err(error::key)?)))
    }

    /// The key of the public part, with which everyone can look for marks; an error if the key has none.
    fn published(&self) -> PyResult<Self> {
        Ok(Self(Arc::new(self.0.published().map_err(error::key)?)))
    }

    /// Writes a new file that only its owner can read; that of a published key everyone may read. An existing file is
    /// not changed, and is an error.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        self.0.save(&path).map_err(error::key)
    }

    /// The public name of the key.
    #[getter]
    fn id(&self) -> &str {
        self.0.id()
    }

    /// The tenant that the key belongs to, or an empty string.
    #[getter]
    fn tenant(&self) -> &str {
        self.0.tenant()
    }

    /// The name of the dialect, such as `native`.
    #[getter]
    fn dialect(&self) -> &'static str {
        self.0.dialect().name()
    }

    /// A description of the dialect, such as `native, gamma 0.25, minimum over 4 tokens`.
    #[getter]
    fn description(&self) -> String {
        self.0.describe()
    }

    /// The share of green tokens; `None` if the scheme has no colours.
    #[getter]
    fn gamma(&self) -> Option<f64> {
        self.0.dialect().gamma()
    }

    /// The function by which the tokens before a position choose its list, and their number, such as `("min", 4)`;
    /// `None` for dialects other than `native`.
    #[getter]
    fn context(&self) -> Option<(&'static str, usize)> {
        let Dialect::Native(Parameters { context, .. }) = self.0.dialect() else { return None };
        let (name, _) = CONTEXTS.into_iter().find(|(_, function)| *function == context.function())?;
        Some((name, context.width()))
    }

    /// Writes the two AES keys that generate green lists, for contexts and for lists, into an array of `int32`, `[2,
    /// 4]`, as little-endian words. **They are as secret as the key**, since they generate its lists on another device:
    /// overwrite the array after copying it there, and never show or store it. Only native keys have them.
    fn write_sub_keys(&self, py: Python<'_>, into: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.0.variants() > 1 {
            self.0.scheme().map_err(error::key)?;
        }
        let Some(keys) = self.0.sub_keys() else {
            return Err(error::key(format!(
                "the key {} marks by {}, whose lists cannot be made from two AES keys: use a native one",
                self.id(),
                self.dialect()
            )));
        };
        let buffer = crate::argument::array::<i32>(into, "sub-keys", "int32")?;
        if buffer.shape() != [2, 4] {
            return Err(error::argument("sub-keys go into an array of int32 of two rows of four words"));
        }
        let words = keys.each_ref().map(|key| key.as_chunks::<4>().0.iter().map(|&word| i32::from_le_bytes(word)));
        let words: Zeroizing<Vec<i32>> = Zeroizing::new(words.into_iter().flatten().collect());
        buffer.copy_from_slice(py, &words)
    }

    /// The number of bits of the payload; `None` if the key carries none.
    #[getter]
    fn payload_bits(&self) -> Option<u8> {
        self.0.payload_bits()
    }

    /// The number of variants. Each text is written with one of them, and read with all.
    #[getter]
    fn variants(&self) -> u8 {
        self.0.variants()
    }

    /// A variant, modulo their number, as a key without variants: to write one text with another engine.
    fn variant(&self, index: u8) -> Self {
        Self(Arc::new(self.0.variant(index)))
    }

    /// The size of the vocabulary that the key was made for.
    #[getter]
    fn vocabulary_size(&self) -> usize {
        self.0.vocabulary().size()
    }

    /// The fingerprint of the tokenizer that the key was made for.
    #[getter]
    fn fingerprint(&self) -> &str {
        self.0.vocabulary().fingerprint()
    }

    /// Whether another key makes the same marks.
    fn marks_as(&self, other: &Self) -> bool {
        self.0.marks_as(&other.0)
    }

    /// Returns the same object, since keys are immutable.
    fn __copy__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __deepcopy__(this: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        this
    }

    fn __repr__(&self) -> String {
        format!("Key(id={:?}, {})", self.id(), self.description())
    }
}
