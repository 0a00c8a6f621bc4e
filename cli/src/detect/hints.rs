//! What else to try, where a text was found not to be marked.

use verdigris::Judgement;

use super::documents::Fields;

/// Texts of so many tokens may have a marked passage that the whole hides.
const LONG: u64 = 400;

pub(super) const WINDOWS: &str =
    "only the text as a whole was judged: --windows looks for marked passages inside it, too";

/// What to try with a text that is not marked as a whole.
pub(super) fn hint(text: &str, judgement: &Judgement<'_>, searched: bool, fields: &Fields) -> Option<String> {
    if is_json_lines(text, fields) {
        return Some("the text looks like JSON lines: --format jsonl judges the text of each line".into());
    }
    if let Some(form) = changed_case(text) {
        return Some(format!(
            "the text is {form}, which makes other tokens of its words: a mark in it is lost unless the letters are as they were written"
        ));
    }
    (!searched && is_long(judgement)).then(|| WINDOWS.to_owned())
}

/// Whether a part of it could be marked unseen.
pub(super) fn is_long(judgement: &Judgement<'_>) -> bool {
    judgement.evidence.tokens >= LONG
}

/// Whether the first line is an object with a text.
fn is_json_lines(text: &str, fields: &Fields) -> bool {
    let line = text.trim_start().lines().next().unwrap_or_default();
    line.starts_with('{')
        && serde_json::from_str::<serde_json::Value>(line).is_ok_and(|value| value[&fields.text].is_string())
}

/// How somebody may have changed the letters of a text.
fn changed_case(text: &str) -> Option<&'static str> {
    let (mut upper, mut lower) = (0u64, 0u64);
    for c in text.chars() {
        upper += u64::from(c.is_uppercase());
        lower += u64::from(c.is_lowercase());
    }
    if upper + lower < 50 {
        return None;
    }
    if upper > 9 * lower {
        return Some("in capitals");
    }
    // Short words stay small in titles.
    let words: Vec<char> = text
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| word.chars().count() > 3)
        .filter_map(|word| word.chars().next().filter(|c| c.is_uppercase() || c.is_lowercase()))
        .collect();
    let capitals = words.iter().filter(|c| c.is_uppercase()).count();
    (words.len() >= 20 && 10 * capitals >= 9 * words.len()).then_some("in Title Case")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_somebody_changed_are_seen() {
        let text = "The captain came on deck at dawn, and the crew of the old ship stood there before Mr. Smith. ";
        let text = text.repeat(3);
        assert_eq!(changed_case(&text), None);
        assert_eq!(changed_case(&text.to_uppercase()), Some("in capitals"));
        let title = |word: &str| word[..1].to_uppercase() + &word[1..];
        let titles: Vec<String> = text.split_whitespace().map(title).collect();
        assert_eq!(changed_case(&titles.join(" ")), Some("in Title Case"));
        assert_eq!(changed_case("SOS"), None);
        assert_eq!(changed_case(&"\u{6625}\u{590f}".repeat(100)), None);
    }

    #[test]
    fn json_lines_are_seen() {
        let fields = Fields { text: "text".into(), id: "id".into() };
        assert!(is_json_lines("\n{\"text\": \"a\"}\n{\"text\": \"b\"}", &fields));
        assert!(!is_json_lines("{\"name\": \"a\"}", &fields) && !is_json_lines("A text.", &fields));
    }
}
