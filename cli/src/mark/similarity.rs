//! How much of a sentence its rewritten version keeps.

use std::collections::{HashMap, HashSet};

use unicode_segmentation::UnicodeSegmentation;

/// ROUGE-1 (Lin 2004): the harmonic mean of the shares of words that each text has in common with the other.
pub(super) fn rouge_1(a: &str, b: &str) -> f64 {
    let (a, b) = (words(a), words(b));
    let mut counts: HashMap<&str, usize> = HashMap::new();
    a.iter().for_each(|word| *counts.entry(word).or_default() += 1);
    let common = b.iter().filter(|word| match counts.get_mut(word.as_str()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    });
    2.0 * common.count() as f64 / (a.len() + b.len()).max(1) as f64
}

/// Whether each sentence has the numbers and names of the other: the words with a digit, and those with a capital that
/// is not due to the beginning of the sentence.
pub(super) fn keeps_names(a: &str, b: &str) -> bool {
    let has = |text: &str, other: &str| {
        let other: HashSet<String> = words(other).into_iter().collect();
        names(text).all(|name| other.contains(&name.to_lowercase()))
    };
    has(a, b) && has(b, a)
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |(at, word): &(usize, &str)| {
        word.contains(|c: char| c.is_numeric()) || (*at > 0 && word.contains(char::is_uppercase))
    };
    pieces(text).enumerate().filter(is_name).map(|(_, word)| word)
}

fn words(text: &str) -> Vec<String> {
    pieces(text).map(str::to_lowercase).collect()
}

/// Words; `I'm` is two.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.unicode_words().flat_map(|word| word.split(['\'', '’'])).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarity_is_the_share_of_common_words() {
        assert_eq!(rouge_1("The sea was grey", "the sea was GREY!"), 1.0);
        assert_eq!(rouge_1("a b c d", "a b x y"), 0.5);
        assert_eq!(rouge_1("a a a b", "a c"), 1.0 / 3.0);
        assert_eq!((rouge_1("a", "b"), rouge_1("", "")), (0.0, 0.0));
    }

    #[test]
    fn names_and_numbers_are_kept() {
        let text = "Today I met Anna in Bonn at 9.30 with 12 men.";
        assert!(keeps_names(text, "In Bonn, I saw Anna and 12 men today at 9.30."));
        assert!(keeps_names(text, "I'm with Anna in Bonn, with 12 men at 9.30."));
        for other in [
            "Today I met Anna in Rome at 9.30 with 12 men.",
            "Today I met Anna in Bonn at 9.30 with 13 men.",
            "Today I met Anna in Bonn at 9.30 with men.",
            "Today I met Anna Brown in Bonn at 9.30 with 12 men.",
            "Today I met her in Bonn at 9.30 with 12 men.",
        ] {
            assert!(!keeps_names(text, other), "{other}");
        }
    }
}
