//! Parts of grammars that are regular, which become one terminal.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Repetition};

/// The maximum size of one regular part, in states of a nondeterministic automaton, roughly.
const MAX_SIZE: u64 = 20_000;

/// The maximum nesting of a regular part.
const MAX_DEPTH: u32 = 100;

/// A regular language.
#[derive(Clone, Debug)]
pub(super) struct Regular {
    hir: Hir,
    /// The number of states that it takes, roughly, with repetitions written out.
    size: u64,
    depth: u32,
    /// The number of parts of a sequence all of which can be empty, else 1.
    optional: u64,
}

/// The maximum number of parts that can be empty in a sequence that is one terminal.
const MAX_OPTIONAL: u64 = 64;

impl Regular {
    /// The language of an expression that was parsed, whose size is known only roughly.
    pub(super) fn of(hir: Hir) -> Self {
        let (size, depth) = (size(&hir), MAX_DEPTH / 2);
        Self { hir, size, depth, optional: 1 }
    }

    /// One text, of any bytes.
    pub(super) fn literal(bytes: impl Into<Box<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self { size: bytes.len() as u64, hir: Hir::literal(bytes), depth: 1, optional: 1 }
    }

    /// One character of a class.
    pub(super) fn class(class: ClassUnicode) -> Self {
        let size = 2 * class.ranges().len() as u64 + 1;
        Self { size, hir: Hir::class(Class::Unicode(class)), depth: 1, optional: 1 }
    }

    /// Any character.
    pub(super) fn any() -> Self {
        Self::class(ClassUnicode::new([ClassUnicodeRange::new('\0', char::MAX)]))
    }

    pub(super) fn sequence(parts: Vec<Self>) -> Self {
        let optional = if parts.iter().all(Self::is_nullable) { optional(&parts) } else { 1 };
        Self { optional, ..Self::joined(parts, Hir::concat) }
    }

    /// Any of several.
    pub(super) fn choice(ways: Vec<Self>) -> Self {
        Self::joined(ways, Hir::alternation)
    }

    fn joined(parts: Vec<Self>, join: impl Fn(Vec<Hir>) -> Hir) -> Self {
        let size = parts.iter().map(|part| part.size).fold(1, u64::saturating_add);
        let depth = 1 + parts.iter().map(|part| part.depth).max().unwrap_or(0);
        Self { hir: join(parts.into_iter().map(|part| part.hir).collect()), size, depth, optional: 1 }
    }

    pub(super) fn repeated(self, least: u32, most: Option<u32>) -> Self {
        let times = u64::from(most.unwrap_or(least).max(least).max(1));
        let repetition = Repetition { min: least, max: most, greedy: true, sub: Box::new(self.hir) };
        let size = self.size.saturating_mul(times).saturating_add(1);
        Self { hir: Hir::repetition(repetition), size, depth: self.depth + 1, optional: 1 }
    }

    /// Whether it can be one terminal.
    pub(super) fn fits(&self) -> bool {
        self.size <= MAX_SIZE && self.depth <= MAX_DEPTH
    }

    /// Whether a sequence or choice of parts can be one terminal.
    pub(super) fn fit_together(parts: &[Self]) -> bool {
        let size =
            |size: u64, part: &Self| if part.depth < MAX_DEPTH { size.saturating_add(part.size) } else { u64::MAX };
        parts.iter().fold(1, size) <= MAX_SIZE
            && (optional(parts) <= MAX_OPTIONAL || !parts.iter().all(Self::is_nullable))
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn hir(&self) -> &Hir {
        &self.hir
    }

    /// Whether the empty text is in the language.
    pub(super) fn is_nullable(&self) -> bool {
        has_empty(&self.hir)
    }

    /// The work of [`Regular::nonempty`].
    pub(super) fn work_of_nonempty(&self) -> u64 {
        self.size.saturating_mul(widest(&self.hir))
    }

    /// The language without the empty text. It must have no assertions.
    pub(super) fn nonempty(&self) -> Self {
        Self { hir: nonempty(&self.hir), ..*self }
    }
}

fn optional(parts: &[Regular]) -> u64 {
    parts.iter().map(|part| part.optional).sum()
}

/// The texts of an expression except the empty one.
fn nonempty(hir: &Hir) -> Hir {
    if !has_empty(hir) {
        return hir.clone();
    }
    match hir.kind() {
        HirKind::Capture(capture) => nonempty(&capture.sub),
        HirKind::Repetition(Repetition { min, max, greedy, sub }) => {
            let (min, sub) = ((*min).max(1), Box::new(sub.as_ref().clone()));
            // If the part can be empty, any number of nonempty ones up to the maximum is as good.
            let (min, sub) = if has_empty(&sub) { (1, Box::new(nonempty(&sub))) } else { (min, sub) };
            match *max {
                Some(0) => Hir::fail(),
                max => Hir::repetition(Repetition { min, max, greedy: *greedy, sub }),
            }
        }
        HirKind::Alternation(ways) => Hir::alternation(ways.iter().map(nonempty).collect()),
        // The first part that is not empty can be any, since all can be empty.
        HirKind::Concat(parts) => {
            let from = |first: usize| {
                let rest = parts[first + 1..].iter().cloned();
                Hir::concat(std::iter::once(nonempty(&parts[first])).chain(rest).collect())
            };
            Hir::alternation((0..parts.len()).map(from).collect())
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => Hir::fail(),
    }
}

/// Whether the empty text matches. The length that the library knows is unknown if a part matches nothing.
fn has_empty(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => true,
        HirKind::Literal(_) | HirKind::Class(_) => false,
        HirKind::Repetition(repetition) => repetition.min == 0 || has_empty(&repetition.sub),
        HirKind::Capture(capture) => has_empty(&capture.sub),
        HirKind::Concat(parts) => parts.iter().all(has_empty),
        HirKind::Alternation(ways) => ways.iter().any(has_empty),
    }
}

/// The largest number of parts of a sequence in an expression.
fn widest(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Concat(parts) => parts.iter().map(widest).fold(parts.len() as u64, u64::max),
        HirKind::Alternation(ways) => ways.iter().map(widest).max().unwrap_or(1),
        HirKind::Repetition(repetition) => widest(&repetition.sub),
        HirKind::Capture(capture) => widest(&capture.sub),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => 1,
    }
}

/// The number of states that an expression takes, roughly.
fn size(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(Class::Unicode(class)) => 2 * class.ranges().len() as u64 + 1,
        HirKind::Class(Class::Bytes(_)) => 1,
        HirKind::Capture(capture) => size(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().map(size).fold(1, u64::saturating_add),
        HirKind::Repetition(Repetition { min, max, sub, .. }) => {
            let times = u64::from(max.unwrap_or(*min).max(*min).max(1));
            size(sub).saturating_mul(times).saturating_add(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::automata::dfa::Dfa;

    /// All texts of up to four letters, by the automaton of an expression.
    fn texts(hir: &Hir) -> Vec<String> {
        let automaton = match Dfa::within(hir, None, 1 << 20).unwrap().automaton() {
            Ok(automaton) => automaton,
            Err(_) => return Vec::new(),
        };
        let mut texts = vec![String::new()];
        for _ in 0..4 {
            let longer = texts.iter().flat_map(|text| ["a", "b"].map(|letter| format!("{text}{letter}")));
            texts = std::iter::once(String::new()).chain(longer).collect();
        }
        texts.sort();
        texts.dedup();
        texts.retain(|text| automaton.matches(text.as_bytes()));
        texts
    }

    #[test]
    fn only_the_empty_text_is_left_out() {
        for pattern in ["a*", "a?b?", "(a|b*){2}", "(a|)(b|)a*", "", "(a?){3}", "a|", "((a*)*b?){0,2}", "ab", "a{0}"] {
            let hir = regex_syntax::parse(pattern).unwrap();
            let mut expected = texts(&hir);
            expected.retain(|text| !text.is_empty());
            assert_eq!(texts(&nonempty(&hir)), expected, "{pattern}");
        }
    }
}
