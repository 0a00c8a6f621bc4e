//! Tokens that a constraint forces.
//!
//! As long as only one byte is allowed at each position, the text is forced. The tokenizer would split it in one way,
//! and that is the only way the model has seen. The split depends on the text before, and that of the last tokens on
//! the text after; those are left to the model.

use verdigris_logits::TokenId;

use crate::constraint::lexicon::Lexicon;
use crate::machine::{Machine, State};

/// The number of tokens before a forced text that are considered, and of its last tokens that may depend on what
/// follows.
pub(crate) const CONTEXT: usize = 4;

/// The maximum length, in bytes, of a text that is forced at once.
const MAX_BYTES: usize = 512;

/// The last tokens of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recent {
    tokens: [TokenId; CONTEXT],
    count: u8,
}

impl Recent {
    pub(crate) fn of(tokens: &[TokenId]) -> Self {
        let mut recent = Self::default();
        tokens[tokens.len().saturating_sub(CONTEXT)..].iter().for_each(|&token| recent.push(token));
        recent
    }

    pub(crate) fn push(&mut self, token: TokenId) {
        if usize::from(self.count) == CONTEXT {
            self.tokens.rotate_left(1);
            self.count -= 1;
        }
        self.tokens[usize::from(self.count)] = token;
        self.count += 1;
    }

    fn tokens(&self) -> &[TokenId] {
        &self.tokens[..usize::from(self.count)]
    }
}

/// The tokens that must come next, as the tokenizer splits them; empty if there is a choice, or if the tokenizer does
/// not reproduce the text exactly.
pub(crate) fn forced(machine: &Machine, lexicon: &Lexicon, state: State, recent: &Recent) -> Vec<TokenId> {
    let bytes = machine.forced(state, MAX_BYTES);
    // Only whole characters are written.
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).expect("it is valid up to there"),
    };
    if text.is_empty() {
        return Vec::new();
    }
    // Use as many of the recent tokens as the tokenizer would split in the same way.
    let recent = recent.tokens();
    let known = |skip: usize| {
        let before = &recent[skip..];
        let bytes: Vec<u8> = before.iter().flat_map(|&token| lexicon.bytes(token)).copied().collect();
        let tokens = lexicon.tokenizer().encode(&(String::from_utf8(bytes).ok()? + text)).ok()?;
        tokens.strip_prefix(before).map(<[TokenId]>::to_vec)
    };
    // Fails if the tokenizer has no tokens for the text at all.
    let Some(mut tokens) = (0..=recent.len()).find_map(known) else { return Vec::new() };
    // Control tokens are never written here.
    let written = || tokens.iter().flat_map(|&token| lexicon.bytes(token));
    if !written().eq(text.as_bytes()) {
        return Vec::new();
    }
    // The last tokens may differ if a longer token also fits.
    let first = tokens.len().saturating_sub(CONTEXT);
    let mut from: usize = tokens[..first].iter().map(|&token| lexicon.bytes(token).len()).sum();
    for at in first..tokens.len() {
        let state = machine.next(state, &text.as_bytes()[..from]);
        if machine.allows_longer(state, &text.as_bytes()[from..]) {
            tokens.truncate(at);
            break;
        }
        from += lexicon.bytes(tokens[at]).len();
    }
    tokens
}
