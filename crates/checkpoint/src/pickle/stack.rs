//! The stack of values, with marks where containers start.

use super::{Limits, PickleError, Result, Value};

#[derive(Default)]
pub(super) struct Stack {
    values: Vec<Value>,
    /// The height of the stack at the start of each open container.
    marks: Vec<usize>,
    /// The number of values pushed so far.
    pushed: usize,
}

impl Stack {
    pub(super) fn push(&mut self, value: Value, limits: &Limits) -> Result<()> {
        self.pushed += 1;
        if self.pushed > limits.values {
            return Err(PickleError::TooLarge(format!("more than {} values", limits.values)));
        }
        self.values.push(value);
        Ok(())
    }

    /// The lowest height to which the stack may be popped: the last mark.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    /// The last value; `None` if there is none above the last mark.
    pub(super) fn top(&self) -> Option<Value> {
        self.values[self.floor()..].last().copied()
    }

    /// As [`Stack::top`], and removes it.
    pub(super) fn pop(&mut self) -> Option<Value> {
        self.top().inspect(|_| _ = self.values.pop())
    }

    /// Removes the last values, and returns them in the order in which they were pushed.
    pub(super) fn pop_many<const N: usize>(&mut self) -> Option<[Value; N]> {
        let from = self.values.len().checked_sub(N).filter(|&from| from >= self.floor())?;
        let popped = self.values[from..].try_into().expect("as many as are there");
        self.values.truncate(from);
        Some(popped)
    }

    pub(super) fn mark(&mut self, limits: &Limits) -> Result<()> {
        if self.marks.len() >= limits.depth {
            return Err(PickleError::TooLarge(format!("more than {} containers in each other", limits.depth)));
        }
        self.marks.push(self.values.len());
        Ok(())
    }

    /// Removes the last mark and the values above it, and returns these; `None` if there is no mark.
    pub(super) fn pop_mark(&mut self) -> Option<Vec<Value>> {
        self.marks.pop().map(|mark| self.values.split_off(mark))
    }

    /// Whether no value was pushed since the last mark.
    pub(super) fn ends_in_mark(&self) -> bool {
        self.marks.last() == Some(&self.values.len())
    }
}
