//! Regular expressions as deterministic automata, built with regex-automata.

use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::nfa::thompson::{NFA, WhichCaptures};
use regex_automata::util::primitives::StateID;
use regex_automata::util::{look as automata, start};
use regex_automata::{Anchored, MatchKind};
use regex_syntax::hir::{Hir, Look};

use super::around::{Kinds, without_looks};
use super::automaton::{Automaton, NoAutomaton};
use super::budget::Budget;
use super::syntax::{BadRegex, parse};

/// The maximum size of one automaton, in bytes.
const SIZE_LIMIT: usize = 16 << 20;

/// The maximum size, in bytes, of an automaton that is built at once although it could be built as texts reach its
/// states, and of the NFA for the latter. With the limit on lists, they bound the cost of an expression before its
/// first text: a second and about 100 MB.
pub(crate) const SOON_LIMIT: usize = 1 << 18;
const LAZY_LIMIT: usize = 32 << 20;

/// The bytes of an automaton that count as one unit of a budget.
const UNIT: u64 = 8;

/// Builds the nondeterministic automaton of an expression, with its assertions.
pub(crate) fn nfa(hir: &Hir) -> Result<NFA, BadRegex> {
    let config = NFA::config().nfa_size_limit(Some(LAZY_LIMIT)).which_captures(WhichCaptures::None);
    NFA::compiler().configure(config).build_from_hir(hir).map_err(|_| too_large())
}

/// The same automaton without assertions.
pub(crate) fn plain(nfa: &NFA, kinds: Option<&Kinds>) -> Result<NFA, BadRegex> {
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

const WORDS_OF_BYTES: &str = "it tells too many kinds of characters apart to tell words beside them; (?-u:\\b) asks \
                              after ASCII alone";

/// A regular expression, matched against whole texts, as a DFA of regex-automata.
pub(crate) struct Dfa {
    dfa: dense::DFA<Vec<u32>>,
    start: StateID,
}

impl Dfa {
    pub(crate) fn new(pattern: &str) -> Result<Self, BadRegex> {
        Self::within(&parse(pattern)?, None, SIZE_LIMIT)
    }

    /// The texts in which a pattern, itself well-formed, matches somewhere; within a budget.
    pub(crate) fn found(pattern: &str, budget: &Budget) -> Result<Self, BadRegex> {
        let most = SIZE_LIMIT.min(usize::try_from(budget.left().saturating_mul(UNIT)).unwrap_or(SIZE_LIMIT));
        let dfa = Self::within(&parse(&format!("(?s:.*)(?:{pattern})(?s:.*)"))?, None, most);
        let bytes = dfa.as_ref().map_or(most, |dfa| dfa.dfa.memory_usage());
        budget.take(pattern.len() as u64 + bytes as u64 / UNIT);
        dfa
    }

    /// An automaton of at most `bytes` bytes that reads bytes, or letters of the given kinds.
    pub(crate) fn within(hir: &Hir, kinds: Option<&Kinds>, bytes: usize) -> Result<Self, BadRegex> {
        // The usual leftmost match would drop `ab` from `a|ab`; here all matches count.
        let config = dense::Config::new()
            .start_kind(StartKind::Anchored)
            .match_kind(MatchKind::All)
            .dfa_size_limit(Some(bytes))
            .determinize_size_limit(Some(bytes));
        let mut nfa = nfa(&Hir::concat(vec![hir.clone(), Hir::look(Look::End)]))?;
        let looks = nfa.look_set_any();
        // The ends of the text are the same for bytes and letters, and ASCII words can be decided from bytes.
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

    /// The automaton without dead states.
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

    /// Whether the text so far matches. regex-automata reports matches one step late, so this takes the end-of-input
    /// step.
    fn accepts(&self, state: StateID) -> bool {
        self.dfa.is_match_state(self.dfa.next_eoi_state(state))
    }
}

/// The only error for an expression that has been parsed: unsupported constructs have been rewritten or refused before.
pub(crate) fn too_large() -> BadRegex {
    BadRegex::Automaton("it is too large: repeat less, or less inside of what is repeated".into())
}
