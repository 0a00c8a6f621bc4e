//! Forms that were asked for lately, worked out once: what a mask takes to find out is then known to later requests.

use std::sync::{Mutex, PoisonError};

use verdigris::{Constraint, Engine, Error};

use crate::protocol::form::Form;

/// So many are kept. What one holds is bounded by its constraint.
const KEPT: usize = 16;

/// The forms that were asked for last; the one that was asked for longest ago comes first.
#[derive(Default)]
pub(crate) struct Forms(Mutex<Vec<(Form, Constraint)>>);

impl Forms {
    /// A form as a constraint on what an engine writes.
    pub(crate) fn constraint(&self, engine: &Engine, form: &Form) -> Result<Constraint, Error> {
        if let Some(known) = self.known(form) {
            return Ok(known);
        }
        // Nobody else waits meanwhile; who asks for the same works it out too.
        let asked = form.onto(engine.request(""));
        let constraint = asked.compiled_form()?.expect("a form was asked for");
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push((form.clone(), constraint.clone()));
        Ok(constraint)
    }

    fn known(&self, form: &Form) -> Option<Constraint> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(known, _)| known == form)?;
        let found = kept.remove(at);
        let constraint = found.1.clone();
        kept.push(found);
        Some(constraint)
    }
}
