//! Fair division of a limited resource among tenants.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A limited resource, and the amount that each tenant holds.
///
/// With several tenants, none may hold more than it leaves free (dynamic thresholds, Choudhury and Hahne, 1998): a new
/// tenant finds some, whatever another takes, and tenants that take all they can hold equal amounts.
#[derive(Debug)]
pub(crate) struct Shares {
    total: usize,
    held: Mutex<HashMap<Arc<str>, usize>>,
}

/// An amount that a tenant has taken. It is given back on drop.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Shares>,
    tenant: Arc<str>,
    amount: usize,
}

impl Shares {
    pub(crate) fn new(total: usize) -> Arc<Self> {
        Arc::new(Self { total, held: Mutex::default() })
    }

    /// Takes `amount` for a tenant, which is the only one or one of several. `None` if it may not have that much.
    pub(crate) fn take(self: &Arc<Self>, tenant: &Arc<str>, amount: usize, is_only: bool) -> Option<Share> {
        let mut held = self.held();
        let left = self.total.checked_sub(held.values().sum())?.checked_sub(amount)?;
        let own = held.get(tenant).copied().unwrap_or(0);
        if !is_only && own > 0 && own + amount > left {
            return None;
        }
        *held.entry(tenant.clone()).or_insert(0) += amount;
        Some(Share { of: self.clone(), tenant: tenant.clone(), amount })
    }

    fn held(&self) -> MutexGuard<'_, HashMap<Arc<str>, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.of.held();
        if let Some(own) = held.get_mut(&self.tenant) {
            *own -= self.amount;
            if *own == 0 {
                held.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes one after another, as many as the tenant may have.
    fn all(shares: &Arc<Shares>, tenant: &str, is_only: bool) -> Vec<Share> {
        std::iter::from_fn(|| shares.take(&tenant.into(), 1, is_only)).collect()
    }

    #[test]
    fn one_leaves_some_for_others() {
        let shares = Shares::new(96);
        assert_eq!(all(&shares, "", true).len(), 96, "a single tenant may have all");
        let acme = all(&shares, "acme", false);
        let rival = all(&shares, "rival", false);
        assert_eq!((acme.len(), rival.len()), (48, 24));
        // The amount that the first gives back goes to the others until all have the same.
        drop(acme);
        let (rival_more, acme) = (all(&shares, "rival", false), all(&shares, "acme", false));
        assert_eq!((rival.len() + rival_more.len(), acme.len()), (48, 24));
        drop((rival, rival_more, acme));
        assert!(shares.held().is_empty());
    }

    #[test]
    fn the_first_is_had_wherever_there_is_room() {
        let shares = Shares::new(1);
        let acme = shares.take(&"acme".into(), 1, false);
        assert!(acme.is_some() && shares.take(&"rival".into(), 1, false).is_none());
        drop(acme);
        assert!(shares.take(&"rival".into(), 1, false).is_some() && shares.take(&"rival".into(), 2, true).is_none());
    }
}
