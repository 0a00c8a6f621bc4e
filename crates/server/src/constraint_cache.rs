//! A cache of compiled constraints: later requests also reuse the masks computed for earlier ones.

use std::sync::{Arc, Mutex, PoisonError};

use verdigris::Constraint;

/// The number of constraints that are kept. The size of each is bounded by the constraint itself.
const KEPT: usize = 16;

/// The most recently used constraints, by their source and a salt, least recently used first. Tenants do not share
/// them, since the shorter time of a known constraint would reveal that another tenant uses it.
pub(crate) struct ConstraintCache<Source, Compiled = Constraint>(Mutex<Vec<Known<Source, Compiled>>>);

struct Known<Source, Compiled> {
    salt: Arc<str>,
    source: Source,
    constraint: Compiled,
}

impl<Source, Compiled> Default for ConstraintCache<Source, Compiled> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<Source: Clone + PartialEq, Compiled: Clone> ConstraintCache<Source, Compiled> {
    /// The constraint of `source`: a known one of this salt, or one compiled by `work_out`.
    pub(crate) fn constraint<E>(
        &self,
        salt: &Arc<str>,
        source: &Source,
        work_out: impl FnOnce() -> Result<Compiled, E>,
    ) -> Result<Compiled, E> {
        if let Some(known) = self.known(salt, source) {
            return Ok(known);
        }
        // The lock is not held meanwhile: a concurrent request for the same constraint compiles it too.
        let constraint = work_out()?;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|known| known.salt != *salt || known.source != *source);
        kept.push(Known { salt: salt.clone(), source: source.clone(), constraint: constraint.clone() });
        if kept.len() > KEPT {
            // Evicts the oldest of a tenant with the most, so that a tenant with few keeps them.
            let has = |salt: &Arc<str>| kept.iter().filter(|known| known.salt == *salt).count();
            let most = kept.iter().map(|known| has(&known.salt)).max();
            let at = kept.iter().position(|known| Some(has(&known.salt)) == most).expect("there are some");
            kept.remove(at);
        }
        Ok(constraint)
    }

    /// Whether the constraint of `source` is known under this salt.
    pub(crate) fn knows(&self, salt: &Arc<str>, source: &Source) -> bool {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().any(|known| known.salt == *salt && known.source == *source)
    }

    fn known(&self, salt: &Arc<str>, source: &Source) -> Option<Compiled> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|known| known.salt == *salt && known.source == *source)?;
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

    /// Tenants share no constraints, and a tenant with many does not evict another's.
    #[test]
    fn tenants_share_no_forms() {
        let engine = Engine::load("../../fixtures/models/tale-small").unwrap();
        let cache = ConstraintCache::<usize>::default();
        let worked_out = |tenant: &str, times: usize| {
            let mut is_new = false;
            let work_out = || {
                is_new = true;
                Grammar::regex(&format!("a{{{times}}}")).map(|grammar| engine.constraint(grammar))
            };
            cache.constraint(&tenant.into(), &times, work_out).unwrap();
            is_new
        };
        assert!(worked_out("acme", 1) && !worked_out("acme", 1));
        assert!(worked_out("rival", 1), "it does not show that acme has requested it");
        assert!((2..50).all(|times| worked_out("rival", times)));
        assert!(!worked_out("acme", 1), "many constraints of one tenant");
        assert!(!worked_out("rival", 49) && worked_out("rival", 2));
        assert_eq!(cache.0.lock().unwrap().len(), KEPT);
    }
}
