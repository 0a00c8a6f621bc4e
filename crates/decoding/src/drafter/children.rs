//! Drafts of one token, from a row.

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Chain, Row, Sampler, TokenId, Transform};

use crate::chance::Chance;
use crate::tree::DraftTree;

/// Where the chance of a drafted token comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coupling {
    /// From a number of its own: the draft comes with its law, and is accepted as often as any rule can that
    /// has the target's law.
    Independent,
    /// From the number that the target itself will draw with. A draft is a guess at that very token, so the text is
    /// the one that plain decoding writes with the same seed, however many drafts are made.
    Shared,
}

/// What a row of a drafter goes through before tokens are drafted from it: the target's own steps, and its sampler.
pub(crate) struct Children {
    transforms: Chain,
    sampler: Sampler,
    coupling: Coupling,
    row: Row,
    /// The nodes that were drafted last, by rank.
    nodes: Vec<usize>,
}

impl Children {
    pub(crate) fn new(transforms: &Chain, sampler: Sampler, coupling: Coupling) -> Self {
        // Without draws there is nothing that two could share, and of a law that is certain of one token no second
        // can be drawn: the likeliest tokens are guesses.
        let coupling = if sampler == Sampler::Greedy { Coupling::Shared } else { coupling };
        Self { transforms: transforms.clone(), sampler, coupling, row: Row::default(), nodes: Vec::new() }
    }

    /// The token that comes next, where that does not depend on a row.
    pub(crate) fn decided(&self, state: &ChainState) -> Option<TokenId> {
        self.transforms.decided(state)
    }

    /// Moves a state past a token that was decided.
    pub(crate) fn advance(&self, state: &mut ChainState, token: TokenId) {
        self.transforms.advance(state, token);
    }

    /// Moves a state past a token that was drafted from the last row.
    pub(crate) fn advance_drafted(&self, state: &mut ChainState, token: TokenId) {
        self.transforms.advance_from(state, &self.row, token);
    }

    /// Drafts at most `count` children of a node whose state this is, from the row that `load` loads; their indices, by
    /// rank. There are none where the row is no law: the target will say so where it is the same with it.
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
                let law = tree.law(|law| sampler.distribution_into(row, law));
                match count {
                    1 => nodes.push(tree.draw(parent, law, chance)),
                    _ => nodes.extend((0..count).map_while(|_| tree.draw_without(parent, law, chance))),
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
