//! The rules that accept or reject drafts. `p` is the target's full distribution after a text, and is never filtered
//! again; `q` is the distribution that a draft was sampled from.
//!
//! | rule | for | source |
//! |---|---|---|
//! | [`rejection`] | one draft of a token | Leviathan, Kalman and Matias 2023, algorithm 1; Chen et al. 2023 |
//! | [`siblings`] | several drafts of a token, sampled with or without replacement, or guessed | SpecInfer, RSD |
//! | [`block`] | a chain of drafts as a whole | Sun et al. 2024 |
//! | [`typical`] | drafts that are not too unlikely: changes the distribution | Medusa |
//!
//! If all drafts of a token are guesses, the target samples as usual and the draft equal to its token is accepted
//! (sample-and-match): the text is that of plain decoding with the same seed, token for token. At temperature 0 that is
//! greedy verification.

pub mod block;
pub mod rejection;
pub mod siblings;
pub mod typical;

use typical::Typical;

/// The rule that decides which drafts are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Rule {
    /// Each token by itself: [`rejection`], [`siblings`], or sample-and-match if the drafts are guesses.
    #[default]
    EachToken,
    /// A chain as a whole ([`block`]), which accepts at least as many tokens. Trees and chains of guesses are judged as
    /// by [`Rule::EachToken`].
    Block,
    /// Accepts drafts that are not too unlikely ([`typical`]). **It changes the distribution of the text.**
    Typical(Typical),
}

impl Rule {
    /// The name that outputs show.
    pub fn name(self) -> &'static str {
        match self {
            Self::EachToken => "each-token",
            Self::Block => "block",
            Self::Typical(_) => "typical",
        }
    }

    /// Whether texts have the same distribution as without drafts.
    pub fn is_lossless(self) -> bool {
        !matches!(self, Self::Typical(_))
    }
}
