//! The grammar languages.

use std::fmt;
use std::str::FromStr;

use super::fault::BadGrammar;
use crate::grammar::Grammar;

/// A language in which grammars are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Language {
    /// llama.cpp's GBNF.
    Gbnf,
    /// XGrammar's EBNF.
    Ebnf,
    /// Lark, with the extensions of llguidance.
    Lark,
}

impl Language {
    /// All languages.
    pub const ALL: [Self; 3] = [Self::Gbnf, Self::Ebnf, Self::Lark];

    /// The name, which is also the extension of files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gbnf => "gbnf",
            Self::Ebnf => "ebnf",
            Self::Lark => "lark",
        }
    }

    /// The language that a grammar is probably written in: only EBNF and GBNF have `::=`, and EBNF has most of GBNF.
    pub fn guess(text: &str) -> Self {
        if text.contains("::=") { Self::Ebnf } else { Self::Lark }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is not one of a grammar language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the language of a grammar is gbnf, ebnf or lark")]
pub struct UnknownLanguage;

impl FromStr for Language {
    type Err = UnknownLanguage;

    fn from_str(name: &str) -> Result<Self, UnknownLanguage> {
        Self::ALL.into_iter().find(|language| language.name() == name).ok_or(UnknownLanguage)
    }
}

impl Grammar {
    /// Creates the grammar of a text in one of the grammar languages.
    ///
    /// # Errors
    /// As for [`Grammar::gbnf`], [`Grammar::ebnf`] and [`Grammar::lark`].
    pub fn parse(language: Language, text: &str) -> Result<Self, BadGrammar> {
        match language {
            Language::Gbnf => Self::gbnf(text),
            Language::Ebnf => Self::ebnf(text),
            Language::Lark => Self::lark(text),
        }
    }
}
