//! Calls of tools, read out of a text as it comes.

use crate::calls::syntax::Syntax;

/// What comes next of a text. No piece is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Text for people.
    Text(String),
    /// A call begins: the name of the tool.
    Call(String),
    /// More of the arguments of the call, as JSON.
    Arguments(String),
    /// The arguments are whole.
    CallEnd,
}

/// Reads a text that obeys the form of [`super::form`], in whatever pieces it comes.
#[derive(Debug)]
pub(crate) struct CallReader {
    /// How calls are written; nothing where there can be none.
    syntax: Option<&'static Syntax>,
    at: At,
    /// What has come and is not told yet.
    held: String,
    /// The call that is being read, as it is written.
    call: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Before any call, at the beginning of the text or not.
    Text {
        is_begun: bool,
    },
    /// At what opens calls.
    Open,
    /// At the name of a tool.
    Name,
    Arguments(Json),
    /// After the arguments of a call.
    After,
    /// After all.
    Rest,
}

impl CallReader {
    /// Of a text at its beginning.
    pub(crate) fn new(syntax: Option<&'static Syntax>) -> Self {
        Self { syntax, at: At::Text { is_begun: false }, held: String::new(), call: String::new() }
    }

    /// Takes a piece; appends what is known by it.
    pub(crate) fn push(&mut self, piece: &str, parts: &mut Vec<Part>) {
        let Some(syntax) = self.syntax else {
            return parts.extend((!piece.is_empty()).then(|| Part::Text(piece.into())));
        };
        self.held.push_str(piece);
        while self.step(syntax, parts) {}
    }

    /// Reads on, as far as one part goes. Whether there may be more.
    fn step(&mut self, syntax: &Syntax, parts: &mut Vec<Part>) -> bool {
        match self.at {
            At::Text { is_begun } => {
                let found = match syntax.is_first {
                    true => (!is_begun && self.held.starts_with(syntax.mark)).then_some(0),
                    false => self.held.find(syntax.mark),
                };
                if let Some(begin) = found {
                    self.text(begin, parts);
                    self.at = At::Open;
                    return true;
                }
                let kept = if syntax.is_first && is_begun { 0 } else { begun(&self.held, syntax.mark) };
                let ready = match syntax.is_first && kept < self.held.len() {
                    // It begins otherwise, so that it has no calls.
                    true => self.held.len(),
                    false => self.held.len() - kept,
                };
                self.text(ready, parts);
                false
            }
            At::Open => {
                let open = syntax.open.len() + syntax.name.len();
                let is_there = self.held.len() >= open;
                if is_there {
                    self.take(open);
                    self.at = At::Name;
                }
                is_there
            }
            At::Name => {
                let Some(end) = self.held.find('"') else { return false };
                if self.held.len() < end + syntax.arguments.len() {
                    return false;
                }
                parts.push(Part::Call(self.held[..end].into()));
                self.take(end + syntax.arguments.len());
                self.at = At::Arguments(Json::default());
                true
            }
            At::Arguments(mut json) => {
                let (length, is_whole) = json.read(&self.held);
                if length > 0 {
                    let piece = self.take(length);
                    parts.push(Part::Arguments(piece));
                }
                self.at = if is_whole { At::After } else { At::Arguments(json) };
                if is_whole {
                    parts.push(Part::CallEnd);
                }
                is_whole
            }
            At::After => {
                let next = [syntax.end, syntax.between, syntax.name].concat();
                let goes_on = syntax.several && self.held.starts_with(&next);
                if goes_on {
                    self.call.clear();
                    self.take(next.len());
                    self.at = At::Name;
                } else if !next.starts_with(&self.held) {
                    self.at = At::Rest;
                }
                goes_on
            }
            // Nothing but the end of the form is left, which tells nothing.
            At::Rest => false,
        }
    }

    /// Tells the first bytes of what is held as text.
    fn text(&mut self, length: usize, parts: &mut Vec<Part>) {
        if length > 0 {
            parts.push(Part::Text(self.held.drain(..length).collect()));
            self.at = At::Text { is_begun: true };
        }
    }

    /// Takes the first bytes of what is held as part of a call.
    fn take(&mut self, length: usize) -> String {
        let taken: String = self.held.drain(..length).collect();
        self.call.push_str(&taken);
        taken
    }

    /// The end of the text; appends what was held back. A call that was cut short is returned as it was written.
    pub(crate) fn finish(&mut self, parts: &mut Vec<Part>) -> Option<String> {
        match self.at {
            At::Text { .. } => {
                self.text(self.held.len(), parts);
                None
            }
            At::Open | At::Name | At::Arguments(_) => {
                Some(std::mem::take(&mut self.call) + &std::mem::take(&mut self.held))
            }
            At::After | At::Rest => None,
        }
    }
}

/// How many bytes at the end of `text` are the beginning of `mark`, but not all of it.
fn begun(text: &str, mark: &str) -> usize {
    let most = text.len().min(mark.len() - 1);
    (1..=most).rev().find(|&length| text.as_bytes().ends_with(&mark.as_bytes()[..length])).unwrap_or(0)
}

/// Where a JSON value stands that comes in pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Json {
    /// Objects and arrays that are open.
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl Json {
    /// Reads on: how many bytes belong to the value, and whether it is whole. Numbers and words are whole where
    /// something else comes.
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

    /// Read in pieces of so many bytes; neighbours of a kind are one.
    fn read(syntax: &'static Syntax, text: &str, piece: usize) -> (Vec<Part>, Option<String>) {
        let (mut reader, mut parts) = (CallReader::new(Some(syntax)), Vec::new());
        let mut rest = text;
        while !rest.is_empty() {
            let cut = (piece..=rest.len()).find(|&at| rest.is_char_boundary(at)).unwrap_or(rest.len());
            reader.push(&rest[..cut], &mut parts);
            rest = &rest[cut..];
        }
        let cut = reader.finish(&mut parts);
        let mut joined: Vec<Part> = Vec::new();
        for part in parts {
            match (joined.last_mut(), part) {
                (Some(Part::Text(before)), Part::Text(text)) => before.push_str(&text),
                (Some(Part::Arguments(before)), Part::Arguments(text)) => before.push_str(&text),
                (_, part) => joined.push(part),
            }
        }
        (joined, cut)
    }

    fn text(text: &str) -> Part {
        Part::Text(text.into())
    }

    fn call(name: &str, arguments: &str) -> [Part; 3] {
        [Part::Call(name.into()), Part::Arguments(arguments.into()), Part::CallEnd]
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

    /// What was cut is told as it was written.
    #[test]
    fn a_call_that_is_cut_short_is_none() {
        let written = "Yes.<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"b";
        for piece in [1, 4, 100] {
            let (parts, cut) = read(&TAGGED, written, piece);
            let begun = [Part::Call("f".into()), Part::Arguments("{\"a\": \"b".into())];
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
