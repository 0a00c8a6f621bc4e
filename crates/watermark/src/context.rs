//! The context of a position in the native schemes: the tokens before it that choose its list.

use serde::{Deserialize, Serialize};

/// The most tokens before the judged one that a context may hold.
pub const MAX_WIDTH: usize = 8;

/// The tokens before a position that choose its green list, and the function that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ContextFields")]
pub struct Context {
    function: ContextFunction,
    width: usize,
}

/// The function of the context's tokens that gives the list. Wider contexts hide the lists better from someone who
/// learns them from many texts; functions differ in how much an edited token disturbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContextFunction {
    /// All `h` tokens together, `AES(c_1 .. c_h)`. With width 1 this is the classic 'last token'. An edit changes the
    /// lists of all `h` positions after it.
    All,
    /// The smallest of `AES(c_i)`. An edit changes a list only where it adds or removes the minimum: at one in `h` of
    /// the positions after it.
    Min,
    /// The smallest of `AES(c_i, v)` over the tokens of the context and the candidate `v` itself. The list of a context
    /// has no seed of its own, which hides it best and costs `h + 1` blocks per token.
    SelfSalted,
}

/// A context that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadContext {
    /// The width is zero or too large.
    #[error("context width is {0}, but must be 1 to {MAX_WIDTH}")]
    Width(usize),
    /// Noise needs a context that is known before the candidate.
    #[error("a self-salted context cannot give noise: choose all or min")]
    SelfSalted,
}

impl Context {
    /// A context of `width` tokens before the judged one, 1 to [`MAX_WIDTH`].
    ///
    /// # Errors
    /// [`BadContext::Width`] for any other width.
    pub fn new(function: ContextFunction, width: usize) -> Result<Self, BadContext> {
        if (1..=MAX_WIDTH).contains(&width) { Ok(Self { function, width }) } else { Err(BadContext::Width(width)) }
    }

    /// The function of its tokens that gives a list.
    pub fn function(self) -> ContextFunction {
        self.function
    }

    /// The number of tokens before the judged one that take part.
    pub fn width(self) -> usize {
        self.width
    }
}

impl Default for Context {
    /// The minimum over 4 tokens.
    fn default() -> Self {
        Self { function: ContextFunction::Min, width: 4 }
    }
}

/// A context of a key file, before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContextFields {
    function: ContextFunction,
    width: usize,
}

impl TryFrom<ContextFields> for Context {
    type Error = BadContext;
    fn try_from(ContextFields { function, width }: ContextFields) -> Result<Self, BadContext> {
        Self::new(function, width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_out_of_range_are_refused() {
        for bad in [0, 9, 40, usize::MAX] {
            assert_eq!(Context::new(ContextFunction::All, bad), Err(BadContext::Width(bad)));
        }
        assert_eq!(Context::new(ContextFunction::Min, 4), Ok(Context::default()));
    }
}
