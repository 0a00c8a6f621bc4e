//! Which tokens each query may attend to.

use std::ops::Range;

use super::cached::Tokens;

/// Which tokens each query may attend to, and how scores change with distance: a causal mask, a tree's mask, a sliding
/// window, ALiBi.
#[doc(alias = "attn_bias")]
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionMask<'a> {
    /// Among the `m` new tokens row `r` sees `j` where `visible[r * m + j]`; without this, where `j <= r`.
    pub visible: Option<&'a [bool]>,
    /// The positions of the new tokens. Those before stand at 0, 1 and so on. Needed for what follows.
    pub positions: &'a [u32],
    /// Only tokens less than so far back are seen (a sliding window).
    pub window: Option<usize>,
    /// For each query head, what is taken from a score for each position back (ALiBi: Press, Smith and Lewis 2022).
    pub slopes: Option<&'a [f32]>,
    /// Scores `s` become `cap * tanh(s / cap)` (Gemma 2).
    pub cap: Option<f32>,
}

impl<'a> AttentionMask<'a> {
    /// Whether positions count.
    pub(super) fn is_by_position(&self) -> bool {
        self.window.is_some() || self.slopes.is_some()
    }

    /// The position of a token, before which `held` are not new.
    pub(super) fn position(&self, token: usize, held: usize) -> f32 {
        if token < held { token as f32 } else { self.positions[token - held] as f32 }
    }

    /// What one of `m` new tokens sees of them, where a tree says so.
    pub(super) fn of_tree(&self, token: usize, m: usize) -> Option<&'a [bool]> {
        self.visible.map(|visible| &visible[token * m..(token + 1) * m])
    }

    /// The first token that one of some new ones may see, as far as those that are not new go.
    pub(super) fn first_seen(&self, new: Range<usize>, held: usize) -> usize {
        let Some(window) = self.window else { return 0 };
        let first = |token: usize| (self.positions[token] as usize + 1).saturating_sub(window);
        new.map(first).min().unwrap_or(0).min(held)
    }
}

/// How some tokens look to one new token, where it may see them at all.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sight<'a> {
    /// The first so many.
    First(usize),
    /// The first so many, and of those after them these.
    Branch(usize, &'a [bool]),
}

impl Sight<'_> {
    /// Of a chain or a tree of `m` new tokens after `held` others, one; of some tokens of the cache, these.
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
