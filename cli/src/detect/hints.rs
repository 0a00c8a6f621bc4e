//! Hints on what else to try if no mark was found.

use verdigris::{Hint, Judgement, Outcome};

use super::documents::Fields;

pub(super) const WINDOWS: &str =
    "only the text as a whole was judged: --windows also looks for marked passages inside it";

/// The hint for a text in which no mark was found; with the fields of records if it may be read as records.
pub(super) fn hint(text: &str, judgement: &Judgement<'_>, fields: Option<&Fields>) -> Option<String> {
    let hint = Hint::of(text, judgement);
    if judgement.outcome() != Outcome::NotMarked {
        return None;
    }
    if fields.is_some_and(|fields| is_json_lines(text, &fields.text)) {
        return Some("the text looks like JSON lines: --format jsonl judges the text of each line".into());
    }
    // Without fields the text is judged as a whole, whatever the options.
    let hint = hint.filter(|hint| fields.is_some() || *hint != Hint::Passages)?;
    Some(hint.advice(WINDOWS))
}

/// The hint for JSON lines in a command that reads one text.
pub(crate) fn hint_of_lines(text: &str) -> Option<&'static str> {
    is_json_lines(text, "text")
        .then_some("the text looks like JSON lines, but is read as one text: give the text of one line")
}

/// Whether the first line is an object with a text in the field `name`.
fn is_json_lines(text: &str, name: &str) -> bool {
    let line = text.trim_start().lines().next().unwrap_or_default();
    line.starts_with('{') && serde_json::from_str::<serde_json::Value>(line).is_ok_and(|value| value[name].is_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_lines_are_seen() {
        assert!(is_json_lines("\n{\"text\": \"a\"}\n{\"text\": \"b\"}", "text"));
        assert!(!is_json_lines("{\"name\": \"a\"}", "text") && !is_json_lines("A text.", "text"));
    }
}
