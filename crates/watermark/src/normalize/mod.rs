//! Repairs changes to the characters of a text, so that it tokenizes as when it was written.
//!
//! Look-alike letters, invisible characters, odd spaces, decomposed accents and the line ends of another system change
//! every token that they touch, but nothing visible. Repairs keep newlines and everything that a script needs (joiners
//! in Indic and Persian words, in emoji), record what was changed and where, and map every position back to the
//! original text.
//!
//! Changes of white space and letter case affect tokens too, and are visible. [`stages`] repairs them after the
//! characters, if a text has runs of spaces or tabs, wrapped lines, or capitals only (or in every word).

pub mod letter_case;
mod white_space;

use std::sync::LazyLock;

use serde::Serialize;
use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// The kinds of repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repair {
    /// An invisible character was removed.
    Invisible,
    /// A letter of another script was replaced by its look-alike.
    Homoglyph,
    /// A letter of a decorative alphabet (full width, mathematical) was replaced by the plain one.
    Decorative,
    /// An unusual space was replaced by the ordinary one.
    Space,
    /// A letter and its accents were composed into one character (Unicode's form C).
    Composition,
    /// A carriage return was removed or replaced by a newline.
    LineEnd,
    /// A run of spaces, or a tab, between words was replaced by one space.
    WhiteSpace,
    /// The end of a wrapped line was replaced by a space.
    WrappedLine,
    /// A word was put into sentence case.
    LetterCase,
}

impl Repair {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Invisible => "invisible",
            Self::Homoglyph => "homoglyph",
            Self::Decorative => "decorative",
            Self::Space => "space",
            Self::Composition => "composition",
            Self::LineEnd => "line-end",
            Self::WhiteSpace => "white-space",
            Self::WrappedLine => "wrapped-line",
            Self::LetterCase => "letter-case",
        }
    }
}

/// A repair at one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The kind of repair.
    pub repair: Repair,
    /// The byte position in the original text.
    pub at: usize,
}

/// A repaired text, with the origin of each of its bytes.
#[derive(Clone, Debug, Default)]
pub struct Normalized {
    /// The text after all repairs.
    pub text: String,
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// Positions from which on the distance between the two texts changes: (in this text, in the original text).
    anchors: Vec<(usize, usize)>,
}

impl Normalized {
    /// The byte position in the original text of the character that begins at byte `at` of this text; the end for the
    /// end.
    pub fn origin(&self, at: usize) -> usize {
        let next = self.anchors.partition_point(|&(here, _)| here <= at);
        let (here, there) = next.checked_sub(1).map_or((0, 0), |last| self.anchors[last]);
        there + (at - here)
    }

    /// The number of repairs of each kind.
    pub fn summary(&self) -> Vec<(Repair, usize)> {
        let mut counts = std::collections::BTreeMap::new();
        self.changes.iter().for_each(|change| *counts.entry(change.repair).or_default() += 1);
        counts.into_iter().collect()
    }

    /// Appends a character that comes from byte `at`.
    fn push(&mut self, c: char, at: usize) {
        self.continue_at(at);
        self.text.push(c);
    }

    /// Appends a text that comes from byte `at` without changes.
    fn push_unchanged(&mut self, text: &str, at: usize) {
        if !text.is_empty() {
            self.continue_at(at);
            self.text.push_str(text);
        }
    }

    /// Records that the text continues, or ends, at byte `at`.
    fn continue_at(&mut self, at: usize) {
        // Anchors are never past the end, so the last one is that of the end.
        let (here, there) = self.anchors.last().copied().unwrap_or((0, 0));
        if there + (self.text.len() - here) != at {
            self.anchors.push((self.text.len(), at));
        }
    }

    /// Turns a repair of `base`'s text into a repair of the text that `base` was made from.
    fn after(self, base: &Self) -> Self {
        let (mut anchors, end) = (Vec::new(), self.text.len());
        let first = self.anchors.first().is_none_or(|&(here, _)| here > 0).then_some((0, 0));
        let mut segments = first.into_iter().chain(self.anchors.iter().copied()).peekable();
        while let Some((here, between)) = segments.next() {
            let length = segments.peek().map_or(end, |next| next.0) - here;
            anchors.push((here, base.origin(between)));
            let inside = &base.anchors[base.anchors.partition_point(|anchor| anchor.0 <= between)..];
            let inside = inside.iter().take_while(|anchor| anchor.0 - between < length);
            anchors.extend(inside.map(|&(at, there)| (here + at - between, there)));
        }
        let bytes = base.origin(self.origin(end));
        let moved = self.changes.iter().map(|change| Change { at: base.origin(change.at), ..*change });
        let mut changes: Vec<Change> = base.changes.iter().copied().chain(moved).collect();
        changes.sort_by_key(|change| change.at);
        let mut all = Self { text: self.text, changes, anchors };
        all.continue_at(bytes);
        all
    }
}

/// The text after successive repairs: of its characters, of its white space, and of its letter case. A stage without
/// changes is left out, as is the text itself.
pub fn stages(text: &str) -> Vec<Normalized> {
    let mut stages: Vec<Normalized> = Vec::new();
    if !is_inert(text) {
        add(normalize(text), &mut stages);
    }
    // White space is between words before and after it is repaired, so the letter case of the text stays the same.
    let case = letter_case::changed(last(text, &stages));
    add(white_space::collapse(last(text, &stages), case), &mut stages);
    add(letter_case::restore(last(text, &stages), case), &mut stages);
    stages
}

/// A text after the stages so far.
fn last<'t>(text: &'t str, stages: &'t [Normalized]) -> &'t str {
    stages.last().map_or(text, |base| &base.text)
}

/// Adds a stage, a repair of the text after the stages so far, unless it has no changes.
fn add(repaired: Normalized, stages: &mut Vec<Normalized>) {
    if !repaired.changes.is_empty() {
        let repaired = match stages.last() {
            Some(base) => repaired.after(base),
            None => repaired,
        };
        stages.push(repaired);
    }
}

/// Repairs the characters of a text.
pub fn normalize(text: &str) -> Normalized {
    in_sections(text, SECTION)
}

fn in_sections(text: &str, size: usize) -> Normalized {
    let scripts = Scripts::of(text);
    let mut out = Normalized { text: String::with_capacity(text.len()), ..Normalized::default() };
    let mut start = 0;
    while start < text.len() {
        let end = section(text, start, size);
        let part = &text[start..end];
        if is_inert(part) {
            out.push_unchanged(part, start);
        } else {
            let letters = letters(part, start, scripts);
            assemble(&mut out, &compose(&letters));
        }
        start = end;
    }
    out.continue_at(text.len());
    out
}

/// Whether no repair changes any of the characters, whatever is next to it.
fn is_inert(text: &str) -> bool {
    let is_inert = |c: char| {
        let is_letter = decorative(c).is_none() && !is_cyrillic_or_greek(c) && starts(c);
        is_letter && !is_always_invisible(c) && !is_joiner(c) && !is_odd_space(c)
    };
    !text.contains('\r') && text.chars().filter(|c| !c.is_ascii()).all(is_inert)
}

/// The sizes of a section, in bytes. A section takes some sixty times its size in memory, which should fit in a cache,
/// unless its characters are inert; the second is the limit where no position is fit for a cut.
const SECTION: usize = 4 << 10;
const LONGEST_SECTION: usize = 1 << 20;

/// The end of the section of about `size` bytes that begins at `start`: before a character that repairs treat
/// independently of everything before it.
fn section(text: &str, start: usize, size: usize) -> usize {
    let mut before = '\r';
    for (at, c) in text[start..].char_indices() {
        let is_kept = |c: char| !is_always_invisible(c) && !is_joiner(c);
        let parts = || before != '\r' && !in_word(before) && is_kept(before) && is_kept(c) && starts(c);
        if at >= size && parts() || at >= LONGEST_SECTION {
            return start + at;
        }
        before = c;
    }
    text.len()
}

fn in_word(c: char) -> bool {
    c.is_alphabetic() || canonical_combining_class(c) != 0
}

/// Whether form C never combines a character with one before it.
fn starts(c: char) -> bool {
    c.is_ascii() || canonical_combining_class(c) == 0 && is_nfc_quick(std::iter::once(c)) == IsNormalized::Yes
}

/// The number of Latin letters in a text, and of Cyrillic or Greek ones without a Latin look-alike.
#[derive(Clone, Copy)]
struct Scripts {
    latin: usize,
    own: usize,
}

impl Scripts {
    fn of(text: &str) -> Self {
        let mut scripts = Self { latin: 0, own: 0 };
        for c in text.chars() {
            if c.is_ascii() {
                scripts.latin += usize::from(c.is_ascii_alphabetic());
                continue;
            }
            let c = decorative(c).unwrap_or(c);
            scripts.latin += usize::from(c.is_ascii_alphabetic());
            scripts.own += usize::from(is_cyrillic_or_greek(c) && to_latin(c).is_none());
        }
        scripts
    }
}

/// A character with the byte position that it comes from, and its repair.
#[derive(Clone, Copy)]
struct Repaired {
    character: Option<char>,
    at: usize,
    repair: Option<Repair>,
}

/// Repairs single characters: invisible ones, spaces, line ends, look-alikes.
fn letters(section: &str, start: usize, scripts: Scripts) -> Vec<Repaired> {
    let characters: Vec<(usize, char)> = section.char_indices().map(|(at, c)| (start + at, c)).collect();
    let mut repaired: Vec<Repaired> = (0..characters.len())
        .map(|i| {
            let (at, c) = characters[i];
            let kept = |character, repair| Repaired { character: Some(character), at, repair };
            match c {
                _ if is_always_invisible(c) => Repaired { character: None, at, repair: Some(Repair::Invisible) },
                '\r' if characters.get(i + 1).is_some_and(|next| next.1 == '\n') => {
                    Repaired { character: None, at, repair: Some(Repair::LineEnd) }
                }
                '\r' => kept('\n', Some(Repair::LineEnd)),
                _ if is_odd_space(c) => kept(' ', Some(Repair::Space)),
                _ => match decorative(c) {
                    Some(letter) => kept(letter, Some(Repair::Decorative)),
                    None => kept(c, None),
                },
            }
        })
        .collect();
    repair_words(&mut repaired, scripts);
    repair_joiners(&mut repaired);
    repaired
}

/// Removes joiners between characters of scripts that do not use them.
fn repair_joiners(repaired: &mut [Repaired]) {
    // Whether the next character on a side of each, ignoring joiners, is plain or missing.
    let mut plain_before = true;
    let mut plain_after = vec![true; repaired.len() + 1];
    let plain = |c: char| c.is_ascii() || is_latin(c);
    for (i, letter) in repaired.iter().enumerate().rev() {
        plain_after[i] = letter.character.filter(|&c| !is_joiner(c)).map_or(plain_after[i + 1], plain);
    }
    for (i, letter) in repaired.iter_mut().enumerate() {
        match letter.character {
            Some(c) if !is_joiner(c) => plain_before = plain(c),
            Some(_) if plain_before && plain_after[i + 1] => {
                *letter = Repaired { character: None, repair: Some(Repair::Invisible), ..*letter };
            }
            _ => {}
        }
    }
}

/// In words of several scripts, replaces look-alikes by letters of the script of the others.
fn repair_words(repaired: &mut [Repaired], scripts: Scripts) {
    let is_letter = |letter: &Repaired| letter.character.is_none_or(in_word);
    let Scripts { latin: latin_letters, own: own_letters } = scripts;
    for word in repaired.chunk_by_mut(|a, b| is_letter(a) && is_letter(b)) {
        let characters = || word.iter().filter_map(|letter| letter.character);
        let latin = characters().filter(char::is_ascii_alphabetic).count();
        let other = characters().filter(|c| is_cyrillic_or_greek(*c)).count();
        let own = characters().filter(|&c| is_cyrillic_or_greek(c) && to_latin(c).is_none()).count();
        // Letters without a look-alike decide the script of a word; otherwise the rest of the text does.
        let tells = characters().any(|c| c.is_ascii_alphabetic() && to_cyrillic(c).is_none());
        let greek = characters().any(|c| matches!(c, '\u{370}'..='\u{3FF}'));
        let repair: Option<fn(char) -> Option<char>> = if other == 0 {
            None
        } else if own == 0
            && (latin > 0 && (tells || latin_letters > own_letters) || latin_letters > 0 && own_letters == 0)
        {
            Some(to_latin)
        } else if latin > 0 && !tells && !greek && other >= latin {
            Some(to_cyrillic)
        } else {
            None
        };
        for letter in word.iter_mut() {
            if let Some(c) = letter.character.zip(repair).and_then(|(c, repair)| repair(c)) {
                *letter = Repaired { character: Some(c), repair: Some(Repair::Homoglyph), ..*letter };
            }
        }
    }
}

/// Composes letters and their accents (form C).
fn compose(repaired: &[Repaired]) -> Vec<Repaired> {
    let mut out: Vec<Repaired> = Vec::with_capacity(repaired.len());
    let mut i = 0;
    while i < repaired.len() {
        let next = repaired[i + 1..]
            .iter()
            .position(|p| p.character.is_some_and(starts))
            .map_or(repaired.len(), |n| i + 1 + n);
        let group = &repaired[i..next];
        let single = group.len() == 1 && group[0].character.is_none_or(|c| c.is_ascii());
        let characters = || group.iter().filter_map(|letter| letter.character);
        if single || is_nfc_quick(characters()) == IsNormalized::Yes || characters().nfc().eq(characters()) {
            out.extend_from_slice(group);
        } else {
            let repair = Some(Repair::Composition);
            out.extend(group.iter().filter(|letter| letter.character.is_none()));
            out.extend(characters().nfc().map(|c| Repaired { character: Some(c), at: group[0].at, repair }));
        }
        i = next;
    }
    out
}

/// Appends a section to the previous ones.
fn assemble(out: &mut Normalized, repaired: &[Repaired]) {
    let mut last = None;
    for letter in repaired {
        if let Some(repair) = letter.repair {
            // A composed group is one change, however many characters it gives.
            if last != Some((repair, letter.at)) {
                out.changes.push(Change { repair, at: letter.at });
            }
            last = Some((repair, letter.at));
        }
        let Some(c) = letter.character else { continue };
        out.push(c, letter.at);
    }
}

fn is_latin(c: char) -> bool {
    matches!(c, '\u{C0}'..='\u{24F}' | '\u{300}'..='\u{36F}' | '\u{1E00}'..='\u{1EFF}' | '\u{2010}'..='\u{2027}')
}

fn is_cyrillic_or_greek(c: char) -> bool {
    matches!(c, '\u{370}'..='\u{3FF}' | '\u{400}'..='\u{52F}')
}

/// Characters that no script needs inside a text.
fn is_always_invisible(c: char) -> bool {
    matches!(c, '\u{AD}' | '\u{180E}' | '\u{200B}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}')
}

/// Characters that some scripts need, but not Latin text: joiners, directions, selectors, tags.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200C}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{FE00}'..='\u{FE0F}' | '\u{E0000}'..='\u{E01EF}')
}

fn is_odd_space(c: char) -> bool {
    matches!(c, '\u{A0}' | '\u{1680}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}')
}

/// The ASCII character of a decorative one.
fn decorative(c: char) -> Option<char> {
    if !matches!(c, '\u{FF01}'..='\u{FF5E}' | '\u{1D400}'..='\u{1D7FF}') {
        return None;
    }
    let mut plain = c.nfkc();
    plain.next().filter(|letter| letter.is_ascii() && plain.next().is_none())
}

/// Cyrillic and Greek letters that look like Latin ones, the Cyrillic ones first. Each letter of a text looks like the
/// one at its position in the text next to it.
const ALPHABETS: [(&str, &str); 4] = [
    ("аеорсухіјѕһԁԛԝӏ", "aeopcyxijshdqwl"),
    ("АВЕКМНОРСТУХІЈЅԚԜԌѵѴ", "ABEKMHOPCTYXIJSQWGvV"),
    ("οναιρυ", "ovaipu"),
    ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX"),
];

/// The letters of [`ALPHABETS`] in pairs.
pub(crate) static LOOK_ALIKES: LazyLock<Vec<(char, char)>> =
    LazyLock::new(|| ALPHABETS.iter().flat_map(|(alike, latin)| alike.chars().zip(latin.chars())).collect());

fn to_latin(c: char) -> Option<char> {
    LOOK_ALIKES.iter().find(|(alike, _)| *alike == c).map(|&(_, latin)| latin)
}

fn to_cyrillic(c: char) -> Option<char> {
    let cyrillic = LOOK_ALIKES.iter().filter(|(alike, _)| matches!(alike, '\u{400}'..='\u{52F}'));
    cyrillic.clone().find(|(_, latin)| *latin == c).map(|&(alike, _)| alike)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// White space and letter case are repaired as if the letter case were looked for after white space.
    #[test]
    fn white_space_does_not_decide_the_letter_case() {
        let words = ["THE", "OLD", "ship", "Captain", "I'M", "3.5", "--", "\u{c9}t\u{e9}"];
        let (mut changed, mut both) = (0, 0);
        for round in 0..400u32 {
            let random = |i: u32| verdigris_logits::random::philox4x32([i, round, 0, 0], [2, 9])[0] as usize;
            let blanks = [" ", "  ", "\t", "\n", " \n", "\n\n", " \u{2003}\n"];
            let few = 1 + random(0) % words.len();
            let text: String =
                (1..120).map(|i| [words[random(i) % few], blanks[random(i + 500) % 7]].concat()).collect();
            let case = letter_case::changed(&text);
            let collapsed = white_space::collapse(&text, case);
            if !collapsed.changes.is_empty() {
                assert_eq!(letter_case::changed(&collapsed.text), case, "{text:?}");
                changed += 1;
                both += usize::from(case.is_some());
            }
        }
        assert!(changed > 200 && both > 50 && both < changed, "{changed} {both}");
    }

    /// Between letters, accents and spaces, in texts of several scripts.
    #[test]
    fn inert_characters_are_left_as_they_are() {
        let mut inert = 0;
        for c in ('\0'..=char::MAX).filter(|&c| is_inert(c.encode_utf8(&mut [0; 4]))) {
            inert += 1;
            if !c.is_ascii() && inert % 7 == 0 {
                let text = format!("{c}a{c}{c} e{c}\n{c}");
                for (latin, own) in [(0, 0), (9, 0), (0, 9)] {
                    let letters = compose(&letters(&text, 0, Scripts { latin, own }));
                    assert!(letters.iter().all(|letter| letter.repair.is_none()), "{c:?}");
                    assert_eq!(letters.iter().filter_map(|letter| letter.character).collect::<String>(), text);
                }
            }
        }
        assert!(inert > 900_000, "{inert}");
        for touched in ["\r", "\u{430}", "\u{301}", "\u{200d}", "\u{a0}", "\u{ff21}", "\u{ad}", "\u{212b}"] {
            assert!(!is_inert(touched), "{touched:?}");
        }
    }

    #[track_caller]
    fn becomes(text: &str, expected: &str, repairs: &[Repair]) {
        let normalized = normalize(text);
        assert_eq!(normalized.text, expected);
        assert_eq!(normalized.changes.iter().map(|change| change.repair).collect::<Vec<_>>(), repairs);
    }

    #[test]
    fn repairs_what_cannot_be_seen() {
        use Repair::*;
        becomes("ordinary text,\n\n\twith lines\n", "ordinary text,\n\n\twith lines\n", &[]);
        becomes("a\u{200B}b\u{FEFF}c\u{AD}d", "abcd", &[Invisible; 3]);
        becomes("wo\u{200D}rd", "word", &[Invisible]);
        becomes("one\r\ntwo\rthree", "one\ntwo\nthree", &[LineEnd; 2]);
        becomes("a\u{A0}b\u{2009}c", "a b c", &[Space; 2]);
        becomes("cafe\u{301} e\u{323}\u{302}", "café ệ", &[Composition; 2]);
        becomes("\u{FF21}\u{FF42}\u{1D41A}", "Aba", &[Decorative; 3]);
        becomes("th\u{435} \u{441}aptain", "the captain", &[Homoglyph; 2]);
    }

    #[test]
    fn leaves_every_script_alone() {
        for text in [
            "Привет, мир! Ёж и оса.",
            "Ελληνικά κείμενα",
            "नमस्ते क्\u{200D}ष",
            "می\u{200C}خواهم",
            "👩\u{200D}🚀 ❤\u{FE0F} 🏴\u{E0067}\u{E0062}\u{E007F}",
            "春\u{3000}夏",
            "été naïve Ærø “quoted” – dash…",
            "π ≈ 3, α-helix, Δx, ТВ",
            "한국어",
            "fn main() { println!(\"{}\", x); }\n",
        ] {
            becomes(text, text, &[]);
        }
    }

    /// A Latin letter in a Russian word is replaced too.
    #[test]
    fn the_word_says_which_script_it_is() {
        becomes("мoлoкo", "молоко", &[Repair::Homoglyph; 3]);
    }

    #[test]
    fn hangul_is_composed() {
        becomes("\u{1112}\u{1161}\u{11AB}", "한", &[Repair::Composition]);
    }

    #[test]
    fn places_map_back() {
        let text = "a\u{200B}b\r\nce\u{301}\u{A0}d";
        let normalized = normalize(text);
        assert_eq!(normalized.text, "ab\ncé d");
        for (here, c) in normalized.text.char_indices() {
            let there = &text[normalized.origin(here)..];
            match c {
                'é' => assert!(there.starts_with('e')),
                ' ' => assert!(there.starts_with('\u{A0}')),
                c => assert!(there.starts_with(c), "{c:?}: {there:?}"),
            }
        }
        assert_eq!(normalized.origin(normalized.text.len()), text.len());
    }

    /// Stages add up, and positions refer to the original text.
    #[test]
    fn stages_map_back_to_the_text() {
        let text = "THE CAPTAIN\u{A0} CAME\r\nON\u{200B} DECK.\tE\u{301}TE\u{301}, AND I SAW  HIM. ".repeat(3);
        let stages = stages(&text);
        let [characters, white_space, letter_case] = &stages[..] else { panic!("{stages:?}") };
        assert!(characters.text.starts_with("THE CAPTAIN  CAME\nON DECK.\tÉTÉ, AND"), "{}", characters.text);
        assert!(white_space.text.starts_with("THE CAPTAIN CAME\nON DECK. ÉTÉ, AND"), "{}", white_space.text);
        assert!(
            letter_case.text.starts_with("The captain came\nOn deck. Été, and I saw him. "),
            "{}",
            letter_case.text
        );
        for stage in &stages {
            for (here, c) in stage.text.char_indices() {
                let there = text[stage.origin(here)..].chars().next().unwrap();
                let same = there.to_lowercase().eq(c.to_lowercase());
                let repaired = matches!((c, there), (' ', '\t' | '\n' | '\u{A0}') | ('É' | 'é', 'E'));
                assert!(same || repaired, "{c:?} {there:?}");
            }
            assert_eq!(stage.origin(stage.text.len()), text.len());
            assert!(stage.changes.is_sorted_by_key(|change| change.at));
        }
        assert!(super::stages("A plain text,\nof two lines.\n").is_empty());
    }

    /// The position of cuts changes nothing, on texts made of everything that is repaired.
    #[test]
    fn sections_are_repaired_as_the_whole_is() {
        use verdigris_logits::random::philox4x32;
        let alphabet: Vec<char> =
            "ab с\u{301}\u{323}é\u{200B}\u{200D}\r\n\u{A0}ＡбωΩ\u{1112}\u{1161}क\u{FE0F}👩., . \u{3002}春"
                .chars()
                .collect();
        let mut cut = 0;
        for seed in 0..3000 {
            let text: String = (0..40u32)
                .map(|i| alphabet[philox4x32([i, 0, 0, 0], [seed, 5])[0] as usize % alphabet.len()])
                .collect();
            let (whole, parts) = (in_sections(&text, usize::MAX), in_sections(&text, 1));
            assert_eq!((&parts.text, &parts.changes, &parts.anchors), (&whole.text, &whole.changes, &whole.anchors));
            cut += usize::from(section(&text, 0, 1) < text.len());
        }
        assert!(cut > 2000, "{cut}");
    }

    /// Repairing a third time changes nothing more, on texts made of everything that is repaired.
    #[test]
    fn it_is_done_at_once() {
        use verdigris_logits::random::philox4x32;
        let alphabet: Vec<char> =
            "abc о с\u{301}\u{323}é\u{200B}\u{200D}\r\n\u{A0}ＡбωΩ\u{1112}\u{1161}क\u{FE0F}👩".chars().collect();
        for seed in 0..3000 {
            let text: String = (0..12u32)
                .map(|i| alphabet[philox4x32([i, 0, 0, 0], [seed, 4])[0] as usize % alphabet.len()])
                .collect();
            let once = normalize(&text);
            once.text.char_indices().for_each(|(at, _)| assert!(text.is_char_boundary(once.origin(at))));
            let twice = normalize(&once.text);
            let thrice = normalize(&twice.text);
            // Removing an invisible character can bring an accent to its letter, so all is done after the second time
            // only.
            assert_eq!(twice.text, thrice.text, "{text:?}");
        }
    }
}
