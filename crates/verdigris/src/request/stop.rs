//! Texts that end a text.

/// Looks for stop strings in a text that comes in pieces, and holds back what may be the beginning of one.
///
/// What is found depends on the text alone, not on where its pieces begin: of all places where a stop string ends,
/// the first.
#[derive(Clone, Debug)]
pub(super) struct StopStrings {
    strings: Vec<String>,
    /// The end of the text, as far as it may belong to a stop string.
    held: String,
    found: Option<usize>,
}

impl StopStrings {
    /// Looks for these, none of which is empty.
    pub(super) fn new(strings: &[String]) -> Self {
        Self { strings: strings.to_vec(), held: String::new(), found: None }
    }

    /// Takes a piece of text and appends to `ready` what belongs to no stop string. After one has come, nothing does.
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

    /// What was held back, now that nothing more comes.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// The stop string that came.
    pub(super) fn found(&self) -> Option<&str> {
        Some(&self.strings[self.found?])
    }
}

/// How many bytes at the end of `text` are the beginning of `string`, but not all of it.
fn begun(text: &str, string: &str) -> usize {
    let most = text.len().min(string.len() - 1);
    let is_begun = |&length: &usize| string.is_char_boundary(length) && text.ends_with(&string[..length]);
    (1..=most).rev().find(is_begun).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By its definition, with the whole text at hand.
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
                // Every way to cut the text in pieces.
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
