//! Removes assertions (`^`, `$`, `\b`) from automata.
//!
//! Whether an assertion holds at a position depends on the character before it and the one after it. So each position
//! is split by the kind of neighbour on either side: the kind of the next character is guessed, and only characters of
//! that kind may then be read. Every assertion is decided at its position, and what remains reads bytes only.

use foldhash::{HashMap, HashMapExt};
use regex_automata::nfa::thompson::{BuildError, Builder, NFA, State, Transition};
use regex_automata::util::look::{Look, LookSet};
use regex_automata::util::primitives::StateID;

/// The properties of a neighbour that matter: a bit for each constant below.
type Kind = u8;

pub(crate) const LINE_FEED: Kind = 1;
pub(crate) const CARRIAGE_RETURN: Kind = 2;
/// A word character, in ASCII and in Unicode.
pub(crate) const WORD_ASCII: Kind = 4;
pub(crate) const WORD: Kind = 8;
/// No neighbour: the text begins or ends here.
const EDGE: Kind = 16;

/// The kind of each byte, or of each letter in automata over letters.
#[derive(Clone, Debug)]
pub(crate) struct Kinds([Kind; 256]);

impl Kinds {
    /// Kinds with the properties for which `has` returns true.
    pub(crate) fn new(has: impl Fn(u8, Kind) -> bool) -> Self {
        let all = [LINE_FEED, CARRIAGE_RETURN, WORD_ASCII, WORD];
        Self(std::array::from_fn(|byte| all.iter().filter(|&&kind| has(byte as u8, kind)).sum()))
    }

    /// The kinds of bytes, for assertions that concern ASCII only.
    pub(crate) fn of_bytes(looks: LookSet) -> Self {
        let needed = needed(looks);
        Self::new(|byte, kind| {
            needed & kind != 0
                && match kind {
                    LINE_FEED => byte == b'\n',
                    CARRIAGE_RETURN => byte == b'\r',
                    _ => byte.is_ascii_alphanumeric() || byte == b'_',
                }
        })
    }

    /// Every kind that a neighbour can have.
    fn all(&self) -> Vec<Kind> {
        let mut all: Vec<Kind> = self.0.iter().copied().chain([EDGE]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// The properties of neighbours that some assertions depend on.
pub(crate) fn needed(looks: LookSet) -> Kind {
    let of = |look: Look| match look {
        Look::Start | Look::End => 0,
        Look::StartLF | Look::EndLF => LINE_FEED,
        Look::StartCRLF | Look::EndCRLF => LINE_FEED | CARRIAGE_RETURN,
        look if LookSet::singleton(look).contains_word_ascii() => WORD_ASCII,
        _ => WORD,
    };
    looks.iter().map(of).fold(0, |needed, kind| needed | kind)
}

/// Whether an assertion holds between two neighbours.
fn holds(look: Look, before: Kind, behind: Kind) -> bool {
    let (starts, ends) = (before == EDGE, behind == EDGE);
    let (after_line, before_line) = (before & LINE_FEED != 0, behind & LINE_FEED != 0);
    let (after_return, before_return) = (before & CARRIAGE_RETURN != 0, behind & CARRIAGE_RETURN != 0);
    let ascii = (before & WORD_ASCII != 0, behind & WORD_ASCII != 0);
    let unicode = (before & WORD != 0, behind & WORD != 0);
    match look {
        Look::Start => starts,
        Look::End => ends,
        Look::StartLF => starts || after_line,
        Look::EndLF => ends || before_line,
        // A carriage return and its line feed have no line boundary between them.
        Look::StartCRLF => starts || after_line || after_return && !before_line,
        Look::EndCRLF => ends || before_return || before_line && !after_return,
        Look::WordAscii => ascii.0 != ascii.1,
        Look::WordAsciiNegate => ascii.0 == ascii.1,
        Look::WordUnicode => unicode.0 != unicode.1,
        Look::WordUnicodeNegate => unicode.0 == unicode.1,
        Look::WordStartAscii => !ascii.0 && ascii.1,
        Look::WordEndAscii => ascii.0 && !ascii.1,
        Look::WordStartUnicode => !unicode.0 && unicode.1,
        Look::WordEndUnicode => unicode.0 && !unicode.1,
        Look::WordStartHalfAscii => !ascii.0,
        Look::WordEndHalfAscii => !ascii.1,
        Look::WordStartHalfUnicode => !unicode.0,
        Look::WordEndHalfUnicode => !unicode.1,
    }
}

/// A position of the original automaton, with the kinds of its neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Position {
    /// The next character has not been guessed yet.
    After(StateID, Kind),
    Between(StateID, Kind, Kind),
}

/// Returns an automaton of at most `bytes` bytes that matches the same whole texts and has no assertions.
pub(crate) fn without_looks(nfa: &NFA, kinds: &Kinds, bytes: usize) -> Result<NFA, Box<BuildError>> {
    let all = kinds.all();
    let mut builder = Builder::new();
    builder.set_size_limit(Some(bytes))?;
    builder.start_pattern()?;
    let mut positions = Positions { builder, numbers: HashMap::new(), open: Vec::new() };
    let start = positions.number(nfa, Position::After(nfa.start_anchored(), EDGE))?;
    while let Some((position, number)) = positions.open.pop() {
        let made = match position {
            Position::After(at, before) => {
                let ways = all.iter().map(|&behind| positions.number(nfa, Position::Between(at, before, behind)));
                let ways = ways.collect::<Result<_, _>>()?;
                positions.builder.add_union(ways)?
            }
            Position::Between(at, before, behind) => {
                let mut same = |at: StateID| positions.number(nfa, Position::Between(at, before, behind));
                match nfa.state(at) {
                    State::Union { alternates } => {
                        let ways = alternates.iter().map(|&way| same(way)).collect::<Result<_, _>>()?;
                        positions.builder.add_union(ways)?
                    }
                    State::BinaryUnion { alt1, alt2 } => {
                        let ways = vec![same(*alt1)?, same(*alt2)?];
                        positions.builder.add_union(ways)?
                    }
                    State::Capture { next, .. } => same(*next)?,
                    State::Look { look, next } if holds(*look, before, behind) => same(*next)?,
                    State::Match { .. } if behind == EDGE => positions.builder.add_match()?,
                    State::Look { .. } | State::Match { .. } | State::Fail => positions.builder.add_fail()?,
                    reads => {
                        let ways = positions.of_kind(nfa, reads, kinds, behind)?;
                        positions.builder.add_sparse(ways)?
                    }
                }
            }
        };
        positions.builder.patch(number, made)?;
    }
    positions.builder.finish_pattern(start)?;
    Ok(positions.builder.build(start, start)?)
}

struct Positions {
    builder: Builder,
    numbers: HashMap<Position, StateID>,
    /// Positions that have a number but no transitions yet.
    open: Vec<(Position, StateID)>,
}

impl Positions {
    fn number(&mut self, nfa: &NFA, position: Position) -> Result<StateID, Box<BuildError>> {
        // States that read a byte do not depend on the character before them.
        let position = match position {
            Position::Between(at, _, behind)
                if matches!(nfa.state(at), State::ByteRange { .. } | State::Sparse(_) | State::Dense(_)) =>
            {
                Position::Between(at, EDGE, behind)
            }
            position => position,
        };
        if let Some(&number) = self.numbers.get(&position) {
            return Ok(number);
        }
        let number = self.builder.add_empty()?;
        self.numbers.insert(position, number);
        self.open.push((position, number));
        Ok(number)
    }

    /// The transitions of a state that reads a byte, for bytes of one kind.
    fn of_kind(
        &mut self,
        nfa: &NFA,
        state: &State,
        kinds: &Kinds,
        wanted: Kind,
    ) -> Result<Vec<Transition>, Box<BuildError>> {
        let next = |byte: u8| match state {
            State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
            State::Sparse(sparse) => sparse.matches_byte(byte),
            State::Dense(dense) => dense.matches_byte(byte),
            _ => None,
        };
        let mut ways: Vec<Transition> = Vec::new();
        let mut last = None;
        for byte in 0..=u8::MAX {
            let next = next(byte).filter(|_| kinds.0[usize::from(byte)] == wanted);
            if let Some(next) = next {
                match ways.last_mut() {
                    Some(way) if last == Some(next) => way.end = byte,
                    _ => {
                        let next = self.number(nfa, Position::After(next, wanted))?;
                        ways.push(Transition { start: byte, end: byte, next });
                    }
                }
            }
            last = next;
        }
        Ok(ways)
    }
}
