//! The punctuation of JSON, with the white space around it.

use crate::automata::automaton::Automaton;
use crate::grammar::builder::GrammarBuilder;
use crate::grammar::punctuation::Punctuation;
use crate::json::style::Whitespace;
use crate::terminal::Terminal;

/// Adds the terminals of punctuation to a grammar.
pub(super) fn add(grammar: &mut GrammarBuilder, whitespace: Whitespace) -> Punctuation {
    let mut sign = |before: Padding, sign: u8, after: Padding| {
        grammar.terminal(Terminal::Table(Box::new(spaced(before, sign, after))))
    };
    let (none, after) = (Padding::None, Padding::after(whitespace));
    let around = if let Whitespace::Free { .. } = whitespace { after } else { none };
    Punctuation {
        open_object: sign(none, b'{', around),
        open_array: sign(none, b'[', around),
        // White space after the opening sign has been read with it.
        close_object: [sign(none, b'}', none), sign(around, b'}', none)],
        close_array: [sign(none, b']', none), sign(around, b']', none)],
        comma: sign(around, b',', after),
        colon: sign(around, b':', after),
        width: if whitespace == Whitespace::Spaced { 2 } else { 1 },
    }
}

/// White space next to a sign.
#[derive(Clone, Copy)]
enum Padding {
    None,
    One,
    OneOrNone,
    UpTo(u8),
}

impl Padding {
    fn after(whitespace: Whitespace) -> Self {
        match whitespace {
            Whitespace::Compact => Self::None,
            Whitespace::Spaced => Self::One,
            Whitespace::Optional => Self::OneOrNone,
            Whitespace::Free { most } => Self::UpTo(most),
        }
    }

    /// Whether `byte` may follow after `so_far` bytes of white space.
    fn has(self, so_far: u8, byte: u8) -> bool {
        match self {
            Self::None => false,
            Self::One | Self::OneOrNone => so_far == 0 && byte == b' ',
            Self::UpTo(most) => so_far < most && matches!(byte, b' ' | b'\t' | b'\n' | b'\r'),
        }
    }

    fn is_enough(self, so_far: u8) -> bool {
        !matches!(self, Self::One) || so_far == 1
    }
}

/// A sign of JSON with the white space before and after it.
fn spaced(before: Padding, sign: u8, after: Padding) -> Automaton {
    let automaton = Automaton::explore(
        (false, 0u8),
        |byte| if byte == sign || matches!(byte, b' ' | b'\t' | b'\n' | b'\r') { byte } else { 0 },
        |&(written, spaces), byte| {
            if byte == sign {
                return (!written && before.is_enough(spaces)).then_some((true, 0));
            }
            let space = if written { after } else { before };
            space.has(spaces, byte).then(|| (written, spaces + 1))
        },
        |&(written, spaces)| written && after.is_enough(spaces),
    );
    automaton.expect("it is small")
}
