//! How values are written at each location, and strings without quotation marks.

use verdigris_text::calls::{Kinds, Nested, Notation, Signs, Strings as StringNotation, Words};

use super::{Compiler, Level};
use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::automata::budget::Budget;
use crate::automata::search::Marks;
use crate::grammar::step::{RETURN, StepIndex};
use crate::json::fault::Result;
use crate::json::flat::Strings;
use crate::json::pattern::pattern;
use crate::terminal::Terminal;

/// The words of JSON.
const WORDS: Words = [&["null"], &["false"], &["true"]];

/// Strings without quotation marks.
pub(super) struct Raw<'n> {
    open: &'n [u8],
    close: &'n [u8],
    never: &'n [u8],
    /// The types that the text of a string must not be mistaken for.
    others: Kinds,
    /// The notation of words.
    words: Words,
}

impl<'a> Compiler<'a> {
    /// The location of values in the current one.
    pub(super) fn inner(&self) -> Level {
        match (self.level, self.notation) {
            (Level::Parameter(_) | Level::Nested, Some(Notation { nested: Nested::Same(_), .. })) => Level::Nested,
            _ => Level::Json,
        }
    }

    /// The notation of words here.
    pub(super) fn word_names(&self) -> Words {
        match (self.level, self.notation) {
            (Level::Parameter(_) | Level::Nested, Some(notation)) => notation.words,
            _ => WORDS,
        }
    }

    /// The signs of objects here; `None` for those of JSON.
    pub(super) fn object_signs(&self) -> Option<&'a Signs<Vec<u8>>> {
        let notation = self.notation?;
        match (self.level, &notation.nested) {
            (Level::Arguments, _) => Some(&notation.parameters),
            (Level::Parameter(_) | Level::Nested, Nested::Same(signs)) => signs.as_ref(),
            _ => None,
        }
    }

    /// The notation of strings here; `None` for that of JSON.
    pub(super) fn raw_strings(&self) -> Option<Raw<'a>> {
        let notation = self.notation?;
        let StringNotation::Raw { open, close, never } = &notation.strings else { return None };
        let others = match self.level {
            Level::Parameter(kinds) if open.is_empty() => kinds,
            Level::Parameter(_) | Level::Nested => Kinds::STRING,
            Level::Json | Level::Arguments => return None,
        };
        let close = if close.is_empty() { &notation.parameters.after_value } else { close };
        Some(Raw { open, close, never, others, words: notation.words })
    }

    /// The first step of the values that are not strings without quotation marks, some of which begin at `ways`.
    pub(super) fn others(&mut self, ways: Vec<StepIndex>) -> Vec<StepIndex> {
        match (self.level, self.notation) {
            (Level::Parameter(_), Some(notation)) if !notation.before_others.is_empty() && !ways.is_empty() => {
                let values = self.grammar.fork(ways);
                vec![self.sign(&notation.before_others, values)]
            }
            _ => ways,
        }
    }

    /// The step after a value that is not a string without quotation marks.
    pub(super) fn after_value(&mut self) -> StepIndex {
        match (self.level, self.notation) {
            (Level::Parameter(_), Some(notation)) if !notation.parameters.after_value.is_empty() => {
                self.sign(&notation.parameters.after_value, RETURN)
            }
            _ => RETURN,
        }
    }

    /// A step that reads a sign.
    pub(super) fn sign(&mut self, sign: &[u8], next: StepIndex) -> StepIndex {
        if sign.is_empty() {
            return next;
        }
        let Ok(automaton) = Automaton::literals([sign]) else { unreachable!("one text is a list of texts") };
        let terminal = self.grammar.terminal(Terminal::Table(Box::new(automaton)));
        self.grammar.read(terminal, next)
    }

    /// The terminal of strings without quotation marks, with the signs around them.
    pub(super) fn raw_string(&mut self, strings: &Strings, raw: Raw<'_>, path: &str) -> Result<Option<u32>> {
        let name = (raw.others, strings.clone());
        if let Some(&terminal) = self.raw.get(&name) {
            return Ok(terminal);
        }
        let large = "\"maxLength\" or \"pattern\" of a string in this notation";
        let content = self.automaton_of(strings, large, path)?;
        let budget = self.schemas.budget.clone();
        let closed = |content: Automaton| {
            let (free, others) = (free_of(raw.never)?, like(&raw, &budget)?);
            let mut parts = vec![(&content, true), (&free, true)];
            parts.extend(others.as_ref().map(|others| (others, false)));
            let closed = Automaton::all_of(&budget, &parts)?.closed_by(&budget, raw.close)?;
            if raw.open.is_empty() { Ok(closed) } else { after(&budget, raw.open, &closed) }
        };
        let terminal = match content.map(closed) {
            None => None,
            Some(Ok(automaton)) => Some(self.grammar.terminal(Terminal::Table(Box::new(automaton)))),
            Some(Err(NoAutomaton::Empty)) => {
                self.narrower.get_or_insert_with(|| format!("no string of {path} can be written in this notation"));
                None
            }
            Some(Err(NoAutomaton::TooLarge)) => return self.large(path, &format!("{large} is too large")),
        };
        self.raw.insert(name, terminal);
        Ok(terminal)
    }
}

/// The texts that do not contain a mark.
fn free_of(mark: &[u8]) -> Result<Automaton, NoAutomaton> {
    let of = [mark];
    let marks = Marks(&of);
    let next = |&found: &&[u8], byte| (found.len() < mark.len()).then(|| marks.next(found, byte));
    Automaton::explore(&mark[..0], |byte| marks.class(byte), next, |found| found.len() < mark.len())
}

/// The texts that could be values of other types.
fn like(raw: &Raw<'_>, budget: &Budget) -> Result<Option<Automaton>, NoAutomaton> {
    let mut ways = Vec::new();
    let [null, no, yes] = raw.words;
    for (kind, words) in [(Kinds::NULL, null), (Kinds::BOOLEAN, no), (Kinds::BOOLEAN, yes)] {
        ways.extend(words.iter().filter(|_| raw.others.has(kind)).map(|word| (*word).to_owned()));
    }
    for (kind, pattern) in [
        (Kinds::NUMBER, r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"),
        (Kinds::ARRAY, r"\[[^]*"),
        (Kinds::OBJECT, r"\{[^]*"),
    ] {
        ways.extend(raw.others.has(kind).then(|| pattern.to_owned()));
    }
    if ways.is_empty() {
        return Ok(None);
    }
    pattern(budget, &format!("^(?:{})$", ways.join("|"))).map(Some).map_err(|_| NoAutomaton::TooLarge)
}

/// The texts of an automaton after a sign.
fn after(budget: &Budget, sign: &[u8], of: &Automaton) -> Result<Automaton, NoAutomaton> {
    Automaton::explore_within(
        budget,
        (0, Automaton::START),
        |byte| (sign.iter().position(|of_sign| *of_sign == byte), of.class(byte)),
        |&(read, state), byte| match sign.get(read) {
            Some(next) => (*next == byte).then_some((read + 1, state)),
            None => of.next(state, byte).map(|state| (read, state)),
        },
        |&(read, state)| read == sign.len() && of.accepts(state),
    )
}
