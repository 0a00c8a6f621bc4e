//! Texts whose spaces are a character of the tokens: SentencePiece's, as a normalizer or as a pre-tokenizer.

use serde::Deserialize;
use serde_json::Value;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};

use super::normal::Normal;
use super::pieces::SPACE;
use super::split::Split;

/// How the spaces of a text are read, all of which are [`SPACE`] in the names of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spaces {
    pub(super) lead: Lead,
    /// Whether each space begins a new word.
    pub(super) splits: bool,
}

/// Which parts of a text between added tokens get a space before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lead {
    Never,
    Always,
    /// Those that do not begin with one.
    Missing,
    /// The beginning of a text, unless it begins with one.
    MissingAtStart,
}

impl Lead {
    /// Whether a part gets a space.
    pub(super) fn is_before(self, part: &str, is_start: bool) -> bool {
        match self {
            Self::Never => false,
            Self::Always => true,
            Self::Missing => !part.starts_with([' ', SPACE]),
            Self::MissingAtStart => is_start && !part.starts_with([' ', SPACE]),
        }
    }
}

impl Spaces {
    /// `None` if a normalizer and a pre-tokenizer do something else.
    pub(super) fn of(normal: Normal, pre_tokenizer: Option<&Value>) -> Option<Self> {
        match normal {
            Normal::Spaces { lead } if pre_tokenizer.is_none_or(Split::is_of_spaces) => {
                Some(Self { lead: if lead { Lead::Always } else { Lead::Never }, splits: false })
            }
            Normal::Unchanged => {
                let step = pre_tokenizer.filter(|step| step["type"] == "Metaspace")?;
                let step = Metaspace::deserialize(step).ok().filter(|step| step.get_replacement() == SPACE)?;
                let lead = match step.get_prepend_scheme() {
                    PrependScheme::Never => Lead::Never,
                    PrependScheme::Always => Lead::Missing,
                    PrependScheme::First => Lead::MissingAtStart,
                };
                Some(Self { lead, splits: step.get_split() })
            }
            _ => None,
        }
    }
}
