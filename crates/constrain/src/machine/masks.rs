//! Computes and caches the masks of states.

use std::sync::Arc;

use foldhash::HashMap;
use verdigris_logits::{TokenId, TokenSet};

use super::allowed::{After, Allowed, Cut, Reached, Recipe, union};
use super::groups::Group;
use super::index::TokenIndex;
use super::mask::{Mask, OverBudget};
use super::run::{DEAD, Run, Thread};
use super::slice::{Ends, Exit, TokenSlice};
use super::work::{self, Costs, EndsId, MaskPart, Work};
use crate::byte_set::has_byte;
use crate::grammar::step::Step;
use crate::terminal::Terminal;
use crate::terminal::any_string::AnyString;
use crate::terminal::content::Content;
use crate::terminal::escape::Escapes;
use crate::terminal::fresh::Fresh;
use crate::terminal::language::Language;
use crate::terminal::names::Names;
use crate::terminal::quoted::Quoted;
use crate::vocabulary::trie::Trie;

/// The masks of a machine's states. All of it can be recomputed.
pub(super) struct Masks {
    pub(super) index: Arc<TokenIndex>,
    pub(super) kept: Kept,
    /// The work left for the mask that is being computed.
    pub(super) work: Work,
    /// The fault of the first mask that could not be computed.
    fault: Option<OverBudget>,
}

/// The caches.
#[derive(Default)]
pub(super) struct Kept {
    /// By state; and the faults of those that could not be computed.
    masks: HashMap<u32, Arc<Mask>>,
    pub(super) faults: HashMap<u32, OverBudget>,
    /// The state after each token that has been written.
    steps: HashMap<(u32, TokenId), u32>,
    /// The tokens that each group of threads allows, with the work of all its parts.
    allowed: HashMap<u32, (Arc<Allowed>, Costs)>,
    /// By state whose stacks are cut, the groups with tokens that continue in a part that was cut off.
    pub(super) cuts: HashMap<u32, Cuts>,
    /// By terminal, its state, and whether anything may follow; with the work.
    slices: HashMap<(u32, u32, bool), (Arc<TokenSlice>, u64)>,
    /// By the id of ends, which are kept so that it is not used again, and the state outside: the tokens that
    /// continue; with the work.
    ends: HashMap<(EndsId, u32), (Ends, Arc<Reached>, u64)>,
    /// The first terminal of each set of names; those that the schema does not list are a set of their own.
    representatives: HashMap<NamesIdentity, u32>,
    /// Sets of tokens by recipe.
    sets: HashMap<Recipe, Arc<TokenSet>>,
    bytes: usize,
}

/// Groups of threads, and what they allow.
pub(super) type Cuts = Arc<[(Group, Arc<Allowed>)]>;

/// Identifies a set of names: all names, or those of a table that the schema does not list.
#[derive(PartialEq, Eq, Hash)]
enum NamesIdentity {
    All((usize, Vec<u32>, bool)),
    Others(usize),
}

/// The fault of a group whose tokens take too much work.
pub(super) fn too_much(run: &Run, group: u32) -> OverBudget {
    OverBudget::Work { path: run.grammar.path(run.threads(group).threads[0].at).to_owned() }
}

/// The approximate overhead of a cache entry in bytes.
const ENTRY: usize = 128;

impl Kept {
    pub(super) fn count<T>(&mut self, entries: &[&[T]]) {
        self.bytes += ENTRY + entries.iter().map(|entries| size_of_val(*entries)).sum::<usize>();
    }

    fn count_ends(&mut self, ends: &Ends) {
        // Trees and classes are those of the vocabulary.
        if let Ends::Below { nodes, .. } = ends {
            self.count(&[nodes]);
        }
    }

    fn count_cuts(&mut self, cuts: &[Cut]) {
        for Cut { outside, ends } in cuts {
            self.count(&[outside]);
            self.count_ends(ends);
        }
    }
}

impl Masks {
    /// Starts without any masks.
    pub(super) fn new(index: Arc<TokenIndex>) -> Self {
        Self { index, kept: Kept::default(), work: Work::of_a_mask(), fault: None }
    }

    /// The vocabulary.
    pub(super) fn trie(&self) -> &Trie {
        self.index.trie()
    }

    /// The fault of the first mask that could not be computed.
    pub(super) fn fault(&self) -> Option<&OverBudget> {
        self.fault.as_ref()
    }

    /// The fault of a state whose mask was requested and could not be computed.
    pub(super) fn fault_at(&self, state: u32) -> Option<&OverBudget> {
        self.kept.faults.get(&state)
    }

    /// The approximate number of bytes of all caches.
    pub(super) fn bytes(&self) -> usize {
        self.kept.bytes + size_of::<((u32, TokenId), u32)>() * self.kept.steps.capacity()
    }

    /// Records that the mask of a state cannot be computed; it is empty then.
    pub(super) fn give_up(&mut self, state: u32, fault: OverBudget) -> Arc<Mask> {
        let none = TokenSet::new(self.index.vocabulary_size());
        self.kept.count(&[none.words()]);
        let mask = Arc::new(Mask { tokens: Arc::new(none), accepts: false });
        self.fault.get_or_insert_with(|| fault.clone());
        self.kept.faults.insert(state, fault);
        self.kept.masks.insert(state, mask.clone());
        mask
    }

    /// Drops everything that can be recomputed.
    pub(super) fn forget(&mut self) {
        self.kept = Kept::default();
    }

    /// The state after a token, if it was written before.
    pub(super) fn known_step(&self, state: u32, token: TokenId) -> Option<u32> {
        self.kept.steps.get(&(state, token)).copied()
    }

    /// Caches the state after a token.
    pub(super) fn keep_step(&mut self, state: u32, token: TokenId, next: u32) {
        self.kept.steps.insert((state, token), next);
    }

    /// The mask of a state, if it has been computed.
    pub(super) fn known_mask(&self, state: u32) -> Option<&Arc<Mask>> {
        self.kept.masks.get(&state)
    }

    /// The mask of a state.
    pub(super) fn mask(&mut self, run: &mut Run, state: u32) -> Arc<Mask> {
        if let Some(mask) = self.kept.masks.get(&state) {
            return mask.clone();
        }
        let shallow = run.shallow(state);
        let mask = match shallow == state {
            true => self.union(run, state),
            false => self.deepened(run, state, shallow),
        };
        match mask {
            Ok(mask) => {
                self.kept.masks.insert(state, mask.clone());
                mask
            }
            Err(fault) => self.give_up(state, fault),
        }
    }

    /// The mask of a state as the union of what its threads allow.
    fn union(&mut self, run: &mut Run, state: u32) -> Result<Arc<Mask>, OverBudget> {
        self.work = Work::of_a_mask();
        let (mut parts, mut cuts) = (Vec::new(), Vec::new());
        for group in run.groups(state) {
            let threads = run.group(state, &group);
            let part = self.allowed_by_work(run, threads);
            if self.work.is_spent() {
                return Err(too_much(run, threads));
            }
            if !part.cuts.is_empty() {
                cuts.push((group, part.clone()));
            }
            parts.push(part);
        }
        if !cuts.is_empty() {
            self.kept.count(&[&cuts]);
            self.kept.cuts.insert(state, cuts.into());
        }
        Ok(Arc::new(Mask { tokens: self.tokens(&parts), accepts: run.threads(state).accepts }))
    }

    /// The tokens that some parts allow. Sets recur, within a schema and between schemas, so equal sets are shared.
    fn tokens(&mut self, parts: &[Arc<Allowed>]) -> Arc<TokenSet> {
        if let [part] = parts
            && let (Some(many), [], []) = (&part.many, &part.without[..], &part.with[..])
        {
            return many.clone();
        }
        let recipe = Recipe::new(parts);
        if let Some(known) = self.kept.sets.get(&recipe) {
            return known.clone();
        }
        let is_shared = parts.iter().all(|part| part.is_shared);
        let set = match is_shared.then(|| self.index.known_set(&recipe)).flatten() {
            Some(set) => set,
            None => {
                let set = Arc::new(union(self.index.vocabulary_size(), parts));
                if is_shared {
                    let many = parts.iter().filter_map(|part| part.many.clone());
                    self.index.keep_set(recipe.clone(), &set, many.collect());
                }
                set
            }
        };
        self.kept.count(&[set.words()]);
        self.kept.count(&[&recipe.with]);
        self.kept.sets.insert(recipe, set.clone());
        set
    }

    /// The tokens that a thread allows, with a new budget.
    pub(super) fn allowed(&mut self, run: &mut Run, thread: Thread) -> Arc<Allowed> {
        self.work = Work::of_a_mask();
        let state = run.join(DEAD, |_, threads| threads.threads.push(thread));
        self.allowed_by_work(run, state)
    }

    /// The tokens that the threads of a group allow: those that stay in their segment, and those that leave it and
    /// continue outside. The result is incomplete if the work runs out.
    pub(super) fn allowed_by_work(&mut self, run: &mut Run, group: u32) -> Arc<Allowed> {
        if let Some((allowed, costs)) = self.kept.allowed.get(&group) {
            self.work.pay(costs);
            return allowed.clone();
        }
        let outer = self.work.begin();
        let allowed = Arc::new(self.allowed_anew(run, group));
        let costs = self.work.end(group, outer);
        // An incomplete result is not cached.
        if !self.work.is_spent() {
            self.kept.count(&[&allowed.with, &allowed.without]);
            self.kept.count(&[&allowed.reached]);
            self.kept.count_cuts(&allowed.cuts);
            self.kept.count(&[&costs]);
            self.kept.allowed.insert(group, (allowed.clone(), costs));
        }
        allowed
    }

    fn allowed_anew(&mut self, run: &mut Run, group: u32) -> Allowed {
        let thread = run.threads(group).threads[0];
        let terminal = run.grammar.terminal_at(thread.at).clone();
        if let Terminal::Fresh(fresh) = &*terminal {
            return self.fresh(run, thread, fresh);
        }
        if let Terminal::Distinct(distinct) = &*terminal {
            return self.in_distinct_item(run, thread, distinct);
        }
        let any = AnyString::of(&terminal, thread.inner, self.trie().max_token_chars());
        let others = match (&*terminal, any) {
            // Positions inside escapes of four digits are numbered separately in each terminal.
            (Terminal::Names(names), None) if names.escapes() == Escapes::Minimal => names.content.without_given(),
            _ => None,
        };
        let has_others = others.is_some();
        let slice = match (any, others) {
            (Some(any), _) => self.index.slice(any),
            (None, Some(others)) => self.others_slice(run, thread, others),
            (None, None) => self.slice(run, group, &terminal),
        };
        let mut allowed = Allowed::inside(&slice, slice.is_shared);
        for Exit { inner, ends } in &slice.exits {
            // The shared slice of strings does not distinguish names.
            let inner = match &*terminal {
                Terminal::Names(names) if any.is_some() => names.closed(names.content.other()),
                _ => *inner,
            };
            let outside = run.leave_all(group, inner);
            self.go_on_by(run, ends, outside, &mut allowed);
        }
        if let Terminal::Names(names) = &*terminal
            && (any.is_some() || has_others)
        {
            self.given_names(run, thread, names, any.is_some(), &mut allowed);
        }
        allowed.reached.sort_unstable();
        allowed.reached.dedup();
        allowed
    }

    /// Adds the tokens that leave a segment and continue outside.
    fn go_on_by(&mut self, run: &mut Run, ends: &Ends, outside: u32, allowed: &mut Allowed) {
        if run.is_cut(outside) && !matches!(ends, Ends::Tree(_)) {
            allowed.cuts.push(Cut { outside: Arc::default(), ends: ends.clone() });
            return;
        }
        if run.threads(outside).threads.is_empty() {
            return;
        }
        // Such trees are the same for all schemas. Other ends belong to one segment, and are kept with its threads.
        let is_kept = matches!(ends, Ends::Tree(_));
        let reached = self.outside(run, ends, outside, is_kept);
        allowed.with.extend_from_slice(&reached.tokens);
        allowed.reached.extend_from_slice(&reached.states);
        allowed.cuts.extend_from_slice(&reached.cuts);
    }

    /// The remainders of tokens that continue from a state outside their segments.
    pub(super) fn outside(&mut self, run: &mut Run, ends: &Ends, outside: u32, is_kept: bool) -> Arc<Reached> {
        let key = (ends.id(), outside);
        if let Some((_, known, cost)) = self.kept.ends.get(&key).filter(|_| is_kept) {
            self.work.pay(&[(MaskPart::Ends(key.0, key.1), *cost)]);
            return known.clone();
        }
        let before = self.work.left();
        let (mut reached, mut cuts) = (Reached::default(), Vec::new());
        let Self { index, work, .. } = self;
        let all = index.trie().all();
        // A tree of remainders has lists of nodes of the tree of all tokens.
        let merged = match ends {
            Ends::Class { class, most } if !class.may_begin(run.first(outside)) => Some((class.remainders(all), *most)),
            _ => None,
        };
        let tree = match (ends, merged) {
            (_, Some((remainders, _))) => &remainders.tree,
            (Ends::Tree(tree), None) => tree,
            (Ends::Below { of_rest: true, .. }, None) => index.trie().rest(),
            (Ends::Below { .. } | Ends::Class { .. }, None) => all,
        };
        let found = |token, (after, _): (After, usize)| match merged {
            None => reached.push(token, after),
            Some((remainders, most)) => {
                let tokens = remainders.node(token, most).map_or(&[][..], |node| all.tokens_at(node));
                tokens.iter().for_each(|&token| reached.push(token, after));
            }
        };
        // Most remainders begin with a byte that cannot come next.
        let first = run.first(outside);
        let step = |(after, depth): (After, usize), byte: u8, node| {
            if depth == 0 && !has_byte(&first, byte) {
                return None;
            }
            let state = after.reached(run);
            // The state after the last byte of the longest tokens is not needed.
            if !tree.goes_on(node) {
                let after = After::byte(state, byte);
                return (run.may_read(state, byte) && work.take(work::OUTSIDE)).then_some((after, depth));
            }
            let next = run.next(state, byte);
            if run.is_cut(next) {
                match merged {
                    None => cuts.push((node, depth + 1)),
                    Some((remainders, most)) => {
                        let nodes = tree.tokens_at(node).iter().filter_map(|&index| remainders.node(index, most));
                        cuts.extend(nodes.map(|node| (node, depth + 1)));
                    }
                }
                work.take(work::OUTSIDE);
                return None;
            }
            (next != DEAD && work.take(work::OUTSIDE)).then_some((After::state(next), depth + 1))
        };
        let start = (After::state(outside), 0);
        match (ends, merged) {
            (_, Some(_)) | (Ends::Tree(_), None) => tree.walk(start, step, found),
            (Ends::Below { nodes, .. }, None) => tree.walk_below(nodes.iter().copied(), start, step, found),
            (Ends::Class { class, most }, None) => tree.walk_below(class.nodes_up_to(*most), start, step, found),
        }
        reached.cuts = Cut::by_bytes(index.trie().all(), &cuts);
        let reached = Arc::new(reached);
        if is_kept && !self.work.is_spent() {
            let cost = self.work.made(MaskPart::Ends(key.0, key.1), before);
            self.kept.count(&[&reached.tokens]);
            self.kept.count(&[&reached.states]);
            self.kept.count_cuts(&reached.cuts);
            self.kept.ends.insert(key, (ends.clone(), reached.clone(), cost));
        }
        reached
    }

    /// Adds the names that the schema lists. They are few and change with every name that is written, so the slice of
    /// all other names is computed without them. If the others `are_any`, that slice treats listed names like others,
    /// which is corrected here: a listed name is followed by its own value, or not allowed at all.
    fn given_names(
        &mut self,
        run: &mut Run,
        thread: Thread,
        names: &Quoted<Names>,
        are_any: bool,
        allowed: &mut Allowed,
    ) {
        let index = self.index.clone();
        let tree = index.trie().all();
        let (mut ends, work) = (Vec::new(), &mut self.work);
        let step = |inner: u32, byte: u8, node: u32| {
            let content = names.content_state(inner);
            let (begins, is_whole) = names.content.known(content);
            if is_whole && byte == b'"' && names.is_open(inner) == Some(false) {
                ends.push((node, content));
                return None;
            }
            // Once a name differs from all listed ones, it stays so.
            let next = begins.then(|| names.next(inner, byte)).flatten();
            next.filter(|&next| names.content.known(names.content_state(next)).0 && work.take(1))
        };
        let with = &mut allowed.with;
        tree.walk(thread.inner, step, |token, _| {
            if !are_any {
                with.push(token);
            }
        });
        if are_any {
            let ended = ends.iter().flat_map(|&(node, _)| tree.tokens_below(node));
            allowed.without = ended.copied().collect();
            allowed.without.sort_unstable();
            allowed.with.retain(|token| allowed.without.binary_search(token).is_err());
        }
        for (node, content) in ends {
            if names.content.accepts(content) {
                allowed.with.extend(tree.tokens_at(node));
                let outside = run.join(DEAD, |run, threads| run.leave(thread, names.closed(content), threads));
                let ends = Ends::Below { nodes: Arc::new([node]), of_rest: false };
                self.go_on_by(run, &ends, outside, allowed);
            }
        }
    }

    /// The tokens that a thread allows in an item that must differ from earlier ones: those of any item, except what
    /// would repeat an earlier one. Tokens that end two items are left out, since shorter ones can write the same text.
    fn fresh(&mut self, run: &mut Run, thread: Thread, fresh: &Fresh<Terminal>) -> Allowed {
        let base = fresh.base_state(thread.inner);
        let slice = match AnyString::of(&fresh.terminal, base, self.trie().max_token_chars()) {
            Some(any) => self.index.slice(any),
            None => self.slice_of((fresh.base, base, true), &fresh.terminal),
        };
        let mut allowed = Allowed::inside(&slice, false);
        let Step::Name { state, .. } = *run.grammar.step(thread.at) else {
            unreachable!("items that must differ are read at such steps")
        };
        let next = run.grammar.after_item(state, fresh.kind, None);
        let outside = run.join(DEAD, |run, threads| run.enter(next, thread.stack, threads));
        for Exit { ends, .. } in &slice.exits {
            self.go_on_by(run, ends, outside, &mut allowed);
        }
        // Along earlier items, each token is run through the machine.
        let index = self.index.clone();
        let tree = index.trie().all();
        let text = fresh.text(thread.inner);
        let start = run.join(DEAD, |_, threads| threads.threads.push(thread));
        let (mut wrong, mut right) = (Vec::new(), Vec::new());
        for rest in fresh.after(&text) {
            let mut whole = None;
            let step = |depth: usize, byte, node| {
                let next = (rest.get(depth) == Some(&byte)).then_some(depth + 1)?;
                if next == rest.len() {
                    whole = Some(node);
                }
                Some(next)
            };
            tree.walk(0, step, |token, depth| wrong.push((token, rest[..depth].to_vec())));
            for (token, written) in std::mem::take(&mut wrong) {
                allowed.without.push(token);
                if self.work.take(work::OUTSIDE * written.len() as u64) && run.next_all(start, &written) != DEAD {
                    right.push(token);
                }
            }
            if let Some(node) = whole {
                allowed.without.extend(tree.tokens_below(node));
                let after = run.next_all(start, rest);
                if after != DEAD {
                    let work = &mut self.work;
                    let step = |state, byte, _| {
                        Some(run.next(state, byte)).filter(|&next| next != DEAD && work.take(work::OUTSIDE))
                    };
                    tree.walk_below([node], after, step, |token, state| {
                        right.push(token);
                        allowed.reached.push(After::state(state));
                    });
                }
            }
        }
        allowed.without.sort_unstable();
        allowed.with.retain(|token| allowed.without.binary_search(token).is_err());
        allowed.with.append(&mut right);
        allowed.reached.sort_unstable();
        allowed.reached.dedup();
        allowed
    }

    /// The slice of a group's segment.
    fn slice(&mut self, run: &Run, group: u32, terminal: &Terminal) -> Arc<TokenSlice> {
        let threads = &run.threads(group).threads;
        let (number, follows) = match (run.grammar.step(threads[0].at), terminal) {
            // Different positions in an object may allow the same names.
            (&Step::Name { terminal: number, .. }, Terminal::Names(names)) if names.escapes() == Escapes::Minimal => {
                (self.representative(NamesIdentity::All(names.content.identity()), number), true)
            }
            (&Step::Name { terminal: number, .. }, _) => (number, true),
            (&Step::Read { terminal: number, .. }, _) => (number, threads.iter().any(|thread| run.is_followed(thread))),
            _ => unreachable!("threads are at reading steps"),
        };
        self.slice_of((number, threads[0].inner, follows), terminal)
    }

    /// The slice of the names that the schema does not list, which is the same at every position of an object.
    fn others_slice(&mut self, run: &Run, thread: Thread, others: Names) -> Arc<TokenSlice> {
        let &Step::Name { terminal, .. } = run.grammar.step(thread.at) else {
            unreachable!("names are read at such steps")
        };
        let number = self.representative(NamesIdentity::Others(others.others_identity()), terminal);
        let terminal = Terminal::Names(Quoted::new(others, Escapes::Minimal));
        self.slice_of((number, thread.inner, true), &terminal)
    }

    /// The index of the first terminal of a set of names.
    fn representative(&mut self, identity: NamesIdentity, number: u32) -> u32 {
        if let Some(&known) = self.kept.representatives.get(&identity) {
            return known;
        }
        match &identity {
            NamesIdentity::All((_, before, _)) => self.kept.count(&[before]),
            NamesIdentity::Others(_) => self.kept.count::<u8>(&[]),
        }
        self.kept.representatives.insert(identity, number);
        number
    }

    /// The slice of a terminal by its index, its state, and whether anything follows.
    fn slice_of(&mut self, (number, inner, follows): (u32, u32, bool), terminal: &Terminal) -> Arc<TokenSlice> {
        let inner = terminal.representative(inner, self.trie().max_token_chars());
        let part = MaskPart::Slice(number, inner, follows);
        if let Some((known, cost)) = self.kept.slices.get(&(number, inner, follows)) {
            self.work.pay(&[(part, *cost)]);
            return known.clone();
        }
        let before = self.work.left();
        let lazy = terminal.lazy();
        lazy.inspect(|lazy| lazy.begin_walk());
        let slice = Arc::new(TokenSlice::new(self.index.trie(), terminal, inner, follows, &mut self.work));
        if lazy.is_some_and(|lazy| lazy.end_walk()) {
            // A walk that created too many states has not reached all tokens.
            self.work.spend();
        }
        if self.work.is_spent() {
            return slice;
        }
        let cost = self.work.made(part, before);
        if let Some(many) = slice.many.as_ref().filter(|_| !slice.is_shared) {
            self.kept.count(&[many.words()]);
        }
        self.kept.count(&[&slice.few]);
        for Exit { ends, .. } in &slice.exits {
            self.kept.count_ends(ends);
        }
        self.kept.slices.insert((number, inner, follows), (slice.clone(), cost));
        slice
    }

    /// An upper bound on the bytes to the end of the text after any token of the mask.
    pub(super) fn bytes_to_end_after(&mut self, run: &mut Run, state: u32) -> u64 {
        let shallow = run.shallow(state);
        let mut bound = 0;
        for group in run.groups(state) {
            let (part, shallow) = (run.group(state, &group), run.group(shallow, &group));
            for &thread in &run.threads(part).clone().threads {
                // While it stays in its segment.
                let terminal = run.grammar.terminal_at(thread.at).clone();
                let outside = run.thread_to_end(thread).saturating_sub(terminal.to_end(thread.inner));
                bound = bound.max(match run.as_any(thread) {
                    Some(any) => self.bytes_to_end_in_item(run, thread, any),
                    None => outside.saturating_add(terminal.farthest()),
                });
            }
            self.work = Work::of_a_mask();
            let allowed = self.allowed_by_work(run, shallow);
            let above = allowed.reached.iter().map(|&after| after.bytes_to_end(run)).max();
            let above = above.map_or(0, |bytes| bytes.saturating_add(run.farthest_below(part)));
            self.work = Work::of_a_mask();
            bound = self.below(run, part, &allowed.cuts, &mut |_| ()).max(above).max(bound);
        }
        run.states[state as usize].to_end_after = Some(bound);
        bound
    }
}
