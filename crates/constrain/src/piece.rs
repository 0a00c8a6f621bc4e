//! What a vocabulary does inside one piece of a text: which tokens stay in it, and how others go on where they leave it.
//!
//! That depends on the terminal and its state alone, and not on what surrounds the piece. So it is worked out once, and
//! the mask of a text is this and what the tokens that leave the piece do outside.

use std::sync::Arc;

use verdigris_logits::{TokenId, TokenSet};

use crate::json::quoted::Quoted;
use crate::json::text::{ANY, Text};
use crate::loops::{Kept, Loop};
use crate::terminal::Terminal;
use crate::trie::{Tree, Trie};

/// More tokens than that are kept as a set.
const FEW: usize = 512;

/// So many characters that keep a state are worth a set of their own.
const MANY: u32 = 10;

/// The tokens that a terminal in some state allows.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Those that stay inside, or end just where the piece may end: a set, where they are many, and others.
    pub(crate) many: Option<Arc<TokenSet>>,
    pub(crate) few: Vec<TokenId>,
    /// Whether the many are there for all schemas.
    pub(crate) is_shared: bool,
    /// What is left of longer tokens where the piece may end inside them.
    pub(crate) exits: Vec<Exit>,
}

/// The ends of tokens that begin in a piece and go on outside.
#[derive(Debug)]
pub(crate) struct Exit {
    /// The state of the terminal where they leave it, for names; what follows another piece is the same everywhere.
    pub(crate) inner: u32,
    pub(crate) ends: Ends,
}

/// Ends of tokens.
#[derive(Debug)]
pub(crate) enum Ends {
    /// What is below some nodes of the tree of all tokens, or of those that are not plain.
    Below { nodes: Vec<u32>, of_rest: bool },
    /// A tree of their own.
    Tree(Arc<Tree>),
}

/// How tokens go on after the end of a string, by how many characters of the string they begin with.
#[derive(Debug)]
pub(crate) struct Closings {
    pub(crate) by_length: Vec<(u32, Arc<Tree>)>,
    pub(crate) all: Arc<Tree>,
}

/// A JSON string in which anything may stand, where so many characters may come at most, and so many are missing; both
/// counted only as far as a token reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Free {
    pub(crate) most: u32,
    pub(crate) missing: u32,
    /// Whether its opening quote is still to come.
    pub(crate) open: bool,
}

impl Free {
    /// The piece of such a string.
    pub(crate) fn piece(self, trie: &Trie) -> Piece {
        let most = (self.most < trie.reach()).then_some(self.most);
        let (text, state) = any(self.missing, most, self.open);
        let tree = if self.open { trie.all() } else { trie.rest() };
        let mut found = Found::new(trie, text.free(state));
        tree.walk(state, |state, byte, _| text.next(state, byte), |token, _| found.push(token));
        let fits = |&&(length, _): &&(u32, Arc<Tree>)| self.missing <= length && most.is_none_or(|most| length <= most);
        let exit = |(_, tree): &(u32, Arc<Tree>)| Exit { inner: 0, ends: Ends::Tree(tree.clone()) };
        let closings = trie.closings(self.open);
        let exits = match (self.missing, most) {
            (0, None) => vec![exit(&(0, closings.all.clone()))],
            _ => closings.by_length.iter().filter(fits).map(exit).collect(),
        };
        Piece { is_shared: true, ..found.piece(exits) }
    }
}

/// A string in which anything may stand, and its state.
fn any(least: u32, most: Option<u32>, open: bool) -> (Quoted<Text>, u32) {
    let content = Text::new(ANY.clone(), least.into(), most.map(u64::from)).ok().flatten();
    let text = Quoted { content: content.expect("there are such texts") };
    let state = text.start();
    let state = if open { state } else { text.next(state, b'"').expect("a string opens") };
    (text, state)
}

/// How tokens go on after the end of a string in which anything may stand.
pub(crate) fn closings(trie: &Trie, open: bool) -> Closings {
    let most = 2 * trie.reach();
    let (text, state) = any(0, Some(most), open);
    let tree = if open { trie.all() } else { trie.rest() };
    let mut ends: Vec<(u32, u32)> = Vec::new();
    let step = |state, byte, node| {
        let next = text.next(state, byte)?;
        if text.accepts(next) && tree.goes_on(node) {
            let (left, _) = text.content.free_count(text.content_state(next)).expect("anything may stand in it");
            ends.push((most - left, node));
        }
        Some(next)
    };
    tree.walk(state, step, |_, _| ());
    ends.sort_unstable();
    let tree = |ends: &[(u32, u32)]| Arc::new(tree.ends_below(ends.iter().map(|&(_, node)| node)));
    let by_length = ends.chunk_by(|a, b| a.0 == b.0).map(|ends| (ends[0].0, tree(ends))).collect();
    Closings { by_length, all: tree(&ends) }
}

impl Piece {
    pub(crate) fn new(trie: &Trie, terminal: &Terminal, inner: u32) -> Self {
        let of_loop = |Loop { kept_by, most }: Loop| {
            let kept = if kept_by.len() < MANY { None } else { trie.kept(kept_by) };
            kept.map(|kept| Self::of_loop(trie, terminal, inner, &kept, most))
        };
        terminal.kept(inner).and_then(of_loop).unwrap_or_else(|| Self::walked(trie, terminal, inner))
    }

    /// Where many characters keep the state.
    fn of_loop(trie: &Trie, terminal: &Terminal, inner: u32, kept: &Kept, most: u32) -> Self {
        let tree = trie.all();
        let mut found = Found::new(trie, None);
        let mut nodes = Vec::new();
        if terminal.accepts(inner) {
            let inside = kept.nodes.iter().filter(|&&(node, count)| count <= most && tree.goes_on(node));
            nodes.extend(inside.map(|&(node, _)| node));
        }
        let mut leave = |nodes_of_byte: &[(u32, u32)], next: u32| {
            let goes_on = |inner, node| terminal.accepts(inner) && tree.goes_on(node);
            for &(node, _) in nodes_of_byte {
                tree.tokens_at(node).iter().for_each(|&token| found.push(token));
                nodes.extend(goes_on(next, node).then_some(node));
            }
            let step = |inner, byte, node| {
                let next = terminal.next(inner, byte)?;
                nodes.extend(goes_on(next, node).then_some(node));
                Some(next)
            };
            tree.walk_below(nodes_of_byte.iter().map(|&(node, _)| node), next, step, |token, _| found.push(token));
        };
        for byte in 0..=255u8 {
            let leaving = &kept.leaving[usize::from(byte)][..];
            if most == u32::MAX {
                // Without a bound all of them stand in the same state.
                if let Some(next) = terminal.next(inner, byte) {
                    leave(leaving, next);
                }
                continue;
            }
            for alike in leaving.chunk_by(|a, b| a.1 == b.1).take_while(|alike| alike[0].1 <= most) {
                if let Some(next) = terminal.next(terminal.after_kept(inner, alike[0].1), byte) {
                    leave(alike, next);
                }
            }
        }
        let exit = Exit { inner: 0, ends: Ends::Below { nodes, of_rest: false } };
        let mut many = kept.up_to(most);
        if let Some(more) = found.many.take() {
            Arc::make_mut(&mut many).insert_all(&more);
        }
        Self { is_shared: kept.is_all(&many), many: Some(many), few: found.few, exits: vec![exit] }
    }

    fn walked(trie: &Trie, terminal: &Terminal, inner: u32) -> Self {
        let free = terminal.free(inner);
        let tree = if free.is_some() { trie.rest() } else { trie.all() };
        let mut found = Found::new(trie, free);
        let is_name = matches!(terminal, Terminal::Names(_));
        let mut ends = Vec::new();
        let step = |inner, byte, node| {
            let next = terminal.next(inner, byte)?;
            if terminal.accepts(next) && tree.goes_on(node) {
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
        found.piece(exits.collect())
    }
}

/// Tokens that are found one after the other.
struct Found {
    many: Option<Arc<TokenSet>>,
    few: Vec<TokenId>,
    vocabulary: usize,
}

impl Found {
    fn new(trie: &Trie, free: Option<u32>) -> Self {
        let many = free.map(|characters| trie.plain(characters));
        Self { many, few: Vec::new(), vocabulary: trie.vocabulary_size() }
    }

    #[inline]
    fn push(&mut self, token: TokenId) {
        self.few.push(token);
        if self.few.len() > FEW {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let many = self.many.get_or_insert_with(|| Arc::new(TokenSet::new(self.vocabulary)));
        let many = Arc::make_mut(many);
        self.few.drain(..).for_each(|token| many.insert(token));
    }

    fn piece(self, exits: Vec<Exit>) -> Piece {
        Piece { is_shared: self.many.is_none(), many: self.many, few: self.few, exits }
    }
}
