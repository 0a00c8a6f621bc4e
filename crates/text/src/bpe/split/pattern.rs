//! Regular expressions that split texts, as automata over classes of characters.
//!
//! The expressions of tokenizers are alternations of simple parts, and most end with `\s+(?!\S)|\s+`: white space, the
//! last character of which is left to what follows. Without this one way to look ahead they are regular, so an
//! automaton finds a match in one pass. Its symbols are the few classes of characters that the expression treats alike
//! instead of bytes, which makes it small and quickly built.

use std::collections::HashMap;

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::start;
use regex_automata::{Anchored, MatchKind, PatternID};
use regex_syntax::ast::{self, Ast};
use regex_syntax::hir::{
    Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Repetition,
};

use super::classes::Classes;

/// The end of an expression whose last white space is left to what follows.
const WHITE_SPACE: &str = r"|\s+(?!\S)|\s+";

/// The maximum length of an expression in bytes, and of a counted repetition.
const LONGEST: usize = 2000;
const MOST_REPEATED: u32 = 16;

/// The maximum number of states.
const MOST_STATES: usize = 1 << 12;

/// The state that matches nothing.
const DEAD: u16 = 0;

/// An expression that finds the next part of a text.
pub(in super::super) struct Pattern {
    classes: Classes,
    /// For each state, the next state for each class.
    next: Vec<u16>,
    /// For each state, whether the text read so far is a match.
    matches: Vec<Match>,
    start: u16,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Match {
    No,
    Yes,
    /// White space, the last character of which may be left to what follows.
    WhiteSpace,
}

impl Pattern {
    /// Compiles an expression; `None` if a part of it might mean something else in another library.
    pub(in super::super) fn new(expression: &str) -> Option<Self> {
        if expression.len() > LONGEST {
            return None;
        }
        let (first, white_space) = match expression.strip_suffix(WHITE_SPACE) {
            Some(first) => (first, true),
            None => (expression, false),
        };
        let parsed = ast::parse::Parser::new().parse(first).ok()?;
        if !is_plain(&parsed) {
            return None;
        }
        let first = regex_syntax::hir::translate::Translator::new().translate(first, &parsed).ok()?;
        if first.properties().minimum_len().is_none_or(|least| least == 0) {
            return None;
        }
        let mut expressions = vec![first];
        if white_space {
            expressions.push(regex_syntax::parse(r"\s+").ok()?);
        }
        let mut sets = Sets::default();
        expressions.iter().try_for_each(|hir| sets.collect(hir))?;
        let classes = Classes::of(&sets.all)?;
        let expressions: Option<Vec<Hir>> = expressions.iter().map(|hir| sets.translate(hir, &classes)).collect();
        Self::build(classes, &expressions?)
    }

    fn build(classes: Classes, expressions: &[Hir]) -> Option<Self> {
        let config = thompson::Config::new().utf8(false).nfa_size_limit(Some(1 << 20));
        let nfa = thompson::Compiler::new().configure(config).build_many_from_hir(expressions).ok()?;
        let config = dense::Config::new()
            .match_kind(MatchKind::LeftmostFirst)
            .start_kind(StartKind::Anchored)
            .dfa_size_limit(Some(1 << 22))
            .determinize_size_limit(Some(1 << 22));
        let dfa = dense::Builder::new().configure(config).build_from_nfa(&nfa).ok()?;
        let start = dfa.start_state(&start::Config::new().anchored(Anchored::Yes)).ok()?;
        let mut numbers = HashMap::from([(start, 1u16)]);
        let (mut open, mut next) = (vec![start], vec![DEAD; classes.count()]);
        let mut matches = vec![Match::No];
        let mut done = 0;
        while let Some(&state) = open.get(done) {
            done += 1;
            // The automaton reports a match one symbol late.
            let end = dfa.next_eoi_state(state);
            matches.push(match dfa.is_match_state(end) {
                false => Match::No,
                true if dfa.match_pattern(end, 0) == PatternID::ZERO => Match::Yes,
                true => Match::WhiteSpace,
            });
            for class in 0..classes.count() {
                let to = dfa.next_state(state, class as u8);
                if dfa.is_dead_state(to) {
                    next.push(DEAD);
                    continue;
                }
                let count = numbers.len() as u16 + 1;
                next.push(*numbers.entry(to).or_insert_with(|| {
                    open.push(to);
                    count
                }));
            }
            if open.len() > MOST_STATES {
                return None;
            }
        }
        Some(Self { classes, next, matches, start: 1 })
    }

    /// Returns the end of the part of a text that begins at `at`: a match, or the text up to the next match.
    pub(in super::super) fn end(&self, text: &str, at: usize) -> usize {
        if let Some(end) = self.match_at(text, at) {
            return end;
        }
        let mut rest = text[at..].char_indices().map(|(next, _)| at + next).skip(1);
        rest.find(|&next| self.match_at(text, next).is_some()).unwrap_or(text.len())
    }

    /// The end of the match at a position.
    #[inline]
    fn match_at(&self, text: &str, at: usize) -> Option<usize> {
        let (bytes, count) = (text.as_bytes(), self.classes.count());
        let (mut state, mut end) = (self.start, at);
        let mut last = (Match::No, at);
        while let Some(&byte) = bytes.get(end) {
            let (class, length) = if byte < 0x80 {
                (self.classes.of_ascii(byte), 1)
            } else {
                let c = text[end..].chars().next()?;
                (self.classes.of_char(c), c.len_utf8())
            };
            state = self.next[usize::from(state) * count + usize::from(class)];
            if state == DEAD {
                break;
            }
            end += length;
            let kind = self.matches[usize::from(state)];
            if kind != Match::No {
                last = (kind, end);
            }
        }
        match last {
            (Match::No, _) => None,
            (Match::WhiteSpace, end) if end < text.len() => {
                let before = text.floor_char_boundary(end - 1);
                Some(if before > at { before } else { end })
            }
            (_, end) => Some(end),
        }
    }
}

/// Whether an expression has only parts that mean the same in every library: no repetition of a repetition (which may
/// mean that nothing is given back), no flags except `(?i:..)`, no groups that capture, nothing that looks around.
fn is_plain(ast: &Ast) -> bool {
    match ast {
        Ast::Literal(literal) => is_plain_literal(literal),
        Ast::ClassUnicode(_) | Ast::ClassPerl(_) => true,
        Ast::ClassBracketed(class) => is_plain_set(&class.kind),
        Ast::Repetition(repetition) => {
            let counts = match &repetition.op.kind {
                ast::RepetitionKind::Range(range) => match *range {
                    ast::RepetitionRange::Exactly(n) => n <= MOST_REPEATED,
                    ast::RepetitionRange::AtLeast(n) => n <= MOST_REPEATED,
                    ast::RepetitionRange::Bounded(_, n) => n <= MOST_REPEATED,
                },
                _ => true,
            };
            counts && repetition.greedy && !matches!(*repetition.ast, Ast::Repetition(_)) && is_plain(&repetition.ast)
        }
        Ast::Group(group) => match &group.kind {
            ast::GroupKind::NonCapturing(flags) => {
                let plain =
                    |item: &ast::FlagsItem| matches!(item.kind, ast::FlagsItemKind::Flag(ast::Flag::CaseInsensitive));
                flags.items.iter().all(plain) && is_plain(&group.ast)
            }
            _ => false,
        },
        Ast::Alternation(all) => all.asts.iter().all(is_plain),
        Ast::Concat(all) => all.asts.iter().all(is_plain),
        Ast::Empty(_) | Ast::Flags(_) | Ast::Dot(_) | Ast::Assertion(_) => false,
    }
}

fn is_plain_literal(literal: &ast::Literal) -> bool {
    use ast::SpecialLiteralKind::{CarriageReturn, LineFeed, Tab};
    match &literal.kind {
        ast::LiteralKind::Verbatim | ast::LiteralKind::Meta => true,
        ast::LiteralKind::Special(kind) => matches!(kind, CarriageReturn | LineFeed | Tab),
        _ => false,
    }
}

fn is_plain_set(set: &ast::ClassSet) -> bool {
    let plain = |item: &ast::ClassSetItem| match item {
        ast::ClassSetItem::Literal(literal) => is_plain_literal(literal),
        ast::ClassSetItem::Range(range) => is_plain_literal(&range.start) && is_plain_literal(&range.end),
        ast::ClassSetItem::Unicode(_) | ast::ClassSetItem::Perl(_) => true,
        _ => false,
    };
    match set {
        ast::ClassSet::Item(ast::ClassSetItem::Union(union)) => union.items.iter().all(plain),
        ast::ClassSet::Item(item) => plain(item),
        ast::ClassSet::BinaryOp(_) => false,
    }
}

/// The sets of characters of expressions.
#[derive(Default)]
struct Sets {
    all: Vec<ClassUnicode>,
}

impl Sets {
    /// Adds the sets of an expression; `None` if it looks around.
    fn collect(&mut self, hir: &Hir) -> Option<()> {
        match hir.kind() {
            HirKind::Empty => {}
            HirKind::Literal(literal) => str::from_utf8(&literal.0).ok()?.chars().for_each(|c| self.add(single(c))),
            HirKind::Class(Class::Unicode(set)) => self.add(set.clone()),
            HirKind::Class(Class::Bytes(_)) | HirKind::Look(_) | HirKind::Capture(_) => return None,
            HirKind::Repetition(repetition) => self.collect(&repetition.sub)?,
            HirKind::Concat(all) | HirKind::Alternation(all) => all.iter().try_for_each(|hir| self.collect(hir))?,
        }
        Some(())
    }

    fn add(&mut self, set: ClassUnicode) {
        if !self.all.contains(&set) {
            self.all.push(set);
        }
    }

    /// An expression with each set replaced by its classes.
    fn translate(&self, hir: &Hir, classes: &Classes) -> Option<Hir> {
        let set = |set: &ClassUnicode| {
            let number = self.all.iter().position(|one| one == set)?;
            let ranges = classes.in_set(number).map(|class| ClassBytesRange::new(class, class));
            Some(Hir::class(Class::Bytes(ClassBytes::new(ranges))))
        };
        let several = |all: &[Hir]| all.iter().map(|hir| self.translate(hir, classes)).collect::<Option<Vec<Hir>>>();
        Some(match hir.kind() {
            HirKind::Empty => Hir::empty(),
            HirKind::Literal(literal) => {
                let sets = str::from_utf8(&literal.0).ok()?.chars().map(|c| set(&single(c)));
                Hir::concat(sets.collect::<Option<Vec<Hir>>>()?)
            }
            HirKind::Class(Class::Unicode(class)) => set(class)?,
            HirKind::Class(Class::Bytes(_)) | HirKind::Look(_) | HirKind::Capture(_) => return None,
            HirKind::Repetition(repetition) => Hir::repetition(Repetition {
                sub: Box::new(self.translate(&repetition.sub, classes)?),
                ..repetition.clone()
            }),
            HirKind::Concat(all) => Hir::concat(several(all)?),
            HirKind::Alternation(all) => Hir::alternation(several(all)?),
        })
    }
}

fn single(c: char) -> ClassUnicode {
    ClassUnicode::new([ClassUnicodeRange::new(c, c)])
}
