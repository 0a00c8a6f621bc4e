//! What a template may take: bytes that it makes, and work.
//!
//! A template says how much of both it takes before it takes it, so that neither a loop that doubles a text nor a list
//! that holds itself a thousand times over takes the memory of a machine. What is made is never given back: a text that
//! is made and forgotten counts too.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};

/// Bytes that any template may make, and bytes that it may make for each message beside those of all messages.
const MADE: u64 = 32 << 20;

/// Whatever the messages are, no more is made.
const MOST_MADE: u64 = 1 << 30;

/// Bytes that any template may look at.
const WORK: u64 = 512 << 20;

/// Whatever the messages are, no more is looked at.
const MOST_WORK: u64 = 16 << 30;

/// What a value in a list or a map takes beside its text.
pub(super) const NODE: u64 = 64;

/// Lists in lists.
const DEPTH: usize = 48;

/// What is left.
#[derive(Debug)]
pub(super) struct Budget {
    made: AtomicU64,
    work: AtomicU64,
}

impl Budget {
    /// For a conversation of some messages of some bytes in all. A template may look at all of them for each of them.
    pub(super) fn of(messages: usize, bytes: usize) -> Self {
        let (messages, bytes) = (messages as u64, bytes as u64);
        let made = (messages.saturating_add(64)).saturating_mul(bytes).saturating_add(MADE).min(MOST_MADE);
        let each = messages.saturating_mul(bytes.saturating_add(messages.saturating_mul(NODE)));
        let work = each.saturating_mul(16).saturating_add(WORK).min(MOST_WORK);
        Self { made: made.into(), work: work.into() }
    }

    /// Pays for bytes that will be made.
    pub(super) fn make(&self, bytes: u64) -> Result<(), Error> {
        take(&self.made, bytes, "makes too much text: its memory is bounded by that of the conversation")
    }

    /// Pays for bytes that will be looked at.
    pub(super) fn work(&self, bytes: u64) -> Result<(), Error> {
        take(&self.work, bytes, "does too much: its work is bounded by that of the conversation")
    }

    /// The most bytes that a value takes when it is written, with all that it holds; looking at it is paid for.
    pub(super) fn weigh(&self, value: &Value) -> Result<u64, Error> {
        self.weigh_at(value, 0)
    }

    fn weigh_at(&self, value: &Value, depth: usize) -> Result<u64, Error> {
        let weight = match value.kind() {
            ValueKind::String if depth == 0 => value.as_str().map_or(0, |text| text.len() as u64),
            // With marks, and characters that are written by their numbers.
            ValueKind::String => NODE + value.as_str().map_or(0, |text| 6 * text.len() as u64),
            ValueKind::Bytes => NODE + value.as_bytes().map_or(0, |bytes| 4 * bytes.len() as u64),
            // As long as the largest number.
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

    /// How many things a value holds; for a text its bytes. Looking at them is paid for.
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

    /// What a list of the things that a value holds takes. A character of a text is a text of its own there.
    pub(super) fn list(&self, value: &Value) -> Result<u64, Error> {
        Ok(NODE.saturating_mul(self.count(value)?))
    }

    /// A value as it is kept under a name: all that it holds is there and not deep, and nothing of it waits to be made.
    /// So whatever a loop adds to it round by round is counted round by round.
    pub(super) fn keep(&self, value: &Value) -> Result<Value, Error> {
        self.keep_at(value, 0)
    }

    fn keep_at(&self, value: &Value, depth: usize) -> Result<Value, Error> {
        let items = || -> Result<Vec<Value>, Error> {
            children(value, depth)?.map(|item| self.keep_at(&item?, depth + 1)).collect()
        };
        self.work(NODE)?;
        match value.kind() {
            // A macro holds names alone.
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

/// Whether a value is a thing of minijinja's that has no public type.
pub(super) fn is_a(value: &Value, kind: &str) -> bool {
    value.as_object().is_some_and(|object| object.type_name().rsplit("::").next() == Some(kind))
}

fn take(from: &AtomicU64, bytes: u64, fault: &'static str) -> Result<(), Error> {
    let taken = from.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes));
    taken.map(|_| ()).map_err(|_| Error::new(ErrorKind::InvalidOperation, fault))
}

/// What a value holds: the items of a list, the keys and values of a map by turns.
fn children(value: &Value, depth: usize) -> Result<Box<dyn Iterator<Item = Result<Value, Error>> + '_>, Error> {
    let is_map = value.kind() == ValueKind::Map;
    if !is_map && !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Ok(Box::new(std::iter::empty()));
    }
    if depth >= DEPTH {
        return Err(Error::new(ErrorKind::InvalidOperation, "holds lists in lists too deep"));
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
