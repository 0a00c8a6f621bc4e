//! Drafts of one token, from a row.

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Chain, Row, Sampler, TokenId, Transform};

use crate::chance::Chance;
use crate::tree::DraftTree;

/// The source of randomness of a drafted token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coupling {
    /// A separate random number: the draft comes with its distribution, and is accepted as often as a rule that
    /// preserves the target's distribution allows.
    Independent,
    /// The number that the target itself will sample with. A draft is a guess at exactly that token, so the text is the
    /// one that plain decoding writes with the same seed, whatever is drafted.
    Shared,
}

/// Drafts tokens from rows of a drafter, with the target's transforms and sampler.
pub(crate) struct Children {
    transforms: Chain,
    sampler: Sampler,
    coupling: Coupling,
    row: Row,
    /// The nodes drafted last, by rank.
    nodes: Vec<usize>,
}

impl Children {
    pub(crate) fn new(transforms: &Chain, sampler: Sampler, coupling: Coupling) -> Self {
        // A greedy sampler makes no random choices, and a distribution that is certain of one token leaves no second
        // one to sample, so the likeliest tokens are guesses.
        let coupling = if sampler == Sampler::Greedy { Coupling::Shared } else { coupling };
        Self { transforms: transforms.clone(), sampler, coupling, row: Row::default(), nodes: Vec::new() }
    }

    /// The next token, if it does not depend on a row.
    pub(crate) fn decided(&self, state: &ChainState) -> Option<TokenId> {
        self.transforms.decided(state)
    }

    /// Advances a state past a decided token.
    pub(crate) fn advance(&self, state: &mut ChainState, token: TokenId) {
        self.transforms.advance(state, token);
    }

    /// Advances a state past a token that was drafted from the last row.
    pub(crate) fn advance_drafted(&self, state: &mut ChainState, token: TokenId) {
        self.transforms.advance_from(state, &self.row, token);
    }

    /// Drafts at most `count` children of a node with the given state, from the row that `load` loads. Returns their
    /// indices, by rank. Drafts nothing if the row is not a distribution, and leaves it to the target to report that of
    /// its own.
    pub(crate) fn draft(
        &mut self,
        load: impl FnOnce(&mut Row),
        state: &ChainState,
        parent: Option<usize>,
        count: usize,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> &[usize] {
        let Self { transforms, sampler, coupling, row, nodes } = self;
        nodes.clear();
        load(row);
        transforms.apply(state, row);
        if row.max().is_none() {
            return nodes;
        }
        match coupling {
            Coupling::Independent => {
                let distribution = tree.distribution(|distribution| sampler.distribution_into(row, distribution));
                match count {
                    1 => nodes.push(tree.draw(parent, distribution, chance)),
                    _ => nodes.extend((0..count).map_while(|_| tree.draw_without(parent, distribution, chance))),
                }
            }
            Coupling::Shared => {
                let Some(drawn) = chance.token(*sampler, row, tree.position_after(parent)) else { return nodes };
                nodes.push(tree.guess(parent, drawn));
                if count > 1 {
                    row.with_best(count, |best, logits| {
                        let best = &mut best.to_vec();
                        best.retain(|&token| token != drawn);
                        best.sort_unstable_by(|&a, &b| {
                            logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b))
                        });
                        nodes.extend(best.iter().take(count - 1).map(|&token| tree.guess(parent, token)));
                    });
                }
            }
        }
        nodes
    }
}
