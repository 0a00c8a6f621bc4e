//! JSON strings with any content.
//!
//! Most strings of most schemas are of this kind, so what they allow is computed once per vocabulary.

use super::Terminal;
use super::characters::ANY;
use super::escape::Escapes;
use super::quoted::Quoted;
use super::string_content::StringContent;

/// A JSON string with any content, of which at most `most` characters may still come and `missing` must; both are
/// counted only as far as a token reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AnyString {
    pub(crate) most: u32,
    pub(crate) missing: u32,
    /// Whether the opening quote is still to come.
    pub(crate) open: bool,
    pub(crate) escapes: Escapes,
}

impl AnyString {
    /// Views the state of a terminal as that of such a string: one with any content, or names that may be anything
    /// except those of the schema. `max_token_chars` is the maximum number of characters of a token.
    pub(crate) fn of(terminal: &Terminal, state: u32, max_token_chars: u32) -> Option<Self> {
        let ((most, missing), open, escapes) = match terminal {
            Terminal::Table(_)
            | Terminal::Lazy(_)
            | Terminal::Spelled(_)
            | Terminal::Fresh(_)
            | Terminal::Distinct(_) => return None,
            Terminal::Text(text) => {
                let open = text.is_open(state)?;
                (text.content.free_count(text.content_state(state))?, open, text.escapes())
            }
            Terminal::Names(names) => {
                let any = names.content.is_any(names.content_state(state)).then_some((u32::MAX, 0));
                (any?, names.is_open(state)?, names.escapes())
            }
        };
        Some(Self { most: most.min(max_token_chars), missing: missing.min(max_token_chars), open, escapes })
    }

    /// A terminal for such a string, and the state in it.
    pub(crate) fn terminal(self, max_token_chars: u32) -> (Quoted<StringContent>, u32) {
        let most = (self.most < max_token_chars).then_some(self.most);
        any_string(self.missing, most, self.open, self.escapes)
    }
}

/// A string of `least` to `most` characters with any content, and its first state.
pub(crate) fn any_string(least: u32, most: Option<u32>, open: bool, escapes: Escapes) -> (Quoted<StringContent>, u32) {
    let content = StringContent::new(ANY.clone(), least.into(), most.map(u64::from)).ok().flatten();
    let text = Quoted::new(content.expect("there are such texts"), escapes);
    let state = text.start();
    let state = if open { state } else { text.next(state, b'"').expect("a string opens") };
    (text, state)
}
