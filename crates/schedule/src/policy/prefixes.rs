//! The kept pages of texts that were read, for texts with a common prefix: a radix tree whose edges are pages.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use verdigris_logits::TokenId;

/// The texts that may share pages: those of one model, one capacity and one salt.
pub type Space = u64;

/// The id of a kept page, valid as long as the page is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrefixId(usize);

/// Pages by their tokens, each below the page before it. A page with fewer tokens than a full one is the end of a
/// prompt, and has no children.
#[derive(Debug)]
pub(super) struct Prefixes {
    page_tokens: usize,
    nodes: Vec<Option<Node>>,
    /// Ids of `nodes` without a node.
    vacant: Vec<PrefixId>,
    roots: HashMap<Space, Children>,
    /// Pages that can be dropped at once: unused leaves, by the time of their last use.
    idle: BTreeSet<(u64, PrefixId)>,
    /// The number of nodes that texts use.
    in_use: usize,
    clock: u64,
}

type Children = BTreeMap<Arc<[TokenId]>, PrefixId>;

#[derive(Debug)]
struct Node {
    space: Space,
    parent: Option<PrefixId>,
    tokens: Arc<[TokenId]>,
    children: Children,
    /// The number of texts that have it among their pages.
    users: usize,
    /// The time at which a text last had it.
    used: u64,
}

/// The kept prefix of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The last of its full pages, and their number.
    pub(super) path: Option<PrefixId>,
    pub(super) pages: usize,
    /// A further page that matches in its first tokens only, and their number.
    pub(super) part: Option<(PrefixId, usize)>,
}

impl Prefixes {
    pub(super) fn new(page_tokens: usize) -> Self {
        let (nodes, vacant, roots, idle) = (Vec::new(), Vec::new(), HashMap::new(), BTreeSet::new());
        Self { page_tokens, nodes, vacant, roots, idle, in_use: 0, clock: 0 }
    }

    /// The number of kept pages.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.vacant.len()
    }

    /// The number of kept pages that no text uses. All of them can be dropped, one after the other.
    pub(super) fn unused(&self) -> usize {
        self.len() - self.in_use
    }

    /// Finds the longest kept prefix of a text: of whole pages and, if pages have parts, the first tokens of another.
    pub(super) fn find(&self, space: Space, tokens: &[TokenId], has_parts: bool) -> Found {
        let mut found = Found::default();
        loop {
            let Some(children) = self.children(space, found.path) else { return found };
            let rest = &tokens[found.pages * self.page_tokens..];
            let rest = &rest[..rest.len().min(self.page_tokens)];
            if rest.len() == self.page_tokens
                && let Some(&next) = children.get(rest)
            {
                (found.path, found.pages) = (Some(next), found.pages + 1);
                continue;
            }
            // Neighbours in lexicographic order have the longest common prefixes.
            let before = children.range::<[TokenId], _>((Unbounded, Excluded(rest))).next_back();
            let after = children.range::<[TokenId], _>((Included(rest), Unbounded)).next();
            let next = [before, after].into_iter().flatten();
            let shared = next.map(|(tokens, &id)| (id, in_common(tokens, rest), tokens.len()));
            let usable = shared.filter(|&(_, shared, whole)| shared > 0 && (has_parts || shared == whole));
            found.part = usable.map(|(id, shared, _)| (id, shared)).max_by_key(|&(_, shared)| shared);
            return found;
        }
    }

    /// Adds a page below another one that a text has among its own, either used by the text or only kept for others.
    /// Returns `None` if a page with the same tokens is already there.
    pub(super) fn insert(
        &mut self,
        space: Space,
        parent: Option<PrefixId>,
        tokens: &[TokenId],
        is_used: bool,
    ) -> Option<PrefixId> {
        if self.children(space, parent).is_some_and(|children| children.contains_key(tokens)) {
            return None;
        }
        let tokens: Arc<[TokenId]> = tokens.into();
        let id = self.vacant.pop().unwrap_or(PrefixId(self.nodes.len()));
        self.clock += 1;
        let (users, used) = (usize::from(is_used), self.clock);
        let node = Node { space, parent, tokens: tokens.clone(), children: Children::new(), users, used };
        match self.nodes.get_mut(id.0) {
            Some(vacant) => *vacant = Some(node),
            None => self.nodes.push(Some(node)),
        }
        match is_used {
            true => self.in_use += 1,
            false => _ = self.idle.insert((used, id)),
        }
        let children = match parent {
            Some(parent) => &mut self.node_mut(parent).children,
            None => self.roots.entry(space).or_default(),
        };
        children.insert(tokens, id);
        Some(id)
    }

    /// Records that a text has a page and all pages before it among its own.
    pub(super) fn hold(&mut self, path: Option<PrefixId>) {
        let mut at = path;
        while let Some(id) = at {
            let node = self.node_mut(id);
            node.users += 1;
            let (used, is_first) = (node.used, node.users == 1);
            at = node.parent;
            if is_first {
                self.in_use += 1;
                self.idle.remove(&(used, id));
            }
        }
    }

    /// Records that a text no longer has these pages.
    pub(super) fn release(&mut self, path: Option<PrefixId>) {
        self.clock += 1;
        let (mut at, clock) = (path, self.clock);
        while let Some(id) = at {
            let node = self.node_mut(id);
            node.users -= 1;
            node.used = clock;
            let (is_free, is_leaf) = (node.users == 0, node.children.is_empty());
            at = node.parent;
            if is_free {
                self.in_use -= 1;
            }
            if is_free && is_leaf {
                self.idle.insert((clock, id));
            }
        }
    }

    /// Records that a text has begun with a part of a page.
    pub(super) fn touch(&mut self, id: PrefixId) {
        self.clock += 1;
        let clock = self.clock;
        let node = self.node_mut(id);
        let before = std::mem::replace(&mut node.used, clock);
        if self.idle.remove(&(before, id)) {
            self.idle.insert((clock, id));
        }
    }

    /// Drops the least recently used page, if one can be dropped.
    pub(super) fn forget(&mut self) -> Option<PrefixId> {
        let (_, id) = self.idle.pop_first()?;
        let Node { space, parent, tokens, .. } = self.nodes[id.0].take().expect("what is idle is there");
        self.vacant.push(id);
        let Some(parent) = parent else {
            let children = self.roots.get_mut(&space).expect("it has children");
            children.remove(&tokens);
            if children.is_empty() {
                self.roots.remove(&space);
            }
            return Some(id);
        };
        let above = self.node_mut(parent);
        above.children.remove(&tokens);
        if above.users == 0 && above.children.is_empty() {
            let used = above.used;
            self.idle.insert((used, parent));
        }
        Some(id)
    }

    fn children(&self, space: Space, of: Option<PrefixId>) -> Option<&Children> {
        match of {
            Some(id) => self.nodes[id.0].as_ref().map(|node| &node.children),
            None => self.roots.get(&space),
        }
    }

    fn node_mut(&mut self, id: PrefixId) -> &mut Node {
        self.nodes[id.0].as_mut().expect("a page that is kept")
    }
}

/// The length of the common prefix of two strings.
pub(super) fn in_common(a: &[TokenId], b: &[TokenId]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 2;

    /// Keeps the full pages of some tokens, unused.
    fn keep(prefixes: &mut Prefixes, tokens: &[TokenId]) -> PrefixId {
        let mut path = None;
        for page in tokens.chunks(PAGE) {
            let there = prefixes.children(0, path).and_then(|children| children.get(page).copied());
            path = there.or_else(|| prefixes.insert(0, path, page, false));
        }
        // Pages above the last are no longer leaves.
        prefixes.hold(path);
        prefixes.release(path);
        path.unwrap()
    }

    #[test]
    fn the_longest_beginning_is_found() {
        let mut prefixes = Prefixes::new(PAGE);
        let long = keep(&mut prefixes, &[1, 2, 3, 4, 5, 6]);
        let tail = keep(&mut prefixes, &[1, 2, 7]);
        assert_eq!(prefixes.len(), 4);
        let find = |tokens: &[TokenId]| prefixes.find(0, tokens, true);
        let whole = find(&[1, 2, 3, 4, 5, 6, 9]);
        assert_eq!((whole.path, whole.pages, whole.part), (Some(long), 3, None));
        let part = find(&[1, 2, 3, 4, 5, 9]);
        assert_eq!((part.pages, part.part), (2, Some((long, 1))));
        let short = find(&[1, 2, 7, 8]);
        assert_eq!((short.pages, short.part), (1, Some((tail, 1))));
        assert_eq!(find(&[2]), Found::default());
        assert_eq!(find(&[]), Found::default());
        // Texts of another space share nothing.
        assert_eq!(prefixes.find(1, &[1, 2, 3, 4], true), Found::default());
        // Without parts of pages.
        let find = |tokens: &[TokenId]| prefixes.find(0, tokens, false);
        assert_eq!(find(&[1, 2, 3, 4, 5, 9]), Found { part: None, ..part });
        assert_eq!(find(&[1, 2, 7, 8]), short);
    }

    #[test]
    fn what_was_used_last_is_kept_longest_and_what_is_used_always() {
        let mut prefixes = Prefixes::new(PAGE);
        let first = keep(&mut prefixes, &[1, 2, 3, 4]);
        let second = keep(&mut prefixes, &[5, 6]);
        let third = keep(&mut prefixes, &[7]);
        prefixes.hold(Some(first));
        assert_eq!((prefixes.len(), prefixes.unused()), (4, 2));
        prefixes.touch(second);
        assert_eq!([prefixes.forget(), prefixes.forget(), prefixes.forget()], [Some(third), Some(second), None]);
        prefixes.release(Some(first));
        assert_eq!(prefixes.forget(), Some(first));
        assert!(prefixes.forget().is_some() && prefixes.forget().is_none());
        assert_eq!((prefixes.len(), prefixes.unused()), (0, 0));
    }
}
