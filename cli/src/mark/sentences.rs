//! The sentences of a text that may be rewritten, and everything else, which stays.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

/// The characters that end a sentence.
const ENDS: [char; 3] = ['.', '!', '?'];

/// The characters of a sentence other than letters, digits and white space. Others belong to quotations, code, markup
/// and addresses, whose words are not ours to change.
const PUNCTUATION: &str = ".,;:!?'’()-–—%";

/// The fewest words of a sentence that is rewritten: less leave no choice.
const WORDS: usize = 6;

/// The most bytes of a sentence that is rewritten: small models rarely understand longer ones.
pub(super) const BYTES: usize = 400;

/// The fewest columns of a line that is followed by another in its paragraph. Shorter ones are not wrapped but broken
/// on purpose, as in poems and addresses.
const WRAPPED: usize = 40;

/// A part of a text: a sentence with the white space after it, or something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part<'t> {
    pub(super) text: &'t str,
    /// Whether it may be rewritten.
    pub(super) is_sentence: bool,
    /// Whether a paragraph begins with it.
    pub(super) begins: bool,
}

impl<'t> Part<'t> {
    /// Its words, and the white space after them.
    pub(super) fn split(&self) -> (&'t str, &'t str) {
        self.text.split_at(self.text.trim_end().len())
    }
}

/// Splits a text into parts, which together are the text.
pub(super) fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    for block in blocks(text) {
        let block = &text[block];
        if !is_prose(block) {
            parts.push(Part { text: block, is_sentence: false, begins: true });
            continue;
        }
        let mut begins = true;
        for range in sentences(block) {
            let text = &block[range];
            parts.push(Part { text, is_sentence: is_sentence(text.trim_end()), begins });
            begins = false;
        }
    }
    parts
}

/// The first sentence of a text, without the white space around it.
pub(super) fn first(text: &str) -> &str {
    let text = text.trim();
    sentences(text).into_iter().next().map_or("", |range| text[range].trim_end())
}

/// Whether a text is a sentence to rewrite, or one to replace it with.
pub(super) fn is_sentence(text: &str) -> bool {
    text.ends_with(ENDS)
        && text.starts_with(|first: char| first.is_alphanumeric() && !first.is_lowercase())
        && text.chars().all(|c| c.is_alphanumeric() || c.is_whitespace() || PUNCTUATION.contains(c))
        && text.len() <= BYTES
        && text.unicode_words().count() >= WORDS
}

/// Paragraphs, runs of empty lines, and blocks of code between fences.
fn blocks(text: &str) -> Vec<Range<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Kind {
        Lines,
        Empty,
        Fenced,
    }
    let mut blocks: Vec<Range<usize>> = Vec::new();
    let (mut last, mut fence) = (None, None);
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        let kind = match (fence, mark) {
            (Some(_), _) | (None, Some(_)) => Kind::Fenced,
            _ if line.trim().is_empty() => Kind::Empty,
            _ => Kind::Lines,
        };
        match blocks.last_mut().filter(|_| last == Some(kind)) {
            Some(block) => block.end += line.len(),
            None => blocks.push(at..at + line.len()),
        }
        fence = match (fence, mark) {
            (None, mark) => mark,
            (Some(open), Some(mark)) if open == mark => None,
            (open, _) => open,
        };
        (last, at) = (Some(kind), at + line.len());
    }
    blocks
}

/// Whether a block is a paragraph, wrapped or on one line, and no heading, list, table, quotation, code or poem.
fn is_prose(block: &str) -> bool {
    let begins = |line: &str| {
        line.starts_with(|c: char| c.is_alphanumeric() || "\"'“‘(".contains(c))
            && !line.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(['.', ')'])
    };
    let lines: Vec<&str> = block.lines().collect();
    let (_, wrapped) = lines.split_last().unwrap_or((&"", &[]));
    lines.iter().all(|line| begins(line)) && wrapped.iter().all(|line| line.chars().count() >= WRAPPED)
}

/// The sentences of a paragraph by Unicode's rules (UAX #29), in which line ends are spaces and abbreviations end no
/// sentence.
fn sentences(paragraph: &str) -> Vec<Range<usize>> {
    let flat = paragraph.replace(['\n', '\r'], " ");
    let mut sentences: Vec<Range<usize>> = Vec::new();
    for (start, piece) in flat.split_sentence_bound_indices() {
        let end = start + piece.len();
        match sentences.last_mut().filter(|last| ends_in_abbreviation(&flat[(*last).clone()])) {
            Some(last) => last.end = end,
            None => sentences.push(start..end),
        }
    }
    sentences
}

/// Whether the last word is short and has a capital, such as Dr. and J., or a dot within, such as e.g.: the sentence
/// may not end here. If it does, it is rewritten together with the next.
fn ends_in_abbreviation(text: &str) -> bool {
    let Some(word) = text.split_whitespace().next_back().and_then(|word| word.strip_suffix('.')) else { return false };
    let word = word.trim_start_matches('(');
    word.contains('.') || (word.starts_with(char::is_uppercase) && word.chars().count() <= 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        let parts = parts(text);
        assert_eq!(parts.iter().map(|part| part.text).collect::<String>(), text, "nothing is lost");
        parts.into_iter().filter(|part| part.is_sentence).map(|part| part.split().0).collect()
    }

    #[test]
    fn sentences_are_found_and_the_rest_stays() {
        let text = "# Of the grey and silent sea\n\nThe captain came on deck at dawn. \"Look over there!\" he said to \
                    us.  Was it a grey and silent sea?\r\n\r\n    let x = one + two + three + four;\n\n- The crew had \
                    tea on the deck.\n- They had more.\n\n1. The mate had tea on the deck.\n\n```\nThis is code with a \
                    line.\n\nThis is code with a line.\n```\nThe storm was over at the end of the day.";
        let expected = [
            "The captain came on deck at dawn.",
            "Was it a grey and silent sea?",
            "The storm was over at the end of the day.",
        ];
        assert_eq!(found(text), expected);
    }

    #[test]
    fn wrapped_lines_are_joined_and_broken_ones_stay() {
        let wrapped =
            "The captain came on deck at dawn, and he saw\nthat the ship was ready to sail. The crew\nwas up.\n";
        assert_eq!(found(wrapped), ["The captain came on deck at dawn, and he saw\nthat the ship was ready to sail."]);
        assert_eq!(found("Dear Sir,\nthe captain came on deck at dawn.\n"), [""; 0]);
        assert_eq!(found("The sea was grey,\nThe ship came home to us on that day.\n"), [""; 0]);
    }

    #[test]
    fn abbreviations_end_no_sentence() {
        let text = "In the end we met Dr. Smith of the harbour. He came with J. R. Brown and a few others.";
        assert_eq!(
            found(text),
            ["In the end we met Dr. Smith of the harbour.", "He came with J. R. Brown and a few others."]
        );
    }

    #[test]
    fn what_is_not_plain_prose_is_not_a_sentence() {
        for text in [
            "He said to \"all of them\" that it was over.",
            "Run `make clean` in the folder of the ship.",
            "See https://example.org/a for the rest of it.",
            "This is *very* important to all of us here.",
            "and so they all came home in the end.",
            "They all came home to us in the",
            "It was over.",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
        assert_eq!(found(&format!("The{} end.", " very".repeat(99))), [""; 0]);
    }

    #[test]
    fn an_answer_has_a_first_sentence() {
        assert_eq!(first("  The sea was grey. It rained. "), "The sea was grey.");
        assert_eq!((first("no end"), first("")), ("no end", ""));
    }
}
