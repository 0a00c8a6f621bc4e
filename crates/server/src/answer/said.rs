//! What a text says: words for people, and calls of tools.

use crate::answer::new_name;
use crate::calls::reader::{CallReader, Part};
use crate::calls::syntax::Syntax;

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// What the answer of the tool names.
    pub(crate) id: String,
    /// The name of the tool.
    pub(crate) name: String,
    /// JSON that obeys the tool's schema.
    pub(crate) arguments: String,
}

impl Call {
    /// A call that begins. Some templates take ids of nine letters and digits alone.
    pub(crate) fn begin(name: String) -> Self {
        Self { id: new_name::<9>(), name, arguments: String::new() }
    }
}

/// What a text says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
}

impl Said {
    /// Reads a whole text. A call that was cut short, by a stop string or because the tokens were used up, stays text.
    pub(crate) fn of(text: &str, syntax: Option<&'static Syntax>) -> Self {
        let (mut reader, mut parts, mut said) = (CallReader::new(syntax), Vec::new(), Self::default());
        reader.push(text, &mut parts);
        let cut = reader.finish(&mut parts);
        for part in parts {
            match (part, said.calls.last_mut()) {
                (Part::Text(text), _) => said.text.push_str(&text),
                (Part::Call(name), _) => said.calls.push(Call::begin(name)),
                (Part::Arguments(piece), Some(call)) => call.arguments.push_str(&piece),
                (Part::Arguments(_), None) | (Part::CallEnd, _) => (),
            }
        }
        if let Some(cut) = cut {
            // It may have got as far as its name.
            if cut.contains(syntax.map_or("\0", |syntax| syntax.arguments)) {
                said.calls.pop();
            }
            said.text.push_str(&cut);
        }
        said
    }
}
