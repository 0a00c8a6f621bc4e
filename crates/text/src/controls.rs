//! Finds control tokens by their names in a text.

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError, Input, MatchKind};
use verdigris_logits::TokenId;

/// A control token, which ordinary text cannot produce.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) id: TokenId,
    pub(crate) name: String,
    /// Whether the token includes the white space before it, and after it.
    pub(crate) strips_before: bool,
    pub(crate) strips_after: bool,
}

/// All control tokens of a tokenizer. A text is searched once for all of them together.
#[derive(Debug)]
pub(crate) struct Controls {
    all: Vec<Control>,
    /// Finds the first name in a text; if several begin there, the longest.
    first: AhoCorasick,
    /// Finds every position at which a name begins. Names that begin with another name are left out, since one is
    /// enough.
    begins: AhoCorasick,
    /// For each pattern of `begins`: the length of the first character in bytes, or 0 if the name has no other.
    breaks: Vec<usize>,
    /// The first characters of longer names.
    firsts: Vec<char>,
}

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TextPart<'t> {
    /// Plain text.
    Text(&'t str),
    /// The name of a control token.
    Control(TokenId),
}

impl Controls {
    pub(crate) fn new(mut all: Vec<Control>) -> Result<Self, BuildError> {
        all.retain(|control| !control.name.is_empty());
        all.sort_unstable_by_key(|control| control.id);
        // The smallest kind of automaton: its size is that of the names, whatever they are.
        let mut builder = AhoCorasick::builder();
        builder.kind(Some(AhoCorasickKind::ContiguousNFA));
        let names = || all.iter().map(|control| control.name.as_str());
        let first = builder.match_kind(MatchKind::LeftmostLongest).build(names())?;
        let mut starts: Vec<&str> = names().collect();
        starts.sort_unstable();
        starts.dedup_by(|name, before| name.starts_with(&**before));
        let begins = builder.match_kind(MatchKind::Standard).build(&starts)?;
        let to_break = |name: &&str| name.chars().next().map(char::len_utf8).filter(|&first| first < name.len());
        let breaks = starts.iter().map(|name| to_break(name).unwrap_or(0)).collect();
        let longer = names().filter(|name| to_break(name).is_some());
        let mut firsts: Vec<char> = longer.filter_map(|name| name.chars().next()).collect();
        firsts.sort_unstable();
        firsts.dedup();
        Ok(Self { first, begins, breaks, firsts, all })
    }

    /// Whether the name of any control token contains a character.
    pub(crate) fn contain(&self, c: char) -> bool {
        self.all.iter().any(|control| control.name.contains(c))
    }

    /// Returns a text that contains no name of a control token: `guard` is inserted after the first character of each,
    /// or before a name of one character. It is also inserted after every other character that begins a name, so that
    /// the text has no name even if parts of it are removed; except where one of these texts begins, which are looked
    /// for before that.
    pub(crate) fn guarded(&self, text: &str, guard: char, looked_for: &[String]) -> String {
        let found = self.begins.find_overlapping_iter(text);
        let mut positions: Vec<usize> = found.map(|m| m.start() + self.breaks[m.pattern()]).collect();
        let firsts = text.char_indices().filter(|&(_, c)| self.firsts.contains(&c));
        let is_looked_for = |at: usize| looked_for.iter().any(|literal| text[at..].starts_with(&**literal));
        positions.extend(firsts.filter(|&(at, _)| !is_looked_for(at)).map(|(at, c)| at + c.len_utf8()));
        positions.sort_unstable();
        positions.dedup();
        let (mut out, mut from) = (String::with_capacity(text.len() + positions.len() * guard.len_utf8()), 0);
        for position in positions {
            out.push_str(&text[from..position]);
            out.push(guard);
            from = position;
        }
        out + &text[from..]
    }

    /// Splits a text at the names of control tokens. A name right after `guard` is not recognised.
    pub(crate) fn parts<'t>(&self, text: &'t str, guard: char) -> Vec<TextPart<'t>> {
        let (mut parts, mut from, mut searched) = (Vec::new(), 0, 0);
        let push = |parts: &mut Vec<TextPart<'t>>, text: &'t str| {
            if !text.is_empty() {
                parts.push(TextPart::Text(text));
            }
        };
        while let Some(found) = self.first.find(Input::new(text).range(searched..)) {
            let (before, rest) = (&text[from..found.start()], &text[found.end()..]);
            if text[..found.start()].ends_with(guard) {
                searched = found.start() + rest_of_character(text, found.start());
                continue;
            }
            let control = &self.all[found.pattern()];
            push(&mut parts, if control.strips_before { before.trim_end() } else { before });
            parts.push(TextPart::Control(control.id));
            from = if control.strips_after { text.len() - rest.trim_start().len() } else { found.end() };
            searched = from;
        }
        push(&mut parts, &text[from..]);
        parts
    }
}

/// The length in bytes of the character at an index.
fn rest_of_character(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(1, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUARD: char = '\u{FDD0}';

    fn controls(names: &[&str]) -> Controls {
        let control = |(id, name): (usize, &&str)| Control {
            id: id as TokenId,
            name: (*name).to_owned(),
            strips_before: false,
            strips_after: false,
        };
        Controls::new(names.iter().enumerate().map(control).collect()).unwrap()
    }

    /// Searching the rest of the text for each name after every name found would read 250 times 300 GB here.
    #[test]
    fn a_text_is_searched_once_for_all_names() {
        let names: Vec<String> = (0..250).map(|i| format!("<|reserved_{i}|>")).collect();
        let controls = controls(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let text = "Hi<|reserved_7|>".repeat(200_000);
        let parts = controls.parts(&text, GUARD);
        assert_eq!(parts.len(), 400_000);
        assert!(parts.chunks(2).all(|pair| pair == [TextPart::Text("Hi"), TextPart::Control(7)]));
        let guarded = controls.guarded(&text, GUARD, &[]);
        assert_eq!(controls.parts(&guarded, GUARD), [TextPart::Text(&guarded)]);
    }

    #[test]
    fn what_is_guarded_names_nothing() {
        // Names that overlap, that are prefixes of one another, and of one character.
        let controls = controls(&["ab", "bc", "abcd", "x", "xy", "é", "aba"]);
        for text in ["abc", "abcd", "ababab", "x", "xx", "xyx", "éé", "é", "zabz", "", "abxéabc"] {
            let guarded = controls.guarded(text, GUARD, &[]);
            assert_eq!(guarded.replace(GUARD, ""), text);
            assert!(controls.parts(&guarded, GUARD).iter().all(|part| matches!(part, TextPart::Text(_))), "{text}");
        }
        assert_eq!(controls.parts("abcdx", GUARD), [TextPart::Control(2), TextPart::Control(3)]);
        assert_eq!(controls.guarded("zip", GUARD, &[]), "zip");
    }

    /// Whatever a template removes, no name is left.
    #[test]
    fn no_name_is_made_of_parts() {
        let controls = controls(&["<|end|>", "</s>"]);
        let looked_for = ["</think>".to_owned(), "<tool>".into()];
        let text = "a</think><|e</think>nd|></think></s></tools>";
        let guarded = controls.guarded(text, GUARD, &looked_for);
        assert_eq!(guarded.matches("</think>").count(), 3, "{guarded}");
        for removed in ["</think>", "/think", "nd", "|", "<|e", "tool"] {
            let left = guarded.replace(removed, "");
            assert_eq!(controls.parts(&left, GUARD), [TextPart::Text(&left)], "{removed}");
        }
    }
}
