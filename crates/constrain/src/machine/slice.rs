//! The tokens of a vocabulary inside one segment of a text: which tokens stay in it, and the remainders of those that
//! leave it.
//!
//! They depend only on the terminal and its state, not on the rest of the grammar. So they are computed once, and the
//! mask of a text combines them with what the remainders do outside.

use std::sync::Arc;

use verdigris_logits::{TokenId, TokenSet};

use super::closings::Closings;
use super::work::{EndsId, Work};
use crate::automata::self_loop::SelfLoop;
use crate::terminal::Terminal;
use crate::terminal::any_string::AnyString;
use crate::terminal::language::Language;
use crate::vocabulary::class_tokens::ClassTokens;
use crate::vocabulary::tree::Tree;
use crate::vocabulary::trie::Trie;

/// More tokens than this are stored as a set.
const FEW: usize = 512;

/// The number of nodes below a node from which on a search for loops pays off there.
const LARGE: u32 = 4096;

/// The number of characters that keep a state from which on a set of their tokens pays off.
const MANY: u32 = 10;

/// The tokens that a terminal in some state allows.
#[derive(Debug)]
pub(crate) struct TokenSlice {
    /// Those that stay inside or end where the segment may end: a set, if there are many, and a list.
    pub(crate) many: Option<Arc<TokenSet>>,
    pub(crate) few: Vec<TokenId>,
    /// Whether the set is shared by all schemas.
    pub(crate) is_shared: bool,
    /// The remainders of longer tokens in which the segment may end.
    pub(crate) exits: Vec<Exit>,
}

/// The remainders of tokens that begin in a segment and continue outside.
#[derive(Debug)]
pub(crate) struct Exit {
    /// The state of the terminal at the exit, for names; for other segments, what follows does not depend on it.
    pub(crate) inner: u32,
    pub(crate) ends: Ends,
}

/// Remainders of tokens.
#[derive(Clone, Debug)]
pub(crate) enum Ends {
    /// Everything below some nodes of the tree of all tokens, or of those that are not plain.
    Below { nodes: Arc<[u32]>, of_rest: bool },
    /// A tree of remainders.
    Tree(Arc<Tree>),
    /// Everything after one or more given characters, and at most a number of them.
    Class { class: Arc<ClassTokens>, most: u32 },
}

impl Ends {
    /// Identifies these ends as long as they exist.
    pub(super) fn id(&self) -> EndsId {
        match self {
            Self::Below { nodes, .. } => (nodes.as_ptr().addr(), 0),
            Self::Tree(tree) => (Arc::as_ptr(tree).addr(), 0),
            Self::Class { class, most } => (Arc::as_ptr(class).addr(), *most),
        }
    }
}

impl TokenSlice {
    /// The slice of a string with any content; `closings` are those of its kind.
    pub(super) fn of_any_string(trie: &Trie, any: AnyString, closings: &Closings) -> Self {
        let (text, state) = any.terminal(trie.max_token_chars());
        let tree = if any.open { trie.all() } else { trie.rest() };
        let mut found = SliceBuilder::new(trie, text.free(state));
        tree.walk(state, |state, byte, _| text.next(state, byte), |token, _| found.push(token));
        let bounded = any.most < trie.max_token_chars();
        let fits = |&&(length, _): &&(u32, Arc<Tree>)| any.missing <= length && (!bounded || length <= any.most);
        let exit = |(_, tree): &(u32, Arc<Tree>)| Exit { inner: 0, ends: Ends::Tree(tree.clone()) };
        let exits = match (any.missing, bounded) {
            (0, false) => vec![exit(&(0, closings.all.clone()))],
            _ => closings.by_length.iter().filter(fits).map(exit).collect(),
        };
        Self { is_shared: true, ..found.slice(exits) }
    }

    /// The slice of a terminal; `follows` is whether anything may come after the segment. It is incomplete if the
    /// work runs out.
    pub(super) fn new(trie: &Trie, terminal: &Terminal, inner: u32, follows: bool, work: &mut Work) -> Self {
        let found = SliceBuilder::new(trie, None);
        let (nodes, ends) = (Vec::new(), Vec::new());
        let mut rows = AlongLoops { trie, terminal, follows, work, found, nodes, ends };
        if !rows.below(None, inner) {
            return Self::walked(trie, terminal, inner, follows, work);
        }
        let AlongLoops { nodes, mut ends, found, .. } = rows;
        if !nodes.is_empty() {
            ends.push(Ends::Below { nodes: nodes.into(), of_rest: false });
        }
        found.slice(ends.into_iter().map(|ends| Exit { inner: 0, ends }).collect())
    }

    fn walked(trie: &Trie, terminal: &Terminal, inner: u32, follows: bool, work: &mut Work) -> Self {
        let free = terminal.free(inner);
        let tree = if free.is_some() { trie.rest() } else { trie.all() };
        let mut found = SliceBuilder::new(trie, free);
        let is_name = matches!(terminal, Terminal::Names(_));
        let mut ends = Vec::new();
        let step = |inner, byte, node| {
            let next = terminal.next(inner, byte).filter(|_| work.take(1))?;
            if follows && terminal.accepts(next) && tree.goes_on(node) {
                ends.push((if is_name { next } else { 0 }, node));
            }
            Some(next)
        };
        tree.walk(inner, step, |token, _| found.push(token));
        if is_name {
            ends.sort_unstable();
        }
        let exits = ends.chunk_by(|a, b| a.0 == b.0).map(|ends| {
            let nodes = ends.iter().map(|&(_, node)| node).collect();
            Exit { inner: ends[0].0, ends: Ends::Below { nodes, of_rest: free.is_some() } }
        });
        found.slice(exits.collect())
    }
}

/// Computes the slice of a terminal in which many characters keep a state or lead along a chain of states.
struct AlongLoops<'a> {
    trie: &'a Trie,
    terminal: &'a Terminal,
    follows: bool,
    work: &'a mut Work,
    found: SliceBuilder,
    /// The nodes of longer tokens at which the segment may end, in addition to those of `ends`.
    nodes: Vec<u32>,
    ends: Vec<Ends>,
}

impl AlongLoops<'_> {
    /// Adds the tokens below a node, or all, from a state on; returns `false` without adding any if it does not pay
    /// off.
    fn below(&mut self, root: Option<u32>, inner: u32) -> bool {
        let Some(SelfLoop { characters, most, strangers }) =
            self.terminal.self_loop(inner, self.trie.max_token_chars())
        else {
            return false;
        };
        // Each state of a chain will need the same tokens.
        let sure = most != u32::MAX;
        let class = (characters.len() >= MANY).then(|| self.trie.class_tokens(root, &characters, sure)).flatten();
        let Some(class) = class else { return false };
        self.found.insert_all(class.up_to(most));
        if self.follows {
            self.leave_inside(&class, inner, most);
        }
        for byte in 0..128u8 {
            let leaving = &class.leaving[usize::from(byte)][..];
            if most == u32::MAX {
                // Without a bound, all of them are in the same state.
                if let Some(next) = self.terminal.next(inner, byte) {
                    self.leave(leaving, next);
                }
                continue;
            }
            for same in leaving.chunk_by(|a, b| a.1 == b.1).take_while(|same| same[0].1 <= most) {
                if let Some(next) = self.terminal.next(self.terminal.after_loop(inner, same[0].1), byte) {
                    self.leave(same, next);
                }
            }
        }
        let others = if strangers { &class.strangers[..] } else { &[] };
        for same in others.chunk_by(|a, b| a.count == b.count).take_while(|same| same[0].count <= most) {
            let after = self.terminal.after_loop(inner, same[0].count);
            for stranger in same {
                let mut bytes = stranger.bytes().iter();
                if let Some(next) = bytes.try_fold(after, |state, &byte| self.terminal.next(state, byte)) {
                    self.leave(&[(stranger.node, stranger.count)], next);
                }
            }
        }
        true
    }

    /// Adds the nodes where the segment may end between the characters that keep it.
    fn leave_inside(&mut self, class: &Arc<ClassTokens>, inner: u32, most: u32) {
        let ends = |count| self.terminal.accepts(self.terminal.after_loop(inner, count));
        let ends: Vec<bool> = (0..=most.min(self.trie.max_token_chars())).map(ends).collect();
        if ends[1..].iter().all(|&ends| ends) {
            self.ends.push(Ends::Class { class: class.clone(), most });
        } else if ends.contains(&true) {
            let inside = class.nodes.iter().filter(|&&(_, count)| ends.get(count as usize) == Some(&true));
            self.nodes.extend(inside.map(|&(node, _)| node));
        }
    }

    /// Adds the tokens that end at some nodes or continue below them; all nodes are in the state `next`.
    fn leave(&mut self, nodes: &[(u32, u32)], next: u32) {
        let (tree, terminal, follows) = (self.trie.all(), self.terminal, self.follows);
        let leaves = |inner, node| follows && terminal.accepts(inner) && tree.goes_on(node);
        let mut small = Vec::new();
        if !self.work.take(nodes.len() as u64) {
            return;
        }
        for &(node, _) in nodes {
            tree.tokens_at(node).iter().for_each(|&token| self.found.push(token));
            self.nodes.extend(leaves(next, node).then_some(node));
            if tree.size(node) < LARGE || !self.below(Some(node), next) {
                small.push(node);
            }
        }
        let Self { found, nodes: ends, work, .. } = self;
        let step = |inner, byte, node| {
            let next = terminal.next(inner, byte).filter(|_| work.take(1))?;
            ends.extend(leaves(next, node).then_some(node));
            Some(next)
        };
        tree.walk_below(small, next, step, |token, _| found.push(token));
    }
}

/// Collects tokens.
struct SliceBuilder {
    many: Option<Arc<TokenSet>>,
    /// Whether `many` is a set shared by all schemas.
    is_shared: bool,
    few: Vec<TokenId>,
    vocabulary: usize,
}

impl SliceBuilder {
    fn new(trie: &Trie, free: Option<u32>) -> Self {
        let many = free.map(|characters| trie.plain(characters));
        Self { many, is_shared: true, few: Vec::new(), vocabulary: trie.vocabulary_size() }
    }

    #[inline]
    fn push(&mut self, token: TokenId) {
        self.few.push(token);
        if self.few.len() > FEW {
            self.flush();
        }
    }

    /// Adds a set that is shared by all schemas.
    fn insert_all(&mut self, set: &Arc<TokenSet>) {
        match &mut self.many {
            None => self.many = Some(set.clone()),
            Some(many) => {
                Arc::make_mut(many).insert_all(set);
                self.is_shared = false;
            }
        }
    }

    fn flush(&mut self) {
        let many = self.many.get_or_insert_with(|| Arc::new(TokenSet::new(self.vocabulary)));
        let many = Arc::make_mut(many);
        self.few.drain(..).for_each(|token| many.insert(token));
        self.is_shared = false;
    }

    fn slice(self, exits: Vec<Exit>) -> TokenSlice {
        TokenSlice { is_shared: self.is_shared, many: self.many, few: self.few, exits }
    }
}
