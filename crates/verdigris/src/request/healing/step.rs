//! The step that lets a text begin with given bytes.

use verdigris_logits::{Row, TokenId, Transform};

use super::prompt::Healing;

/// Forbids tokens that do not spell the removed end of the prompt, until it is complete. The last one may spell more.
pub(in crate::request) struct Heal(pub(in crate::request) Healing);

impl Transform for Heal {
    /// The number of bytes that are left.
    type State = usize;

    fn start(&self, _prompt: &[TokenId]) -> usize {
        self.0.rest()
    }

    fn apply(&self, rest: &usize, row: &mut Row) {
        if *rest > 0 {
            row.restrict(self.0.allowed(*rest));
        }
    }

    fn decided(&self, rest: &usize) -> Option<TokenId> {
        if *rest == 0 {
            return None;
        }
        let mut tokens = self.0.allowed(*rest).iter();
        tokens.next().filter(|_| tokens.next().is_none())
    }

    fn advance(&self, rest: &mut usize, token: TokenId) {
        *rest = self.0.after(*rest, token);
    }
}
