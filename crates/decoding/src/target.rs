//! The law of a text.

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Chain, Purpose, Random, Row, Sampler, Steps, TokenId, Transform};
use verdigris_models::ModelError;

/// The law of the next token given the tokens so far: transforms on the model's row, in order, and the
/// sampler at the end. With the seed it fixes the text itself, not only its law.
#[doc(alias = "SamplingParams")]
#[doc(alias = "GenerationConfig")]
#[derive(Clone)]
pub struct Target {
    /// Penalties, constraint, watermark, warpers.
    pub transforms: Chain,
    /// How the token is taken.
    pub sampler: Sampler,
    /// Where the draws come from.
    pub random: Random,
}

/// Why a text could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A prompt of no tokens: there is no row to begin with.
    #[error("a prompt needs at least one token")]
    EmptyPrompt,
    /// A way of writing that compares hidden states, and a model that keeps none.
    #[error(
        "contrastive search compares hidden states, and this model keeps none: it needs one that our own decoder \
         computes on one CPU"
    )]
    NoHiddenStates,
    /// The transforms forbid every token.
    #[error("no token is allowed at position {position}: the constraints contradict each other")]
    DeadEnd {
        /// How many tokens stand before it.
        position: usize,
    },
    /// A row of logits that is no law, for one of them is NaN or infinite above.
    #[error(
        "a logit of the token at position {position} is NaN or infinite: the model's weights are damaged or too large \
         for their format, or the temperature is too close to 0"
    )]
    NotNumbers {
        /// How many tokens stand before it.
        position: usize,
    },
}

impl DecodeError {
    /// Whether what was asked for is at fault, and not the model.
    pub fn is_of_request(&self) -> bool {
        match self {
            Self::Model(_) | Self::NoHiddenStates | Self::NotNumbers { .. } => false,
            Self::EmptyPrompt | Self::DeadEnd { .. } => true,
        }
    }

    /// Why no token could be drawn from a row.
    pub(crate) fn no_token(row: &Row, position: usize) -> Self {
        if row.is_broken() { Self::NotNumbers { position } } else { Self::DeadEnd { position } }
    }
}

impl Target {
    /// Draws the token at `position` (the number of tokens before it, prompt included) from the model's row,
    /// which is changed on the way.
    ///
    /// # Errors
    /// [`DecodeError::DeadEnd`] if no token is allowed, and [`DecodeError::NotNumbers`] if the row is no law.
    pub fn draw(&self, state: &ChainState, row: &mut Row, position: usize) -> Result<TokenId, DecodeError> {
        self.transforms.apply(state, row);
        let u = self.random.uniform(position as u64, Purpose::Token);
        self.sampler.sample(row, u).ok_or_else(|| DecodeError::no_token(row, position))
    }

    /// What is done to the row of the token at a position, as steps for a model that draws where its rows are. `false`
    /// where the logits themselves are needed.
    pub(crate) fn record(&self, state: &ChainState, row: &mut Row, size: usize, steps: &mut Steps) -> bool {
        row.record(size, steps, |row| self.transforms.apply(state, row))
    }

    /// The next token, where it does not depend on the model: a step leaves it alone, and the others let it be. `row`
    /// is one of the model's width, to work in; with none of it nothing is decided.
    pub(crate) fn decided(&self, state: &ChainState, row: &mut Row) -> Option<TokenId> {
        let token = self.transforms.decided(state).filter(|&token| (token as usize) < row.len())?;
        row.logits_mut().fill(f32::NEG_INFINITY);
        row.logits_mut()[token as usize] = 0.0;
        self.transforms.apply(state, row);
        (row.logits()[token as usize] != f32::NEG_INFINITY).then_some(token)
    }
}
