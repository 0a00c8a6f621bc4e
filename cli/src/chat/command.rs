//! The lines of a chat: messages, and commands that begin with a slash.

use std::path::PathBuf;

/// The commands.
pub(super) const HELP: &str = "\
/system TEXT    set the system prompt, or without TEXT remove it
/regenerate     write the last answer again
/undo           forget the last message and its answer
/clear          begin a new conversation
/mark on|off    mark answers with the key of --key, or do not
/save FILE      save the conversation: messages, in JSON
/help           show this
/exit           end the program, like Ctrl-D
\"\"\"             begins and ends a message of several lines";

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Message(String),
    System(Option<String>),
    Regenerate,
    Undo,
    Clear,
    Mark(bool),
    Save(PathBuf),
    Help,
    End,
}

impl Line {
    /// Reads a line, or a message of several lines.
    ///
    /// # Errors
    /// One line, for a command that is unknown or lacks its value.
    pub(super) fn of(text: &str) -> Result<Self, String> {
        let Some(command) = text.strip_prefix('/').filter(|command| !command.starts_with([' ', '/'])) else {
            return Ok(Self::Message(text.trim().to_owned()));
        };
        let (name, value) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let value = Some(value.trim()).filter(|value| !value.is_empty());
        match (name, value) {
            ("system", text) => Ok(Self::System(text.map(str::to_owned))),
            ("mark", Some("on")) => Ok(Self::Mark(true)),
            ("mark", Some("off")) => Ok(Self::Mark(false)),
            ("mark", _) => Err("/mark needs on or off".into()),
            ("save", Some(path)) => Ok(Self::Save(path.into())),
            ("save", None) => Err("/save needs a file, such as /save talk.json".into()),
            ("regenerate" | "retry", None) => Ok(Self::Regenerate),
            ("undo", None) => Ok(Self::Undo),
            ("clear" | "new", None) => Ok(Self::Clear),
            ("help" | "?", None) => Ok(Self::Help),
            ("exit" | "quit" | "bye", None) => Ok(Self::End),
            ("regenerate" | "retry" | "undo" | "clear" | "new" | "help" | "?" | "exit" | "quit" | "bye", Some(_)) => {
                Err(format!("/{name} takes no value"))
            }
            _ => Err(format!("/{name} is unknown; /help lists them, and a space before / makes it a message")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_begin_with_a_slash() {
        let message = |text: &str| Ok(Line::Message(text.into()));
        assert_eq!(Line::of(" Hi there "), message("Hi there"));
        assert_eq!(Line::of(" /clear"), message("/clear"));
        assert_eq!(Line::of("// a comment"), message("// a comment"));
        assert_eq!(Line::of("/system Be brief. "), Ok(Line::System(Some("Be brief.".into()))));
        assert_eq!(Line::of("/system"), Ok(Line::System(None)));
        assert_eq!(Line::of("/mark off"), Ok(Line::Mark(false)));
        assert_eq!(Line::of("/save a b.json"), Ok(Line::Save("a b.json".into())));
        assert_eq!(Line::of("/quit"), Ok(Line::End));
        for bad in ["/mark", "/mark maybe", "/save", "/undo 3", "/sing"] {
            assert!(Line::of(bad).is_err_and(|fault| !fault.contains('\n')), "{bad}");
        }
    }
}
