//! Forms that were asked for lately, worked out once: what a mask takes to find out is then known to later requests.

use std::sync::{Mutex, PoisonError};

use verdigris::Constraint;

/// So many are kept. What one holds is bounded by its constraint.
const KEPT: usize = 16;

/// The forms that were asked for last, by what asks for them; the one that was asked for longest ago comes first.
pub(crate) struct Forms<Asked>(Mutex<Vec<(Asked, Constraint)>>);

impl<Asked> Default for Forms<Asked> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<Asked: Clone + PartialEq> Forms<Asked> {
    /// The form that is asked for so: a known one, or one that is worked out now.
    pub(crate) fn constraint<E>(
        &self,
        asked: &Asked,
        work_out: impl FnOnce() -> Result<Constraint, E>,
    ) -> Result<Constraint, E> {
        if let Some(known) = self.known(asked) {
            return Ok(known);
        }
        // Nobody else waits meanwhile; who asks for the same works it out too.
        let constraint = work_out()?;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push((asked.clone(), constraint.clone()));
        Ok(constraint)
    }

    fn known(&self, asked: &Asked) -> Option<Constraint> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(known, _)| known == asked)?;
        let found = kept.remove(at);
        let constraint = found.1.clone();
        kept.push(found);
        Some(constraint)
    }
}
