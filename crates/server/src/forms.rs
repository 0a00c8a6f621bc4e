//! Forms that were asked for lately, worked out once: what a mask takes to find out is then known to later requests.

use std::sync::{Arc, Mutex, PoisonError};

use verdigris::Constraint;

/// So many are kept. What one holds is bounded by its constraint.
const KEPT: usize = 16;

/// The forms that were asked for last, by what asks for them and for whom; the one that was asked for longest ago comes
/// first. A form that is known comes sooner, so tenants share none: it would say what another one asks for.
pub(crate) struct Forms<Asked>(Mutex<Vec<Known<Asked>>>);

struct Known<Asked> {
    salt: Arc<str>,
    asked: Asked,
    constraint: Constraint,
}

impl<Asked> Default for Forms<Asked> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<Asked: Clone + PartialEq> Forms<Asked> {
    /// The form that is asked for so: one that is known to texts of this salt, or one that is worked out now.
    pub(crate) fn constraint<E>(
        &self,
        salt: &Arc<str>,
        asked: &Asked,
        work_out: impl FnOnce() -> Result<Constraint, E>,
    ) -> Result<Constraint, E> {
        if let Some(known) = self.known(salt, asked) {
            return Ok(known);
        }
        // Nobody else waits meanwhile; who asks for the same works it out too.
        let constraint = work_out()?;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(Known { salt: salt.clone(), asked: asked.clone(), constraint: constraint.clone() });
        if kept.len() > KEPT {
            // The oldest of those who have most, so that nobody who has few loses them to one who asks for many.
            let has = |salt: &Arc<str>| kept.iter().filter(|known| known.salt == *salt).count();
            let most = kept.iter().map(|known| has(&known.salt)).max();
            let at = kept.iter().position(|known| Some(has(&known.salt)) == most).expect("there are some");
            kept.remove(at);
        }
        Ok(constraint)
    }

    /// Whether a form is known to texts of this salt.
    pub(crate) fn knows(&self, salt: &Arc<str>, asked: &Asked) -> bool {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().any(|known| known.salt == *salt && known.asked == *asked)
    }

    fn known(&self, salt: &Arc<str>, asked: &Asked) -> Option<Constraint> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|known| known.salt == *salt && known.asked == *asked)?;
        let found = kept.remove(at);
        let constraint = found.constraint.clone();
        kept.push(found);
        Some(constraint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdigris::{Engine, Grammar};

    /// How often each form is worked out: tenants share none, and one who asks for many takes none from another.
    #[test]
    fn tenants_share_no_forms() {
        let engine = Engine::load("../../fixtures/models/tale-small").unwrap();
        let forms = Forms::<usize>::default();
        let worked_out = |tenant: &str, form: usize| {
            let mut is_new = false;
            let work_out = || {
                is_new = true;
                Grammar::regex(&format!("a{{{form}}}")).map(|grammar| engine.constraint(grammar))
            };
            forms.constraint(&tenant.into(), &form, work_out).unwrap();
            is_new
        };
        assert!(worked_out("acme", 1) && !worked_out("acme", 1));
        assert!(worked_out("rival", 1), "it is not seen that acme has asked for it");
        assert!((2..50).all(|form| worked_out("rival", form)));
        assert!(!worked_out("acme", 1), "many forms of one tenant");
        assert!(!worked_out("rival", 49) && worked_out("rival", 2));
        assert_eq!(forms.0.lock().unwrap().len(), KEPT);
    }
}
