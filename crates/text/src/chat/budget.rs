//! Limits on the bytes that a template may create and the work that it may do.
//!
//! A template reserves both in advance, so that neither a loop that doubles a text nor a list that contains itself a
//! thousand times exhausts the memory of a machine. Created bytes are never given back: a text that was created and
//! dropped counts too.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};

/// The number of bytes that any template may create, in addition to those per message.
const MADE: u64 = 32 << 20;

/// The maximum number of bytes created, whatever the messages are.
const MOST_MADE: u64 = 1 << 30;

/// The number of bytes that any template may examine, in addition to those per message.
const WORK: u64 = 512 << 20;

/// The maximum number of bytes examined, whatever the messages are.
const MOST_WORK: u64 = 16 << 30;

/// The bytes of a value in a list or a map, in addition to its text.
pub(super) const NODE: u64 = 64;

/// The maximum nesting of lists.
const DEPTH: usize = 48;

/// The remaining budget.
#[derive(Debug)]
pub(super) struct Budget {
    made: AtomicU64,
    work: AtomicU64,
}

impl Budget {
    /// Creates the budget for a conversation with this number of messages and bytes in total. A template may examine
    /// all of them for each of them.
    pub(super) fn of(messages: usize, bytes: usize) -> Self {
        let (messages, bytes) = (messages as u64, bytes as u64);
        let made = (messages.saturating_add(64)).saturating_mul(bytes).saturating_add(MADE).min(MOST_MADE);
        let each = messages.saturating_mul(bytes.saturating_add(messages.saturating_mul(NODE)));
        let work = each.saturating_mul(16).saturating_add(WORK).min(MOST_WORK);
        Self { made: made.into(), work: work.into() }
    }

    /// Reserves bytes that will be created.
    pub(super) fn make(&self, bytes: u64) -> Result<(), Error> {
        take(&self.made, bytes, "makes too much text for a conversation of this size")
    }

    /// Reserves work on this number of bytes.
    pub(super) fn work(&self, bytes: u64) -> Result<(), Error> {
        take(&self.work, bytes, "does too much work for a conversation of this size")
    }

    /// Returns an upper bound on the bytes of a value when it is written, with everything in it, and counts the work of
    /// examining it.
    pub(super) fn weigh(&self, value: &Value) -> Result<u64, Error> {
        self.weigh_at(value, 0)
    }

    fn weigh_at(&self, value: &Value, depth: usize) -> Result<u64, Error> {
        let weight = match value.kind() {
            ValueKind::String if depth == 0 => value.as_str().map_or(0, |text| text.len() as u64),
            // With quotation marks, and characters written as escapes.
            ValueKind::String => NODE + value.as_str().map_or(0, |text| 6 * text.len() as u64),
            ValueKind::Bytes => NODE + value.as_bytes().map_or(0, |bytes| 4 * bytes.len() as u64),
            // Up to the length of the largest number.
            ValueKind::Number if !value.is_integer() => 6 * NODE,
            _ => NODE,
        };
        self.work(weight)?;
        let mut weight = weight;
        for item in children(value, depth)? {
            weight = weight.saturating_add(self.weigh_at(&item?, depth + 1)?);
        }
        Ok(weight)
    }

    /// Returns the number of items of a value, or of bytes of a text, and counts the work of examining it.
    pub(super) fn count(&self, value: &Value) -> Result<u64, Error> {
        if let Some(text) = value.as_str() {
            self.work(text.len() as u64)?;
            return Ok(text.len() as u64);
        }
        if !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) {
            return Ok(0);
        }
        if let Some(count) = value.len() {
            self.work(NODE.saturating_mul(count as u64))?;
            return Ok(count as u64);
        }
        let mut count = 0;
        for item in value.try_iter()?.checked() {
            item?;
            self.work(NODE)?;
            count += 1;
        }
        Ok(count)
    }

    /// Returns the bytes of a list of the items of a value. Each character of a text is a separate text there.
    pub(super) fn list(&self, value: &Value) -> Result<u64, Error> {
        Ok(NODE.saturating_mul(self.count(value)?))
    }

    /// Returns a value in the form in which it is stored in a variable: everything in it is evaluated and not too deep.
    /// So whatever a loop adds to it is counted in each iteration.
    pub(super) fn keep(&self, value: &Value) -> Result<Value, Error> {
        self.keep_at(value, 0)
    }

    fn keep_at(&self, value: &Value, depth: usize) -> Result<Value, Error> {
        let items = || -> Result<Vec<Value>, Error> {
            children(value, depth)?.map(|item| self.keep_at(&item?, depth + 1)).collect()
        };
        self.work(NODE)?;
        match value.kind() {
            // A macro only contains names.
            _ if is_a(value, "Macro") => Ok(value.clone()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = items()?;
                self.make(NODE * items.len() as u64)?;
                Ok(if value.is_tuple() { Value::from(Tuple::new(items)) } else { Value::from(items) })
            }
            ValueKind::Map => {
                let items = items()?;
                self.make(NODE * items.len() as u64)?;
                Ok(Value::from_pairs(items.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()))))
            }
            _ => Ok(value.clone()),
        }
    }
}

/// Whether a value is an object of minijinja without a public type.
pub(super) fn is_a(value: &Value, kind: &str) -> bool {
    value.as_object().is_some_and(|object| object.type_name().rsplit("::").next() == Some(kind))
}

fn take(from: &AtomicU64, bytes: u64, fault: &'static str) -> Result<(), Error> {
    let taken = from.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes));
    taken.map(|_| ()).map_err(|_| Error::new(ErrorKind::InvalidOperation, fault))
}

/// Returns the contents of a value: the items of a list, or the keys and values of a map in alternation.
fn children(value: &Value, depth: usize) -> Result<Box<dyn Iterator<Item = Result<Value, Error>> + '_>, Error> {
    let is_map = value.kind() == ValueKind::Map;
    if !is_map && !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Ok(Box::new(std::iter::empty()));
    }
    if depth >= DEPTH {
        return Err(Error::new(ErrorKind::InvalidOperation, "nests lists too deeply"));
    }
    let items = value.try_iter()?.checked();
    if !is_map {
        return Ok(Box::new(items));
    }
    Ok(Box::new(items.flat_map(|key| {
        match key {
            Ok(key) => {
                let item = value.get_item(&key);
                [Some(Ok(key)), Some(item)]
            }
            Err(error) => [Some(Err(error)), None],
        }
        .into_iter()
        .flatten()
    })))
}
