//! What the threads of a state allow, and the masks that come of it.

use std::sync::Arc;

use foldhash::HashMap;
use verdigris_logits::{TokenId, TokenSet};

use super::run::{DEAD, Run, Thread};
use super::{Mask, TooMuchWork};
use crate::grammar::{Grammar, Step};
use crate::machine::piece::{Ends, Exit, Piece};
use crate::terminal::Terminal;
use crate::terminal::fresh::Fresh;
use crate::terminal::names::Names;
use crate::terminal::quoted::{Content, Quoted};
use crate::vocabulary::trie::Trie;

/// The tokens that a thread allows, and the states that those lead to which leave its piece.
#[derive(Debug)]
pub(super) struct Allowed {
    /// Many tokens, without some and with others; and whether all schemas share the many.
    many: Option<Arc<TokenSet>>,
    is_shared: bool,
    without: Vec<TokenId>,
    with: Vec<TokenId>,
    reached: Vec<u32>,
}

impl Allowed {
    /// The states of tokens that leave the piece and go on outside.
    pub(super) fn reached(&self) -> &[u32] {
        &self.reached
    }
}

/// Tokens, and states that they lead to.
#[derive(Debug, Default)]
pub(super) struct Reached(Vec<TokenId>, Vec<u32>);

impl Reached {
    fn push(&mut self, token: TokenId, state: u32) {
        self.0.push(token);
        if self.1.last() != Some(&state) {
            self.1.push(state);
        }
    }
}

/// What a set of tokens is made of: sets by where they are, without some tokens; and tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Recipe {
    many: Vec<(usize, Vec<TokenId>)>,
    with: Vec<TokenId>,
}

impl Recipe {
    fn new(parts: &[Arc<Allowed>]) -> Self {
        let of = |part: &Arc<Allowed>| Some((Arc::as_ptr(part.many.as_ref()?).addr(), part.without.clone()));
        let mut many: Vec<(usize, Vec<TokenId>)> = parts.iter().filter_map(of).collect();
        many.sort_unstable();
        many.dedup();
        let mut with: Vec<TokenId> = Vec::with_capacity(parts.iter().map(|part| part.with.len()).sum());
        parts.iter().for_each(|part| with.extend_from_slice(&part.with));
        // Those of one part come in an order that depends on nothing else.
        if parts.len() > 1 {
            with.sort_unstable();
            with.dedup();
        }
        Self { many, with }
    }
}

fn union(vocabulary: usize, parts: &[Arc<Allowed>]) -> TokenSet {
    let mut set = TokenSet::new(vocabulary);
    for Allowed { many, without, .. } in parts.iter().map(|part| &**part) {
        match (many, &without[..]) {
            (Some(many), []) => set.insert_all(many),
            (Some(many), without) => {
                let mut some = TokenSet::clone(many);
                without.iter().for_each(|&token| some.remove(token));
                set.insert_all(&some);
            }
            (None, _) => {}
        }
    }
    parts.iter().flat_map(|part| &part.with).for_each(|&token| set.insert(token));
    set
}

/// What is kept so that it need not be made again.
#[derive(Default)]
pub(super) struct Memo {
    /// The state after each token that has been written.
    steps: HashMap<(u32, TokenId), u32>,
    /// What each thread allows.
    allowed: HashMap<Thread, Arc<Allowed>>,
    /// By terminal, its state, and whether anything may follow.
    pieces: HashMap<(u32, u32, bool), Arc<Piece>>,
    /// How trees of ends go on from a state: the tokens that do, and the states that they lead to.
    ends: HashMap<(usize, u32), Arc<Reached>>,
    /// The first terminal of each set of names.
    alike: HashMap<(usize, Vec<u32>, bool), u32>,
    /// Sets of tokens by what they are made of.
    sets: HashMap<Recipe, Arc<TokenSet>>,
    bytes: usize,
}

/// What an entry takes beside what it points to, about.
const ENTRY: usize = 128;

impl Memo {
    pub(super) fn bytes(&self) -> usize {
        self.bytes + size_of::<((u32, TokenId), u32)>() * self.steps.capacity()
    }

    pub(super) fn step(&self, state: u32, token: TokenId) -> Option<u32> {
        self.steps.get(&(state, token)).copied()
    }

    pub(super) fn keep_step(&mut self, state: u32, token: TokenId, next: u32) {
        self.steps.insert((state, token), next);
    }

    fn count<T>(&mut self, entries: &[&[T]]) {
        self.bytes += ENTRY + entries.iter().map(|entries| size_of_val(*entries)).sum::<usize>();
    }
}

impl Run {
    /// Forgets what can be made again.
    pub(super) fn forget(&mut self) {
        self.memo = Memo::default();
        self.states.iter_mut().for_each(|state| state.mask = None);
    }

    /// The mask of a state is what each of its threads allows.
    pub(super) fn mask(&mut self, trie: &Trie, state: u32) -> Arc<Mask> {
        if let Some(mask) = &self.states[state as usize].mask {
            return mask.clone();
        }
        let spots = self.states[state as usize].spots.clone();
        let mut parts: Vec<Arc<Allowed>> = Vec::with_capacity(spots.threads.len());
        for &thread in &spots.threads {
            parts.push(self.allowed(trie, thread));
            if self.is_too_much {
                let path = self.grammar.paths[self.grammar.origins[thread.at as usize] as usize].to_string();
                self.fault = Some(TooMuchWork { path });
                return Arc::new(Mask { tokens: Arc::new(TokenSet::new(trie.vocabulary_size())), accepts: false });
            }
        }
        let mask = Arc::new(Mask { tokens: self.tokens(trie, &parts), accepts: spots.accepts });
        self.states[state as usize].mask.insert(mask).clone()
    }

    /// The tokens that some parts allow. Sets repeat, within a schema and from one to another, so equal ones are one.
    fn tokens(&mut self, trie: &Trie, parts: &[Arc<Allowed>]) -> Arc<TokenSet> {
        if let [part] = parts
            && let (Some(many), [], []) = (&part.many, &part.without[..], &part.with[..])
        {
            return many.clone();
        }
        let recipe = Recipe::new(parts);
        if let Some(known) = self.memo.sets.get(&recipe) {
            return known.clone();
        }
        let is_shared = parts.iter().all(|part| part.is_shared);
        let set = match is_shared.then(|| trie.known_set(&recipe)).flatten() {
            Some(set) => set,
            None => {
                let set = Arc::new(union(trie.vocabulary_size(), parts));
                if is_shared {
                    let many = parts.iter().filter_map(|part| part.many.clone());
                    trie.keep_set(recipe.clone(), &set, many.collect());
                }
                set
            }
        };
        self.memo.count(&[set.words()]);
        self.memo.count(&[&recipe.with]);
        self.memo.sets.insert(recipe, set.clone());
        set
    }

    /// The tokens that a thread allows: those that stay in its piece, and those that leave it and go on outside.
    pub(super) fn allowed(&mut self, trie: &Trie, thread: Thread) -> Arc<Allowed> {
        if let Some(allowed) = self.memo.allowed.get(&thread) {
            return allowed.clone();
        }
        let terminal = self.grammar.terminal_at(thread.at).clone();
        if let Terminal::Fresh(fresh) = &*terminal {
            let allowed = self.fresh(trie, thread, fresh);
            return self.keep_allowed(thread, allowed);
        }
        let free = terminal.free_key(thread.inner, trie.reach());
        let piece = match free {
            Some(free) => trie.free(free),
            None => self.piece(trie, thread, &terminal),
        };
        let (many, with) = (piece.many.clone(), piece.few.clone());
        let is_shared = piece.is_shared;
        let mut allowed = Allowed { many, is_shared, with, without: Vec::new(), reached: Vec::new() };
        for Exit { inner, ends } in &piece.exits {
            // What all strings share tells no names apart.
            let inner = match &*terminal {
                Terminal::Names(names) if free.is_some() => names.closed(names.content.other()),
                _ => *inner,
            };
            let outside = self.join(DEAD, |run, spots| run.leave(thread, inner, spots));
            self.go_on_by(trie, ends, outside, &mut allowed);
        }
        if let (Terminal::Names(names), Some(_)) = (&*terminal, free) {
            self.known_names(trie, thread, names, &mut allowed);
        }
        allowed.reached.sort_unstable();
        allowed.reached.dedup();
        self.keep_allowed(thread, allowed)
    }

    fn keep_allowed(&mut self, thread: Thread, allowed: Allowed) -> Arc<Allowed> {
        self.memo.count(&[&allowed.with, &allowed.without, &allowed.reached]);
        let allowed = Arc::new(allowed);
        self.memo.allowed.insert(thread, allowed.clone());
        allowed
    }

    /// Adds the tokens that have left a piece and go on outside.
    fn go_on_by(&mut self, trie: &Trie, ends: &Ends, outside: u32, allowed: &mut Allowed) {
        if self.states[outside as usize].spots.threads.is_empty() {
            return;
        }
        let walked = |run: &mut Self| {
            let mut reached = Reached::default();
            let found = |token, state| reached.push(token, state);
            match ends {
                Ends::Tree(tree) => tree.walk(outside, run.outside_step(), found),
                Ends::Below { nodes, of_rest } => {
                    let tree = if *of_rest { trie.rest() } else { trie.all() };
                    tree.walk_below(nodes.iter().copied(), outside, run.outside_step(), found);
                }
            }
            Arc::new(reached)
        };
        let reached = match ends {
            // All schemas have the same trees.
            Ends::Tree(tree) => {
                let key = (Arc::as_ptr(tree).addr(), outside);
                match self.memo.ends.get(&key) {
                    Some(known) => known.clone(),
                    None => {
                        let reached = walked(self);
                        self.memo.count(&[&reached.0, &reached.1]);
                        self.memo.ends.insert(key, reached.clone());
                        reached
                    }
                }
            }
            Ends::Below { .. } => walked(self),
        };
        allowed.with.extend_from_slice(&reached.0);
        allowed.reached.extend_from_slice(&reached.1);
    }

    fn outside_step(&mut self) -> impl FnMut(u32, u8, u32) -> Option<u32> + use<'_> {
        |state, byte, _| Some(self.next(state, byte)).filter(|&next| next != DEAD)
    }

    /// Corrects what is allowed where any name may come: after a name of the schema comes what belongs to it, or it may
    /// not come at all.
    fn known_names(&mut self, trie: &Trie, thread: Thread, names: &Quoted<Names>, allowed: &mut Allowed) {
        let mut ends = Vec::new();
        let step = |inner: u32, byte: u8, node: u32| {
            let content = names.content_state(inner);
            let (begins, is_whole) = names.content.known(content);
            if is_whole && byte == b'"' && names.is_open(inner) == Some(false) {
                ends.push((node, content));
                return None;
            }
            // What has left the names of the schema does not come back to them.
            let next = begins.then(|| names.next(inner, byte)).flatten();
            next.filter(|&next| names.content.known(names.content_state(next)).0)
        };
        trie.all().walk(thread.inner, step, |_, _| ());
        let ended = ends.iter().flat_map(|&(node, _)| trie.all().tokens_below(node));
        allowed.without = ended.copied().collect();
        allowed.without.sort_unstable();
        allowed.with.retain(|token| allowed.without.binary_search(token).is_err());
        for (node, content) in ends {
            if names.content.accepts(content) {
                allowed.with.extend(trie.all().tokens_at(node));
                let outside = self.join(DEAD, |run, spots| run.leave(thread, names.closed(content), spots));
                let ends = Ends::Below { nodes: vec![node], of_rest: false };
                self.go_on_by(trie, &ends, outside, allowed);
            }
        }
    }

    /// The tokens that a thread in an item allows that has not come yet: those of any item, but for what would write one that
    /// has come. A token that ends two items is left out; shorter ones write them too.
    fn fresh(&mut self, trie: &Trie, thread: Thread, fresh: &Fresh) -> Allowed {
        let base = fresh.base_state(thread.inner);
        let piece = match fresh.terminal.free_key(base, trie.reach()) {
            Some(free) => trie.free(free),
            None => self.piece_of(trie, fresh.base, base, true, &fresh.terminal),
        };
        let (many, with) = (piece.many.clone(), piece.few.clone());
        let is_shared = false;
        let mut allowed = Allowed { many, is_shared, with, without: Vec::new(), reached: Vec::new() };
        let Step::Name { place, .. } = self.grammar.steps[thread.at as usize] else {
            unreachable!("items that are different stand at such steps")
        };
        let next = self.grammar.after_item(place, fresh.kind, None);
        let outside = self.join(DEAD, |run, spots| run.enter(next, thread.stack, spots));
        for Exit { ends, .. } in &piece.exits {
            self.go_on_by(trie, ends, outside, &mut allowed);
        }
        // Along what has come, token by token as the machine itself goes.
        let text = fresh.text(thread.inner);
        let start = self.join(DEAD, |_, spots| spots.threads.push(thread));
        let (mut wrong, mut right) = (Vec::new(), Vec::new());
        for rest in fresh.after(&text) {
            let along = |depth: usize, byte, _| (rest.get(depth) == Some(&byte)).then_some(depth + 1);
            let mut whole = None;
            let step = |depth, byte, node| {
                let next = along(depth, byte, node)?;
                if next == rest.len() {
                    whole = Some(node);
                }
                Some(next)
            };
            trie.all().walk(0, step, |token, depth| wrong.push((token, rest[..depth].to_vec())));
            for (token, written) in std::mem::take(&mut wrong) {
                allowed.without.push(token);
                if self.next_all(start, &written) != DEAD {
                    right.push(token);
                }
            }
            if let Some(node) = whole {
                allowed.without.extend(trie.all().tokens_below(node));
                let after = self.next_all(start, rest);
                if after != DEAD {
                    let step = |state, byte, _| Some(self.next(state, byte)).filter(|&next| next != DEAD);
                    trie.all().walk_below([node], after, step, |token, state| {
                        right.push(token);
                        allowed.reached.push(state);
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

    /// What the vocabulary does inside a thread's piece.
    fn piece(&mut self, trie: &Trie, thread: Thread, terminal: &Terminal) -> Arc<Piece> {
        let number = match (&self.grammar.steps[thread.at as usize], terminal) {
            // Different places in an object may allow the same names.
            (&Step::Name { terminal: number, .. }, Terminal::Names(names)) => {
                let identity = names.content.identity();
                match self.memo.alike.get(&identity) {
                    Some(&known) => known,
                    None => {
                        self.memo.count(&[&identity.1]);
                        self.memo.alike.insert(identity, number);
                        number
                    }
                }
            }
            (&Step::Read { terminal: number, .. }, _) => number,
            _ => unreachable!("threads stand at steps that read"),
        };
        let is_last = matches!(self.grammar.steps[thread.at as usize], Step::Read { next: Grammar::RETURN, .. });
        self.piece_of(trie, number, thread.inner, !is_last || thread.stack != 0, terminal)
    }

    fn piece_of(&mut self, trie: &Trie, number: u32, inner: u32, follows: bool, terminal: &Terminal) -> Arc<Piece> {
        let inner = terminal.alike(inner, trie.reach());
        if let Some(known) = self.memo.pieces.get(&(number, inner, follows)) {
            return known.clone();
        }
        let lazy = terminal.lazy();
        lazy.inspect(|lazy| lazy.begin_walk());
        let piece = Arc::new(Piece::new(trie, terminal, inner, follows));
        self.is_too_much |= lazy.is_some_and(|lazy| lazy.end_walk());
        if let Some(many) = piece.many.as_ref().filter(|_| !piece.is_shared) {
            self.memo.count(&[many.words()]);
        }
        self.memo.count(&[&piece.few]);
        for Exit { ends, .. } in &piece.exits {
            if let Ends::Below { nodes, .. } = ends {
                self.memo.count(&[nodes]);
            }
        }
        self.memo.pieces.insert((number, inner, follows), piece.clone());
        piece
    }

    pub(super) fn bytes_to_end_after(&mut self, trie: &Trie, state: u32) -> u64 {
        let spots = self.states[state as usize].spots.clone();
        let mut bound = 0;
        for &thread in &spots.threads {
            // As long as it stays in its piece.
            let terminal = self.grammar.terminal_at(thread.at).clone();
            let outside = self.thread_to_end(thread).saturating_sub(terminal.to_end(thread.inner));
            bound = bound.max(outside.saturating_add(terminal.farthest()));
            let allowed = self.allowed(trie, thread);
            bound = allowed.reached.iter().map(|&state| self.bytes_to_end(state)).max().unwrap_or(0).max(bound);
        }
        self.states[state as usize].to_end_after = Some(bound);
        bound
    }
}
