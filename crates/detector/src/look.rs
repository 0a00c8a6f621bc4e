//! The options for examining a text.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use verdigris_watermark::{Level, Repeats};

/// The longest text that is examined as a whole, in bytes (16 MiB), which takes about thirty times as much memory. A
/// longer one is read once, in bounded memory ([`Reader::judge_stream`](crate::Reader::judge_stream)).
pub const MAX_TEXT: usize = 16 << 20;

/// The options for examining a text.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// The p-value at which the text is called marked.
    pub level: Level,
    /// The rule by which evidence counts as a repeat.
    pub repeats: Repeats,
    /// Whether a text is also examined after repair of its characters, its white space and its letter case, if it needs
    /// any of them ([`Versions`](crate::Versions)).
    pub repair: bool,
    /// The number of first characters from each of which the text is tokenized.
    pub offsets: Offsets,
    /// Whether marked passages are searched for. One is found if its family-wise p-value, corrected for all looks, is
    /// at or below the level.
    pub passages: bool,
    /// Whether [`Judgement::tokens`](crate::Judgement::tokens) are requested.
    pub tokens: bool,
    /// The most points of [`Judgement::course`](crate::Judgement::course); 0 if it is not requested.
    pub course: usize,
}

impl Default for Look {
    /// The default level, repeats by context, repair, one offset, no search for passages, no tokens and no course.
    fn default() -> Self {
        let (level, repeats, offsets) = Default::default();
        Self { level, repeats, repair: true, offsets, passages: false, tokens: false, course: 0 }
    }
}

/// The number of first characters from each of which a text is tokenized, 1 to 64; more than 1 is for texts that were
/// cut out in the middle of a token. Each is a look that the p-value is corrected for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "usize")]
pub struct Offsets(usize);

/// A number of offsets that is not 1 to 64.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to 64, not {0}")]
pub struct BadOffsets(String);

impl Offsets {
    /// Creates a number of offsets from 1 to 64.
    ///
    /// # Errors
    /// [`BadOffsets`] for any other number.
    pub fn new(offsets: usize) -> Result<Self, BadOffsets> {
        if (1..=64).contains(&offsets) { Ok(Self(offsets)) } else { Err(BadOffsets(offsets.to_string())) }
    }

    /// The number.
    pub fn value(self) -> usize {
        self.0
    }
}

impl Default for Offsets {
    /// Only the beginning of the text.
    fn default() -> Self {
        Self(1)
    }
}

impl fmt::Display for Offsets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Offsets {
    type Err = BadOffsets;

    fn from_str(text: &str) -> Result<Self, BadOffsets> {
        text.parse().map_err(|_| BadOffsets(format!("{text:?}"))).and_then(Self::new)
    }
}

impl TryFrom<usize> for Offsets {
    type Error = BadOffsets;

    fn try_from(offsets: usize) -> Result<Self, BadOffsets> {
        Self::new(offsets)
    }
}
