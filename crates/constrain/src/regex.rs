//! Regular expressions as automata. All states are built at once if there are few, else as texts reach them.

use regex_syntax::hir::{Class, ClassBytesRange, ClassUnicodeRange, Hir, HirKind, Repetition};

pub use crate::automata::syntax::BadRegex;

use crate::automata::around::Kinds;
use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::automata::dfa::{Dfa, SOON_LIMIT, nfa, plain, too_large};
use crate::automata::lazy::Lazy;
use crate::automata::spelled::Spelling;
use crate::automata::syntax::parse;
use crate::grammar::Grammar;
use crate::terminal::Terminal;

/// The maximum length of an expression in bytes, which takes half a second to parse.
const MAX_PATTERN: usize = 1 << 20;

/// The limits within which an expression is treated as a list of texts: repetitions, number of texts, bytes of a text,
/// bytes in total.
const MAX_REPEATS: u32 = 4;
const MAX_LITERALS: usize = 1 << 17;
const MAX_LITERAL: usize = 1 << 12;
const MAX_LIST: usize = 16 << 20;

impl Grammar {
    /// Creates the grammar of the texts that match a regular expression as a whole, in the syntax of the `regex` crate.
    ///
    /// # Errors
    /// The expression is malformed, unsupported, too large, or matches no text.
    pub fn regex(pattern: &str) -> Result<Self, BadRegex> {
        if pattern.len() > MAX_PATTERN {
            return Err(BadRegex::Automaton("it is longer than 1 MiB".into()));
        }
        terminal(&parse(pattern)?).map(Self::of_terminal)
    }
}

/// The terminal that reads the texts of an expression.
pub(crate) fn terminal(hir: &Hir) -> Result<Terminal, BadRegex> {
    if let Some(texts) = texts(hir) {
        return match Automaton::literals(&texts) {
            Ok(automaton) => Ok(Terminal::Table(Box::new(automaton))),
            Err(NoAutomaton::Empty) => Err(BadRegex::Empty),
            Err(NoAutomaton::TooLarge) => Err(too_large()),
        };
    }
    // Classes of characters make small automata, but not all expressions consist of them.
    if let Some(spelling) = Spelling::of(hir) {
        let cost = |letter| spelling.alphabet.bytes(letter);
        let spelled = match automaton(&spelling.hir, Some(&spelling.kinds), cost)? {
            Either::Table(automaton) => spelling.table(automaton),
            Either::Lazy(lazy) => spelling.lazy(lazy),
        };
        return Ok(Terminal::Spelled(Box::new(spelled)));
    }
    Ok(match automaton(hir, None, |_| 1)? {
        Either::Table(automaton) => Terminal::Table(automaton),
        Either::Lazy(lazy) => Terminal::Lazy(lazy),
    })
}

/// The texts that match an expression, if it is a short list. Expressions with assertions are not: a list of literals
/// does not say what may be around them.
fn texts(hir: &Hir) -> Option<Vec<String>> {
    let properties = hir.properties();
    if !properties.look_set().is_empty() {
        return None;
    }
    let longest = properties.maximum_len().filter(|&bytes| bytes <= MAX_LITERAL)?;
    let most = MAX_LITERALS.min(MAX_LIST / longest.max(1));
    if how_many(hir) > most {
        return None;
    }
    written(hir).into_iter().map(|text| String::from_utf8(text).ok()).collect()
}

/// The number of texts that [`written`] would return, with duplicates.
fn how_many(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Literal(_) => 1,
        HirKind::Look(_) => usize::MAX,
        HirKind::Class(Class::Unicode(class)) => class.iter().map(ClassUnicodeRange::len).sum(),
        HirKind::Class(Class::Bytes(class)) => class.iter().map(ClassBytesRange::len).sum(),
        HirKind::Capture(capture) => how_many(&capture.sub),
        HirKind::Concat(parts) => parts.iter().map(how_many).fold(1, usize::saturating_mul),
        HirKind::Alternation(ways) => ways.iter().map(how_many).fold(0, usize::saturating_add),
        HirKind::Repetition(Repetition { min, max, sub, .. }) => match *max {
            Some(max) if max <= MAX_REPEATS => {
                let one = how_many(sub);
                (*min..=max).map(|times| one.saturating_pow(times)).fold(0, usize::saturating_add)
            }
            _ => usize::MAX,
        },
    }
}

/// All texts of an expression for which [`how_many`] is small.
fn written(hir: &Hir) -> Vec<Vec<u8>> {
    let product = |texts: Vec<Vec<u8>>, ends: &[Vec<u8>]| -> Vec<Vec<u8>> {
        texts.iter().flat_map(|text| ends.iter().map(move |end| [&text[..], end].concat())).collect()
    };
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => vec![Vec::new()],
        HirKind::Literal(literal) => vec![literal.0.to_vec()],
        HirKind::Class(Class::Unicode(class)) => {
            let characters = class.iter().flat_map(|range| range.start()..=range.end());
            characters.map(|character| character.to_string().into_bytes()).collect()
        }
        HirKind::Class(Class::Bytes(class)) => {
            class.iter().flat_map(|range| range.start()..=range.end()).map(|byte| vec![byte]).collect()
        }
        HirKind::Capture(capture) => written(&capture.sub),
        HirKind::Concat(parts) => parts.iter().fold(vec![Vec::new()], |texts, part| product(texts, &written(part))),
        HirKind::Alternation(ways) => ways.iter().flat_map(written).collect(),
        HirKind::Repetition(Repetition { min, max, sub, .. }) => {
            let one = written(sub);
            let times = |times: u32| (0..times).fold(vec![Vec::new()], |texts, _| product(texts, &one));
            (*min..=max.unwrap_or(*min)).flat_map(times).collect()
        }
    }
}

enum Either {
    Table(Box<Automaton>),
    Lazy(Box<Lazy>),
}

/// The automaton of an expression over bytes, or over letters of the given kinds. `cost` is the cost of each, used if
/// the states are created later.
fn automaton(hir: &Hir, kinds: Option<&Kinds>, cost: impl Fn(u8) -> u32) -> Result<Either, BadRegex> {
    match Dfa::within(hir, kinds, SOON_LIMIT) {
        Err(BadRegex::Automaton(_)) => {}
        dfa => match dfa?.automaton() {
            Ok(automaton) => return Ok(Either::Table(Box::new(automaton))),
            Err(NoAutomaton::Empty) => return Err(BadRegex::Empty),
            Err(NoAutomaton::TooLarge) => {}
        },
    }
    let nfa = plain(&nfa(hir)?, kinds)?;
    Lazy::new(nfa, cost).map(|lazy| Either::Lazy(Box::new(lazy))).ok_or(BadRegex::Empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{LEXICON, accepts, machine_of};
    use crate::machine::Machine;

    fn machine(pattern: &str) -> Machine {
        machine_of(Grammar::regex(pattern).unwrap())
    }

    /// A token is allowed if and only if some matching text continues with it, judged by a list of all matching texts.
    #[test]
    fn masks_are_those_of_the_definition() {
        let vocabulary = LEXICON.tokenizer().vocabulary();
        let product = |parts: &[&[&str]]| {
            parts.iter().fold(vec![String::new()], |texts, part| {
                texts.iter().flat_map(|text| part.iter().map(move |end| format!("{text}{end}"))).collect()
            })
        };
        let (letters, letter_or_none) = (["a", "b", "c"], ["", "a", "b", "c"]);
        for (pattern, texts) in [
            ("[a-c]{1,3}d?", product(&[&letters, &letter_or_none, &letter_or_none, &["", "d"]])),
            (" (the|then|a) (king|kin)\\.", product(&[&[" the ", " then ", " a "], &["king.", "kin."]])),
            ("(É|é)t(é|e)", product(&[&["É", "é"], &["t"], &["é", "e"]])),
        ] {
            let regex = machine(pattern);
            for begun in texts.iter().flat_map(|text| (0..=text.len()).map(move |n| &text.as_bytes()[..n])) {
                let state = regex.next(regex.start(), begun);
                let mask = &regex.mask(state).tokens;
                for token in 0..vocabulary.size() as u32 {
                    let longer = [begun, vocabulary.bytes(token)].concat();
                    let possible =
                        longer.len() > begun.len() && texts.iter().any(|t| t.as_bytes().starts_with(&longer));
                    assert_eq!(mask.contains(token), possible, "{pattern:?} after {begun:?}: {longer:?}");
                }
                assert_eq!(regex.accepts(state), texts.iter().any(|text| text.as_bytes() == begun));
            }
        }
    }

    #[test]
    fn matches_are_whole_and_longest_is_not_preferred() {
        let regex = machine("ab|abc");
        let at = |text: &str| regex.next(regex.start(), text.as_bytes());
        assert!(!regex.accepts(at("a")) && regex.accepts(at("ab")) && regex.accepts(at("abc")));
        assert!(!regex.accepts(at("abcd")) && regex.mask(at("abc")).tokens.is_empty());
    }

    /// Case-insensitive lists of words have too many texts to write out, which their number shows.
    #[test]
    fn lists_are_written_out_where_they_are_short() {
        let list = |pattern: &str| texts(&parse(pattern).unwrap());
        assert_eq!(list("(?i)ab|c{0,2}").unwrap(), ["AB", "Ab", "aB", "ab", "", "C", "c", "CC", "Cc", "cC", "cc"]);
        assert_eq!(list("(é|[0-2]x){1,2}").unwrap().len(), 4 + 16);
        assert_eq!(list("a{5}"), None);
        let words: Vec<String> = (0..5_000u32).map(|i| format!("word{:x}", i.wrapping_mul(2_654_435_761))).collect();
        assert_eq!(list(&words.join("|")).unwrap(), words);
        assert_eq!(list(&format!("(?i){}", words.join("|"))), None);
        let any_case = machine(&format!("(?i){}", words.join("|")));
        let accepts = |text: &str| accepts(&any_case, text);
        assert!(accepts(&words[9].to_uppercase()) && accepts(&words[4_999]) && !accepts("word"));
    }

    /// A list of literals does not say what may be around them.
    #[test]
    fn what_looks_around_is_no_list() {
        for (pattern, texts, others) in [
            ("(cat|dog)\\b(s)?", &["cat", "dog"][..], &["cats", "dogs"][..]),
            ("(ab|cd$)[0-9]", &["ab7"], &["cd7", "cd"]),
            ("(ab|cd$)[0-9]?", &["ab7", "cd", "ab"], &["cd7"]),
            ("foo\\b-?bar", &["foo-bar"], &["foobar"]),
            ("(?m)a$\\n?^b|c", &["a\nb", "c"], &["ab"]),
            ("(é|e)\\b.?", &["é", "e-", "é-"], &["éa", "eé"]),
            ("(?-u:(?:e|é)\\b)\\w?", &["e", "eé"], &["é", "éé", "ee"]),
        ] {
            let regex = machine(pattern);
            texts.iter().for_each(|text| assert!(accepts(&regex, text), "{pattern:?}: {text:?}"));
            others.iter().for_each(|text| assert!(!accepts(&regex, text), "{pattern:?}: {text:?}"));
        }
        for pattern in ["ab$cd", "a^b", "\\Bfoo", "foo\\bbar", "a\\b{start-half}b", "(?m)a$b"] {
            assert!(matches!(Grammar::regex(pattern), Err(BadRegex::Empty)), "{pattern:?}");
        }
    }

    #[test]
    fn faults_show_their_place() {
        let fault = |pattern: &str| Grammar::regex(pattern).unwrap_err().to_string();
        assert_eq!(fault("é(a"), "the regular expression is wrong at character 2: unclosed group");
        assert!(fault("a{2").contains("at character 2"), "{}", fault("a{2"));
        assert!(fault("[a&&b]").contains("no text matches"));
        assert!(fault("((a{1,100}){1,100}){1,100}").contains("cannot become an automaton"));
        assert!(fault(&"ab|".repeat(MAX_PATTERN / 3 + 1)).contains("longer than 1 MiB"));
    }

    /// The n-th character from the end takes 2^n states.
    #[test]
    fn states_are_made_as_texts_come_to_them() {
        let regex = machine("[ab]*a[ab]{40}!?");
        let at = |text: &str| regex.next(regex.start(), text.as_bytes());
        let text = "ab".repeat(30);
        assert!(!regex.accepts(at(&text[..40])) && regex.accepts(at(&text[..41])) && !regex.accepts(at(&text[..42])));
        assert!(
            regex.accepts(at(&(text[..41].to_owned() + "!"))) && !regex.goes_on(at(&(text[..42].to_owned() + "!")))
        );
        assert_eq!(regex.to_end(at(&text[..42])), 1);
        assert_eq!(regex.completion(at("b")).unwrap().len(), 41);
        let mask = regex.mask(at(&text[..42]));
        assert!(
            !mask.accepts
                && mask.tokens.iter().all(|token| regex.goes_on(regex.next(at(&text[..42]), LEXICON.bytes(token))))
        );
    }
}
