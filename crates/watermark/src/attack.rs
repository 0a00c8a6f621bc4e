//! The standard attacks on a mark, so that anyone can measure how well it withstands them.
//!
//! Every attack takes a strength from 0 to 1 and a seed, and gives the same text each time. Each variant of [`Attack`]
//! says what its strength means. These are the attacks of Kirchenbauer et al. 2023, section 7, and of Piet et al.,
//! *Mark my words*, 2023, that need no model; paraphrase does.

use std::collections::HashMap;

use verdigris_logits::random::philox4x32;

use crate::normalize::LOOK_ALIKES;

/// An attack on a text. Its strength is a share from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Removes that share of the words.
    Deletion,
    /// Swaps neighbouring words until that share of the words has moved.
    Swap,
    /// Replaces that share of the words by others, sampled from the text or a given vocabulary by frequency.
    /// Punctuation that stands alone, such as a dash, is not a word.
    Substitution,
    /// Mistypes that share of the words: doubles a letter, drops one, or swaps it with the next.
    Typos,
    /// Replaces that share of the letters that have a look-alike in another script.
    Homoglyphs,
    /// Inserts an invisible character into that share of the gaps between letters.
    ZeroWidth,
    /// Cuts off that share at the end.
    Truncation,
    /// Embeds the marked text, in three pieces, in human text that makes up that share of the result.
    CopyPaste,
    /// Toggles the case of the first letter of that share of the words.
    Case,
    /// Doubles that share of the spaces.
    Spaces,
    /// Replaces that share of the spaces by tabs.
    Tabs,
    /// Breaks that share of the lines at [`COLUMNS`], as mail programs and terminals do.
    Wrap,
    /// Writes that share of the words in capitals.
    Capitals,
    /// Capitalizes the first letter of that share of the words, as titles do.
    Title,
}

/// The width at which [`Attack::Wrap`] breaks lines.
pub const COLUMNS: usize = 40;

impl Attack {
    /// All attacks, each with its name and description.
    pub const ALL: [(Self, &'static str, &'static str); 14] = [
        (Self::Deletion, "deletion", "Take words out"),
        (Self::Swap, "swap", "Exchange neighbouring words"),
        (Self::Substitution, "substitution", "Replace words by others, as frequent as they are"),
        (Self::Typos, "typos", "Mistype words"),
        (Self::Homoglyphs, "homoglyphs", "Replace letters by look-alikes of other scripts"),
        (Self::ZeroWidth, "zero-width", "Put invisible characters into words"),
        (Self::Truncation, "truncation", "Cut off the end"),
        (Self::CopyPaste, "copy-paste", "Put it, in three pieces, into human text"),
        (Self::Case, "case", "Change capital and small first letters"),
        (Self::Spaces, "spaces", "Double spaces"),
        (Self::Tabs, "tabs", "Put tabs in place of spaces"),
        (Self::Wrap, "wrap", "Break lines at 40 columns"),
        (Self::Capitals, "capitals", "Write words in capitals"),
        (Self::Title, "title", "Begin words with a capital"),
    ];

    /// Whether it changes the layout or letter case of a text but none of its words. Programs do that to whole texts.
    pub fn is_layout(self) -> bool {
        matches!(self, Self::Spaces | Self::Tabs | Self::Wrap | Self::Capitals | Self::Title)
    }

    /// Attacks a text. `human` is the text that `CopyPaste` adds around it and that `Substitution` takes its words
    /// from; where it is empty, `Substitution` takes them from the text itself.
    pub fn apply(self, text: &str, strength: f64, seed: u64, human: &str) -> String {
        let random = Dice { seed };
        match self {
            Self::Deletion => {
                let kept = words(text).enumerate().filter(|(i, _)| random.roll(*i) >= strength);
                kept.map(|(_, word)| word).collect()
            }
            Self::Swap => {
                // White space stays where it is: the first word has none before it.
                let pieces: Vec<&str> = words(text).collect();
                let mut words: Vec<&str> = pieces.iter().map(|piece| piece.trim()).collect();
                // A swap with probability q moves two words and skips both, so of 1 + q words 2 q are moved.
                let q = strength / (2.0 - strength);
                let mut i = 0;
                while i + 1 < words.len() {
                    if random.roll(i) < q {
                        words.swap(i, i + 1);
                        i += 1;
                    }
                    i += 1;
                }
                let put = |(piece, word): (&&str, &str)| {
                    let start = piece.len() - piece.trim_start().len();
                    [&piece[..start], word, &piece[start + piece.trim().len()..]].concat()
                };
                pieces.iter().zip(words).map(put).collect()
            }
            Self::Substitution => {
                let source: Vec<&str> = words(if human.is_empty() { text } else { human }).map(core).collect();
                let source: Vec<&str> = source.into_iter().filter(|word| !word.is_empty()).collect();
                each_word(text, |i, word| {
                    let core = core(word);
                    if core.is_empty() || source.is_empty() || random.roll(i) >= strength {
                        return word.to_owned();
                    }
                    word.replacen(core, source[random.pick(i, source.len())], 1)
                })
            }
            Self::Typos => each_word(text, |i, word| {
                let letters: Vec<char> = word.chars().collect();
                let inner: Vec<usize> =
                    (1..letters.len()).filter(|&i| letters[i - 1..=i].iter().all(|c| c.is_alphabetic())).collect();
                if inner.is_empty() || random.roll(i) >= strength {
                    return word.to_owned();
                }
                let (mut letters, at) = (letters, inner[random.pick(i, inner.len())]);
                match random.pick(i + (1 << 30), 3) {
                    0 => letters.insert(at, letters[at]),
                    1 => _ = letters.remove(at),
                    _ => letters.swap(at - 1, at),
                }
                letters.into_iter().collect()
            }),
            Self::Homoglyphs => {
                let alikes: HashMap<char, char> =
                    LOOK_ALIKES.iter().rev().map(|&(alike, latin)| (latin, alike)).collect();
                let replace = |(i, c): (usize, char)| match alikes.get(&c) {
                    Some(&alike) if random.roll(i) < strength => alike,
                    _ => c,
                };
                text.chars().enumerate().map(replace).collect()
            }
            Self::ZeroWidth => {
                let mut out = String::with_capacity(text.len());
                let mut before = false;
                for (i, c) in text.chars().enumerate() {
                    if before && c.is_alphabetic() && random.roll(i) < strength {
                        out.push('\u{200B}');
                    }
                    out.push(c);
                    before = c.is_alphabetic();
                }
                out
            }
            Self::Truncation => {
                let words: Vec<&str> = words(text).collect();
                words[..(words.len() as f64 * (1.0 - strength)).round() as usize].concat()
            }
            Self::CopyPaste => {
                let marked: Vec<&str> = words(text).collect();
                let wanted = (marked.len() as f64 * strength / (1.0 - strength).max(0.01)).round() as usize;
                // A leading space separates the repetitions of the human text.
                let human = format!(" {}", human.trim());
                let human: Vec<&str> = words(&human).cycle().take(if human == " " { 0 } else { wanted }).collect();
                let (third, quarter) = (marked.len().div_ceil(3).max(1), human.len() / 4);
                let mut pieces = marked.chunks(third);
                let mut out = human[..quarter].concat();
                for i in 1..4 {
                    out.push_str(&pieces.next().unwrap_or_default().concat());
                    let end = if i == 3 { human.len() } else { (i + 1) * quarter };
                    out.push_str(&human[i * quarter..end].concat());
                }
                out
            }
            Self::Case => each_word(text, |i, word| match random.roll(i) < strength {
                true => with_first(word, |first| match first.is_uppercase() {
                    true => first.to_lowercase().collect(),
                    false => first.to_uppercase().collect(),
                }),
                false => word.to_owned(),
            }),
            Self::Spaces => each_space(text, |i| if random.roll(i) < strength { "  " } else { " " }),
            Self::Tabs => each_space(text, |i| if random.roll(i) < strength { "\t" } else { " " }),
            Self::Wrap => {
                let wrap = |(i, line): (usize, &str)| match random.roll(i) < strength {
                    true => wrapped(line),
                    false => line.to_owned(),
                };
                text.split('\n').enumerate().map(wrap).collect::<Vec<_>>().join("\n")
            }
            Self::Capitals => each_word(text, |i, word| match random.roll(i) < strength {
                true => word.to_uppercase(),
                false => word.to_owned(),
            }),
            Self::Title => each_word(text, |i, word| match random.roll(i) < strength {
                true => with_first(word, |first| first.to_uppercase().collect()),
                false => word.to_owned(),
            }),
        }
    }
}

/// Splits a text into words, each with the white space before it; the last one also has the white space after it.
fn words(text: &str) -> impl Iterator<Item = &str> + Clone {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let start = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
        let mut end = rest[start..].find(char::is_whitespace).map_or(rest.len(), |n| start + n);
        if rest[end..].trim().is_empty() {
            end = rest.len();
        }
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

/// A word without surrounding white space and punctuation.
fn core(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

fn each_word(text: &str, f: impl Fn(usize, &str) -> String) -> String {
    words(text).enumerate().map(|(i, word)| f(i, word)).collect()
}

/// A word with its first letter changed, if it has one.
fn with_first(word: &str, change: impl Fn(char) -> String) -> String {
    let Some((at, first)) = word.char_indices().find(|(_, c)| c.is_alphabetic()) else { return word.to_owned() };
    [&word[..at], &change(first), &word[at + first.len_utf8()..]].concat()
}

fn each_space(text: &str, f: impl Fn(usize) -> &'static str) -> String {
    let mut letters = text.split(' ').enumerate();
    let first = letters.next().map_or("", |(_, first)| first).to_owned();
    letters.fold(first, |text, (i, piece)| text + f(i) + piece)
}

/// Wraps a line at spaces so that it is at most [`COLUMNS`] wide where possible.
fn wrapped(line: &str) -> String {
    let (mut out, mut width) = (String::with_capacity(line.len()), 0);
    for (i, word) in line.split(' ').enumerate() {
        let letters = word.chars().count();
        if i > 0 {
            let fits = width + 1 + letters <= COLUMNS;
            out.push(if fits { ' ' } else { '\n' });
            width = if fits { width + 1 } else { 0 };
        }
        out.push_str(word);
        width += letters;
    }
    out
}

struct Dice {
    seed: u64,
}

impl Dice {
    fn words(&self, i: usize) -> [u32; 4] {
        philox4x32([i as u32, (i as u64 >> 32) as u32, 0x61_7474, 0], [self.seed as u32, (self.seed >> 32) as u32])
    }

    /// A number in `[0, 1)`.
    fn roll(&self, i: usize) -> f64 {
        f64::from(self.words(i)[0]) / 4_294_967_296.0
    }

    /// A number below `n`, independent of the roll.
    fn pick(&self, i: usize, n: usize) -> usize {
        ((u64::from(self.words(i)[1]) * n as u64) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normalize::normalize;

    fn text() -> String {
        let words = "The captain saw a sail in the north, and \"Look!\" he said;\n\nnobody answered him though. ";
        words.repeat(20)
    }

    #[test]
    fn no_strength_changes_nothing() {
        for (attack, name, _) in Attack::ALL {
            assert_eq!(attack.apply(&text(), 0.0, 1, "Human words."), text(), "{name}");
            for odd in ["", " ", "\n\n", "x", "é \u{301}", "日本語"] {
                for strength in [0.0, 0.5, 1.0] {
                    attack.apply(odd, strength, 1, "");
                }
            }
        }
    }

    #[test]
    fn strength_is_the_share_that_it_says() {
        let words = |text: &str| text.split_whitespace().count() as f64;
        let (all, half) = (words(&text()), |attack: Attack| attack.apply(&text(), 0.5, 3, "An old tale of the sea."));
        assert!((words(&half(Attack::Deletion)) / all - 0.5).abs() < 0.1);
        assert!((words(&half(Attack::Truncation)) / all - 0.5).abs() < 0.01);
        assert!((words(&half(Attack::CopyPaste)) / all - 2.0).abs() < 0.05);
        for attack in [Attack::Substitution, Attack::Typos, Attack::Case] {
            let changed = half(attack);
            assert_eq!(words(&changed), all);
            let differs = text().split_whitespace().zip(changed.split_whitespace()).filter(|(a, b)| a != b).count();
            assert!((differs as f64 / all - 0.5).abs() < 0.12, "{attack:?}: {differs} of {all}");
        }
        let mut before: Vec<char> = text().chars().collect();
        let mut after: Vec<char> = half(Attack::Swap).chars().collect();
        assert_ne!(before, after);
        before.sort_unstable();
        after.sort_unstable();
        assert_eq!(before, after);
    }

    /// Uses words that are all different, so that each moved word is noticed.
    #[test]
    fn swaps_move_the_share_that_they_say() {
        let words: Vec<String> = (0..20_000).map(|i| format!("word{i}")).collect();
        let text = words.join(" ");
        for strength in [0.05, 0.2, 0.4, 0.7, 1.0] {
            let swapped = Attack::Swap.apply(&text, strength, 2, "");
            let moved = words.iter().zip(swapped.split_whitespace()).filter(|(a, b)| a != b).count();
            let share = moved as f64 / words.len() as f64;
            assert!((share - strength).abs() < 0.01, "{share} moved at {strength}");
        }
        assert_eq!(Attack::Swap.apply("one two\n\nthree four. ", 1.0, 2, ""), "two one\n\nfour. three ");
    }

    #[test]
    fn signs_that_stand_alone_are_no_words() {
        let substituted = Attack::Substitution.apply("one -- two --, three ...", 1.0, 1, "other");
        assert_eq!(substituted, "other -- other --, other ...");
    }

    #[test]
    fn layouts_keep_every_word() {
        let text = "The captain saw a sail in the north, and \"Look!\" he said; nobody answered.\n\nThe end.\n";
        for (attack, name, _) in Attack::ALL.into_iter().filter(|(attack, ..)| attack.is_layout()) {
            let changed = attack.apply(text, 1.0, 1, "");
            assert_ne!(changed, text, "{name}");
            let words = |text: &str| text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>();
            assert_eq!(words(&changed), words(text), "{name}");
        }
        let of = |attack: Attack| attack.apply(text, 1.0, 1, "");
        assert!(of(Attack::Wrap).starts_with("The captain saw a sail in the north, and\n\"Look!\" he said;"));
        assert!(of(Attack::Wrap).ends_with("answered.\n\nThe end.\n"));
        assert!(of(Attack::Spaces).starts_with("The  captain  saw") && of(Attack::Tabs).starts_with("The\tcaptain\t"));
        assert!(of(Attack::Capitals).contains("\"LOOK!\"") && of(Attack::Title).contains("\"Look!\" He Said;"));
    }

    #[test]
    fn what_cannot_be_seen_is_repaired() {
        for attack in [Attack::Homoglyphs, Attack::ZeroWidth] {
            for strength in [0.05, 0.4] {
                let attacked = attack.apply(&text(), strength, 5, "");
                assert_ne!(attacked, text());
                let repaired = normalize(&attacked).text;
                let lost = text().split_whitespace().zip(repaired.split_whitespace()).filter(|(a, b)| a != b).count();
                // Single letters, and words that consist of look-alikes only, do not show their script.
                assert!(lost as f64 <= 0.04 * text().split_whitespace().count() as f64, "{attack:?}: {lost}");
            }
        }
    }
}
