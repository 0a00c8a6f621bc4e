//! The tokens that each group of threads of a state allows, from which masks are made.

use std::collections::BTreeMap;
use std::sync::Arc;

use verdigris_logits::{TokenId, TokenSet};

use super::run::Run;
use super::slice::{Ends, TokenSlice};
use crate::vocabulary::tree::Tree;

/// A state that tokens lead to, or the one before their last byte, whose own next state is computed when it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct After {
    state: u32,
    byte: Option<u8>,
}

impl After {
    pub(super) fn state(state: u32) -> Self {
        Self { state, byte: None }
    }

    pub(super) fn byte(state: u32, byte: u8) -> Self {
        Self { state, byte: Some(byte) }
    }

    /// The fewest bytes from there to the end of the text.
    pub(super) fn bytes_to_end(self, run: &mut Run) -> u64 {
        let state = self.reached(run);
        run.bytes_to_end(state)
    }

    /// The state.
    pub(super) fn reached(self, run: &mut Run) -> u32 {
        self.byte.map_or(self.state, |byte| run.next(self.state, byte))
    }
}

/// The tokens that a group of threads allows, and the states outside its segment that they lead to.
#[derive(Debug)]
pub(super) struct Allowed {
    /// A large set of tokens, shared by all schemas or not, minus `without`, plus `with`.
    pub(super) many: Option<Arc<TokenSet>>,
    pub(super) is_shared: bool,
    pub(super) without: Vec<TokenId>,
    pub(super) with: Vec<TokenId>,
    pub(super) reached: Vec<After>,
    /// Where they continue in a part of the stack that was cut off. What follows there is not included.
    pub(super) cuts: Vec<Cut>,
}

/// Tokens that continue in a part of the stack that was cut off.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// The bytes after the segment up to there.
    pub(super) outside: Arc<[u8]>,
    /// The remainders after these bytes: those below nodes, unless there are no such bytes.
    pub(super) ends: Ends,
}

impl Allowed {
    /// The tokens that stay in a segment.
    pub(super) fn inside(slice: &TokenSlice, is_shared: bool) -> Self {
        let (many, with) = (slice.many.clone(), slice.few.clone());
        Self { many, is_shared, with, without: Vec::new(), reached: Vec::new(), cuts: Vec::new() }
    }
}

impl Cut {
    /// The cuts at some nodes, each with the number of its bytes that are outside the segment.
    pub(super) fn by_bytes(tree: &Tree, nodes: &[(u32, usize)]) -> Vec<Self> {
        let mut all: BTreeMap<Vec<u8>, Vec<u32>> = BTreeMap::new();
        for &(node, depth) in nodes {
            let mut bytes = tree.bytes(node);
            all.entry(bytes.split_off(bytes.len() - depth)).or_default().push(node);
        }
        let below = |nodes: Vec<u32>| Ends::Below { nodes: nodes.into(), of_rest: false };
        all.into_iter().map(|(outside, nodes)| Self { outside: outside.into(), ends: below(nodes) }).collect()
    }
}

/// Tokens that continue outside a segment, and the states that they lead to.
#[derive(Debug, Default)]
pub(super) struct Reached {
    pub(super) tokens: Vec<TokenId>,
    pub(super) states: Vec<After>,
    pub(super) cuts: Vec<Cut>,
}

impl Reached {
    pub(super) fn push(&mut self, token: TokenId, after: After) {
        self.tokens.push(token);
        if self.states.last() != Some(&after) {
            self.states.push(after);
        }
    }
}

/// The parts of a set of tokens: large sets, by address, each without some tokens; and single tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Recipe {
    many: Vec<(usize, Vec<TokenId>)>,
    pub(super) with: Vec<TokenId>,
}

impl Recipe {
    pub(super) fn new(parts: &[Arc<Allowed>]) -> Self {
        let of = |part: &Arc<Allowed>| Some((Arc::as_ptr(part.many.as_ref()?).addr(), part.without.clone()));
        let mut many: Vec<(usize, Vec<TokenId>)> = parts.iter().filter_map(of).collect();
        many.sort_unstable();
        many.dedup();
        let mut with: Vec<TokenId> = Vec::with_capacity(parts.iter().map(|part| part.with.len()).sum());
        parts.iter().for_each(|part| with.extend_from_slice(&part.with));
        // The order within one part depends on nothing else.
        if parts.len() > 1 {
            with.sort_unstable();
            with.dedup();
        }
        Self { many, with }
    }
}

/// The tokens that any of some parts allows.
pub(super) fn union(vocabulary: usize, parts: &[Arc<Allowed>]) -> TokenSet {
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
