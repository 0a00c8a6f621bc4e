//! The shape of a tree of drafts, before its tokens are known.

/// The maximum number of nodes of a tree.
pub const MAX_NODES: usize = 64;

/// The parent of nodes that follow the end of the text.
const ROOT: u8 = u8::MAX;

/// The number of drafts to make and their parents: every node follows an earlier node or the end of the text. The
/// children of a node are ranked in their order here.
#[doc(alias = "medusa_choices")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TreeShape {
    parents: [u8; MAX_NODES],
    depths: [u8; MAX_NODES],
    len: u8,
}

impl TreeShape {
    /// No drafts.
    pub const EMPTY: Self = Self { parents: [ROOT; MAX_NODES], depths: [0; MAX_NODES], len: 0 };

    /// A chain of `length` drafts, at most [`MAX_NODES`].
    pub fn chain(length: usize) -> Self {
        (0..length.min(MAX_NODES)).fold(Self::EMPTY, |shape, i| shape.with(i.checked_sub(1)))
    }

    /// A tree in which every node of a level has the same number of children: `[3, 1]` has three drafts of the next
    /// token, each followed by one (SpecInfer's expansion configuration). Larger trees are cut to their first
    /// [`MAX_NODES`] nodes, level by level.
    pub fn levels(widths: &[usize]) -> Self {
        let (mut shape, mut level) = (Self::EMPTY, vec![None]);
        for &width in widths {
            let mut next = Vec::new();
            for parent in level {
                for _ in 0..width.min(MAX_NODES - shape.len()) {
                    shape = shape.with(parent);
                    next.push(Some(shape.len() - 1));
                }
            }
            level = next;
        }
        shape
    }

    /// Returns this shape with one more node.
    ///
    /// # Panics
    /// If it is full, or has no such parent.
    #[must_use]
    pub fn with(mut self, parent: Option<usize>) -> Self {
        let at = self.len();
        assert!(at < MAX_NODES && parent.is_none_or(|parent| parent < at), "node {at} after {parent:?}");
        self.parents[at] = parent.map_or(ROOT, |parent| parent as u8);
        self.depths[at] = parent.map_or(1, |parent| self.depths[parent] + 1);
        self.len += 1;
        self
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The node that another follows, or `None` for the end of the text.
    pub fn parent(&self, node: usize) -> Option<usize> {
        Some(self.parents[..self.len()][node]).filter(|&parent| parent != ROOT).map(usize::from)
    }

    /// The number of tokens from the end of the text to a node, itself included.
    pub fn depth_of(&self, node: usize) -> usize {
        usize::from(self.depths[..self.len()][node])
    }

    /// The depth of the deepest node, or 0 for an empty shape.
    pub fn depth(&self) -> usize {
        self.depths[..self.len()].iter().copied().max().map_or(0, usize::from)
    }

    /// The children of a node, or of the end of the text, by rank.
    pub fn children(&self, parent: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        (0..self.len()).filter(move |&node| self.parent(node) == parent)
    }

    /// Whether every node follows the one before it.
    pub fn is_chain(&self) -> bool {
        (0..self.len()).all(|node| self.parent(node) == node.checked_sub(1))
    }

    /// Returns this shape without the nodes below `depth`, cut to its first `nodes` nodes.
    #[must_use]
    pub fn within(&self, nodes: usize, depth: usize) -> Self {
        let (mut shape, mut moved) = (Self::EMPTY, [ROOT; MAX_NODES]);
        for node in 0..self.len() {
            if shape.len() == nodes || self.depth_of(node) > depth {
                continue;
            }
            moved[node] = shape.len;
            shape = shape.with(self.parent(node).map(|parent| usize::from(moved[parent])));
        }
        shape
    }
}

impl std::fmt::Debug for TreeShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries((0..self.len()).map(|node| self.parent(node))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_what_their_names_say() {
        assert!(TreeShape::chain(3).is_chain() && TreeShape::EMPTY.is_chain());
        assert_eq!((TreeShape::chain(3).len(), TreeShape::chain(3).depth(), TreeShape::EMPTY.depth()), (3, 3, 0));
        assert_eq!(TreeShape::chain(100).len(), MAX_NODES);
        let tree = TreeShape::levels(&[2, 1, 2]);
        let parents: Vec<_> = (0..tree.len()).map(|node| tree.parent(node)).collect();
        assert_eq!(parents, [None, None, Some(0), Some(1), Some(2), Some(2), Some(3), Some(3)]);
        assert!(!tree.is_chain() && tree.depth() == 3);
        assert_eq!(tree.children(Some(3)).collect::<Vec<_>>(), [6, 7]);
        assert_eq!(tree.children(None).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(tree.within(9, 2), TreeShape::levels(&[2, 1]));
        assert_eq!(tree.within(5, 9), TreeShape::levels(&[2, 1]).with(Some(2)));
        assert_eq!(TreeShape::levels(&[8, 8, 8]).len(), MAX_NODES);
    }

    /// The children of a removed node are removed too, and later nodes move up.
    #[test]
    fn a_shape_is_cut_by_depth() {
        let shape = TreeShape::chain(3).with(None).with(Some(3));
        assert_eq!(shape.within(9, 1), TreeShape::levels(&[2]));
        assert_eq!(shape.within(9, 2), TreeShape::chain(2).with(None).with(Some(2)));
    }
}
