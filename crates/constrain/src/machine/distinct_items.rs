//! The tokens allowed in an item that must differ from others as a value.
//!
//! Most tokens cannot lead to an earlier value; those are the tokens of any item. The few that may lead to one are
//! tried byte by byte. Tokens that end two items are left out, since shorter ones can write the same text.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use verdigris_logits::TokenId;

use super::allowed::{After, Allowed, union};
use super::masks::Masks;
use super::run::{DEAD, Run, Thread};
use super::work::{OUTSIDE, Work};
use crate::terminal::Terminal;
use crate::terminal::distinct::{Distinct, Probe};

impl Masks {
    /// The tokens that a thread in such an item allows.
    pub(super) fn in_distinct_item(&mut self, run: &mut Run, thread: Thread, distinct: &Distinct) -> Allowed {
        let any = run.as_any_item(thread, distinct);
        let mut parts: Vec<Arc<Allowed>> = Vec::new();
        for group in run.groups(any) {
            let group = run.group(any, &group);
            parts.push(self.allowed_by_work(run, group));
        }
        let mut allowed = match &parts[..] {
            [part] => Allowed {
                many: part.many.clone(),
                is_shared: false,
                without: part.without.clone(),
                with: part.with.clone(),
                reached: part.reached.clone(),
                cuts: Vec::new(),
            },
            parts => Allowed {
                many: Some(Arc::new(union(self.index.vocabulary_size(), parts))),
                is_shared: false,
                without: Vec::new(),
                with: Vec::new(),
                reached: parts.iter().flat_map(|part| part.reached.iter().copied()).collect(),
                cuts: Vec::new(),
            },
        };
        let tried = self.tried(run, thread, distinct);
        let mut tokens: Vec<TokenId> = tried.iter().map(|&(token, _)| token).collect();
        tokens.sort_unstable();
        allowed.with.retain(|token| tokens.binary_search(token).is_err());
        allowed.without.append(&mut tokens);
        allowed.without.sort_unstable();
        allowed.without.dedup();
        for (token, state) in tried {
            if state != DEAD {
                allowed.with.push(token);
                allowed.reached.push(After::state(state));
            }
        }
        allowed.reached.sort_unstable();
        allowed.reached.dedup();
        allowed
    }

    /// The tokens that may lead to an earlier value, each with the state after it.
    fn tried(&mut self, run: &mut Run, thread: Thread, distinct: &Distinct) -> Vec<(TokenId, u32)> {
        let index = self.index.clone();
        let start = run.join(DEAD, |_, threads| threads.threads.push(thread));
        let mut tried = Vec::new();
        let any = run.as_any_item(thread, distinct);
        if distinct.is_careful(thread.inner) {
            let probe = |inner| Some(distinct.probe(inner));
            tried = self.tried_from(run, thread, any, |inner| distinct.is_careful(inner), probe);
        }
        // A repeated name can change what was written.
        if distinct.has_predecessors() {
            for (token, bytes) in index.names_inside() {
                // Tokens that are not allowed in any item are left out without comparing values.
                if tried.iter().all(|(tried, _)| tried != token) && run.next_all(any, bytes) != DEAD {
                    tried.push((*token, run.next_all(start, bytes)));
                }
            }
        }
        tried
    }

    /// The tokens along which a thread stays where values must be compared, each with the state after it; `any` is the
    /// state of the text without the comparison. If there is a `probe` for a state, no states are created after bytes
    /// that decide nothing.
    fn tried_from<'d>(
        &mut self,
        run: &mut Run,
        thread: Thread,
        any: u32,
        is_careful: impl Fn(u32) -> bool,
        probe: impl Fn(u32) -> Option<Probe<'d>>,
    ) -> Vec<(TokenId, u32)> {
        let index = self.index.clone();
        let (tree, work) = (index.trie().all(), &mut self.work);
        let start = run.join(DEAD, |_, threads| threads.threads.push(thread));
        let (mut tried, mut wrong) = (Vec::new(), Vec::new());
        let mut probes = HashMap::new();
        let step = |(state, any), byte: u8, node| {
            let any = Some(run.next(any, byte)).filter(|&any| any != DEAD && work.take(OUTSIDE))?;
            if let [inside] = run.threads(state).threads[..]
                && inside.at == thread.at
                && let Some(probe) = probes.entry(inside.inner).or_insert_with(|| probe(inside.inner))
                && !probe.is_decisive(byte)
            {
                return None;
            }
            let next = run.next(state, byte);
            if next == DEAD {
                wrong.push(node);
                return None;
            }
            // After the end of the item, what may follow depends on the item.
            let inside = run.threads(next).threads.iter().find(|inside| inside.at == thread.at);
            inside.is_none_or(|inside| is_careful(inside.inner)).then_some((next, any))
        };
        tree.walk((start, any), step, |token, (state, _)| tried.push((token, state)));
        tried.extend(wrong.iter().flat_map(|&node| tree.tokens_below(node)).map(|&token| (token, DEAD)));
        tried
    }

    /// Like [`Masks::tried`], outside the computation of a mask; empty if the thread is not in such an item.
    pub(super) fn tried_anew(&mut self, run: &mut Run, thread: Thread) -> Vec<(TokenId, u32)> {
        self.work = Work::of_a_mask();
        match &*run.grammar.terminal_at(thread.at).clone() {
            Terminal::Distinct(distinct) => self.tried(run, thread, distinct),
            Terminal::Fresh(fresh) if !fresh.is_apart(thread.inner) => match run.as_any(thread) {
                Some(any) => self.tried_from(run, thread, any, |inner| !fresh.is_apart(inner), |_| None),
                None => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// An upper bound on the bytes to the end of the text after any token, where `any` is the state as if the text were
    /// in any item.
    pub(super) fn bytes_to_end_in_item(&mut self, run: &mut Run, thread: Thread, any: u32) -> u64 {
        let tried = self.tried_anew(run, thread).into_iter().filter(|&(_, state)| state != DEAD);
        let tried = tried.map(|(_, state)| run.bytes_to_end(state)).max();
        self.bytes_to_end_after(run, any).max(tried.unwrap_or(0))
    }
}
