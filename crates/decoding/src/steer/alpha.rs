//! How strongly a pair counts, along the text and for each token.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use verdigris_logits::TokenSet;

/// The weight of a pair's difference for each token of a text: one number, or a schedule over its first tokens. 0 is no
/// steering, and a negative weight steers away.
///
/// As text it is a number, such as `0.75`; `A:N`, a number for the first `N` tokens and none after them; or `A..B:N`, a
/// line from `A` at the first token to `B` after `N` of them, which stays there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alpha {
    from: f32,
    to: f32,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Constant,
    /// All tokens before this one; none after.
    First(usize),
    /// A line over so many tokens.
    Line(usize),
}

/// A weight that is no number, or a schedule that is none.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("alpha is {0}, but must be a number such as 0.75, or one over the first N tokens as in 0.75:N or 1..0:N")]
pub struct BadAlpha(String);

impl Alpha {
    /// The same for every token.
    ///
    /// # Errors
    /// [`BadAlpha`] where it is no finite `f32`.
    pub fn constant(alpha: f64) -> Result<Self, BadAlpha> {
        Self::new(alpha, alpha, Shape::Constant)
    }

    /// For the first so many tokens, and 0 for those after them.
    ///
    /// # Errors
    /// [`BadAlpha`] where it is no finite `f32`.
    pub fn first(alpha: f64, tokens: usize) -> Result<Self, BadAlpha> {
        Self::new(alpha, alpha, Shape::First(tokens))
    }

    /// A line from one weight at the first token to another after so many of them, which stays there.
    ///
    /// # Errors
    /// [`BadAlpha`] where one is no finite `f32`.
    pub fn line(from: f64, to: f64, tokens: usize) -> Result<Self, BadAlpha> {
        Self::new(from, to, Shape::Line(tokens))
    }

    fn new(from: f64, to: f64, shape: Shape) -> Result<Self, BadAlpha> {
        match [from, to].into_iter().find(|alpha| !(*alpha as f32).is_finite()) {
            Some(bad) => Err(BadAlpha(bad.to_string())),
            None => Ok(Self { from: from as f32, to: to as f32, shape }),
        }
    }

    /// The weight for the token after so many of the text.
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

/// How strongly a pair counts at one place of a text.
#[derive(Clone, Copy)]
pub(super) struct Weight<'a> {
    /// For most tokens.
    pub(super) alpha: f32,
    /// For some, of which the first set that has a token counts.
    pub(super) of_tokens: &'a [(Arc<TokenSet>, Alpha)],
    /// How many tokens stand before it.
    pub(super) written: usize,
}

impl Weight<'_> {
    /// Of each token of a row.
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

    /// The first set that has a token counts, each at its place of its own schedule.
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
