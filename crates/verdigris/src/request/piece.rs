//! Texts with the control tokens in them.

use verdigris_text::StreamPart;

/// The control tokens in a text: the offset of each in bytes, in order, and its name.
pub type ControlTokens = Vec<(usize, Box<str>)>;

/// A piece of a text: whole characters, and the control tokens among them, which have no characters. One of both may be
/// empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Piece {
    /// The characters.
    pub text: String,
    /// The control tokens.
    pub controls: ControlTokens,
}

impl Piece {
    /// The piece as part of itself.
    pub(super) fn ready(&self) -> Ready<'_> {
        Ready { text: &self.text, from: 0, controls: &self.controls }
    }

    /// The text and the control tokens in their order.
    pub fn parts(&self) -> impl Iterator<Item = StreamPart<'_>> {
        parts(&self.text, &self.controls)
    }
}

/// A piece that is part of a longer text.
pub(super) struct Ready<'t> {
    /// The characters.
    pub(super) text: &'t str,
    /// The offset of the piece.
    pub(super) from: usize,
    /// The control tokens, with offsets in the longer text.
    pub(super) controls: &'t [(usize, Box<str>)],
}

impl Ready<'_> {
    /// Whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.controls.is_empty()
    }

    /// The piece itself.
    pub(super) fn piece(self) -> Piece {
        let controls = self.controls.iter().map(|(at, name)| (at.saturating_sub(self.from), name.clone()));
        Piece { text: self.text.to_owned(), controls: controls.collect() }
    }
}

/// A text and the control tokens in it, in their order.
pub(super) fn parts<'t>(text: &'t str, controls: &'t [(usize, Box<str>)]) -> impl Iterator<Item = StreamPart<'t>> {
    let begins = std::iter::once(0).chain(controls.iter().map(|(at, _)| *at));
    let ends = controls.iter().map(|(at, name)| (*at, Some(&**name))).chain([(text.len(), None)]);
    begins.zip(ends).flat_map(move |(begin, (end, control))| {
        let text = text.get(begin..end).filter(|text| !text.is_empty());
        text.map(StreamPart::Text).into_iter().chain(control.map(StreamPart::Control))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_tokens_are_between_texts() {
        let controls: ControlTokens = vec![(0, "<a>".into()), (2, "<b>".into()), (2, "<c>".into()), (3, "<d>".into())];
        let ready = Ready { text: "xyz", from: 10, controls: &[(10, "<a>".into()), (12, "<b>".into())] };
        assert_eq!(ready.piece().controls, controls[..2]);
        let piece = Piece { text: "xyz".into(), controls };
        let (text, control) = (StreamPart::Text, StreamPart::Control);
        let expected = [control("<a>"), text("xy"), control("<b>"), control("<c>"), text("z"), control("<d>")];
        assert_eq!(piece.parts().collect::<Vec<_>>(), expected);
        assert_eq!(Piece::default().parts().count(), 0);
    }
}
