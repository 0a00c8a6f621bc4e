//! The stack of values, on which containers are begun by marks.

use super::{Limits, PickleError, Result, Value};

#[derive(Default)]
pub(super) struct Stack {
    values: Vec<Value>,
    /// How high the stack was where containers were begun.
    marks: Vec<usize>,
    /// How many values have been pushed so far.
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

    /// How low the stack may be popped: to where the last container was begun.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    /// The last value; `None` where there is none above the last mark.
    pub(super) fn top(&self) -> Option<Value> {
        self.values[self.floor()..].last().copied()
    }

    /// As [`Stack::top`], and takes it away.
    pub(super) fn pop(&mut self) -> Option<Value> {
        self.top().inspect(|_| _ = self.values.pop())
    }

    /// The last values, in the order in which they were pushed.
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

    /// What was pushed since the last mark, which goes as well; `None` where there is no mark.
    pub(super) fn pop_mark(&mut self) -> Option<Vec<Value>> {
        self.marks.pop().map(|mark| self.values.split_off(mark))
    }

    /// Whether nothing was pushed since the last mark.
    pub(super) fn ends_in_mark(&self) -> bool {
        self.marks.last() == Some(&self.values.len())
    }
}
