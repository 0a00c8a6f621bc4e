//! The tokens that each thread of a state allows, from which masks are made.

use std::sync::Arc;

use verdigris_logits::{TokenId, TokenSet};

use super::slice::TokenSlice;

/// The tokens that a thread allows, and the states outside its segment that they lead to.
#[derive(Debug)]
pub(super) struct Allowed {
    /// A large set of tokens, shared by all schemas or not, minus `without`, plus `with`.
    pub(super) many: Option<Arc<TokenSet>>,
    pub(super) is_shared: bool,
    pub(super) without: Vec<TokenId>,
    pub(super) with: Vec<TokenId>,
    pub(super) reached: Vec<u32>,
}

impl Allowed {
    /// The tokens that stay in a segment.
    pub(super) fn inside(slice: &TokenSlice, is_shared: bool) -> Self {
        let (many, with) = (slice.many.clone(), slice.few.clone());
        Self { many, is_shared, with, without: Vec::new(), reached: Vec::new() }
    }
}

/// Tokens, and the states that they lead to.
#[derive(Debug, Default)]
pub(super) struct Reached(pub(super) Vec<TokenId>, pub(super) Vec<u32>);

impl Reached {
    pub(super) fn push(&mut self, token: TokenId, state: u32) {
        self.0.push(token);
        if self.1.last() != Some(&state) {
            self.1.push(state);
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
