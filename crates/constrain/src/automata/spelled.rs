//! Automata over classes of characters, run on UTF-8.
//!
//! A state combines a state of the automaton with a position inside a character.

use std::sync::{Arc, LazyLock};

use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, HirKind, Look, LookSet, Repetition};

use crate::automata::alphabet::{Alphabet, Letter, Ranges, Read};
use crate::automata::around::{CARRIAGE_RETURN, Kinds, LINE_FEED, WORD, WORD_ASCII};
use crate::automata::automaton::Automaton;
use crate::automata::distances::distances_to;
use crate::automata::lazy::Lazy;
use crate::automata::self_loop::SelfLoop;
use crate::vocabulary::character_set::CharacterSet;

/// An automaton over the letters of an alphabet, which reads bytes.
#[derive(Debug)]
pub(crate) struct Spelled {
    alphabet: Arc<Alphabet>,
    automaton: LetterAutomaton,
    /// The number of low bits that hold the position inside a character; the automaton's state is above them.
    bits: u32,
}

#[derive(Debug)]
enum LetterAutomaton {
    /// All states, with the fewest bytes from each to an end.
    Table(Box<Automaton>, Vec<u64>),
    Lazy(Box<Lazy>),
}

/// An expression over letters.
pub(crate) struct Spelling {
    pub(crate) alphabet: Alphabet,
    pub(crate) hir: Hir,
    /// The kinds of letters that the expression's assertions distinguish.
    pub(crate) kinds: Kinds,
}

impl Spelling {
    /// Returns `None` if the expression matches invalid UTF-8 or has too many classes.
    pub(crate) fn of(hir: &Hir) -> Option<Self> {
        let mut classes: Vec<Ranges> = Vec::new();
        collect(hir, &mut classes)?;
        let around = classes_around(hir.properties().look_set());
        classes.extend(around.iter().map(|(_, ranges)| ranges.clone()));
        classes.sort_unstable();
        classes.dedup();
        let (alphabet, letters) = Alphabet::new(&classes)?;
        let of_class = |ranges: &Ranges| &letters[classes.binary_search(ranges).expect("it has been collected")][..];
        let kinds = Kinds::new(|letter, kind| {
            around.iter().any(|(of, ranges)| *of == kind && of_class(ranges).contains(&letter))
        });
        Some(Self { alphabet, hir: translated(hir, &of_class), kinds })
    }

    pub(crate) fn table(self, automaton: Box<Automaton>) -> Spelled {
        let bytes = |letter| self.alphabet.bytes(letter).into();
        let to_end = distances_to(&automaton, bytes, |state| automaton.accepts(state).then_some(0));
        Spelled::new(self.alphabet, LetterAutomaton::Table(automaton, to_end))
    }

    pub(crate) fn lazy(self, lazy: Box<Lazy>) -> Spelled {
        Spelled::new(self.alphabet, LetterAutomaton::Lazy(lazy))
    }
}

/// The classes of characters that assertions depend on, by property.
fn classes_around(looks: LookSet) -> Vec<(u8, Ranges)> {
    static WORDS: LazyLock<Ranges> = LazyLock::new(|| {
        let hir = regex_syntax::parse(r"\w").expect("it is an expression");
        let HirKind::Class(class) = hir.kind() else { unreachable!("it is a class") };
        ranges(class).expect("it has characters")
    });
    let has = |some: &[Look]| some.iter().any(|&look| looks.contains(look));
    let in_lines = has(&[Look::StartLF, Look::EndLF]);
    let in_lines_of_two = has(&[Look::StartCRLF, Look::EndCRLF]);
    let mut classes = Vec::new();
    if in_lines || in_lines_of_two {
        classes.push((LINE_FEED, vec![(0x0a, 0x0a)]));
    }
    if in_lines_of_two {
        classes.push((CARRIAGE_RETURN, vec![(0x0d, 0x0d)]));
    }
    if looks.contains_word_ascii() {
        let ascii = [(b'0', b'9'), (b'A', b'Z'), (b'_', b'_'), (b'a', b'z')];
        classes.push((WORD_ASCII, ascii.iter().map(|&(from, to)| (from.into(), to.into())).collect()));
    }
    if looks.contains_word_unicode() {
        classes.push((WORD, WORDS.clone()));
    }
    classes
}

/// Collects the classes of an expression.
fn collect(hir: &Hir, classes: &mut Vec<Ranges>) -> Option<()> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => {
            classes.extend(std::str::from_utf8(&literal.0).ok()?.chars().map(|c| vec![(c.into(), c.into())]));
        }
        HirKind::Class(class) => classes.push(ranges(class)?),
        HirKind::Repetition(repetition) => collect(&repetition.sub, classes)?,
        HirKind::Capture(capture) => collect(&capture.sub, classes)?,
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().try_for_each(|part| collect(part, classes))?;
        }
    }
    Some(())
}

fn ranges(class: &Class) -> Option<Ranges> {
    match class {
        Class::Unicode(class) => {
            Some(class.ranges().iter().map(|range| (range.start().into(), range.end().into())).collect())
        }
        Class::Bytes(class) => {
            let ascii = |range: &ClassBytesRange| range.end().is_ascii();
            let ranges = class.ranges();
            ranges.iter().all(ascii).then(|| ranges.iter().map(|r| (r.start().into(), r.end().into())).collect())
        }
    }
}

/// The expression over letters instead of characters.
fn translated<'a>(hir: &Hir, letters: &impl Fn(&Ranges) -> &'a [Letter]) -> Hir {
    let all = |parts: &[Hir]| parts.iter().map(|part| translated(part, letters)).collect();
    match hir.kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).expect("it has been collected");
            // A class of one character has one letter.
            let letter = |c: char| letters(&vec![(c.into(), c.into())])[0];
            Hir::literal(text.chars().map(letter).collect::<Vec<u8>>())
        }
        HirKind::Class(class) => {
            let letters = letters(&ranges(class).expect("it has been collected"));
            Hir::class(Class::Bytes(ClassBytes::new(
                letters.iter().map(|&letter| ClassBytesRange::new(letter, letter)),
            )))
        }
        HirKind::Look(look) => Hir::look(*look),
        HirKind::Repetition(repetition) => {
            let &Repetition { min, max, greedy, ref sub } = repetition;
            Hir::repetition(Repetition { min, max, greedy, sub: Box::new(translated(sub, letters)) })
        }
        HirKind::Capture(capture) => translated(&capture.sub, letters),
        HirKind::Concat(parts) => Hir::concat(all(parts)),
        HirKind::Alternation(parts) => Hir::alternation(all(parts)),
    }
}

impl Spelled {
    /// The state before any byte.
    pub(crate) const START: u32 = 0;

    fn new(alphabet: Alphabet, automaton: LetterAutomaton) -> Self {
        let bits = alphabet.positions().next_power_of_two().trailing_zeros();
        Self { alphabet: Arc::new(alphabet), automaton, bits }
    }

    /// The same without the states created so far; `None` if all states were built at once.
    pub(crate) fn renewed(&self) -> Option<Self> {
        let LetterAutomaton::Lazy(lazy) = &self.automaton else { return None };
        let automaton = LetterAutomaton::Lazy(Box::new(lazy.renewed()));
        Some(Self { alphabet: self.alphabet.clone(), automaton, bits: self.bits })
    }

    /// The automaton whose states are created as texts reach them, if it is of that kind.
    pub(crate) fn lazy_words(&self) -> Option<&Lazy> {
        if let LetterAutomaton::Lazy(lazy) = &self.automaton { Some(lazy) } else { None }
    }

    /// Splits a state into the automaton's state and the position inside a character.
    #[inline]
    fn split(&self, state: u32) -> (u32, u32) {
        (state >> self.bits, state & ((1 << self.bits) - 1))
    }

    #[inline]
    fn word(&self, state: u32, letter: Letter) -> Option<u32> {
        match &self.automaton {
            LetterAutomaton::Table(automaton, _) => automaton.next(state, letter),
            LetterAutomaton::Lazy(lazy) => lazy.next(state, letter),
        }
    }

    /// The state after one more byte, if any text continues with it.
    #[inline]
    pub(crate) fn next(&self, state: u32, byte: u8) -> Option<u32> {
        let (word, position) = self.split(state);
        match self.alphabet.next(position, byte)? {
            Read::Whole(letter) => Some(self.word(word, letter)? << self.bits),
            Read::Inside(position) => {
                let goes_on = |letter| self.word(word, letter).is_some();
                self.alphabet.inside(position).1.iter().any(goes_on).then_some(word << self.bits | position)
            }
        }
    }

    /// Whether the text so far matches.
    #[inline]
    pub(crate) fn accepts(&self, state: u32) -> bool {
        let (word, position) = self.split(state);
        position == Alphabet::BETWEEN
            && match &self.automaton {
                LetterAutomaton::Table(automaton, _) => automaton.accepts(word),
                LetterAutomaton::Lazy(lazy) => lazy.accepts(word),
            }
    }

    /// Whether the text so far can continue.
    #[inline]
    pub(crate) fn goes_on(&self, state: u32) -> bool {
        let (word, position) = self.split(state);
        position != Alphabet::BETWEEN
            || match &self.automaton {
                LetterAutomaton::Table(automaton, _) => automaton.goes_on(word),
                LetterAutomaton::Lazy(lazy) => lazy.goes_on(word),
            }
    }

    /// The fewest bytes that complete the text so far.
    pub(crate) fn to_end(&self, state: u32) -> u64 {
        let of_word = |word: u32| match &self.automaton {
            LetterAutomaton::Table(_, to_end) => to_end[word as usize],
            LetterAutomaton::Lazy(lazy) => lazy.to_end(word),
        };
        let (word, position) = self.split(state);
        if position == Alphabet::BETWEEN {
            return of_word(word);
        }
        let (left, letters) = self.alphabet.inside(position);
        let after = letters.iter().filter_map(|letter| self.word(word, letter)).map(of_word).min();
        u64::from(left) + after.expect("a character that has begun can be whole")
    }

    /// An upper bound on the bytes from any state to the end.
    pub(crate) fn farthest(&self) -> u64 {
        let of_words = match &self.automaton {
            LetterAutomaton::Table(_, to_end) => to_end.iter().copied().max().unwrap_or(0),
            LetterAutomaton::Lazy(lazy) => lazy.farthest(),
        };
        of_words + 3
    }

    /// The number of table cells.
    pub(crate) fn cells(&self) -> usize {
        if let LetterAutomaton::Table(automaton, _) = &self.automaton { automaton.cells() } else { 0 }
    }

    /// The characters that all lead along one chain of states from here, whichever of them come, and the length of that
    /// chain: `\w` in `\w{1,20}`.
    pub(crate) fn self_loop(&self, state: u32, max_token_chars: u32) -> Option<SelfLoop> {
        let (word, position) = self.split(state);
        if position != Alphabet::BETWEEN {
            return None;
        }
        let letters = self.same(word);
        let first = *letters.first()?;
        let beyond = |letter: Letter| self.alphabet.ranges(letter).last().is_some_and(|range| range.1 >= 128);
        let others: Vec<Letter> = self.alphabet.letters().filter(|&l| beyond(l) && !letters.contains(&l)).collect();
        let (mut at, mut most, mut strangers) = (word, 0, false);
        // Stops at a length that no token exceeds.
        while most <= max_token_chars {
            strangers |= others.iter().any(|&letter| self.word(at, letter).is_some());
            let next = self.word(at, first);
            if letters[1..].iter().any(|&letter| self.word(at, letter) != next) {
                return None;
            }
            match next {
                Some(next) if next == at => {
                    most = if most == 0 { u32::MAX } else { u32::MAX - 1 };
                    break;
                }
                Some(next) => (at, most) = (next, most + 1),
                None => break,
            }
        }
        let ranges = letters.iter().flat_map(|&letter| self.alphabet.ranges(letter)).copied();
        Some(SelfLoop { characters: CharacterSet::of_ranges(ranges.collect()), most, strangers })
    }

    /// The state after `characters` characters of the loop or chain at `state`.
    pub(crate) fn after_loop(&self, state: u32, characters: u32) -> u32 {
        let (mut word, _) = self.split(state);
        let letter = self.same(word).first().copied();
        for _ in 0..characters {
            match letter.and_then(|letter| self.word(word, letter)) {
                Some(next) if next != word => word = next,
                _ => break,
            }
        }
        word << self.bits
    }

    /// The letters that lead to the successor which most ASCII characters lead to; empty at the end.
    fn same(&self, word: u32) -> Vec<Letter> {
        let mut ways: Vec<(u32, Letter)> =
            self.alphabet.letters().filter_map(|l| Some((self.word(word, l)?, l))).collect();
        ways.sort_unstable();
        let count = |ways: &&[(u32, Letter)]| ways.iter().map(|&(_, l)| self.alphabet.of_ascii(l)).sum::<u32>();
        let most = ways.chunk_by(|a, b| a.0 == b.0).max_by_key(count).unwrap_or_default();
        most.iter().map(|&(_, letter)| letter).collect()
    }
}
