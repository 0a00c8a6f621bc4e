//! The effect of a mark.

/// The effect of a mark of colours on a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bias {
    /// The probability that a token is green.
    pub gamma: f64,
    /// The bias added to the logits of green tokens, divided by the temperature.
    pub delta: f64,
}
