//! Regular expressions as automata, and the tokens allowed at each of their states.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::util::primitives::StateID;
use regex_automata::{Anchored, MatchKind, util::start};
use verdigris_logits::TokenSet;

use crate::trie::{Step, Trie};

/// The most memory that one automaton may take, in bytes.
const SIZE_LIMIT: usize = 64 << 20;

/// A regular expression that whole texts match, over one vocabulary.
///
/// The syntax is that of the `regex` crate. Masks are computed when a state is first met, and kept.
pub struct Regex {
    dfa: dense::DFA<Vec<u32>>,
    start: StateID,
    trie: Arc<Trie>,
    masks: RwLock<HashMap<StateID, Arc<TokenSet>>>,
}

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
    /// It has something that an automaton cannot do, or it is too large.
    #[error("the regular expression cannot become an automaton: {0}")]
    Automaton(String),
    /// No text matches it.
    #[error("no text matches the regular expression")]
    Empty,
}

impl std::fmt::Debug for Regex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Regex {{ automaton: {} bytes, vocabulary: {} }}",
            self.dfa.memory_usage(),
            self.trie.vocabulary_size()
        )
    }
}

impl Regex {
    /// Compiles a pattern that the whole text is to match.
    pub fn new(pattern: &str, trie: Arc<Trie>) -> Result<Self, BadRegex> {
        if let Err(error) = regex_syntax::Parser::new().parse(pattern) {
            let (fault, span) = match &error {
                regex_syntax::Error::Parse(error) => (error.kind().to_string(), error.span()),
                regex_syntax::Error::Translate(error) => (error.kind().to_string(), error.span()),
                other => return Err(BadRegex::Automaton(other.to_string())),
            };
            let character = pattern[..span.start.offset].chars().count() + 1;
            return Err(BadRegex::Syntax { character, fault });
        }
        let automaton = |error: &dyn std::error::Error| BadRegex::Automaton(root_cause(error));
        let config = dense::Config::new()
            .start_kind(StartKind::Anchored)
            .match_kind(MatchKind::All)
            .dfa_size_limit(Some(SIZE_LIMIT))
            .determinize_size_limit(Some(SIZE_LIMIT));
        let dfa = dense::Builder::new()
            .configure(config)
            .build(&format!("(?:{pattern})\\z"))
            .map_err(|error| automaton(&error))?;
        let start =
            dfa.start_state(&start::Config::new().anchored(Anchored::Yes)).map_err(|error| automaton(&error))?;
        let regex = Self { dfa, start, trie, masks: RwLock::default() };
        if regex.mask(start).is_empty() && !regex.is_match(start) {
            return Err(BadRegex::Empty);
        }
        Ok(regex)
    }

    /// The state before any text.
    pub fn start(&self) -> StateID {
        self.start
    }

    /// The state after some more bytes; a dead one if no text that goes on so matches.
    pub fn next(&self, state: StateID, bytes: &[u8]) -> StateID {
        bytes.iter().fold(state, |state, &byte| self.dfa.next_state(state, byte))
    }

    /// Whether the text so far matches as a whole.
    pub fn is_match(&self, state: StateID) -> bool {
        self.dfa.is_match_state(self.dfa.next_eoi_state(state))
    }

    /// The tokens that a text at `state` can go on with.
    pub fn mask(&self, state: StateID) -> Arc<TokenSet> {
        if let Some(mask) = self.masks.read().expect("no holder of this lock panics").get(&state) {
            return mask.clone();
        }
        let mut mask = TokenSet::new(self.trie.vocabulary_size());
        let mut path = vec![state];
        self.trie.walk(
            |depth, byte| {
                let next = self.dfa.next_state(path[depth], byte);
                if self.dfa.is_dead_state(next) || self.dfa.is_quit_state(next) {
                    return Step::Skip;
                }
                path.truncate(depth + 1);
                path.push(next);
                Step::Enter
            },
            |token| mask.insert(token),
        );
        let mask = Arc::new(mask);
        self.masks.write().expect("no holder of this lock panics").insert(state, mask.clone());
        mask
    }
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string().lines().last().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let regex = Regex::new(pattern, trie.clone()).unwrap();
            for begun in texts.iter().flat_map(|text| (0..=text.len()).map(move |n| &text.as_bytes()[..n])) {
                let state = regex.next(regex.start(), begun);
                let mask = regex.mask(state);
                for token in 0..vocabulary.size() as u32 {
                    let longer = [begun, vocabulary.bytes(token)].concat();
                    let possible =
                        longer.len() > begun.len() && texts.iter().any(|t| t.as_bytes().starts_with(&longer));
                    assert_eq!(mask.contains(token), possible, "{pattern:?} after {begun:?}: {longer:?}");
                }
                assert_eq!(regex.is_match(state), texts.iter().any(|text| text.as_bytes() == begun));
            }
        }
    }

    #[test]
    fn matches_are_whole_and_longest_is_not_preferred() {
        let regex = Regex::new("ab|abc", Arc::new(Trie::new(tokenizer().vocabulary()))).unwrap();
        let at = |text: &str| regex.next(regex.start(), text.as_bytes());
        assert!(!regex.is_match(at("a")) && regex.is_match(at("ab")) && regex.is_match(at("abc")));
        assert!(!regex.is_match(at("abcd")) && regex.mask(at("abc")).is_empty());
    }

    #[test]
    fn faults_show_their_place() {
        let trie = Arc::new(Trie::new(tokenizer().vocabulary()));
        let fault = |pattern: &str| Regex::new(pattern, trie.clone()).unwrap_err().to_string();
        assert_eq!(fault("é(a"), "the regular expression is wrong at character 2: unclosed group");
        assert!(fault("a{2").contains("at character 2"), "{}", fault("a{2"));
        assert!(fault("[a&&b]").contains("no text matches"));
        assert!(fault("(a|b)*a(a|b){20}").contains("cannot become an automaton"));
    }
}
