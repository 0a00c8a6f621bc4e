//! Questions whose answers are right or wrong, for `verdigris bench harm`.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::prompts;
use crate::error::Failure;

/// A question with its right answer.
#[derive(Deserialize)]
pub(super) struct Question {
    pub(super) kind: String,
    pub(super) prompt: String,
    /// The schema that constrains the answer.
    #[serde(default)]
    pub(super) schema: Option<Value>,
    #[serde(flatten)]
    judge: Judge,
}

/// The right answer, and how a text is compared with it.
#[derive(Deserialize)]
#[serde(tag = "judge", rename_all = "lowercase")]
enum Judge {
    /// The last whole number of the text is the answer.
    Number { answer: i64 },
    /// Of the labels, the one that comes first in the text is the answer.
    Label { answer: String, labels: Vec<String> },
    /// One of the answers occurs in the text as a word.
    Word { answer: Vec<String> },
    /// The text contains the answer.
    Text { answer: String },
    /// The text is JSON with the value of the answer.
    Value { answer: Value },
    /// The object in the text is JSON with these names.
    Parses { answer: Vec<String> },
}

/// Reads the questions of a file in JSON Lines, at least one.
pub(super) fn read(path: &Path) -> Result<Vec<Question>, Failure> {
    prompts::lines(path, "question")
}

impl Question {
    /// Whether a text answers the question.
    pub(super) fn is_right(&self, text: &str) -> bool {
        match &self.judge {
            Judge::Number { answer } => last_number(text) == Some(*answer),
            Judge::Label { answer, labels } => {
                let text = text.to_lowercase();
                let first = labels.iter().filter_map(|label| Some((text.find(&label.to_lowercase())?, label))).min();
                first.is_some_and(|(_, label)| label == answer)
            }
            Judge::Word { answer } => {
                let mut words = text.split(|c: char| !c.is_alphanumeric());
                words.any(|word| answer.iter().any(|answer| answer.eq_ignore_ascii_case(word)))
            }
            Judge::Text { answer } => text.contains(answer),
            Judge::Value { answer } => serde_json::from_str::<Value>(text).is_ok_and(|value| value == *answer),
            Judge::Parses { answer } => {
                let object = text.find('{').zip(text.rfind('}')).and_then(|(start, end)| text.get(start..=end));
                let value = object.and_then(|object| serde_json::from_str::<Value>(object).ok());
                value.is_some_and(|value| answer.iter().all(|name| value.get(name).is_some()))
            }
        }
    }
}

/// The last whole number of a text.
fn last_number(text: &str) -> Option<i64> {
    let digits = text.split(|c: char| !c.is_ascii_digit()).rfind(|digits| !digits.is_empty())?;
    let number: i64 = digits.parse().ok()?;
    let before = &text[..text.rfind(digits)?];
    Some(if before.ends_with('-') { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_compared_as_their_kind_requires() {
        let question = |json: &str| -> Question { serde_json::from_str(json).unwrap() };
        let cases: [(&str, &[&str], &[&str]); 6] = [
            (
                r#""judge": "number", "answer": 42"#,
                &["42", "17 + 25 = 42.", "It is 42!"],
                &["", "4 2", "42 or 43", "-42"],
            ),
            (
                r#""judge": "label", "answer": "negative", "labels": ["positive", "negative"]"#,
                &["negative", "Negative, not positive."],
                &["", "positive", "Positive; not negative"],
            ),
            (r#""judge": "word", "answer": ["seven", "7"]"#, &["Seven.", "a week has 7 days"], &["seventy", "17", ""]),
            (
                r#""judge": "text", "answer": "river stone""#,
                &["river stone", "I say \"river stone\".\n"],
                &["", "river  stone", "River stone"],
            ),
            (
                r#""judge": "value", "answer": {"a": 1}"#,
                &[r#"{"a": 1}"#, r#" {"a":1} "#],
                &[r#"{"a": 2}"#, r#"{"a": 1, "b": 2}"#, "", "{"],
            ),
            (
                r#""judge": "parses", "answer": ["a", "b"]"#,
                &[r#"{"a": 1, "b": 2}"#, "Here:\n```json\n{\"b\": [], \"a\": {}}\n```"],
                &[r#"{"a": 1}"#, r#"{"a": 1, "b": }"#, "", "}{"],
            ),
        ];
        for (judge, right, wrong) in cases {
            let question = question(&format!(r#"{{"kind": "k", "prompt": "p", {judge}}}"#));
            right.iter().for_each(|text| assert!(question.is_right(text), "{judge}: {text:?}"));
            wrong.iter().for_each(|text| assert!(!question.is_right(text), "{judge}: {text:?}"));
        }
        assert_eq!(last_number("from 3 to -5."), Some(-5));
    }
}
