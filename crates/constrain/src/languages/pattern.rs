//! Regular expressions in grammars.

use regex_syntax::hir::{Hir, HirKind, Repetition};

use super::fault::{Position, Result};
use crate::automata::syntax::parse;

/// The maximum length of an expression in bytes.
const MAX_PATTERN: usize = 1 << 20;

/// Parses an expression that begins at some position.
pub(super) fn pattern(pattern: &str, at: Position) -> Result<Hir> {
    let hir = match parse(pattern) {
        _ if pattern.len() > MAX_PATTERN => {
            return at.wrong("an expression is longer than 1 MiB", "write a shorter one");
        }
        Err(fault) => return at.wrong(one_line(&fault.to_string()), "correct the expression"),
        Ok(hir) => hir,
    };
    match hir.properties().look_set().is_empty() {
        true => Ok(hir),
        // An expression in a grammar is a part of a text, so ^ and $ at its ends hold where it begins and ends.
        false => match without_ends(&hir) {
            Some(hir) => Ok(hir),
            None => at.unsupported("an expression that looks around", "leave out ^, $ and \\b: it matches as a whole"),
        },
    }
}

/// The expression without assertions of its beginning and end at its ends; `None` if it has others.
fn without_ends(hir: &Hir) -> Option<Hir> {
    let parts = match hir.kind() {
        HirKind::Concat(parts) => parts.clone(),
        HirKind::Capture(capture) => return without_ends(&capture.sub),
        _ => vec![hir.clone()],
    };
    let is_start = |part: &Hir| matches!(part.kind(), HirKind::Look(regex_syntax::hir::Look::Start));
    let is_end = |part: &Hir| matches!(part.kind(), HirKind::Look(regex_syntax::hir::Look::End));
    let first = parts.iter().take_while(|part| is_start(part)).count();
    let last = parts.len() - parts[first..].iter().rev().take_while(|part| is_end(part)).count();
    let hir = Hir::concat(parts[first..last].to_vec());
    hir.properties().look_set().is_empty().then_some(hir)
}

/// An expression that matches lazily matches the same whole texts as one that does not.
pub(super) fn is_lazy(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(Repetition { greedy, sub, .. }) => !greedy || is_lazy(sub),
        HirKind::Capture(capture) => is_lazy(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(is_lazy),
        _ => false,
    }
}

/// A message without line ends.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
