//! Keys by id, each with the tokenizer that it was made for.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;

use rayon::prelude::*;
use verdigris_detector::{DetectError, Key, Level, Look, Reader, VerdictRow};

use crate::error::JudgeError;
use crate::text_array::{NotUtf8, TextArray};

/// Judges texts with a tokenizer and keys for it. All keys are tested, and p-values are corrected for all of them.
pub struct Judge {
    reader: Reader,
    keys: Vec<Key>,
    level: Level,
}

impl Judge {
    /// Creates a judge that calls a text marked at a p-value of at most `level`.
    ///
    /// # Errors
    /// [`JudgeError::Key`] without a key, or if one cannot be used; [`JudgeError::NoTokenizer`] if one was made for
    /// another tokenizer.
    pub fn new(reader: Reader, keys: impl IntoIterator<Item = Key>, level: Level) -> Result<Self, JudgeError> {
        let keys: Vec<Key> = keys.into_iter().collect();
        for key in &keys {
            reader.fits(key).map_err(JudgeError::NoTokenizer)?;
            match key.payload_bits() {
                Some(_) => drop(key.payload_reader().map_err(DetectError::from)?),
                None => drop(key.schemes().map_err(DetectError::from)?),
            }
        }
        if keys.is_empty() {
            return Err(DetectError::NoKey.into());
        }
        Ok(Self { reader, keys, level })
    }

    /// Judges a text as `verdigris detect` does by default.
    pub fn text(&self, text: &str) -> VerdictRow<'_> {
        let keys: Vec<&Key> = self.keys.iter().collect();
        match self.reader.judge(&keys, text, &Look { level: self.level, ..Look::default() }) {
            Ok(judgement) => VerdictRow::Judged(Box::new(judgement.verdict().into_owned())),
            Err(fault) => VerdictRow::Fault(fault.to_string()),
        }
    }

    /// Judges the texts of a column, on all cores.
    ///
    /// # Errors
    /// [`JudgeError::NotText`] if the column does not contain texts; `asked` is the name of the calling function.
    pub fn column(
        &self,
        texts: &dyn datafusion::arrow::array::Array,
        asked: &str,
    ) -> Result<Vec<VerdictRow<'_>>, JudgeError> {
        let texts = TextArray::of(texts, asked)?;
        Ok((0..texts.len()).into_par_iter().map(|row| self.cell(texts.get(row))).collect())
    }

    pub(crate) fn cell(&self, text: Option<Result<&str, NotUtf8>>) -> VerdictRow<'_> {
        match text {
            None => VerdictRow::Missing,
            Some(Ok(text)) => self.text(text),
            Some(Err(fault)) => VerdictRow::Fault(fault.to_string()),
        }
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The key; the first if there are several.
    pub(crate) fn key(&self) -> &Key {
        &self.keys[0]
    }

    pub(crate) fn level(&self) -> Level {
        self.level
    }
}

/// Judges by the ids of their keys. Neither `Debug` nor any error shows more of a key than its id.
pub struct Judges(BTreeMap<String, Arc<Judge>>);

impl Judges {
    /// Creates a judge for each key, at the default level (1e-5), with the tokenizer that the key was made for.
    ///
    /// # Errors
    /// [`JudgeError::NoTokenizer`] if a key was made for none of the tokenizers, [`JudgeError::TwoKeys`] if two
    /// different keys have the same id, and [`JudgeError::Key`] without a key.
    pub fn new(
        readers: impl IntoIterator<Item = Reader>,
        keys: impl IntoIterator<Item = Key>,
    ) -> Result<Self, JudgeError> {
        Self::at_level(readers, keys, Level::DEFAULT)
    }

    /// Like [`Judges::new`], at another level.
    ///
    /// # Errors
    /// Those of [`Judges::new`].
    pub fn at_level(
        readers: impl IntoIterator<Item = Reader>,
        keys: impl IntoIterator<Item = Key>,
        level: Level,
    ) -> Result<Self, JudgeError> {
        let readers: Vec<Reader> = readers.into_iter().collect();
        let mut judges = BTreeMap::new();
        for key in keys {
            let fitting = readers.iter().find(|reader| reader.fits(&key).is_ok()).or(readers.first());
            let reader = fitting.ok_or(DetectError::NoKey)?.clone();
            let judge = Judge::new(reader, [key], level)?;
            match judges.entry(judge.key().id().to_owned()) {
                Entry::Vacant(free) => drop(free.insert(Arc::new(judge))),
                Entry::Occupied(taken) if taken.get().key().marks_as(judge.key()) => {}
                Entry::Occupied(taken) => return Err(JudgeError::TwoKeys(taken.key().clone())),
            }
        }
        if judges.is_empty() {
            return Err(DetectError::NoKey.into());
        }
        Ok(Self(judges))
    }

    /// No keys, for processes that plan queries and leave their execution to others.
    pub fn none() -> Self {
        Self(BTreeMap::new())
    }

    /// Returns the judge for a key id.
    ///
    /// # Errors
    /// [`JudgeError::UnknownKey`], which lists the known ids.
    pub fn of(&self, id: &str) -> Result<&Arc<Judge>, JudgeError> {
        let unknown = || JudgeError::UnknownKey { id: id.to_owned(), ids: self.ids().map(str::to_owned).collect() };
        self.0.get(id).ok_or_else(unknown)
    }

    /// The ids of all keys.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Shows only the ids.
impl fmt::Debug for Judges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Judges").field(&self.0.keys()).finish()
    }
}
