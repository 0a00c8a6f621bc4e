//! The distribution that a text is sampled from.

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Chain, Purpose, Random, Row, Sampler, Steps, TokenId, Transform};
use verdigris_models::ModelError;

/// The distribution of the next token given the tokens so far: transforms on the model's row, in order, then the
/// sampler. Together with the seed it determines the text itself, not only its distribution.
#[doc(alias = "SamplingParams")]
#[doc(alias = "GenerationConfig")]
#[derive(Clone)]
pub struct Target {
    /// Penalties, constraint, watermark, warpers.
    pub transforms: Chain,
    /// The method by which the token is chosen.
    pub sampler: Sampler,
    /// The source of random numbers.
    pub random: Random,
}

/// The reason that a text could not continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// An empty prompt: there is no row to begin with.
    #[error("a prompt needs at least one token")]
    EmptyPrompt,
    /// Contrastive search or embeddings, which use hidden states, with a model that keeps none.
    #[error(
        "contrastive search and embeddings use hidden states, and this model keeps none: they need one that our own \
         decoder computes on one CPU"
    )]
    NoHiddenStates,
    /// The transforms forbid every token.
    #[error("no token is allowed at position {position}: the constraints contradict each other")]
    DeadEnd {
        /// The number of tokens before it.
        position: usize,
    },
    /// A row of logits that is not a distribution, because one of them is NaN or positive infinity.
    #[error(
        "a logit of the token at position {position} is NaN or infinite: the model's weights are damaged or too large \
         for their format, or the temperature is too close to 0"
    )]
    NotNumbers {
        /// The number of tokens before it.
        position: usize,
    },
}

impl DecodeError {
    /// Whether the request is at fault, rather than the model.
    pub fn is_of_request(&self) -> bool {
        match self {
            Self::Model(_) | Self::NoHiddenStates | Self::NotNumbers { .. } => false,
            Self::EmptyPrompt | Self::DeadEnd { .. } => true,
        }
    }

    /// The reason that no token could be sampled from a row.
    pub(crate) fn no_token(row: &Row, position: usize) -> Self {
        if row.is_broken() { Self::NotNumbers { position } } else { Self::DeadEnd { position } }
    }
}

impl Target {
    /// Samples the token at `position` (the number of tokens before it, prompt included) from the model's row, which is
    /// modified.
    ///
    /// # Errors
    /// [`DecodeError::DeadEnd`] if no token is allowed, and [`DecodeError::NotNumbers`] if the row is not a
    /// distribution.
    pub fn draw(&self, state: &ChainState, row: &mut Row, position: usize) -> Result<TokenId, DecodeError> {
        self.transforms.apply(state, row);
        let u = self.random.uniform(position as u64, Purpose::Token);
        self.sampler.sample(row, u).ok_or_else(|| DecodeError::no_token(row, position))
    }

    /// Records the transforms of the row at a position as steps for a model that samples where its rows are. Returns
    /// `false` if a transform needs the logits themselves.
    pub(crate) fn record(&self, state: &ChainState, row: &mut Row, size: usize, steps: &mut Steps) -> bool {
        row.record(size, steps, |row| self.transforms.apply(state, row))
    }

    /// The next token, if it does not depend on the model: one transform has decided on it, and the others allow it.
    /// `row` is scratch space of the model's width; if it is empty, nothing is decided.
    pub(crate) fn decided(&self, state: &ChainState, row: &mut Row) -> Option<TokenId> {
        let token = self.transforms.decided(state).filter(|&token| (token as usize) < row.len())?;
        row.logits_mut().fill(f32::NEG_INFINITY);
        row.logits_mut()[token as usize] = 0.0;
        self.transforms.apply(state, row);
        (row.logits()[token as usize] != f32::NEG_INFINITY).then_some(token)
    }
}
