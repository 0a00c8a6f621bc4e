//! An incremental parser for tool calls in a text.

use crate::calls::syntax::Syntax;

/// The next part of a text. No string is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ParsedPart {
    /// Text outside calls.
    Text(String),
    /// A call begins: the name of the tool.
    Call(String),
    /// A piece of the arguments of the call, as JSON.
    Arguments(String),
    /// The arguments are complete.
    CallEnd,
}

/// Parses a text that obeys the constraint of [`super::grammar`], split into any pieces.
#[derive(Debug)]
pub(crate) struct CallReader {
    /// The syntax of calls; `None` if the text cannot contain any.
    syntax: Option<&'static Syntax>,
    state: ReaderState,
    /// Input that has not been returned yet.
    held: String,
    /// The source text of the current call.
    call: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReaderState {
    /// Before any call, at the beginning of the text or not.
    Text {
        is_begun: bool,
    },
    /// At the string that opens calls.
    Open,
    /// At the name of a tool.
    Name,
    Arguments(Json),
    /// After the arguments of a call.
    After,
    /// After the last call.
    Rest,
}

impl CallReader {
    /// A reader at the beginning of a text.
    pub(crate) fn new(syntax: Option<&'static Syntax>) -> Self {
        Self { syntax, state: ReaderState::Text { is_begun: false }, held: String::new(), call: String::new() }
    }

    /// Reads a piece, and appends the parts that are now certain.
    pub(crate) fn push(&mut self, piece: &str, parts: &mut Vec<ParsedPart>) {
        let Some(syntax) = self.syntax else {
            return parts.extend((!piece.is_empty()).then(|| ParsedPart::Text(piece.into())));
        };
        self.held.push_str(piece);
        while self.step(syntax, parts) {}
    }

    /// Reads at most one part; returns whether there may be more.
    fn step(&mut self, syntax: &Syntax, parts: &mut Vec<ParsedPart>) -> bool {
        match self.state {
            ReaderState::Text { is_begun } => {
                let found = match syntax.is_first {
                    true => (!is_begun && self.held.starts_with(syntax.mark)).then_some(0),
                    false => self.held.find(syntax.mark),
                };
                if let Some(begin) = found {
                    self.text(begin, parts);
                    self.state = ReaderState::Open;
                    return true;
                }
                let kept = if syntax.is_first && is_begun { 0 } else { begun(&self.held, syntax.mark) };
                let ready = match syntax.is_first && kept < self.held.len() {
                    // The text does not begin with a call, so it has none.
                    true => self.held.len(),
                    false => self.held.len() - kept,
                };
                self.text(ready, parts);
                false
            }
            ReaderState::Open => {
                let open = syntax.open.len() + syntax.name.len();
                let is_there = self.held.len() >= open;
                if is_there {
                    self.take(open);
                    self.state = ReaderState::Name;
                }
                is_there
            }
            ReaderState::Name => {
                let Some(end) = self.held.find('"') else { return false };
                if self.held.len() < end + syntax.arguments.len() {
                    return false;
                }
                parts.push(ParsedPart::Call(self.held[..end].into()));
                self.take(end + syntax.arguments.len());
                self.state = ReaderState::Arguments(Json::default());
                true
            }
            ReaderState::Arguments(mut json) => {
                let (length, is_whole) = json.read(&self.held);
                if length > 0 {
                    let piece = self.take(length);
                    parts.push(ParsedPart::Arguments(piece));
                }
                self.state = if is_whole { ReaderState::After } else { ReaderState::Arguments(json) };
                if is_whole {
                    parts.push(ParsedPart::CallEnd);
                }
                is_whole
            }
            ReaderState::After => {
                let next = [syntax.end, syntax.between, syntax.name].concat();
                let goes_on = syntax.several && self.held.starts_with(&next);
                if goes_on {
                    self.call.clear();
                    self.take(next.len());
                    self.state = ReaderState::Name;
                } else if !next.starts_with(&self.held) {
                    self.state = ReaderState::Rest;
                }
                goes_on
            }
            // Only the closing string is left, which is not a part.
            ReaderState::Rest => false,
        }
    }

    /// Returns the first `length` held bytes as text.
    fn text(&mut self, length: usize, parts: &mut Vec<ParsedPart>) {
        if length > 0 {
            parts.push(ParsedPart::Text(self.held.drain(..length).collect()));
            self.state = ReaderState::Text { is_begun: true };
        }
    }

    /// Takes the first `length` held bytes as part of a call.
    fn take(&mut self, length: usize) -> String {
        let taken: String = self.held.drain(..length).collect();
        self.call.push_str(&taken);
        taken
    }

    /// Ends the text and appends what was held back. Returns the source text of a call that was cut short.
    pub(crate) fn finish(&mut self, parts: &mut Vec<ParsedPart>) -> Option<String> {
        match self.state {
            ReaderState::Text { .. } => {
                self.text(self.held.len(), parts);
                None
            }
            ReaderState::Open | ReaderState::Name | ReaderState::Arguments(_) => {
                Some(std::mem::take(&mut self.call) + &std::mem::take(&mut self.held))
            }
            ReaderState::After | ReaderState::Rest => None,
        }
    }
}

/// The number of bytes at the end of `text` that are a proper prefix of `mark`.
fn begun(text: &str, mark: &str) -> usize {
    let most = text.len().min(mark.len() - 1);
    (1..=most).rev().find(|&length| text.as_bytes().ends_with(&mark.as_bytes()[..length])).unwrap_or(0)
}

/// The state of a scan through a JSON value in pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Json {
    /// The number of open objects and arrays.
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl Json {
    /// Scans `text`; returns the number of bytes that belong to the value, and whether it is complete. Numbers and
    /// literals end at the bracket after them.
    fn read(&mut self, text: &str) -> (usize, bool) {
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_string => self.is_escaped = true,
                b'"' => {
                    self.in_string = !self.in_string;
                    if !self.in_string && self.depth == 0 {
                        return (at + 1, true);
                    }
                }
                _ if self.in_string => (),
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth == 0 => return (at, true),
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return (at + 1, true);
                    }
                }
                _ => (),
            }
        }
        (text.len(), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::syntax::{BARE, LIST, TAGGED};

    /// Reads a text in pieces of `piece` bytes, and joins adjacent parts of a kind.
    fn read(syntax: &'static Syntax, text: &str, piece: usize) -> (Vec<ParsedPart>, Option<String>) {
        let (mut reader, mut parts) = (CallReader::new(Some(syntax)), Vec::new());
        let mut rest = text;
        while !rest.is_empty() {
            let cut = (piece..=rest.len()).find(|&at| rest.is_char_boundary(at)).unwrap_or(rest.len());
            reader.push(&rest[..cut], &mut parts);
            rest = &rest[cut..];
        }
        let cut = reader.finish(&mut parts);
        let mut joined: Vec<ParsedPart> = Vec::new();
        for part in parts {
            match (joined.last_mut(), part) {
                (Some(ParsedPart::Text(before)), ParsedPart::Text(text)) => before.push_str(&text),
                (Some(ParsedPart::Arguments(before)), ParsedPart::Arguments(text)) => before.push_str(&text),
                (_, part) => joined.push(part),
            }
        }
        (joined, cut)
    }

    fn text(text: &str) -> ParsedPart {
        ParsedPart::Text(text.into())
    }

    fn call(name: &str, arguments: &str) -> [ParsedPart; 3] {
        [ParsedPart::Call(name.into()), ParsedPart::Arguments(arguments.into()), ParsedPart::CallEnd]
    }

    #[test]
    fn calls_are_read_wherever_pieces_begin() {
        let tricky = r#"{"a": "}]\"{\\", "b": [{"c": "</tool_call>é"}], "d": 1}"#;
        let tagged = format!("<tool_call>\n{{\"name\": \"f\", \"arguments\": {tricky}}}\n</tool_call>");
        let two = format!("É <tool_\n{tagged}\n{tagged}");
        let listed = format!("[{{\"name\": \"f\", \"arguments\": {tricky}}}");
        let bare = format!("{{\"name\": \"f\", \"parameters\": {tricky}}}");
        let both = [call("f", tricky), call("f", tricky)].concat();
        for (syntax, written, expected) in [
            (&TAGGED, "A text <tool_call".to_owned(), vec![text("A text <tool_call")]),
            (&TAGGED, tagged.clone(), call("f", tricky).to_vec()),
            (&TAGGED, two, [vec![text("É <tool_\n")], both.clone()].concat()),
            (&LIST, format!("{listed}]"), call("f", tricky).to_vec()),
            (&LIST, format!("{listed}, {}]", &listed[1..]), both),
            (&LIST, format!("x {listed}]"), vec![text(&format!("x {listed}]"))]),
            (&BARE, bare.clone(), call("f", tricky).to_vec()),
            (&BARE, "{\"name\": 3}".to_owned(), vec![text("{\"name\": 3}")]),
            (&BARE, "{\"na".to_owned(), vec![text("{\"na")]),
            (&BARE, String::new(), vec![]),
        ] {
            for piece in [1, 2, 3, 5, 8, 13, 1000] {
                assert_eq!(read(syntax, &written, piece), (expected.clone(), None), "{written} by {piece}");
            }
        }
    }

    /// The source text of the call is returned.
    #[test]
    fn a_call_that_is_cut_short_is_none() {
        let written = "Yes.<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"b";
        for piece in [1, 4, 100] {
            let (parts, cut) = read(&TAGGED, written, piece);
            let begun = [ParsedPart::Call("f".into()), ParsedPart::Arguments("{\"a\": \"b".into())];
            assert_eq!(parts, [vec![text("Yes.")], begun.to_vec()].concat());
            assert_eq!(cut.as_deref(), Some(&written[4..]));
        }
        assert_eq!(read(&TAGGED, "<tool_call>\n{", 3), (vec![], Some("<tool_call>\n{".into())));
    }

    #[test]
    fn a_text_without_calls_is_told_at_once() {
        let (mut reader, mut parts) = (CallReader::new(None), Vec::new());
        reader.push("<tool_call>", &mut parts);
        assert_eq!((parts, reader.finish(&mut Vec::new())), (vec![text("<tool_call>")], None));
    }
}
