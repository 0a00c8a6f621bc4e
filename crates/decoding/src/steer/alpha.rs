//! The weight of a pair, along the text and for each token.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use verdigris_logits::TokenSet;

/// The weight of a pair's difference for each token of a text: one number, or a schedule over its first tokens. 0
/// disables steering, and a negative weight steers away.
///
/// As text it is a number, such as `0.75`; `A:N`, a number for the first `N` tokens and 0 after them; or `A..B:N`, a
/// line from `A` at the first token to `B` after `N` tokens, and constant from there on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alpha {
    from: f32,
    to: f32,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Constant,
    /// The weight of the first `n` tokens; 0 after them.
    First(usize),
    /// A line over the first `n` tokens.
    Line(usize),
}

/// A weight that is not a number, or an invalid schedule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("alpha is {0}, but must be a number such as 0.75, or one over the first N tokens as in 0.75:N or 1..0:N")]
pub struct BadAlpha(String);

impl Alpha {
    /// The same for every token.
    ///
    /// # Errors
    /// [`BadAlpha`] if it is not a finite `f32`.
    pub fn constant(alpha: f64) -> Result<Self, BadAlpha> {
        Self::new(alpha, alpha, Shape::Constant)
    }

    /// `alpha` for the first `tokens` tokens, and 0 after them.
    ///
    /// # Errors
    /// [`BadAlpha`] if it is not a finite `f32`.
    pub fn first(alpha: f64, tokens: usize) -> Result<Self, BadAlpha> {
        Self::new(alpha, alpha, Shape::First(tokens))
    }

    /// A line from one weight at the first token to another after `tokens` tokens, and constant from there on.
    ///
    /// # Errors
    /// [`BadAlpha`] if one is not a finite `f32`.
    pub fn line(from: f64, to: f64, tokens: usize) -> Result<Self, BadAlpha> {
        Self::new(from, to, Shape::Line(tokens))
    }

    fn new(from: f64, to: f64, shape: Shape) -> Result<Self, BadAlpha> {
        match [from, to].into_iter().find(|alpha| !(*alpha as f32).is_finite()) {
            Some(bad) => Err(BadAlpha(bad.to_string())),
            None => Ok(Self { from: from as f32, to: to as f32, shape }),
        }
    }

    /// The weight of the token after the first `written` tokens of the text.
    pub fn at(&self, written: usize) -> f32 {
        match self.shape {
            Shape::First(tokens) if written >= tokens => 0.0,
            Shape::Line(tokens) if written >= tokens => self.to,
            Shape::Line(tokens) => self.from + (self.to - self.from) * (written as f32 / tokens as f32),
            Shape::Constant | Shape::First(_) => self.from,
        }
    }

    /// Whether it is 0 for every token.
    pub fn is_zero(&self) -> bool {
        (self.from, self.to) == (0.0, 0.0) || self.shape == Shape::First(0)
    }

    /// Whether it is the same for every token.
    pub fn is_constant(&self) -> bool {
        self.shape == Shape::Constant
    }
}

impl FromStr for Alpha {
    type Err = BadAlpha;

    fn from_str(text: &str) -> Result<Self, BadAlpha> {
        let bad = || BadAlpha(format!("{text:?}"));
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| bad());
        let Some((alpha, tokens)) = text.split_once(':') else { return Self::constant(number(text)?) };
        let tokens = tokens.trim().parse().map_err(|_| bad())?;
        match alpha.split_once("..") {
            Some((from, to)) => Self::line(number(from)?, number(to)?, tokens),
            None => Self::first(number(alpha)?, tokens),
        }
    }
}

impl fmt::Display for Alpha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, shape } = self;
        match shape {
            Shape::Constant => write!(f, "{from}"),
            Shape::First(tokens) => write!(f, "{from}:{tokens}"),
            Shape::Line(tokens) => write!(f, "{from}..{to}:{tokens}"),
        }
    }
}

/// The weight of a pair at one position of a text.
#[derive(Clone, Copy)]
pub(super) struct Weight<'a> {
    /// The weight of most tokens.
    pub(super) alpha: f32,
    /// The weights of some tokens; the first set that contains a token applies.
    pub(super) of_tokens: &'a [(Arc<TokenSet>, Alpha)],
    /// The number of tokens of the text before the position.
    pub(super) written: usize,
}

impl Weight<'_> {
    /// Writes the weight of each token of a row.
    pub(super) fn write(&self, alphas: &mut Vec<f32>, tokens: usize) {
        alphas.clear();
        alphas.resize(tokens, self.alpha);
        for (set, alpha) in self.of_tokens.iter().rev() {
            let alpha = alpha.at(self.written);
            set.iter().take_while(|&token| (token as usize) < tokens).for_each(|token| alphas[token as usize] = alpha);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first set that contains a token applies, each set with its own schedule.
    #[test]
    fn some_tokens_have_weights_of_their_own() {
        let set = |tokens: &[u32]| {
            let mut set = TokenSet::new(6);
            tokens.iter().for_each(|&token| set.insert(token));
            Arc::new(set)
        };
        let of_tokens = [(set(&[1, 4, 5]), "2..0:4".parse().unwrap()), (set(&[0, 1]), "-1:3".parse().unwrap())];
        let mut alphas = Vec::new();
        for (written, tokens, expected) in [
            (0, 5, &[-1.0, 2.0, 0.75, 0.75, 2.0][..]),
            (2, 6, &[-1.0, 1.0, 0.75, 0.75, 1.0, 1.0]),
            (9, 3, &[0.0, 0.0, 0.75]),
        ] {
            Weight { alpha: 0.75, of_tokens: &of_tokens, written }.write(&mut alphas, tokens);
            assert_eq!(alphas, expected, "after {written}");
        }
    }

    #[test]
    fn a_schedule_says_what_each_token_has() {
        let at = |text: &str, tokens: &[usize]| -> Vec<f32> {
            let alpha: Alpha = text.parse().unwrap();
            assert_eq!(alpha.to_string().parse(), Ok(alpha), "{text}");
            tokens.iter().map(|&written| alpha.at(written)).collect()
        };
        assert_eq!(at("-0.5", &[0, 1, 1000]), [-0.5; 3]);
        assert_eq!(at("0.75:10", &[0, 9, 10, 1000]), [0.75, 0.75, 0.0, 0.0]);
        assert_eq!(at("1..0:4", &[0, 1, 2, 3, 4, 5]), [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]);
        assert_eq!(at("0.5..2:3", &[0, 3, 9]), [0.5, 2.0, 2.0]);
        assert_eq!(at("0..1:0", &[0, 1]), [1.0, 1.0]);
        for (text, zero, constant) in [("0", true, true), ("0..0:9", true, false), ("1:0", true, false)] {
            let alpha: Alpha = text.parse().unwrap();
            assert_eq!((alpha.is_zero(), alpha.is_constant()), (zero, constant), "{text}");
        }
        assert!(!"0..1:9".parse::<Alpha>().unwrap().is_zero());
        for bad in ["", "x", "nan", "inf", "1e60", "1:", "1:-1", "1..:3", "1..2", "..1:3", "nan..1:3"] {
            assert!(bad.parse::<Alpha>().is_err(), "{bad}");
        }
    }
}
