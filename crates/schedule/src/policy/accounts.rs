//! The order of texts, by the tenants and requests that they are written for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::text_id::TextId;

/// The account that a text is written for. The resources of a pass are divided evenly between tenants, and the part of
/// a tenant evenly between its requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account {
    /// The tenant.
    pub tenant: Arc<str>,
    /// The number of the tenant's request.
    pub request: u64,
}

/// All texts, by account. Accounts without texts are removed.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    tenants: BTreeMap<Arc<str>, Tenant>,
    clock: u64,
}

#[derive(Debug)]
struct Tenant {
    requests: BTreeMap<u64, Texts>,
    /// The time at which one of its texts last began, or else of its arrival.
    served: u64,
}

#[derive(Debug)]
struct Texts {
    waiting: BTreeSet<TextId>,
    running: BTreeSet<TextId>,
    /// The same for this request.
    served: u64,
}

impl Tenant {
    fn running(&self) -> usize {
        self.requests.values().map(|texts| texts.running.len()).sum()
    }
}

impl Accounts {
    /// Records a text that waits, for the first time or again.
    pub(super) fn waits(&mut self, account: &Account, id: TextId) {
        self.clock += 1;
        let served = self.clock;
        let tenant = self.tenants.entry(account.tenant.clone());
        let tenant = tenant.or_insert_with(|| Tenant { requests: BTreeMap::new(), served });
        let texts = tenant.requests.entry(account.request);
        let (waiting, running) = (BTreeSet::new(), BTreeSet::new());
        let texts = texts.or_insert_with(|| Texts { waiting, running, served });
        texts.running.remove(&id);
        texts.waiting.insert(id);
    }

    /// Records that a waiting text now runs.
    pub(super) fn runs(&mut self, account: &Account, id: TextId) {
        self.clock += 1;
        let tenant = self.tenants.get_mut(&account.tenant).expect("the tenant of a text");
        let texts = tenant.requests.get_mut(&account.request).expect("the request of a text");
        texts.waiting.remove(&id);
        texts.running.insert(id);
        (tenant.served, texts.served) = (self.clock, self.clock);
    }

    /// Records that a text has ended.
    pub(super) fn ends(&mut self, account: &Account, id: TextId) {
        let Some(tenant) = self.tenants.get_mut(&account.tenant) else { return };
        let Some(texts) = tenant.requests.get_mut(&account.request) else { return };
        texts.waiting.remove(&id);
        texts.running.remove(&id);
        if texts.waiting.is_empty() && texts.running.is_empty() {
            tenant.requests.remove(&account.request);
        }
        if tenant.requests.is_empty() {
            self.tenants.remove(&account.tenant);
        }
    }

    /// The text that begins next: from the tenant with the fewest running texts, and its request with the fewest, the
    /// oldest text. Ties go to the one served longest ago. The accounts in `passed` are skipped.
    pub(super) fn next(&self, passed: &BTreeSet<Account>) -> Option<TextId> {
        let of_tenant = |name: &Arc<str>, tenant: &Tenant| {
            let waiting = tenant.requests.iter().filter_map(|(&request, texts)| {
                let id = *texts.waiting.first()?;
                let account = Account { tenant: name.clone(), request };
                (!passed.contains(&account)).then_some(((texts.running.len(), texts.served), id))
            });
            waiting.min().map(|(_, id)| ((tenant.running(), tenant.served), id))
        };
        self.tenants.iter().filter_map(|(name, tenant)| of_tenant(name, tenant)).min().map(|(_, id)| id)
    }

    /// The oldest waiting text of a request.
    pub(super) fn first_of(&self, account: &Account) -> Option<TextId> {
        self.tenants.get(&account.tenant)?.requests.get(&account.request)?.waiting.first().copied()
    }

    /// The running text that gives way to a waiting one when all `total` units of a resource are used: one of another
    /// tenant or request that has more than its share, provided that the waiting text keeps its own within its share.
    /// `uses` returns the units that a text uses, and `needs` is the number that the waiting text would use. It is the
    /// youngest text of the account that exceeds its share most.
    pub(super) fn gives_way(
        &self,
        to: &Account,
        needs: usize,
        total: usize,
        keeps: TextId,
        uses: impl Fn(TextId) -> usize,
    ) -> Option<TextId> {
        let of_texts = |texts: &Texts| texts.running.iter().map(|&id| uses(id)).sum::<usize>();
        let of_tenant = |tenant: &Tenant| tenant.requests.values().map(of_texts).sum::<usize>();
        let youngest = |texts: &Texts| texts.running.iter().rev().find(|&&id| id != keeps).copied();
        let own = self.tenants.get(&to.tenant)?;
        let of_own = of_tenant(own);
        let share = (total / self.tenants.len()).max(1);
        if of_own + needs <= share {
            let others = self.tenants.iter().filter(|(name, _)| **name != to.tenant);
            let above = others.map(|(_, tenant)| (of_tenant(tenant), tenant)).filter(|&(used, _)| used > share);
            let (_, tenant) = above.max_by_key(|&(used, _)| used)?;
            let texts = tenant.requests.values().filter_map(|texts| Some((of_texts(texts), youngest(texts)?)));
            return texts.max().map(|(_, id)| id);
        }
        let share = (of_own / own.requests.len()).max(1);
        let of_request = own.requests.get(&to.request).map_or(0, of_texts);
        let others = own.requests.iter().filter(|(request, _)| **request != to.request);
        let others = others.map(|(_, texts)| (of_texts(texts), texts)).filter(|&(used, _)| used > share);
        let texts = others.filter_map(|(used, texts)| Some((used, youngest(texts)?))).max();
        texts.filter(|_| of_request + needs <= share).map(|(_, id)| id)
    }

    /// The text that gives way if one must: the youngest of the request that uses most, of the tenant that uses most.
    pub(super) fn last(&self, keeps: TextId, uses: impl Fn(TextId) -> usize) -> Option<TextId> {
        let of_texts = |texts: &Texts| texts.running.iter().map(|&id| uses(id)).sum::<usize>();
        let youngest = |texts: &Texts| texts.running.iter().rev().find(|&&id| id != keeps).copied();
        let of_tenant = |tenant: &Tenant| {
            let texts = tenant.requests.values().filter_map(|texts| Some((of_texts(texts), youngest(texts)?)));
            let used = tenant.requests.values().map(of_texts).sum::<usize>();
            texts.max().map(|(_, id)| (used, id))
        };
        self.tenants.values().filter_map(of_tenant).max().map(|(_, id)| id)
    }

    /// Divides `rows` rows between texts, given the number that each could use: evenly between tenants, for each tenant
    /// evenly between its requests, and for each request to its oldest texts first. If one needs less than an even
    /// part, the rest goes to the others. The oldest text of all always gets one.
    pub(super) fn rows(rows: usize, readers: &[(&Account, TextId, usize)]) -> BTreeMap<TextId, usize> {
        let mut shares = BTreeMap::new();
        let mut tenants: BTreeMap<&str, BTreeMap<u64, BTreeMap<TextId, usize>>> = BTreeMap::new();
        for &(account, id, wants) in readers {
            let of_tenant = tenants.entry(&account.tenant).or_default();
            of_tenant.entry(account.request).or_default().insert(id, wants);
        }
        let wants = |texts: &BTreeMap<TextId, usize>| texts.values().sum::<usize>();
        let tenants = tenants.values().map(|requests| (requests.values().map(wants).sum(), requests));
        for (of_tenant, requests) in even(rows, tenants) {
            for (mut left, texts) in even(of_tenant, requests.values().map(|texts| (wants(texts), texts))) {
                for (&id, &wants) in texts {
                    let count = wants.min(left);
                    left -= count;
                    shares.insert(id, count);
                }
            }
        }
        if let Some(oldest) = shares.first_key_value().filter(|&(_, &count)| count == 0).map(|(&id, _)| id)
            && let Some((_, most)) = shares.iter_mut().max_by_key(|(_, count)| **count).filter(|(_, most)| **most > 0)
        {
            *most -= 1;
            shares.insert(oldest, 1);
        }
        shares
    }
}

/// Divides a number between takers that each want some amount: none gets more than it wants, and takers that want the
/// same get the same, up to one.
fn even<T>(mut left: usize, wanted: impl Iterator<Item = (usize, T)>) -> Vec<(usize, T)> {
    let mut wanted: Vec<_> = wanted.collect();
    wanted.sort_by_key(|&(wants, _)| wants);
    let mut others = wanted.len();
    let share = |(wants, who): (usize, T)| {
        let count = wants.min(left.div_ceil(others));
        (left, others) = (left - count, others - 1);
        (count, who)
    };
    wanted.into_iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(tenant: &str, request: u64) -> Account {
        Account { tenant: tenant.into(), request }
    }

    #[test]
    fn what_one_does_not_want_is_left_to_the_others() {
        let shares = |left, wanted: &[usize]| {
            even(left, wanted.iter().copied().zip(0..)).into_iter().map(|(count, _)| count).collect::<Vec<_>>()
        };
        assert_eq!(shares(12, &[100, 2, 100]), [2, 5, 5]);
        assert_eq!(shares(12, &[1, 2, 3]), [1, 2, 3]);
        assert_eq!(shares(1, &[9, 9]), [1, 0]);
        assert_eq!(shares(0, &[9, 9]), [0, 0]);
    }

    #[test]
    fn rows_are_shared_between_tenants_and_then_between_requests() {
        let (acme, first, second) = (account("acme", 0), account("rival", 1), account("rival", 2));
        let ids: Vec<TextId> = (0..5).map(TextId::new).collect();
        let readers = [
            (&acme, ids[0], 500),
            (&acme, ids[1], 500),
            (&first, ids[2], 500),
            (&second, ids[3], 3),
            (&first, ids[4], 9),
        ];
        let shares = Accounts::rows(100, &readers);
        let expected = [(ids[0], 50), (ids[1], 0), (ids[2], 47), (ids[3], 3), (ids[4], 0)];
        assert_eq!(shares.into_iter().collect::<Vec<_>>(), expected);
        let one = Accounts::rows(1, &readers[2..]);
        assert_eq!(one.values().sum::<usize>(), 1);
        assert_eq!(one[&ids[2]], 1);
    }

    #[test]
    fn turns_go_round() {
        let mut accounts = Accounts::default();
        let all = [account("acme", 0), account("acme", 1), account("rival", 2)];
        let mut of = BTreeMap::new();
        for number in 0..12 {
            // Two of three texts belong to the first request.
            let account = &all[[0, 0, 0, 0, 1, 2][number as usize % 6]];
            accounts.waits(account, TextId::new(number));
            of.insert(TextId::new(number), account.clone());
        }
        let mut order = Vec::new();
        while let Some(id) = accounts.next(&BTreeSet::new()) {
            accounts.runs(&of[&id], id);
            accounts.ends(&of[&id], id);
            order.push(of[&id].request);
        }
        assert_eq!(order, [0, 2, 1, 2, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert!(accounts.tenants.is_empty());
    }
}
