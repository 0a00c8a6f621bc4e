//! Trees of drafted tokens, each with its origin. A chain is a tree in which every node has one child.

mod shape;

use verdigris_logits::TokenId;

use crate::chance::Chance;
use crate::distribution;

pub use shape::{MAX_NODES, TreeShape};

/// A distribution that children of a tree were sampled from, as returned by [`DraftTree::distribution`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistributionId(usize);

/// The origin of a drafted token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A guess at the token that the target will sample.
    Guess,
    /// Sampled from a distribution, independently of other samples from it.
    Drawn(DistributionId),
    /// Sampled from a distribution without the tokens that earlier siblings sampled from the same one in this way.
    DrawnWithout(DistributionId),
}

/// A drafted token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DraftNode {
    /// The token.
    pub token: TokenId,
    /// The node that it follows, or `None` for the end of the text.
    pub parent: Option<usize>,
    /// The number of tokens from the end of the text to this one, itself included.
    pub depth: usize,
    /// Its origin.
    pub origin: Origin,
}

/// Drafted tokens that may follow a text. Nodes come after their parents, and siblings in the order in which they were
/// sampled; a token that was sampled twice appears twice.
///
/// The memory is reused by the next draft.
#[derive(Clone, Debug, Default)]
pub struct DraftTree {
    /// The number of tokens before the tree.
    position: usize,
    nodes: Vec<DraftNode>,
    distributions: Vec<Vec<f64>>,
    /// The number of entries of `distributions` that belong to this draft.
    used: usize,
    /// Scratch space for a distribution without some of its tokens.
    rest: Vec<f64>,
}

impl DraftTree {
    /// Removes all nodes and distributions. The next nodes follow a text of `position` tokens.
    pub fn clear(&mut self, position: usize) {
        self.position = position;
        self.nodes.clear();
        self.used = 0;
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether nothing was drafted.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The nodes, parents first.
    pub fn nodes(&self) -> &[DraftNode] {
        &self.nodes
    }

    /// The children of a node, or of the end of the text, in the order in which they were added.
    pub fn children(&self, parent: Option<usize>) -> impl Iterator<Item = (usize, &DraftNode)> + Clone {
        // Children come after their parent.
        let from = parent.map_or(0, |parent| parent + 1);
        self.nodes.iter().enumerate().skip(from).filter(move |(_, node)| node.parent == parent)
    }

    /// Whether every node follows the one before it.
    pub fn is_chain(&self) -> bool {
        self.nodes.iter().enumerate().all(|(i, node)| node.parent == i.checked_sub(1))
    }

    /// The depth of the deepest node, or 0 for an empty tree.
    pub fn depth(&self) -> usize {
        self.nodes.iter().map(|node| node.depth).max().unwrap_or(0)
    }

    /// Whether all nodes are guesses.
    pub fn is_guessed(&self) -> bool {
        self.nodes.iter().all(|node| node.origin == Origin::Guess)
    }

    /// The position of the children of a node.
    pub fn position_after(&self, parent: Option<usize>) -> usize {
        self.position + parent.map_or(0, |parent| self.nodes[parent].depth)
    }

    /// Adds a distribution to sample children from. `fill` writes it into a vector that may hold another one. It must
    /// sum to one.
    pub fn distribution(&mut self, fill: impl FnOnce(&mut Vec<f64>)) -> DistributionId {
        if self.used == self.distributions.len() {
            self.distributions.push(Vec::new());
        }
        fill(&mut self.distributions[self.used]);
        self.used += 1;
        DistributionId(self.used - 1)
    }

    /// Returns a distribution that was added.
    pub fn distribution_of(&self, distribution: DistributionId) -> &[f64] {
        &self.distributions[..self.used][distribution.0]
    }

    /// Adds a node and returns its index.
    ///
    /// # Panics
    /// If there is no such parent.
    pub fn push(&mut self, parent: Option<usize>, token: TokenId, origin: Origin) -> usize {
        let depth = parent.map_or(1, |parent| self.nodes[parent].depth + 1);
        self.nodes.push(DraftNode { token, parent, depth, origin });
        self.nodes.len() - 1
    }

    /// Adds a guess at the token that the target will sample, and returns its index.
    ///
    /// # Panics
    /// If there is no such parent.
    pub fn guess(&mut self, parent: Option<usize>, token: TokenId) -> usize {
        self.push(parent, token, Origin::Guess)
    }

    /// Samples a child from a distribution, independently of other samples from it, and returns its index.
    ///
    /// # Panics
    /// If there is no such parent.
    pub fn draw(&mut self, parent: Option<usize>, distribution: DistributionId, chance: &mut dyn Chance) -> usize {
        let (position, index) = self.place(parent);
        let token = chance.draft(&self.distributions[distribution.0], position, index);
        self.push(parent, token, Origin::Drawn(distribution))
    }

    /// Samples a child from a distribution without the tokens already sampled in this way for the same parent. Returns
    /// its index, or `None` if no token is left.
    ///
    /// # Panics
    /// If there is no such parent.
    pub fn draw_without(
        &mut self,
        parent: Option<usize>,
        distribution: DistributionId,
        chance: &mut dyn Chance,
    ) -> Option<usize> {
        let mut rest = std::mem::take(&mut self.rest);
        let is_left = self.rest_of(distribution, parent, self.len(), &mut rest);
        let (position, index) = self.place(parent);
        let token = is_left.then(|| chance.draft(&rest, position, index));
        self.rest = rest;
        Some(self.push(parent, token?, Origin::DrawnWithout(distribution)))
    }

    /// Computes a distribution without the tokens that children of `parent` before node `before` sampled from it
    /// without replacement, normalised again. Returns `false` if no token is left.
    pub fn rest_of(
        &self,
        distribution: DistributionId,
        parent: Option<usize>,
        before: usize,
        rest: &mut Vec<f64>,
    ) -> bool {
        rest.clear();
        rest.extend_from_slice(self.distribution_of(distribution));
        let mut is_whole = true;
        for (_, node) in self.children(parent).take_while(|(node, _)| *node < before) {
            if node.origin == Origin::DrawnWithout(distribution) {
                rest[node.token as usize] = 0.0;
                is_whole = false;
            }
        }
        if is_whole {
            return true;
        }
        let total = distribution::total(rest);
        distribution::divide(rest, total);
        total > 0.0
    }

    /// The position of the next child of a node, and a number that no other draft of that position has: neither in this
    /// call, nor in another one, in which the position is at another depth.
    fn place(&self, parent: Option<usize>) -> (usize, usize) {
        let depth = parent.map_or(0, |parent| self.nodes[parent].depth);
        (self.position + depth, depth | (self.len() - depth) << 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Seeded;
    use std::collections::BTreeSet;
    use verdigris_logits::{Random, Row, Sampler};

    fn some_distribution(tree: &mut DraftTree, distribution: &[f64]) -> DistributionId {
        tree.distribution(|out| {
            out.clear();
            out.extend_from_slice(distribution);
        })
    }

    #[test]
    fn what_is_drawn_without_replacement_differs() {
        let mut tree = DraftTree::default();
        for seed in 0..50 {
            tree.clear(7);
            let chance = &mut Seeded(Random::new(seed));
            let distribution = some_distribution(&mut tree, &[0.5, 0.0, 0.3, 0.2]);
            (0..3).for_each(|_| assert!(tree.draw_without(None, distribution, chance).is_some()));
            let drawn: BTreeSet<TokenId> = tree.nodes().iter().map(|node| node.token).collect();
            assert_eq!(drawn, BTreeSet::from([0, 2, 3]));
            assert_eq!(tree.draw_without(None, distribution, chance), None, "nothing is left");
            // Another parent has the whole distribution.
            assert!(tree.draw_without(Some(1), distribution, chance).is_some());
            let mut rest = Vec::new();
            assert!(tree.rest_of(distribution, None, 1, &mut rest));
            let first = tree.nodes()[0].token as usize;
            let expected = |token: usize| {
                let distribution = [0.5, 0.0, 0.3, 0.2];
                if token == first { 0.0 } else { distribution[token] / (1.0 - distribution[first]) }
            };
            assert!((0..4).all(|token| (rest[token] - expected(token)).abs() < 1e-15));
        }
    }

    /// Records the arguments of each draft.
    struct Places(Vec<(usize, usize)>);
    impl Chance for Places {
        fn token(&mut self, _: Sampler, _: &Row, _: usize) -> Option<TokenId> {
            None
        }
        fn draft(&mut self, _: &[f64], position: usize, index: usize) -> TokenId {
            self.0.push((position, index));
            0
        }
        fn accept(&mut self, _: f64, _: usize, _: usize) -> bool {
            false
        }
        fn residual(&mut self, _: &[f64], _: usize) -> TokenId {
            0
        }
    }

    /// In overlapping trees of successive calls a position is drafted several times, each time with a different number.
    #[test]
    fn every_draft_has_a_place_of_its_own() {
        let mut places = Places(Vec::new());
        let mut tree = DraftTree::default();
        for position in 10..14 {
            tree.clear(position);
            let distribution = some_distribution(&mut tree, &[1.0]);
            let shape = TreeShape::levels(&[3, 2, 2]);
            for node in 0..shape.len() {
                tree.draw(shape.parent(node), distribution, &mut places);
            }
        }
        let distinct: BTreeSet<_> = places.0.iter().collect();
        assert_eq!(distinct.len(), places.0.len());
        // The numbers of a chain are its depths.
        let mut places = Places(Vec::new());
        tree.clear(5);
        let distribution = some_distribution(&mut tree, &[1.0]);
        for i in 0..4usize {
            tree.draw(i.checked_sub(1), distribution, &mut places);
        }
        assert_eq!(places.0, [(5, 0), (6, 1), (7, 2), (8, 3)]);
    }
}
