//! The names of a JSON text that has begun.

use super::json_text::{Quotes, decoded};

/// The names in the innermost object that is open, and whether some object has a name twice.
#[derive(Debug, Default)]
pub(super) struct NamesSoFar {
    /// Where each begins, and what it is.
    pub(super) innermost: Vec<(usize, Vec<u8>)>,
    /// Whether a name has come twice, or is begun that may come to that.
    pub(super) may_repeat: bool,
}

/// An array or object that is open.
#[derive(Default)]
struct Frame {
    is_object: bool,
    names: Vec<(usize, Vec<u8>)>,
}

impl NamesSoFar {
    pub(super) fn of(text: &[u8]) -> Self {
        let (mut frames, mut may_repeat) = (Vec::<Frame>::new(), false);
        let (mut quotes, mut name) = (Quotes::default(), None);
        // After an opening bracket or a comma.
        let mut begins = false;
        for (at, &byte) in text.iter().enumerate() {
            let was_inside = quotes.inside;
            quotes.read(byte);
            if was_inside {
                if let (false, Some(from), Some(frame)) = (quotes.inside, name, frames.last_mut()) {
                    let whole = decoded(&text[from + 1..=at]);
                    may_repeat |= frame.names.iter().any(|(_, known)| *known == whole);
                    frame.names.push((from, whole));
                    name = None;
                }
                continue;
            }
            match byte {
                b'[' | b'{' => frames.push(Frame { is_object: byte == b'{', names: Vec::new() }),
                b']' | b'}' => {
                    frames.pop();
                }
                b'"' if begins && frames.last().is_some_and(|frame| frame.is_object) => name = Some(at),
                _ => {}
            }
            if !super::json_text::is_space(byte) {
                begins = matches!(byte, b'[' | b'{' | b',');
            }
        }
        let innermost = frames.pop().unwrap_or_default().names;
        if let Some(from) = name {
            let begun = decoded(&text[from + 1..]);
            may_repeat |= innermost.iter().any(|(_, known)| known.starts_with(&begun));
        }
        Self { innermost, may_repeat }
    }
}
