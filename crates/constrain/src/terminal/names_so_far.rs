//! Tracks the names in an incomplete JSON text, byte by byte.

use std::sync::Arc;

use super::json_text::{Quotes, decoded, is_space};

/// The names in the open objects, and whether some object repeats a name. Clones share what they have read.
#[derive(Clone, Debug, Default)]
pub(super) struct NamesSoFar {
    /// The number of bytes read.
    length: usize,
    quotes: Quotes,
    /// Whether the last byte, white space aside, was an opening bracket or a comma.
    begins: bool,
    /// The open arrays and objects.
    frames: Arc<Vec<Frame>>,
    /// The start of an incomplete name, and its bytes so far.
    begun: Option<(usize, Vec<u8>)>,
    /// Whether a name has been repeated.
    pub(super) repeats: bool,
}

/// An open array or object.
#[derive(Clone, Debug)]
struct Frame {
    is_object: bool,
    /// The position and content of each name.
    names: Arc<Vec<(usize, Vec<u8>)>>,
}

impl NamesSoFar {
    pub(super) fn of(text: &[u8]) -> Self {
        let mut names = Self::default();
        text.iter().for_each(|&byte| names.read(byte));
        names
    }

    /// Reads one more byte.
    pub(super) fn read(&mut self, byte: u8) {
        let (at, was_inside) = (self.length, self.quotes.inside);
        self.length += 1;
        self.quotes.read(byte);
        if was_inside {
            if let Some((_, begun)) = &mut self.begun {
                begun.push(byte);
                if !self.quotes.inside {
                    self.end_name();
                }
            }
            return;
        }
        match byte {
            b'[' | b'{' => {
                Arc::make_mut(&mut self.frames).push(Frame { is_object: byte == b'{', names: Arc::default() })
            }
            b']' | b'}' => {
                Arc::make_mut(&mut self.frames).pop();
            }
            b'"' if self.begins && self.frames.last().is_some_and(|frame| frame.is_object) => {
                self.begun = Some((at, Vec::new()));
            }
            _ => {}
        }
        if !is_space(byte) {
            self.begins = matches!(byte, b'[' | b'{' | b',');
        }
    }

    fn end_name(&mut self) {
        let (Some((from, begun)), Some(frame)) = (self.begun.take(), Arc::make_mut(&mut self.frames).last_mut()) else {
            return;
        };
        let whole = decoded(&begun);
        self.repeats |= frame.names.iter().any(|(_, known)| *known == whole);
        Arc::make_mut(&mut frame.names).push((from, whole));
    }

    /// The positions and contents of the names in the innermost open object.
    pub(super) fn innermost(&self) -> &[(usize, Vec<u8>)] {
        self.frames.last().map_or(&[], |frame| &frame.names)
    }

    /// Whether a name has been repeated, or an incomplete one may become a repetition.
    pub(super) fn may_repeat(&self) -> bool {
        self.repeats
            || self.begun.as_ref().is_some_and(|(_, begun)| {
                let begun = decoded(begun);
                self.innermost().iter().any(|(_, known)| known.starts_with(&begun))
            })
    }

    /// The approximate number of bytes used, apart from the struct itself and shared data.
    pub(super) fn bytes(&self) -> usize {
        let begun = self.begun.as_ref().map_or(0, |(_, begun)| begun.capacity());
        let frames = if Arc::strong_count(&self.frames) == 1 { self.frames.len() * size_of::<Frame>() } else { 0 };
        begun + frames
    }
}
