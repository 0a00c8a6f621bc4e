//! Trees of drafts from rows that are known in advance, one for each depth.

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Row, TokenId};

use super::children::Children;
use crate::chance::Chance;
use crate::tree::{DraftTree, TreeShape};

/// The number of first rows that are useless, since their tokens are written already, and how deep the others reach, of
/// `count` rows after the first `seen` tokens of a text and the one that follows them.
pub(super) fn reach(text: &[TokenId], seen: usize, shape: &TreeShape, count: usize) -> (usize, usize) {
    let late = text.len() - 1 - seen;
    (late, shape.depth().min(count.saturating_sub(late)))
}

/// Drafts a tree of the given shape, at most `depth` deep. `load` writes the row for a depth, counted from 0, after a
/// token.
pub(super) fn draft(
    children: &mut Children,
    (last, state): (TokenId, &ChainState),
    (shape, depth): (&TreeShape, usize),
    chance: &mut dyn Chance,
    tree: &mut DraftTree,
    mut load: impl FnMut(usize, TokenId, &mut Row),
) {
    let mut drafted: Vec<Option<(usize, ChainState)>> = vec![None; shape.len()];
    let open = std::iter::once(None).chain((0..shape.len()).map(Some));
    for node in open {
        let (parent, state, depth_of) = match node {
            None => (None, state.clone(), 0),
            Some(node) => match &drafted[node] {
                Some((at, state)) => (Some(*at), state.clone(), shape.depth_of(node)),
                None => continue,
            },
        };
        let asked: Vec<usize> = shape.children(node).collect();
        if asked.is_empty() || depth_of >= depth {
            continue;
        }
        let before = parent.map_or(last, |parent| tree.nodes()[parent].token);
        let of_node =
            children.draft(|row| load(depth_of, before, row), &state, parent, asked.len(), chance, tree).to_vec();
        for (child, asked) in of_node.into_iter().zip(asked) {
            let mut state = state.clone();
            children.advance_drafted(&mut state, tree.nodes()[child].token);
            drafted[asked] = Some((child, state));
        }
    }
}
