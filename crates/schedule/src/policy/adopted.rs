//! Pages that are kept although no text of the policy has read them: their memory comes from outside.

use verdigris_logits::TokenId;

use super::{Policy, PrefixId, Space, Step};

/// The kept beginning of some tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The last of its full pages, with the number of tokens to its end.
    pub pages: Option<(PrefixId, usize)>,
    /// The number of tokens with a further page that matches in its first tokens only.
    pub tokens: usize,
}

impl Policy {
    /// The kept beginning of some tokens.
    pub fn kept(&self, space: Space, tokens: &[TokenId]) -> Kept {
        let found = self.prefixes.find(space, tokens, self.bounds.has_parts);
        let full = found.pages * self.bounds.page_tokens;
        Kept { pages: found.path.map(|path| (path, full)), tokens: full + found.part.map_or(0, |(_, tokens)| tokens) }
    }

    /// Keeps pages for the tokens after the [kept](Policy::kept) full pages, as many as there is room for: texts that
    /// begin before these are dropped can continue from them. Returns the new pages in order, each with the number of
    /// tokens to its end. The caller has their memory. Pages that must be dropped for them are added to `steps`.
    pub fn adopt(&mut self, space: Space, tokens: &[TokenId], steps: &mut Vec<Step>) -> Vec<(PrefixId, usize)> {
        let page_tokens = self.bounds.page_tokens;
        let found = self.prefixes.find(space, tokens, self.bounds.has_parts);
        // So that none of them is dropped for the next.
        self.prefixes.hold(found.path);
        let (mut path, mut to, mut adopted) = (found.path, found.pages * page_tokens, Vec::new());
        for page in tokens[to..].chunks(page_tokens) {
            if self.available() == 0 {
                break;
            }
            if self.own + self.prefixes.len() == self.bounds.pages {
                self.forget(steps);
            }
            let Some(prefix) = self.prefixes.insert(space, path, page, true) else { break };
            (path, to) = (Some(prefix), to + page.len());
            adopted.push((prefix, to));
        }
        self.prefixes.release(path);
        adopted
    }
}
