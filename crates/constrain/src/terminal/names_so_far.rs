//! The names of a JSON text that has begun, byte after byte.

use std::sync::Arc;

use super::json_text::{Quotes, decoded, is_space};

/// The names in the objects that are open, and whether some object has a name twice. Copies share what they have read.
#[derive(Clone, Debug, Default)]
pub(super) struct NamesSoFar {
    /// How many bytes have been read.
    length: usize,
    quotes: Quotes,
    /// Whether this is after an opening bracket or a comma.
    begins: bool,
    /// The arrays and objects that are open.
    frames: Arc<Vec<Frame>>,
    /// Where a name begins that is not whole, and what has been written of it.
    begun: Option<(usize, Vec<u8>)>,
    /// Whether a name has come twice.
    pub(super) repeats: bool,
}

/// An array or object that is open.
#[derive(Clone, Debug)]
struct Frame {
    is_object: bool,
    /// Where each name begins, and what it is.
    names: Arc<Vec<(usize, Vec<u8>)>>,
}

impl NamesSoFar {
    pub(super) fn of(text: &[u8]) -> Self {
        let mut names = Self::default();
        text.iter().for_each(|&byte| names.read(byte));
        names
    }

    /// Takes in one more byte.
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

    /// The names in the innermost object that is open: where each begins, and what it is.
    pub(super) fn innermost(&self) -> &[(usize, Vec<u8>)] {
        self.frames.last().map_or(&[], |frame| &frame.names)
    }

    /// Whether a name has come twice, or is begun that may come to that.
    pub(super) fn may_repeat(&self) -> bool {
        self.repeats
            || self.begun.as_ref().is_some_and(|(_, begun)| {
                let begun = decoded(begun);
                self.innermost().iter().any(|(_, known)| known.starts_with(&begun))
            })
    }

    /// About how many bytes it takes beside itself and what others share.
    pub(super) fn bytes(&self) -> usize {
        let begun = self.begun.as_ref().map_or(0, |(_, begun)| begun.capacity());
        let frames = if Arc::strong_count(&self.frames) == 1 { self.frames.len() * size_of::<Frame>() } else { 0 };
        begun + frames
    }
}
