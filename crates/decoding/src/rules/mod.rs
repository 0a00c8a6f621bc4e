//! How drafts are judged. `p` is the target's law after a text in full, and is never filtered again; `q` is the law
//! that a draft was drawn from.
//!
//! | rule | for | source |
//! |---|---|---|
//! | [`rejection`] | one draft of a token | Leviathan, Kalman and Matias 2023, algorithm 1; Chen et al. 2023 |
//! | [`siblings`] | several drafts of a token, drawn with or without replacement, or guessed | SpecInfer, RSD |
//! | [`block`] | a chain of drafts as a whole | Sun et al. 2024 |
//! | [`typical`] | drafts that are not too unlikely: changes the law | Medusa |
//!
//! Where all drafts of a token are guesses, the target draws as ever and the draft that equals its token stands
//! (sample-and-match): the text is the one of plain decoding with the same seed, token for token. At temperature 0 that
//! is greedy verification.

pub mod block;
pub mod rejection;
pub mod siblings;
pub mod typical;

use typical::Typical;

/// What decides which drafts stand.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Rule {
    /// Each token by itself: [`rejection`], [`siblings`], or sample-and-match where drafts are guesses.
    #[default]
    EachToken,
    /// A chain as a whole ([`block`]), which accepts as many tokens or more; trees, and chains of guesses, as
    /// [`Rule::EachToken`].
    Block,
    /// What is not too unlikely ([`typical`]). **It changes the law of the text.**
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

    /// Whether texts have the law that they have without drafts.
    pub fn is_lossless(self) -> bool {
        !matches!(self, Self::Typical(_))
    }
}
