//! The words of a text, as fingerprints take them.

use unicode_normalization::UnicodeNormalization;

/// The words of a text: composed (NFC), without invisible characters, in lower case, split at every character that is
/// not alphanumeric. In scripts that are written without spaces, each character is a word.
///
/// ```
/// let words: Vec<String> = verdigris_ledger::words("The cap\u{200B}tain's LOG: 深海。").collect();
/// assert_eq!(words, ["the", "captain", "s", "log", "深", "海"]);
/// ```
pub fn words(text: &str) -> impl Iterator<Item = String> {
    let mut characters = text.nfc().filter(|&c| !is_invisible(c)).flat_map(char::to_lowercase).peekable();
    std::iter::from_fn(move || {
        while characters.next_if(|c| !c.is_alphanumeric()).is_some() {}
        let first = characters.next()?;
        let mut word = String::from(first);
        if !is_word(first) {
            while let Some(c) = characters.next_if(|&c| c.is_alphanumeric() && !is_word(c)) {
                word.push(c);
            }
        }
        Some(word)
    })
}

/// Whether a character is removed: zero-width spaces and joiners, byte order marks, variation selectors.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200B}'..='\u{200D}' | '\u{2060}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{E0100}'..='\u{E01EF}')
}

/// Whether a character is a word of its own: those of Thai, Lao, Myanmar and Khmer, kana, and Han.
fn is_word(c: char) -> bool {
    matches!(c,
        '\u{0E00}'..='\u{0EFF}'
        | '\u{1000}'..='\u{109F}'
        | '\u{1780}'..='\u{17FF}'
        | '\u{3040}'..='\u{30FF}'
        | '\u{31F0}'..='\u{31FF}'
        | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        words(text).collect()
    }

    #[test]
    fn layout_case_and_invisible_characters_change_nothing() {
        let plain = of("The naïve captain said no twice");
        for other in [
            "the NAÏVE captain\n\nsaid: \"No!\" -- twice.",
            "The nai\u{308}ve cap\u{200B}tain\u{FE0F} said\u{2003}no, twi\u{2060}ce\u{FEFF}",
            " The na\u{EF}ve captain said no twice\u{FEFF}\u{FE03}\u{E0133}\u{E0130}",
        ] {
            assert_eq!(of(other), plain, "{other:?}");
        }
        assert_eq!(of(" -- \u{200B} ... "), Vec::<String>::new());
        assert_eq!(of(""), Vec::<String>::new());
    }

    #[test]
    fn scripts_without_spaces_have_words_of_one_character() {
        assert_eq!(of("人工智能AI生成 x2"), ["人", "工", "智", "能", "ai", "生", "成", "x2"]);
        assert_eq!(of("カタカナ"), ["カ", "タ", "カ", "ナ"]);
        assert_eq!(of("한국어 문장"), ["한국어", "문장"]);
    }
}
