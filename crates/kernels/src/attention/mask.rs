//! The tokens that each query may attend to.

use std::ops::Range;

use super::cached::Tokens;

/// The tokens that each query may attend to, and how scores change with distance: a causal mask, a tree's mask, a
/// sliding window, ALiBi.
#[doc(alias = "attn_bias")]
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionMask<'a> {
    /// Row `r` of the `m` new tokens sees new token `j` if `visible[r * m + j]`; by default, if `j <= r`.
    pub visible: Option<&'a [bool]>,
    /// The positions of the new tokens. Earlier tokens have positions 0, 1 and so on. Required for windows and slopes.
    pub positions: &'a [u32],
    /// Only tokens fewer than `window` positions back are visible (a sliding window).
    pub window: Option<usize>,
    /// For each query head, the amount subtracted from a score per position back (ALiBi: Press, Smith and Lewis 2022).
    pub slopes: Option<&'a [f32]>,
    /// Scores `s` become `cap * tanh(s / cap)` (Gemma 2).
    pub cap: Option<f32>,
    /// For each query head, a score that takes part in the softmax and has no value (gpt-oss).
    pub sinks: Option<&'a [f32]>,
}

impl<'a> AttentionMask<'a> {
    /// Whether the mask depends on positions.
    pub(super) fn is_by_position(&self) -> bool {
        self.window.is_some() || self.slopes.is_some()
    }

    /// The position of a token; the first `held` tokens are not new.
    pub(super) fn position(&self, token: usize, held: usize) -> f32 {
        if token < held { token as f32 } else { self.positions[token - held] as f32 }
    }

    /// A new token's row of the tree's mask over the `m` new tokens, if there is one.
    pub(super) fn of_tree(&self, token: usize, m: usize) -> Option<&'a [bool]> {
        self.visible.map(|visible| &visible[token * m..(token + 1) * m])
    }

    /// The first token that any of some new tokens may see, at most `held`.
    pub(super) fn first_seen(&self, new: Range<usize>, held: usize) -> usize {
        let Some(window) = self.window else { return 0 };
        let first = |token: usize| (self.positions[token] as usize + 1).saturating_sub(window);
        new.map(first).min().unwrap_or(0).min(held)
    }
}

/// The visibility of some tokens to one new token.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sight<'a> {
    /// The first `n`.
    First(usize),
    /// The first `n`, and of those after them the marked ones.
    Branch(usize, &'a [bool]),
}

impl Sight<'_> {
    /// The visibility of `tokens` to new token `token`, one of `m` after `held` others.
    pub(super) fn of<'a>(
        mask: &AttentionMask<'a>,
        token: usize,
        m: usize,
        held: usize,
        tokens: &Tokens<'_>,
    ) -> Sight<'a> {
        let Tokens::Following { first, count } = *tokens else { return Sight::First(tokens.len()) };
        match mask.of_tree(token, m) {
            Some(row) if first + count > held => {
                let from = first.max(held);
                Sight::Branch(from - first, &row[from - held..first + count - held])
            }
            Some(_) => Sight::First(count),
            None => Sight::First((held + token + 1).saturating_sub(first).min(count)),
        }
    }
}
