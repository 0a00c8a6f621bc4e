//! The splitting of a text into words, before tokens are looked up.

use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

mod classes;
mod pattern;

use pattern::Pattern;

/// The expression of `ByteLevel`.
const BYTE_LEVEL: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// The steps of a byte-level pre-tokenizer, each of which splits the parts that the one before it made.
pub(super) struct Split(Vec<Step>);

enum Step {
    /// Matches of an expression, and what is between them.
    Matches(Box<Pattern>),
    /// Numbers, digit by digit or in runs, and what is between them.
    Digits { one_by_one: bool },
}

/// A step in a file.
#[derive(Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
enum StepInFile {
    Split { pattern: PatternInFile, behavior: String, invert: bool },
    Digits { individual_digits: bool },
    Sequence { pretokenizers: Vec<Value> },
}

#[derive(Deserialize)]
enum PatternInFile {
    String(String),
    Regex(String),
}

impl Split {
    /// Reads the pre-tokenizer of a byte-level tokenizer; `None` if it is another one.
    pub(super) fn of_bytes(pre_tokenizer: &Value) -> Option<Self> {
        let steps = match StepInFile::deserialize(pre_tokenizer) {
            Ok(StepInFile::Sequence { pretokenizers }) => pretokenizers,
            _ => vec![pre_tokenizer.clone()],
        };
        let (last, first) = steps.split_last()?;
        let bytes = ByteLevel::deserialize(last).ok().filter(|_| last["type"] == "ByteLevel" && last.is_object())?;
        let mut steps: Vec<Step> = first.iter().map(Step::of).collect::<Option<_>>()?;
        if bytes.add_prefix_space {
            return None;
        }
        if bytes.use_regex {
            steps.push(Step::Matches(Box::new(Pattern::new(BYTE_LEVEL)?)));
        }
        Some(Self(steps))
    }

    /// Whether a pre-tokenizer leaves texts without spaces whole.
    pub(super) fn is_of_spaces(pre_tokenizer: &Value) -> bool {
        match StepInFile::deserialize(pre_tokenizer) {
            Ok(StepInFile::Split { pattern: PatternInFile::String(pattern), behavior, .. }) => {
                pattern == " " && behavior == "MergedWithPrevious"
            }
            _ => false,
        }
    }

    /// Passes each word of a text to `each`, in order.
    pub(super) fn words(&self, text: &str, mut each: impl FnMut(Range<usize>)) {
        split(&self.0, text, 0..text.len(), &mut each);
    }
}

fn split(steps: &[Step], text: &str, range: Range<usize>, each: &mut impl FnMut(Range<usize>)) {
    let Some((first, rest)) = steps.split_first() else { return each(range) };
    let (text, mut at) = (&text[..range.end], range.start);
    while at < text.len() {
        let end = first.end(text, at);
        split(rest, text, at..end, each);
        at = end;
    }
}

impl Step {
    fn of(step: &Value) -> Option<Self> {
        match StepInFile::deserialize(step).ok()? {
            StepInFile::Split { pattern: PatternInFile::Regex(pattern), behavior, invert: false }
                if behavior == "Isolated" =>
            {
                Some(Self::Matches(Box::new(Pattern::new(&pattern)?)))
            }
            StepInFile::Digits { individual_digits } => Some(Self::Digits { one_by_one: individual_digits }),
            _ => None,
        }
    }

    /// The end of the part that begins at `at`.
    fn end(&self, text: &str, at: usize) -> usize {
        match self {
            Self::Matches(pattern) => pattern.end(text, at),
            Self::Digits { one_by_one } => {
                let mut rest = text[at..].char_indices();
                let Some((_, first)) = rest.next() else { return at };
                let end = match first.is_numeric() {
                    true if *one_by_one => Some((first.len_utf8(), first)),
                    is_number => rest.find(|(_, c)| c.is_numeric() != is_number),
                };
                end.map_or(text.len(), |(length, _)| at + length)
            }
        }
    }
}
