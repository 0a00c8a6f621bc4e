//! Explains in words why a token is allowed or not.

use std::fmt;
use std::sync::Arc;

use crate::machine::mask::OverBudget;
use crate::machine::{Machine, State};
use crate::terminal::Terminal;
use crate::terminal::language::Language;
use crate::terminal::names::Names;

/// The continuations that were allowed at a position, compared with a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The bytes of the token.
    pub token: Vec<u8>,
    /// The number of its bytes that are allowed; the token is allowed if all are.
    pub fits: usize,
    /// The continuations allowed after those bytes.
    pub expected: Vec<Expected>,
    /// Whether the text may end there.
    pub may_end: bool,
    /// The reason why the alternatives to the token are not known, if finding them takes too much work; `expected` is
    /// empty then.
    pub over_budget: Option<OverBudget>,
}

/// One thing that may come next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The part of the schema that requires it, as a JSON pointer in a URI fragment; empty without a schema.
    pub path: String,
    /// A description of the next byte.
    pub next: String,
}

/// The maximum number of names that are listed.
const MAX_NAMES: usize = 8;

impl Explanation {
    /// Whether the token is allowed.
    pub fn is_allowed(&self) -> bool {
        self.fits == self.token.len() && !self.token.is_empty()
    }

    pub(crate) fn of(machine: &Machine, state: State, token: &[u8]) -> Self {
        let (mut at, mut fits) = (state, 0);
        for &byte in token {
            let next = machine.next(at, &[byte]);
            if !machine.goes_on(next) {
                break;
            }
            (at, fits) = (next, fits + 1);
        }
        let of =
            |(path, terminal, state): (String, Arc<Terminal>, u32)| Expected { path, next: describe(&terminal, state) };
        let reading = machine.reading(at).into_iter().map(of);
        let mut expected: Vec<Expected> = reading.filter(|expected| !expected.next.is_empty()).collect();
        expected.sort_unstable_by(|a, b| (&a.path, &a.next).cmp(&(&b.path, &b.next)));
        expected.dedup();
        Self { token: token.to_vec(), fits, expected, may_end: machine.accepts(at), over_budget: None }
    }

    /// For a token that is allowed at a position where the alternatives take too much work to find.
    pub(crate) fn over_budget(token: &[u8], fault: OverBudget) -> Self {
        let (fits, expected) = (token.len(), Vec::new());
        Self { token: token.to_vec(), fits, expected, may_end: false, over_budget: Some(fault) }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| format!("{:?}", String::from_utf8_lossy(bytes));
        if let Some(fault) = &self.over_budget {
            return fault.fmt(f);
        }
        let token = text(&self.token);
        match self.fits {
            _ if self.is_allowed() => return write!(f, "{token} is allowed"),
            0 => write!(f, "{token} cannot come here")?,
            fits => write!(f, "{token} cannot come here, but {} could", text(&self.token[..fits]))?,
        }
        let mut before = if self.fits == 0 { "; expected: " } else { "; expected after that: " };
        for Expected { path, next } in &self.expected {
            write!(f, "{before}{next}")?;
            if !path.is_empty() {
                write!(f, " ({path})")?;
            }
            before = ", or ";
        }
        if self.may_end {
            write!(f, "{before}the end")?;
        }
        Ok(())
    }
}

/// Describes the next byte of a terminal in a state.
fn describe(terminal: &Terminal, state: u32) -> String {
    if let Terminal::Names(names) = terminal
        && let Some(text) = of_names(&names.content, names.content_state(state), names.is_open(state))
    {
        return text;
    }
    let mut parts = Vec::new();
    let comes = |byte: u8| terminal.next(state, byte).is_some();
    let mut byte = 0x20u8;
    while byte < 0x7f {
        if !comes(byte) {
            byte += 1;
            continue;
        }
        let last = (byte..0x7f).take_while(|&byte| comes(byte)).last().expect("the first is one");
        let quoted = |byte: u8| match byte {
            b' ' => "a space".to_owned(),
            b'"' => "a quotation mark".to_owned(),
            byte => format!("{}", char::from(byte)),
        };
        parts.push(match last - byte {
            0 => quoted(byte),
            1 => format!("{} {}", quoted(byte), quoted(last)),
            94.. => "any sign".to_owned(),
            _ => format!("{} to {}", quoted(byte), quoted(last)),
        });
        byte = last + 1;
    }
    if [b'\t', b'\n', b'\r'].into_iter().any(comes) {
        parts.push("white space".into());
    }
    if (0x80..=0xff).any(comes) {
        parts.push("signs beyond ASCII".into());
    }
    parts.join(" ")
}

/// Describes the names that may come, at the beginning of a name or inside one.
fn of_names(names: &Names, state: u32, is_open: Option<bool>) -> Option<String> {
    let known = names.known_from(state, MAX_NAMES + 1);
    let before = if is_open? { "the name " } else { "the rest of the name " };
    let mut list: Vec<String> = known.iter().take(MAX_NAMES).map(|name| format!("{name:?}")).collect();
    if known.len() > MAX_NAMES {
        list.push("...".into());
    }
    if names.has_others(state) {
        list.push("another".into());
    }
    (!list.is_empty()).then(|| before.to_owned() + &list.join(" "))
}
