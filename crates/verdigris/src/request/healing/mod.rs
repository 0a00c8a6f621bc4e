//! Token healing: the end of a prompt is removed, and the text begins with its bytes.
//!
//! | module | contents |
//! |---|---|
//! | `prompt` | the tokens of a prompt, and which of them are removed |
//! | `step` | the tokens that may spell the removed bytes |
//! | `mark` | the mark of a text that begins with them |

mod mark;
mod prompt;
mod step;

pub(super) use mark::HealedMark;
pub(super) use prompt::{Healing, PromptTokens};
pub(super) use step::Heal;

use crate::request::Request;

impl Request<'_> {
    /// Heals the prompt: its last token, or up to [`Request::MOST_HEALED`] of them, are removed if a token of the
    /// vocabulary continues their bytes, and the text begins with these bytes, in any tokens. So a prompt that ends in
    /// the middle of a word, or with a space, does not keep the model from the token that it would have written there.
    ///
    /// [`Written::text`](crate::Written::text) does not repeat these bytes; [`Written::tokens`](crate::Written::tokens)
    /// has their tokens, which count towards [`Request::max_tokens`]. They are not marked, since the first of them that
    /// is not part of the prompt may also spell bytes of it. The constraint applies to the text after the prompt.
    ///
    /// Control tokens and the first token of a prompt are never removed. The prompt of a conversation is healed if its
    /// last message is continued ([`Turn::Within`](crate::Turn::Within)); other prompts of conversations end with the
    /// template's text, which a model has only seen in these tokens.
    #[doc(alias = "token_healing")]
    pub fn heal(mut self) -> Self {
        self.heals = true;
        self
    }
}
