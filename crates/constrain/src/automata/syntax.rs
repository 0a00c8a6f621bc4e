//! Parses regular expressions, and explains in plain words what is wrong or unsupported.

use std::convert::Infallible;

use regex_syntax::ast::{self, Ast, ErrorKind};
use regex_syntax::hir::Hir;

/// A regular expression that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadRegex {
    /// It is not well-formed.
    #[error("the regular expression is wrong at character {character}: {fault}")]
    Syntax {
        /// The character, counted from 1.
        character: usize,
        /// The fault.
        fault: String,
    },
    /// It has a construct that only other libraries support.
    #[error("the regular expression has {construct} at character {character}, which is not supported: {reason}")]
    Unsupported {
        /// The character, counted from 1.
        character: usize,
        /// The construct.
        construct: &'static str,
        /// The reason, or what to write instead.
        reason: &'static str,
    },
    /// It is too large, or has too many parts of some kind.
    #[error("the regular expression cannot become an automaton: {0}")]
    Automaton(String),
    /// No text matches it.
    #[error("no text matches the regular expression")]
    Empty,
}

/// Parses a pattern on its own, since one that is malformed could be well-formed inside a larger one.
pub(crate) fn parse(pattern: &str) -> Result<Hir, BadRegex> {
    let error = match regex_syntax::parse(pattern) {
        Ok(hir) => {
            return match otherwise_meant(pattern) {
                Some((start, construct, reason)) => {
                    Err(BadRegex::Unsupported { character: character(pattern, start), construct, reason })
                }
                None => Ok(hir),
            };
        }
        Err(error) => error,
    };
    let (fault, start) = match &error {
        regex_syntax::Error::Parse(error) => {
            let start = error.span().start.offset;
            if let Some((start, construct, reason)) = unsupported(pattern, error.kind(), start) {
                return Err(BadRegex::Unsupported { character: character(pattern, start), construct, reason });
            }
            (error.kind().to_string(), start)
        }
        regex_syntax::Error::Translate(error) => (error.kind().to_string(), error.span().start.offset),
        other => return Err(BadRegex::Automaton(other.to_string())),
    };
    Err(BadRegex::Syntax { character: character(pattern, start), fault })
}

/// The index of the character at a byte, from 1 on.
fn character(pattern: &str, byte: usize) -> usize {
    pattern[..byte].chars().count() + 1
}

const LOOK: &str = "only ^, $, \\A, \\z and the edges of words (\\b, \\B) look around";
const BACKREFERENCE: &str = "no automaton can ask again for what a group has matched";
const POSSESSIVE: &str = "without its + it matches all that it would; for one or more of a repetition write (?:a*)+";
const RECURSION: &str = "nested texts are not a regular language";

/// The construct of another library behind an error: its byte offset, its name, and why it is not supported.
fn unsupported(pattern: &str, kind: &ErrorKind, at: usize) -> Option<(usize, &'static str, &'static str)> {
    // For an unknown flag or a missing operand, the error points inside the group, so its start is searched for.
    let start = match kind {
        ErrorKind::FlagUnrecognized => pattern[..at].rfind("(?")?,
        ErrorKind::RepetitionMissing => pattern[..at].rfind('(')?,
        ErrorKind::RepetitionCountDecimalEmpty => pattern[..at].rfind('{')?,
        _ => at,
    };
    let begins = |with: &[&str]| with.iter().any(|with| pattern[start..].starts_with(with));
    let number = || pattern[start + 2..].trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit());
    let (construct, reason) = match kind {
        ErrorKind::UnsupportedLookAround if begins(&["(?<"]) => ("a look-behind", LOOK),
        ErrorKind::UnsupportedLookAround => ("a look-ahead", LOOK),
        ErrorKind::UnsupportedBackreference => ("a backreference", BACKREFERENCE),
        ErrorKind::EscapeUnrecognized if begins(&["\\k"]) => ("a backreference", BACKREFERENCE),
        ErrorKind::EscapeUnrecognized if begins(&["\\g"]) => ("a backreference or recursion", BACKREFERENCE),
        ErrorKind::EscapeUnrecognized if begins(&["\\Z"]) => ("\\Z", "the end of the text is \\z"),
        ErrorKind::FlagUnrecognized if begins(&["(?P="]) => ("a backreference", BACKREFERENCE),
        ErrorKind::FlagUnrecognized if begins(&["(?>"]) => {
            ("an atomic group", "a plain group, (?:...), matches all that it would and what it gives back")
        }
        ErrorKind::FlagUnrecognized if begins(&["(?R", "(?&", "(?P>"]) || number() => ("recursion", RECURSION),
        ErrorKind::FlagUnrecognized if begins(&["(?("]) => {
            ("a conditional group", "write each case as an alternative: (?:...|...)")
        }
        ErrorKind::FlagUnrecognized if begins(&["(?|"]) => {
            ("a branch reset group", "a plain group, (?:...), matches the same texts")
        }
        ErrorKind::FlagUnrecognized if begins(&["(?#"]) => ("a comment", "take it out"),
        ErrorKind::FlagUnrecognized if begins(&["(?'"]) => ("a name in quotes", "a group is named by (?<name>...)"),
        ErrorKind::RepetitionCountDecimalEmpty if begins(&["{,"]) => {
            ("a repetition without a least number", "write it with one, as in {0,3}; braces as such are \\{ and \\}")
        }
        // Alone, R is the flag for line ends.
        ErrorKind::RepetitionMissing if begins(&["(?R)"]) => ("recursion", RECURSION),
        ErrorKind::RepetitionMissing if begins(&["(*"]) => ("a backtracking verb", "an automaton does not go back"),
        _ => return None,
    };
    Some((start, construct, reason))
}

/// A construct that this library accepts but reads differently from other libraries: its byte offset, its name, and
/// what to do.
fn otherwise_meant(pattern: &str) -> Option<(usize, &'static str, &'static str)> {
    /// Finds the first of them.
    struct Look(Option<(usize, &'static str, &'static str)>);

    impl ast::Visitor for Look {
        type Output = Option<(usize, &'static str, &'static str)>;
        type Err = Infallible;

        fn finish(self) -> Result<Self::Output, Infallible> {
            Ok(self.0)
        }

        fn visit_pre(&mut self, at: &Ast) -> Result<(), Infallible> {
            let found = match at {
                // On its own it would set the line-end flag for the rest.
                Ast::Flags(of) => match &of.flags.items[..] {
                    [ast::FlagsItem { kind: ast::FlagsItemKind::Flag(ast::Flag::CRLF), .. }] => {
                        Some((of.span.start.offset, "recursion", RECURSION))
                    }
                    _ => None,
                },
                Ast::Repetition(of) => match (&of.op.kind, &*of.ast) {
                    (ast::RepetitionKind::OneOrMore, Ast::Repetition(inner)) if of.greedy => {
                        Some((inner.op.span.start.offset, "a possessive quantifier", POSSESSIVE))
                    }
                    _ => None,
                },
                _ => None,
            };
            self.0 = self.0.or(found);
            Ok(())
        }
    }

    let tree = ast::parse::Parser::new().parse(pattern).ok()?;
    ast::visit(&tree, Look(None)).unwrap_or_else(|never| match never {})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Constructs of other libraries are named, with their position.
    #[test]
    fn constructs_of_other_libraries_are_named() {
        for (pattern, character, construct) in [
            ("é(?=b)", 2, "a look-ahead"),
            ("a(?!b)", 2, "a look-ahead"),
            ("(?<=a)b", 1, "a look-behind"),
            ("(?<!a)b", 1, "a look-behind"),
            ("(a)\\1", 4, "a backreference"),
            ("(?P<t>a)(?P=t)", 9, "a backreference"),
            ("(?<t>a)\\k<t>", 8, "a backreference"),
            ("x(?>a|ab)c", 2, "an atomic group"),
            ("\\((?R)?\\)", 3, "recursion"),
            ("a(?R)b", 2, "recursion"),
            ("é(?R)|b", 2, "recursion"),
            ("a*+b", 2, "a possessive quantifier"),
            ("x(ab?+)", 5, "a possessive quantifier"),
            ("a{2,3}+", 2, "a possessive quantifier"),
            ("a{,3}", 2, "a repetition without a least number"),
            ("(a(?1)?b)", 3, "recursion"),
            ("(a(?-1)?b)", 3, "recursion"),
            ("(?<n>a(?&n)?b)", 7, "recursion"),
            ("(?P<n>a(?P>n)?b)", 8, "recursion"),
            ("(a)?(?(1)b|c)", 5, "a conditional group"),
            ("(?|a|b)", 1, "a branch reset group"),
            ("a(?#b)", 2, "a comment"),
            ("(?'n'a)", 1, "a name in quotes"),
            ("a(*FAIL)", 2, "a backtracking verb"),
            ("a\\Z", 2, "\\Z"),
        ] {
            match parse(pattern) {
                Err(BadRegex::Unsupported { character: at, construct: is, .. }) => {
                    assert_eq!((at, is), (character, construct), "{pattern}");
                }
                other => panic!("{pattern}: {other:?}"),
            }
        }
        assert_eq!(
            parse("(a)\\1").unwrap_err().to_string(),
            "the regular expression has a backreference at character 4, which is not supported: no automaton can ask \
             again for what a group has matched"
        );
        for pattern in ["(?R:a$)", "(?iR)a", "(?:a*)+", "a*?", "a+", "a{0,3}"] {
            assert!(parse(pattern).is_ok(), "{pattern}");
        }
        for pattern in ["(?y)a", "a\\y", "*a", "(a"] {
            assert!(matches!(parse(pattern), Err(BadRegex::Syntax { .. })), "{pattern}");
        }
    }
}
