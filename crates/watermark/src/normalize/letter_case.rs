//! Sentence case for texts in capitals only, or with a capital in every word.

use super::{Change, Normalized, Repair};

/// A letter case other than that of sentences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetterCase {
    /// All letters are capitals.
    Capitals,
    /// Every word begins with a capital.
    Title,
}

/// The kinds of characters: letters with a case, and all that may be in words.
const LOWER: u8 = 1;
const UPPER: u8 = 2;
const IN_WORD: u8 = 4;

/// The kind of each ASCII character.
const ASCII: [u8; 128] = {
    let mut kinds = [0; 128];
    let mut c = 0;
    while c < 128 {
        kinds[c as usize] = match c {
            b'a'..=b'z' => LOWER | IN_WORD,
            b'A'..=b'Z' => UPPER | IN_WORD,
            b'0'..=b'9' | b'\'' => IN_WORD,
            _ => 0,
        };
        c += 1;
    }
    kinds
};

fn kind(c: char) -> u8 {
    match c {
        c if c.is_ascii() => ASCII[c as usize],
        c if c.is_lowercase() => LOWER | IN_WORD,
        c if c.is_uppercase() => UPPER | IN_WORD,
        c if c.is_alphanumeric() => IN_WORD,
        _ => 0,
    }
}

/// The least number of bytes after which it is examined whether the letter case of a text is decided.
const EVERY: usize = 4 << 10;

/// The letter case of a text if it is not that of sentences; `None` otherwise, or if there are too few letters.
pub fn changed(text: &str) -> Option<LetterCase> {
    let (mut upper, mut lower, mut words, mut capitals) = (0u64, 0u64, 0u64, 0u64);
    let mut decided = EVERY;
    // The number of characters of the current word, and the kind of its first one.
    let (mut length, mut first) = (0u32, 0);
    for (at, c) in text.char_indices() {
        // Most texts are decided long before their end, whatever follows.
        if at >= decided {
            let (letters, more) = ((text.len() - at) as u64, ((text.len() - at) / 4 + 1) as u64);
            if upper + letters <= 9 * lower && 10 * capitals + more < 9 * words {
                return None;
            }
            decided = at + EVERY;
        }
        let kind = kind(c);
        upper += u64::from(kind & UPPER != 0);
        lower += u64::from(kind & LOWER != 0);
        if kind & IN_WORD == 0 {
            length = 0;
            continue;
        }
        if length == 0 {
            first = kind;
        }
        length = length.saturating_add(1);
        // Short words are not capitalized in titles.
        if length == 4 && first & (UPPER | LOWER) != 0 {
            words += 1;
            capitals += u64::from(first & UPPER != 0);
        }
    }
    if upper + lower < 50 {
        return None;
    }
    if upper > 9 * lower {
        return Some(LetterCase::Capitals);
    }
    (words >= 20 && 10 * capitals >= 9 * words).then_some(LetterCase::Title)
}

/// Writes a text of this letter case in sentence case: a capital at the beginning of a sentence or line and in the
/// English "I". In a text with a capital in every word, words with capitals inside are unchanged.
pub(super) fn restore(text: &str, case: Option<LetterCase>) -> Normalized {
    let Some(case) = case else { return Normalized::default() };
    let mut out = Normalized { text: String::with_capacity(text.len()), ..Normalized::default() };
    let (mut begins, mut ended, mut before) = (true, false, ' ');
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let start = text.len() - rest.len();
        if c.is_alphabetic() {
            let end = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
            let word = &rest[..end];
            let is_pronoun = word == "I" && !matches!(before, '\'' | '\u{2019}');
            let has_more = word.chars().skip(1).any(char::is_uppercase);
            let to_lower = !is_pronoun && (case == LetterCase::Capitals || !has_more);
            let mut changed = false;
            for (at, c) in word.char_indices() {
                let is_capital = at == 0 && begins;
                if is_capital || !to_lower || !c.is_uppercase() {
                    out.push(c, start + at);
                } else {
                    c.to_lowercase().for_each(|lower| out.push(lower, start + at));
                    changed = true;
                }
            }
            if changed {
                out.changes.push(Change { repair: Repair::LetterCase, at: start });
            }
            (begins, ended) = (false, false);
            before = c;
            rest = &rest[end..];
            continue;
        }
        out.push(c, start);
        match c {
            '\n' => (begins, ended) = (true, false),
            '.' | '!' | '?' => ended = true,
            '"' | '\'' | '\u{201D}' | '\u{2019}' | ')' | ']' | '*' | '_' => {}
            c if c.is_whitespace() => begins |= std::mem::take(&mut ended),
            c => {
                begins &= !c.is_numeric();
                ended = false;
            }
        }
        before = c;
        rest = &rest[c.len_utf8()..];
    }
    out.continue_at(text.len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restored(text: &str) -> Normalized {
        restore(text, changed(text))
    }

    const TEXT: &str = "The captain came on deck. \"Look,\" he said; I didn't. I'm on 3.5 knots, and it's e-mail\n\
                        - The crew (of the old ship) stood there... Why? **Because** été is \u{2019}tis.\n1. One of 3 \
                        men\n";

    fn title(text: &str) -> String {
        let (mut out, mut before) = (String::new(), false);
        for c in text.chars() {
            if before {
                out.extend(c.to_lowercase())
            } else {
                out.extend(c.to_uppercase())
            }
            before = c.is_alphabetic();
        }
        out
    }

    #[test]
    fn letters_that_somebody_changed_are_seen() {
        let text = "The captain came on deck at dawn, and the crew of the old ship stood there before Mr. Smith. ";
        let text = text.repeat(3);
        assert_eq!(changed(&text), None);
        assert_eq!(changed(&text.to_uppercase()), Some(LetterCase::Capitals));
        assert_eq!(changed(&title(&text)), Some(LetterCase::Title));
        assert_eq!(changed("SOS"), None);
        assert_eq!(changed(&"\u{6625}\u{590f}".repeat(100)), None);
    }

    /// A long beginning in sentence case decides nothing that the rest can change.
    #[test]
    fn the_end_of_a_text_counts() {
        let sentence = "The captain came on deck at dawn, and the crew of the old ship was there before him. ";
        let begin = sentence.repeat(100);
        for (other, case) in [(sentence.to_uppercase(), LetterCase::Capitals), (title(sentence), LetterCase::Title)] {
            // The first number of repetitions with which the text has the letter case.
            let has = |n: usize| changed(&format!("{begin}{}", other.repeat(n))) == Some(case);
            let first = (0..3000).collect::<Vec<_>>().partition_point(|&n| !has(n));
            assert!((500..3000).contains(&first) && !has(first - 1) && has(first), "{case:?}: {first}");
        }
    }

    #[test]
    fn sentences_get_their_letters_back() {
        for changed in [TEXT.to_uppercase(), title(TEXT)] {
            let changed = changed.repeat(3);
            let restored = restored(&changed);
            assert_eq!(restored.text, TEXT.repeat(3));
            assert!(restored.changes.iter().all(|change| change.repair == Repair::LetterCase));
            restored.text.char_indices().for_each(|(here, c)| {
                let there = changed[restored.origin(here)..].chars().next().unwrap();
                assert!(there.to_lowercase().eq(c.to_lowercase()), "{c:?} {there:?}");
            });
        }
        assert!(restored(&TEXT.repeat(3)).changes.is_empty());
        let names = format!("{} NASA", title(TEXT).repeat(3));
        assert!(restored(&names).text.ends_with(" NASA"));
        // A letter may have two characters in lower case, with other lengths.
        let turkish = "\u{130}STANBUL VE \u{130}ZM\u{130}R. ".repeat(9);
        let restored = restored(&turkish);
        assert!(
            restored.text.starts_with("\u{130}stanbul ve i\u{307}zmi\u{307}r. \u{130}stanbul"),
            "{}",
            restored.text
        );
        assert_eq!(restored.origin(restored.text.len()), turkish.len());
    }
}
