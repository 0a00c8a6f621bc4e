//! Regular expressions by derivatives: the rest of an expression after a byte is an expression again (Brzozowski 1964).

use std::rc::Rc;

use regex_syntax::hir::{Class, Hir, HirKind, Literal};
use regex_syntax::utf8::Utf8Sequences;

use super::Language;

/// The texts that a regular expression matches as a whole.
pub struct Derivatives {
    start: Rc<Expr>,
}

/// An expression over bytes. Only [`Expr::Never`] has no texts.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expr {
    /// No text.
    Never,
    /// The empty text.
    Empty,
    /// A byte of a range.
    Range(u8, u8),
    /// One after the other.
    Then(Rc<Expr>, Rc<Expr>),
    /// One of several, in order and each once.
    Or(Vec<Rc<Expr>>),
    /// Repeated, with a minimum and a maximum number of times.
    Times(Rc<Expr>, u32, Option<u32>),
}

impl Derivatives {
    /// The language of a pattern; `None` if it is not a regular expression or has assertions.
    pub fn new(pattern: &str) -> Option<Self> {
        Some(Self { start: expression(&regex_syntax::parse(pattern).ok()?)? })
    }
}

impl Language for Derivatives {
    type State = Rc<Expr>;

    fn start(&self) -> Option<Rc<Expr>> {
        (*self.start != Expr::Never).then(|| self.start.clone())
    }

    fn next(&self, state: &Rc<Expr>, byte: u8) -> Option<Rc<Expr>> {
        Some(derivative(state, byte)).filter(|next| **next != Expr::Never)
    }

    fn accepts(&self, state: &Rc<Expr>) -> bool {
        is_nullable(state)
    }
}

fn expression(hir: &Hir) -> Option<Rc<Expr>> {
    Some(match hir.kind() {
        HirKind::Empty => Rc::new(Expr::Empty),
        HirKind::Literal(Literal(bytes)) => {
            bytes.iter().rev().fold(Rc::new(Expr::Empty), |rest, &byte| then(&Rc::new(Expr::Range(byte, byte)), &rest))
        }
        HirKind::Class(Class::Bytes(class)) => {
            or(class.iter().map(|range| Rc::new(Expr::Range(range.start(), range.end()))).collect())
        }
        HirKind::Class(Class::Unicode(class)) => {
            let sequences = class.iter().flat_map(|range| Utf8Sequences::new(range.start(), range.end()));
            let sequence = |ranges: &[regex_syntax::utf8::Utf8Range]| {
                let ranges = ranges.iter().rev();
                ranges.fold(Rc::new(Expr::Empty), |rest, r| then(&Rc::new(Expr::Range(r.start, r.end)), &rest))
            };
            or(sequences.map(|ranges| sequence(ranges.as_slice())).collect())
        }
        HirKind::Look(_) => return None,
        HirKind::Repetition(repetition) => times(expression(&repetition.sub)?, repetition.min, repetition.max),
        HirKind::Capture(capture) => expression(&capture.sub)?,
        HirKind::Concat(parts) => {
            let parts: Vec<Rc<Expr>> = parts.iter().map(expression).collect::<Option<_>>()?;
            parts.iter().rev().fold(Rc::new(Expr::Empty), |rest, part| then(part, &rest))
        }
        HirKind::Alternation(parts) => or(parts.iter().map(expression).collect::<Option<_>>()?),
    })
}

fn then(a: &Rc<Expr>, b: &Rc<Expr>) -> Rc<Expr> {
    match (&**a, &**b) {
        (Expr::Never, _) | (_, Expr::Never) => Rc::new(Expr::Never),
        (Expr::Empty, _) => b.clone(),
        (_, Expr::Empty) => a.clone(),
        (Expr::Then(first, rest), _) => Rc::new(Expr::Then(first.clone(), then(rest, b))),
        _ => Rc::new(Expr::Then(a.clone(), b.clone())),
    }
}

fn or(parts: Vec<Rc<Expr>>) -> Rc<Expr> {
    let mut all = Vec::new();
    for part in parts {
        match &*part {
            Expr::Never => {}
            Expr::Or(more) => all.extend(more.iter().cloned()),
            _ => all.push(part),
        }
    }
    all.sort();
    all.dedup();
    match all.len() {
        0 => Rc::new(Expr::Never),
        1 => all.remove(0),
        _ => Rc::new(Expr::Or(all)),
    }
}

fn times(part: Rc<Expr>, least: u32, most: Option<u32>) -> Rc<Expr> {
    // A part that may be empty may occur less often.
    let least = if is_nullable(&part) { 0 } else { least };
    match (&*part, least, most) {
        (_, _, Some(0)) | (Expr::Empty, ..) | (Expr::Never, 0, _) => Rc::new(Expr::Empty),
        (_, 1, Some(1)) | (Expr::Never, ..) => part,
        _ => Rc::new(Expr::Times(part, least, most)),
    }
}

fn is_nullable(expr: &Expr) -> bool {
    match expr {
        Expr::Never | Expr::Range(..) => false,
        Expr::Empty => true,
        Expr::Then(a, b) => is_nullable(a) && is_nullable(b),
        Expr::Or(parts) => parts.iter().any(|part| is_nullable(part)),
        Expr::Times(part, least, _) => *least == 0 || is_nullable(part),
    }
}

fn derivative(expr: &Rc<Expr>, byte: u8) -> Rc<Expr> {
    match &**expr {
        Expr::Never | Expr::Empty => Rc::new(Expr::Never),
        Expr::Range(from, to) => Rc::new(if (*from..=*to).contains(&byte) { Expr::Empty } else { Expr::Never }),
        Expr::Then(a, b) => {
            let first = then(&derivative(a, byte), b);
            if is_nullable(a) { or(vec![first, derivative(b, byte)]) } else { first }
        }
        Expr::Or(parts) => or(parts.iter().map(|part| derivative(part, byte)).collect()),
        Expr::Times(part, least, most) => {
            let rest = times(part.clone(), least.saturating_sub(1), most.map(|most| most - 1));
            then(&derivative(part, byte), &rest)
        }
    }
}
