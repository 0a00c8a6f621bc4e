//! Stop strings.

/// Searches for stop strings in a text that arrives in pieces, and holds back a suffix that may be the beginning of
/// one.
///
/// The result does not depend on the boundaries of pieces: it is the stop string that ends first.
#[derive(Clone, Debug)]
pub(super) struct StopStrings {
    strings: Vec<String>,
    /// The suffix of the text that may belong to a stop string.
    held: String,
    found: Option<usize>,
}

impl StopStrings {
    /// Searches for these strings, none of which may be empty.
    pub(super) fn new(strings: &[String]) -> Self {
        Self { strings: strings.to_vec(), held: String::new(), found: None }
    }

    /// Takes a piece of text, and appends the text that cannot belong to a stop string to `ready`. After a stop string,
    /// nothing is appended.
    pub(super) fn push(&mut self, piece: &str, ready: &mut String) {
        if self.found.is_some() {
            return;
        }
        if self.strings.is_empty() {
            return ready.push_str(piece);
        }
        self.held.push_str(piece);
        let ends = self.strings.iter().enumerate().filter_map(|(which, string)| {
            let begin = self.held.find(string.as_str())?;
            Some((begin + string.len(), begin, which))
        });
        if let Some((_, begin, which)) = ends.min() {
            ready.push_str(&self.held[..begin]);
            self.held.clear();
            self.found = Some(which);
            return;
        }
        let kept = self.strings.iter().map(|string| begun(&self.held, string)).max().unwrap_or(0);
        ready.extend(self.held.drain(..self.held.len() - kept));
    }

    /// The number of bytes that are held back.
    pub(super) fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Returns the text that was held back, at the end.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// The stop string that was found.
    pub(super) fn found(&self) -> Option<&str> {
        Some(&self.strings[self.found?])
    }
}

/// The number of bytes at the end of `text` that are a proper prefix of `string`.
fn begun(text: &str, string: &str) -> usize {
    let most = text.len().min(string.len() - 1);
    let is_begun = |&length: &usize| string.is_char_boundary(length) && text.ends_with(&string[..length]);
    (1..=most).rev().find(is_begun).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result by its definition, from the whole text.
    fn expected(text: &str, strings: &[String]) -> (String, Option<String>) {
        for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
            let ends = strings.iter().filter(|string| text[..end].ends_with(string.as_str()));
            if let Some(longest) = ends.max_by_key(|string| string.len()) {
                return (text[..end - longest.len()].to_owned(), Some(longest.clone()));
            }
        }
        (text.to_owned(), None)
    }

    #[test]
    fn a_stop_string_is_found_wherever_pieces_begin() {
        let strings: Vec<Vec<String>> =
            [&["\n\n"][..], &["aab", "ab", "b"], &["aaaa"], &["é!", "!é"], &["abab", "bac"], &[]]
                .iter()
                .map(|strings| strings.iter().map(|&string| string.to_owned()).collect())
                .collect();
        let texts = ["", "a\n\nb", "aaabaa", "aaaaa", "aaa", "ab\n", "é!é", "!!éé", "ababac", "aababc", "\n", "caab é"];
        for strings in &strings {
            for text in texts {
                let characters: Vec<char> = text.chars().collect();
                // All ways to cut the text into pieces.
                for cuts in 0..1u32 << characters.len() {
                    let (mut stops, mut written, mut piece) = (StopStrings::new(strings), String::new(), String::new());
                    for (i, &character) in characters.iter().enumerate() {
                        piece.push(character);
                        if cuts >> i & 1 == 1 {
                            stops.push(&std::mem::take(&mut piece), &mut written);
                            assert!(expected(text, strings).0.starts_with(&written), "too much of {text:?}");
                        }
                    }
                    stops.push(&piece, &mut written);
                    written += &stops.finish();
                    let got = (written, stops.found().map(str::to_owned));
                    assert_eq!(got, expected(text, strings), "{text:?} up to {strings:?}");
                }
            }
        }
    }

    #[test]
    fn no_more_is_held_back_than_may_be_a_stop_string() {
        let mut stops = StopStrings::new(&["END.".into()]);
        let mut written = String::new();
        for (piece, so_far) in
            [("one E", "one "), ("N", "one "), ("E", "one EN"), ("ND", "one EN"), (" x", "one ENEND x")]
        {
            stops.push(piece, &mut written);
            assert_eq!(written, so_far);
        }
    }
}
