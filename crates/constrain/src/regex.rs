//! Regular expressions as automata: all their states at once where they are few, else as texts come to them.

use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::nfa::thompson::{NFA, WhichCaptures};
use regex_automata::util::primitives::StateID;
use regex_automata::util::{look as automata, start};
use regex_automata::{Anchored, MatchKind};
use regex_syntax::hir::literal::{Extractor, Literal};
use regex_syntax::hir::{Hir, Look};

use crate::automata::around::{Kinds, without_looks};
use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::automata::budget::Budget;
use crate::automata::lazy::Lazy;
use crate::automata::spelled::Spelling;
use crate::automata::syntax::parse;
use crate::grammar::Grammar;
use crate::terminal::Terminal;

/// The most memory that one automaton may take, in bytes.
const SIZE_LIMIT: usize = 16 << 20;

/// Likewise where it can be made as texts come to its states, and of what it is made from then. With the bound on lists below
/// they bound what an expression costs before its first text: a second and some 100 MB.
const SOON_LIMIT: usize = 1 << 18;
const LAZY_LIMIT: usize = 32 << 20;

/// The bytes of an automaton that are a unit of a budget.
const UNIT: u64 = 8;

/// Expressions are taken for lists of up to so many texts, of up to so many bytes, and up to so many bytes together.
const MAX_LITERALS: usize = 1 << 17;
const MAX_LITERAL: usize = 1 << 12;
const MAX_LIST: usize = 16 << 20;

/// A regular expression that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadRegex {
    /// It is not one.
    #[error("the regular expression is wrong at character {character}: {fault}")]
    Syntax {
        /// Where, counted from 1.
        character: usize,
        /// What is wrong.
        fault: String,
    },
    /// It has something that other libraries understand.
    #[error("the regular expression has {construct} at character {character}, which is not supported: {reason}")]
    Unsupported {
        /// Where, counted from 1.
        character: usize,
        /// What it is.
        construct: &'static str,
        /// Why that is so, or what to write in its place.
        reason: &'static str,
    },
    /// It is too large, or has too many parts of some kind.
    #[error("the regular expression cannot become an automaton: {0}")]
    Automaton(String),
    /// No text matches it.
    #[error("no text matches the regular expression")]
    Empty,
}

impl Grammar {
    /// The grammar of the texts that match a regular expression as a whole. The syntax is that of the `regex`
    /// crate.
    pub fn regex(pattern: &str) -> Result<Self, BadRegex> {
        let hir = parse(pattern)?;
        if let Some(texts) = texts(&hir) {
            return Self::choice(&texts).map_err(|fault| BadRegex::Automaton(fault.to_string()));
        }
        // Classes of characters make small automata; not all expressions have only such.
        if let Some(spelling) = Spelling::of(&hir) {
            let cost = |letter| spelling.alphabet.bytes(letter);
            let spelled = match automaton(&spelling.hir, Some(&spelling.kinds), cost)? {
                Either::Table(automaton) => spelling.table(automaton),
                Either::Lazy(lazy) => spelling.lazy(lazy),
            };
            return Ok(Self::of_terminal(Terminal::Spelled(Box::new(spelled))));
        }
        Ok(Self::of_terminal(match automaton(&hir, None, |_| 1)? {
            Either::Table(automaton) => Terminal::Table(automaton),
            Either::Lazy(lazy) => Terminal::Lazy(lazy),
        }))
    }
}

/// The texts that match an expression, where they are a list. What looks around is none: a list of literals does not say
/// where they may stand.
fn texts(hir: &Hir) -> Option<Vec<String>> {
    let properties = hir.properties();
    if !properties.look_set().is_empty() {
        return None;
    }
    let longest = properties.maximum_len().filter(|&bytes| bytes <= MAX_LITERAL)?;
    let mut extractor = Extractor::new();
    let most = MAX_LITERALS.min(MAX_LIST / longest.max(1));
    extractor.limit_literal_len(longest).limit_total(most).limit_repeat(4);
    let texts = extractor.extract(hir);
    let texts = texts.literals().filter(|texts| texts.iter().all(Literal::is_exact) && !texts.is_empty())?;
    texts.iter().map(|text| String::from_utf8(text.as_bytes().to_vec()).ok()).collect()
}

enum Either {
    Table(Box<Automaton>),
    Lazy(Box<Lazy>),
}

/// The automaton of an expression, which reads bytes, or letters of these kinds. `cost` is how far each is, where the
/// states are made later.
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

fn nfa(hir: &Hir) -> Result<NFA, BadRegex> {
    let config = NFA::config().nfa_size_limit(Some(LAZY_LIMIT)).which_captures(WhichCaptures::None);
    NFA::compiler().configure(config).build_from_hir(hir).map_err(|_| too_large())
}

/// The automaton that does not look around.
fn plain(nfa: &NFA, kinds: Option<&Kinds>) -> Result<NFA, BadRegex> {
    let looks = nfa.look_set_any();
    if looks.is_empty() {
        return Ok(nfa.clone());
    }
    let kinds = match kinds {
        Some(kinds) => kinds.clone(),
        None if looks.contains_word_unicode() => return Err(BadRegex::Automaton(WORDS_OF_BYTES.into())),
        None => Kinds::of_bytes(looks),
    };
    without_looks(nfa, &kinds, LAZY_LIMIT).map_err(|_| too_large())
}

const WORDS_OF_BYTES: &str = "it tells too many kinds of characters apart to tell words beside them; (?-u:\\b) asks after \
                              ASCII alone";

/// A regular expression that whole texts match, as regex-automata determinises it.
pub(crate) struct Dfa {
    dfa: dense::DFA<Vec<u32>>,
    start: StateID,
}

impl Dfa {
    pub(crate) fn new(pattern: &str) -> Result<Self, BadRegex> {
        Self::within(&parse(pattern)?, None, SIZE_LIMIT)
    }

    /// That of the texts in which a pattern, which is right on its own, matches somewhere; as far as a budget goes.
    pub(crate) fn found(pattern: &str, budget: &Budget) -> Result<Self, BadRegex> {
        let most = SIZE_LIMIT.min(usize::try_from(budget.left().saturating_mul(UNIT)).unwrap_or(SIZE_LIMIT));
        let dfa = Self::within(&parse(&format!("(?s:.*)(?:{pattern})(?s:.*)"))?, None, most);
        let bytes = dfa.as_ref().map_or(most, |dfa| dfa.dfa.memory_usage());
        budget.take(pattern.len() as u64 + bytes as u64 / UNIT);
        dfa
    }

    /// One that takes no more than so many bytes, and reads bytes or letters of these kinds.
    fn within(hir: &Hir, kinds: Option<&Kinds>, bytes: usize) -> Result<Self, BadRegex> {
        // Of `a|ab` the usual kind of match would drop `ab`: here all matches count.
        let config = dense::Config::new()
            .start_kind(StartKind::Anchored)
            .match_kind(MatchKind::All)
            .dfa_size_limit(Some(bytes))
            .determinize_size_limit(Some(bytes));
        let mut nfa = nfa(&Hir::concat(vec![hir.clone(), Hir::look(Look::End)]))?;
        let looks = nfa.look_set_any();
        // The ends of the text are the same for bytes and letters, and words of ASCII are known among bytes.
        let is_known = |look: automata::Look| match look {
            automata::Look::Start | automata::Look::End => true,
            look => kinds.is_none() && !automata::LookSet::singleton(look).contains_word_unicode(),
        };
        if !looks.iter().all(is_known) {
            nfa = plain(&nfa, kinds)?;
        }
        let dfa = dense::Builder::new().configure(config).build_from_nfa(&nfa).map_err(|_| too_large())?;
        let start = dfa.start_state(&start::Config::new().anchored(Anchored::Yes));
        Ok(Self { dfa, start: start.map_err(|_| too_large())? })
    }

    /// Its states without those that lead nowhere.
    pub(crate) fn automaton(&self) -> Result<Automaton, NoAutomaton> {
        Automaton::explore(
            self.start,
            |byte| self.dfa.byte_classes().get(byte),
            |&state, byte| self.next(state, byte),
            |&state| self.accepts(state),
        )
    }

    fn next(&self, state: StateID, byte: u8) -> Option<StateID> {
        let next = self.dfa.next_state(state, byte);
        (!self.dfa.is_dead_state(next) && !self.dfa.is_quit_state(next)).then_some(next)
    }

    /// Whether the text so far matches as a whole. Matches are known one step late, so the end is tried.
    fn accepts(&self, state: StateID) -> bool {
        self.dfa.is_match_state(self.dfa.next_eoi_state(state))
    }
}

/// All that can go wrong with an expression that has been read: what building cannot do has been turned into what it can.
fn too_large() -> BadRegex {
    BadRegex::Automaton("it is too large: repeat less, or less inside of what is repeated".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, Trie};
    use std::sync::Arc;
    use verdigris_text::Tokenizer;

    fn tokenizer() -> Tokenizer {
        Tokenizer::from_json(include_bytes!("../../../fixtures/models/tale/tokenizer.json")).unwrap()
    }

    /// A token is allowed just when some matching text goes on so: with all texts that match written down.
    #[test]
    fn masks_are_those_of_the_definition() {
        let tokenizer = tokenizer();
        let vocabulary = tokenizer.vocabulary();
        let trie = Arc::new(Trie::new(vocabulary));
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
            let regex = Machine::new(Grammar::regex(pattern).unwrap(), trie.clone());
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
        let trie = Arc::new(Trie::new(tokenizer().vocabulary()));
        let regex = Machine::new(Grammar::regex("ab|abc").unwrap(), trie);
        let at = |text: &str| regex.next(regex.start(), text.as_bytes());
        assert!(!regex.accepts(at("a")) && regex.accepts(at("ab")) && regex.accepts(at("abc")));
        assert!(!regex.accepts(at("abcd")) && regex.mask(at("abc")).tokens.is_empty());
    }

    /// A list of literals does not say what may stand beside them.
    #[test]
    fn what_looks_around_is_no_list() {
        let trie = Arc::new(Trie::new(tokenizer().vocabulary()));
        for (pattern, texts, others) in [
            ("(cat|dog)\\b(s)?", &["cat", "dog"][..], &["cats", "dogs"][..]),
            ("(ab|cd$)[0-9]", &["ab7"], &["cd7", "cd"]),
            ("(ab|cd$)[0-9]?", &["ab7", "cd", "ab"], &["cd7"]),
            ("foo\\b-?bar", &["foo-bar"], &["foobar"]),
            ("(?m)a$\\n?^b|c", &["a\nb", "c"], &["ab"]),
            ("(é|e)\\b.?", &["é", "e-", "é-"], &["éa", "eé"]),
            ("(?-u:(?:e|é)\\b)\\w?", &["e", "eé"], &["é", "éé", "ee"]),
        ] {
            let regex = Machine::new(Grammar::regex(pattern).unwrap(), trie.clone());
            let accepts = |text: &str| regex.accepts(regex.next(regex.start(), text.as_bytes()));
            texts.iter().for_each(|text| assert!(accepts(text), "{pattern:?}: {text:?}"));
            others.iter().for_each(|text| assert!(!accepts(text), "{pattern:?}: {text:?}"));
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
    }

    /// What is in the n-th place from the end: 2^n states.
    #[test]
    fn states_are_made_as_texts_come_to_them() {
        let trie = Arc::new(Trie::new(tokenizer().vocabulary()));
        let regex = Machine::new(Grammar::regex("[ab]*a[ab]{40}!?").unwrap(), trie);
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
                && mask
                    .tokens
                    .iter()
                    .all(|token| regex.goes_on(regex.next(at(&text[..42]), tokenizer().vocabulary().bytes(token))))
        );
    }
}
