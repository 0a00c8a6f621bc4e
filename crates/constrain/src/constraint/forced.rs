//! Tokens that a constraint leaves no choice about.
//!
//! Where one byte alone may come, and one after it, a text is forced. A tokenizer would write it in one way, and a
//! model has seen it in that way only. It depends on what comes before, and its last tokens on what comes after: those
//! are left to the model.

use verdigris_logits::TokenId;

use crate::constraint::lexicon::Lexicon;
use crate::machine::{Machine, State};

/// How many tokens before a forced text are looked at, and how many of its own may depend on what comes after it.
pub(crate) const CONTEXT: usize = 4;

/// The longest text that is forced at once.
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

/// The tokens that a text must go on with, as the tokenizer writes them; none where there is a choice, or where the
/// tokenizer does not write just that.
pub(crate) fn forced(machine: &Machine, lexicon: &Lexicon, state: State, recent: &Recent) -> Vec<TokenId> {
    let bytes = machine.forced(state, MAX_BYTES);
    // Characters are written whole.
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).expect("it is valid up to there"),
    };
    if text.is_empty() {
        return Vec::new();
    }
    // As much of what came before as the tokenizer writes as it was written.
    let recent = recent.tokens();
    let known = |skip: usize| {
        let before = &recent[skip..];
        let bytes: Vec<u8> = before.iter().flat_map(|&token| lexicon.bytes(token)).copied().collect();
        let tokens = lexicon.tokenizer().encode(&(String::from_utf8(bytes).ok()? + text)).ok()?;
        tokens.strip_prefix(before).map(<[TokenId]>::to_vec)
    };
    // None where the tokenizer has no tokens for it at all.
    let Some(mut tokens) = (0..=recent.len()).find_map(known) else { return Vec::new() };
    // Control tokens are never written so.
    let written = || tokens.iter().flat_map(|&token| lexicon.bytes(token));
    if !written().eq(text.as_bytes()) {
        return Vec::new();
    }
    // The last tokens may be others where a longer one fits too.
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
