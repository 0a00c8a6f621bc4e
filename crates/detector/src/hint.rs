//! What else to try, where a text was found not to be marked.

use crate::judge::Judgement;

/// Texts of so many tokens may have a marked passage that the whole hides.
const LONG: u64 = 400;

/// What else to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The letters of the text are not as they were written, which makes other tokens of its words: this is how they
    /// are.
    ChangedCase(&'static str),
    /// A text of this length may have a marked passage, and none was looked for.
    Passages,
}

impl Hint {
    /// What to try with a text of which a judgement found no mark, and looked for passages or did not.
    pub fn of(text: &str, judgement: &Judgement<'_>, searched: bool) -> Option<Self> {
        let passages = (!searched && Self::may_hide_a_passage(judgement)).then_some(Self::Passages);
        changed_case(text).map(Self::ChangedCase).or(passages)
    }

    /// The hint as a sentence without its full stop. `passages` says how passages are looked for where it is told.
    pub fn advice(self, passages: &str) -> String {
        match self {
            Self::ChangedCase(form) => format!(
                "the text is {form}, which makes other tokens of its words: a mark in it is lost unless the letters \
                 are as they were written"
            ),
            Self::Passages => passages.to_owned(),
        }
    }

    /// Whether a part of a text could be marked unseen.
    pub fn may_hide_a_passage(judgement: &Judgement<'_>) -> bool {
        judgement.evidence.tokens >= LONG
    }
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
}
