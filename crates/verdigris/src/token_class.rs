//! Classes of tokens.

use std::fmt;
use std::str::FromStr;

use verdigris_constrain::Grammar;
use verdigris_logits::{TokenId, TokenSet};

use crate::engine::Engine;
use crate::error::Error;

/// A class of tokens of a vocabulary, by their text. Surrounding white space is ignored, and control tokens belong only
/// to classes that list their ids.
///
/// Its string representation is a name, `/an expression/`, or token ids as in `13,220`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenClass {
    /// Only digits, of any script: `digits`.
    Digits,
    /// Only letters, of any script, including parts of words: `words`.
    Words,
    /// Only punctuation and symbols: `punctuation`.
    Punctuation,
    /// Only white space: `space`.
    Space,
    /// Tokens that a regular expression, in the syntax of [`Request::regex`](crate::Request::regex), matches as a
    /// whole, including white space.
    Regex(String),
    /// Tokens with these ids.
    Tokens(Vec<TokenId>),
}

/// An invalid class of tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a class of tokens: it must be digits, words, punctuation, space, /an expression/, or token ids as in \
     13,220"
)]
pub struct BadTokenClass(String);

impl TokenClass {
    /// The tokens of a model that belong to this class.
    ///
    /// # Errors
    /// [`Error::Regex`] for an invalid expression, [`Error::UnknownToken`] for a token that the model does not have,
    /// and [`Error::EmptyClass`] if no token belongs to the class.
    pub fn tokens(&self, engine: &Engine) -> Result<TokenSet, Error> {
        let mut set = TokenSet::new(engine.model().vocabulary_size());
        match self {
            Self::Digits => of_expression(r"\s*\p{Nd}+\s*", engine, &mut set)?,
            Self::Words => of_expression(r"\s*[\p{L}\p{M}]+\s*", engine, &mut set)?,
            Self::Punctuation => of_expression(r"\s*[\p{P}\p{S}]+\s*", engine, &mut set)?,
            Self::Space => of_expression(r"\s+", engine, &mut set)?,
            Self::Regex(pattern) => of_expression(pattern, engine, &mut set)?,
            Self::Tokens(tokens) => {
                let size = set.capacity();
                for &token in tokens {
                    match (token as usize) < size {
                        true => set.insert(token),
                        false => return Err(Error::UnknownToken { token, size }),
                    }
                }
            }
        }
        if set.is_empty() { Err(Error::EmptyClass(self.to_string())) } else { Ok(set) }
    }
}

/// Adds the tokens whose bytes an expression matches as a whole.
fn of_expression(pattern: &str, engine: &Engine, set: &mut TokenSet) -> Result<(), Error> {
    let constraint = engine.constraint(Grammar::regex(pattern)?);
    let (machine, vocabulary) = (constraint.machine(), engine.reader().tokenizer().vocabulary());
    for token in 0..set.capacity() as TokenId {
        let bytes = vocabulary.bytes(token);
        if !bytes.is_empty() && machine.accepts(machine.next(machine.start(), bytes)) {
            set.insert(token);
        }
    }
    Ok(())
}

impl FromStr for TokenClass {
    type Err = BadTokenClass;

    fn from_str(text: &str) -> Result<Self, BadTokenClass> {
        let bad = || BadTokenClass(text.to_owned());
        Ok(match text {
            "digits" => Self::Digits,
            "words" => Self::Words,
            "punctuation" => Self::Punctuation,
            "space" => Self::Space,
            _ => match text.strip_prefix('/') {
                Some(rest) => Self::Regex(rest.strip_suffix('/').ok_or_else(bad)?.to_owned()),
                None => {
                    let tokens = text.split(',').map(|token| token.trim().parse());
                    Self::Tokens(tokens.collect::<Result<_, _>>().map_err(|_| bad())?)
                }
            },
        })
    }
}

impl fmt::Display for TokenClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Digits => f.write_str("digits"),
            Self::Words => f.write_str("words"),
            Self::Punctuation => f.write_str("punctuation"),
            Self::Space => f.write_str("space"),
            Self::Regex(pattern) => write!(f, "/{pattern}/"),
            Self::Tokens(tokens) => {
                let ids: Vec<String> = tokens.iter().map(u32::to_string).collect();
                f.write_str(&ids.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_what_its_name_says() {
        let engine = Engine::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/models/tale")).unwrap();
        let vocabulary = engine.reader().tokenizer().vocabulary();
        /// Whether there are characters between surrounding white space, and all are of a kind.
        fn all(text: &str, is: impl Fn(char) -> bool) -> bool {
            !text.trim().is_empty() && text.trim().chars().all(is)
        }
        let text = |token: u32| std::str::from_utf8(vocabulary.bytes(token)).unwrap_or("\u{fffd} 1a").to_owned();
        let ascii = |is: fn(&u8) -> bool| move |text: &str| all(text, |c| is(&(c as u32).try_into().unwrap_or(0)));
        type Holds = Box<dyn Fn(&str) -> bool>;
        let cases: [(&str, Holds); 5] = [
            ("digits", Box::new(|text| all(text, char::is_numeric))),
            ("words", Box::new(|text| all(text, char::is_alphabetic))),
            ("punctuation", Box::new(ascii(u8::is_ascii_punctuation))),
            ("space", Box::new(|text| !text.is_empty() && text.trim().is_empty())),
            (
                "/ ?[Tt]he(re)?/",
                Box::new(|text| matches!(text.trim_start_matches(' '), "the" | "The" | "there" | "There")),
            ),
        ];
        for (name, is) in cases {
            let class: TokenClass = name.parse().unwrap();
            assert_eq!(class.to_string(), name);
            let set = class.tokens(&engine).unwrap();
            for token in (0..4096).filter(|&token| text(token).is_ascii()) {
                let is_special = vocabulary.is_special(token);
                assert_eq!(set.contains(token), !is_special && is(&text(token)), "{name}: {:?}", text(token));
            }
            assert!(set.len() > 1, "{name}");
        }
        let some: TokenClass = "13, 220".parse().unwrap();
        assert_eq!(some.tokens(&engine).unwrap().iter().collect::<Vec<_>>(), [13, 220]);
        assert!(matches!("4096".parse::<TokenClass>().unwrap().tokens(&engine), Err(Error::UnknownToken { .. })));
        assert!(matches!("/q{9}/".parse::<TokenClass>().unwrap().tokens(&engine), Err(Error::EmptyClass(_))));
        assert!(matches!("/(/".parse::<TokenClass>().unwrap().tokens(&engine), Err(Error::Regex(_))));
        for bad in ["", "digit", "/a", "1,", "1,x", "-1"] {
            assert!(bad.parse::<TokenClass>().is_err(), "{bad}");
        }
    }
}
