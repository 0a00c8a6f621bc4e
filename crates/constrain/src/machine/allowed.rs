//! The tokens that the threads of a state allow, as parts of masks.

use std::sync::Arc;

use verdigris_logits::{TokenId, TokenSet};

use super::slice::TokenSlice;

/// The tokens that a thread allows, and the states that those lead to which leave its segment.
#[derive(Debug)]
pub(super) struct Allowed {
    /// Many tokens, without some and with others; and whether all schemas share the many.
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

/// Tokens, and states that they lead to.
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

/// What a set of tokens is made of: sets by where they are, without some tokens; and tokens.
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
        // Those of one part come in an order that depends on nothing else.
        if parts.len() > 1 {
            with.sort_unstable();
            with.dedup();
        }
        Self { many, with }
    }
}

/// The tokens that some parts allow.
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
