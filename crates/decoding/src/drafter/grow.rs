//! Trees of drafts from a network that reads its own drafts.

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Row, TokenId};
use verdigris_models::{Batch, Wanted};

use super::children::Children;
use crate::chance::Chance;
use crate::target::DecodeError;
use crate::tree::{DraftTree, TreeShape};

/// A network that has read part of a text, and whose rows are drafted from.
pub(crate) trait Network {
    /// Whether a token is in its vocabulary.
    fn reads(&self, token: TokenId) -> bool;

    /// The number of tokens that it holds.
    fn len(&self) -> usize;

    /// The maximum number of tokens that it can hold.
    fn capacity(&self) -> usize;

    /// Appends tokens, and keeps the requested rows. When a tree is read level by level, a batch begins with the tokens
    /// of the previous batch, which were truncated.
    fn read(&mut self, batch: &Batch<'_>) -> Result<(), DecodeError>;

    /// Loads the `i`-th of the rows requested last.
    fn load(&self, i: usize, row: &mut Row);

    /// Removes all tokens past the first `length`.
    fn truncate(&mut self, length: usize);
}

/// Reads the tokens of a text that a network has not seen, if any, and drafts a tree of the given shape after the text.
/// Without unseen tokens the network's first row must be the one after the text. Afterwards the network holds what it
/// has read if the shape is a chain, and only the text if it is a tree.
pub(crate) fn grow(
    network: &mut dyn Network,
    children: &mut Children,
    unseen: &[TokenId],
    state: &ChainState,
    shape: &TreeShape,
    chance: &mut dyn Chance,
    tree: &mut DraftTree,
) -> Result<(), DecodeError> {
    match shape.is_chain() {
        true => chain(network, children, unseen.to_vec(), state.clone(), shape.len(), chance, tree),
        false => levels(network, children, unseen, state, shape, chance, tree),
    }
}

/// Drafts a chain: each token is read before the next is drafted. A token decided by a transform needs no row, and is
/// read together with the next one.
fn chain(
    network: &mut dyn Network,
    children: &mut Children,
    mut unseen: Vec<TokenId>,
    mut state: ChainState,
    length: usize,
    chance: &mut dyn Chance,
    tree: &mut DraftTree,
) -> Result<(), DecodeError> {
    while tree.len() < length {
        let parent = tree.len().checked_sub(1);
        let node = match children.decided(&state) {
            Some(token) => {
                children.advance(&mut state, token);
                tree.guess(parent, token)
            }
            None => {
                if network.len() + unseen.len() > network.capacity() {
                    break;
                }
                if !unseen.is_empty() {
                    network.read(&Batch::chain(&unseen, Wanted::Last))?;
                    unseen.clear();
                }
                let drafted = children.draft(|row| network.load(0, row), &state, parent, 1, chance, tree);
                let Some(&node) = drafted.first() else { break };
                children.advance_drafted(&mut state, tree.nodes()[node].token);
                node
            }
        };
        let token = tree.nodes()[node].token;
        if !network.reads(token) {
            break;
        }
        unseen.push(token);
    }
    Ok(())
}

/// Drafts a tree, level by level. The call of a level reads all nodes so far that have children, since a sequence can
/// only be extended at its end.
fn levels(
    network: &mut dyn Network,
    children: &mut Children,
    unseen: &[TokenId],
    state: &ChainState,
    shape: &TreeShape,
    chance: &mut dyn Chance,
    tree: &mut DraftTree,
) -> Result<(), DecodeError> {
    if network.len() + unseen.len() > network.capacity() {
        return Ok(());
    }
    if !unseen.is_empty() {
        network.read(&Batch::chain(unseen, Wanted::Last))?;
    }
    let base = network.len();
    // For each node of the shape that has been drafted, its index in the tree and the state after it.
    let mut drafted: Vec<Option<(usize, ChainState)>> = vec![None; shape.len()];
    let (mut tokens, mut parents, mut slots) = (Vec::new(), Vec::new(), vec![usize::MAX; shape.len()]);
    for depth in 0..shape.depth() {
        // The nodes of this depth that have children; those above them are already in the batch.
        let first = tokens.len();
        let level: Vec<Option<usize>> = match depth {
            0 => vec![None],
            _ => (0..shape.len())
                .filter(|&node| shape.depth_of(node) == depth && shape.children(Some(node)).next().is_some())
                .filter(|&node| drafted[node].as_ref().is_some_and(|(at, _)| network.reads(tree.nodes()[*at].token)))
                .map(Some)
                .collect(),
        };
        for node in level.iter().flatten() {
            let (at, _) = drafted[*node].as_ref().expect("only drafted nodes are extended");
            slots[*node] = tokens.len();
            tokens.push(tree.nodes()[*at].token);
            parents.push(shape.parent(*node).map(|parent| slots[parent]));
        }
        if depth > 0 {
            if level.is_empty() || base + tokens.len() > network.capacity() {
                break;
            }
            network.read(&Batch { wanted: Wanted::From(first), ..Batch::tree(&tokens, &parents) })?;
            network.truncate(base);
        }
        for (row, node) in level.into_iter().enumerate() {
            let (parent, state) = match node {
                None => (None, state.clone()),
                Some(node) => {
                    let (parent, state) = drafted[node].as_ref().expect("only drafted nodes are extended");
                    (Some(*parent), state.clone())
                }
            };
            let asked: Vec<usize> = shape.children(node).collect();
            let of_node = children.draft(|to| network.load(row, to), &state, parent, asked.len(), chance, tree);
            let of_node = of_node.to_vec();
            for (child, asked) in of_node.into_iter().zip(asked) {
                let mut state = state.clone();
                children.advance_drafted(&mut state, tree.nodes()[child].token);
                drafted[asked] = Some((child, state));
            }
        }
    }
    Ok(())
}
