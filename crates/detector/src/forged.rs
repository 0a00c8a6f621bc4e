//! Whether the marks of a text were learned from other texts of its key.
//!
//! A writer marks each text with one variant of a key, so a genuine text has the mark of one. A forger with texts of
//! the key, but without their variants, favours tokens that any variant favours: such a text has the marks of several
//! in the same tokens (Aremu et al., arXiv 2507.07871). A text that joins genuine ones has the marks of several too,
//! but each in its own part. So the text is first cut into the parts that speak most for one variant each, and is
//! forged if a part has the mark of another one as well. In genuine parts, the scores under the other variants are
//! those of unmarked text. The cut takes tokens with low scores under the others, which makes it harder still to find
//! their mark, so that the chance of a false alarm is at most the level.

use verdigris_watermark::real::ln;
use verdigris_watermark::{Detector, Evidence, Key, Level, Mark, Repeats};

use crate::error::DetectError;
use crate::tokens::Tokens;

/// The cost of a cut, in standard deviations of a score: about that of three tokens that speak for the other variant.
const CUT: f64 = 4.0;

/// Whether some tokens have the marks of two of the given variants. All looks for them are paid for, on top of those
/// that found the variants.
pub(crate) fn is_forged(
    key: &Key,
    variants: &[u8],
    tokens: &Tokens,
    (repeats, level): (Repeats, Level),
    tried: f64,
) -> Result<bool, DetectError> {
    if variants.len() < 2 {
        return Ok(false);
    }
    // The scores of each token under all variants; `None` if it is not counted under one of them.
    let mut scores: Vec<Option<Vec<f64>>> = vec![Some(Vec::new()); tokens.len()];
    let schemes = key.schemes()?;
    for &variant in variants {
        let mut detector = Detector::new(schemes[usize::from(variant)].clone()).repeats(repeats);
        let mut at = 0;
        tokens.read(&mut detector, |_, marks| {
            for (of_token, mark) in scores[at..].iter_mut().zip(marks) {
                match (&mut *of_token, mark) {
                    (Some(of_token), Mark::Counted { score, .. }) => of_token.push(f64::from(*score)),
                    _ => *of_token = None,
                }
            }
            at += marks.len();
        });
    }
    let scores: Vec<Vec<f64>> = scores.into_iter().flatten().collect();
    let distribution = schemes[0].distribution();
    let owners = owners(&scores, variants.len(), |score| distribution.z_score(1, score));
    let pairs = (variants.len() * (variants.len() - 1)) as f64;
    let bound = level.ln() - ln(tried * pairs);
    let is_found = |of: usize, by: usize| {
        let part = owners.iter().zip(&scores).filter(|(owner, _)| **owner == of);
        let (count, sum) = part.fold((0, 0.0), |(count, sum), (_, scores)| (count + 1, sum + scores[by]));
        count > 0 && Evidence::from_sum(&distribution, count, sum).ln_p <= bound
    };
    let all = 0..variants.len();
    Ok(all.clone().any(|of| all.clone().any(|by| by != of && is_found(of, by))))
}

/// The variant that each token belongs to, such that the sum of the tokens' standardized scores under their variants,
/// minus [`CUT`] for each change between neighbours, is largest (Viterbi 1967).
fn owners(scores: &[Vec<f64>], variants: usize, standardized: impl Fn(f64) -> f64) -> Vec<usize> {
    let top = |sums: &[f64]| (0..variants).max_by(|&a, &b| sums[a].total_cmp(&sums[b])).expect("there are variants");
    let mut sums = vec![0.0; variants];
    // For each token, the owner of the token before it, by its own owner.
    let mut before: Vec<Vec<usize>> = Vec::with_capacity(scores.len());
    for scores in scores {
        let top = top(&sums);
        let from: Vec<usize> = (0..variants).map(|v| if sums[v] >= sums[top] - CUT { v } else { top }).collect();
        let cost = |v: usize| if from[v] == v { 0.0 } else { CUT };
        sums = (0..variants).map(|v| sums[from[v]] - cost(v) + standardized(scores[v])).collect();
        before.push(from);
    }
    let (mut owner, mut owners) = (top(&sums), Vec::with_capacity(scores.len()));
    for from in before.iter().rev() {
        owners.push(owner);
        owner = from[owner];
    }
    owners.reverse();
    owners
}

#[cfg(test)]
mod tests {
    use verdigris_logits::{Chain, TokenId};
    use verdigris_watermark::{Context, Dialect, Marking, dialects::native_gumbel};

    use super::*;
    use crate::look::Look;
    use crate::reader::Reader;
    use crate::verdict::Outcome;
    use crate::written::{reader, words, written};

    /// Keys of green lists and of noise, with variants.
    fn keys(reader: &Reader, number: u8) -> [Key; 2] {
        let green = Key::from_secret([number; 32], "g", Marking::lists(), reader.vocabulary()).unwrap();
        let noise = Dialect::NativeGumbel(native_gumbel::Parameters::new(Context::default()));
        let noise = Key::new(vec![number; 32], "n", noise, None, reader.vocabulary()).unwrap();
        [green, noise].map(|key| key.with_variants(8).unwrap())
    }

    /// A text with the marks of some variants, all in each row.
    fn by(reader: &Reader, key: &Key, variants: &[u8], words: &[TokenId], length: usize) -> String {
        let embeds = variants.iter().map(|&variant| key.variant(variant).embed().unwrap().after(0.0));
        written(reader, &embeds.fold(Chain::new(), Chain::then), length, |_| words)
    }

    #[test]
    fn genuine_texts_are_told_from_forged_ones() {
        let reader = reader();
        let words = words(&reader, |word| word.iter().all(u8::is_ascii_lowercase));
        let judge = |key: &Key, text: &str| {
            let judgement = reader.judge(&[key], text, &Look::default()).unwrap();
            (judgement.outcome(), judgement.variants)
        };
        for key in keys(&reader, 1) {
            let texts: Vec<String> = (0..8).map(|variant| by(&reader, &key, &[variant], &words, 80)).collect();
            for text in &texts {
                assert_eq!(judge(&key, text), (Outcome::Marked, 1));
            }
            let (joined, variants) = (texts[2].clone() + &texts[5] + &texts[2], 2);
            assert_eq!(judge(&key, &joined), (Outcome::Marked, variants), "two genuine texts, joined");
            assert_eq!(judge(&key.variant(2), &texts[2]).0, Outcome::Marked, "a variant is a key");
            assert_eq!(judge(&key.variant(3), &texts[2]).0, Outcome::NotMarked);
        }
        let [green, _] = keys(&reader, 1);
        let forged = by(&reader, &green, &[1, 4, 6], &words, 150);
        let (outcome, variants) = judge(&green, &forged);
        assert!(outcome == Outcome::Forged && variants > 1, "{outcome:?} {variants}");
        let words_around = by(&reader, &keys(&reader, 9)[0], &[0], &words, 150);
        let part = format!("{words_around}{forged}{words_around}");
        let look = Look { passages: true, ..Look::default() };
        assert_eq!(reader.judge(&[&green], &part, &look).unwrap().outcome(), Outcome::Forged, "a part of a text");
    }

    #[test]
    fn variants_are_paid_for() {
        let reader = reader();
        let [key, _] = keys(&reader, 1);
        let words = words(&reader, |word| word.iter().all(u8::is_ascii_lowercase));
        let text = by(&reader, &key, &[3], &words, 40);
        let of = |keys: &[&Key], look: &Look| reader.judge(keys, &text, look).unwrap().evidence;
        let (all, one) = (of(&[&key], &Look::default()), of(&[&key.variant(3)], &Look::default()));
        assert_eq!((all.ln_p, all.tried), (one.ln_p, 8.0 * one.tried));
        let stream = reader.detect(&key, text.as_bytes()).unwrap();
        assert_eq!((stream.ln_p, stream.tried), (all.ln_p, 8.0));
        let [_, other] = keys(&reader, 2);
        let look = Look { passages: true, ..Look::default() };
        assert_eq!(of(&[&key, &other], &look).tried, 8.0 * 2.0 * 2.0);
    }

    /// Genuine texts, alone and joined, are hardly ever called forged, even at a level at which many would be.
    #[test]
    fn genuine_texts_are_not_called_forged() {
        let (reader, level) = (reader(), Level::new(0.05).unwrap());
        let words = words(&reader, |word| word.iter().all(u8::is_ascii_lowercase));
        let (mut alarms, mut count) = (0, 0);
        for number in 0..60 {
            for key in keys(&reader, number) {
                let texts: Vec<String> = (0..3).map(|variant| by(&reader, &key, &[variant], &words, 60)).collect();
                for text in [texts[0].clone(), texts.concat()] {
                    let judgement = reader.judge(&[&key], &text, &Look { level, ..Look::default() }).unwrap();
                    alarms += usize::from(judgement.outcome() == Outcome::Forged);
                    count += 1;
                }
            }
        }
        assert!(alarms as f64 <= 0.05 * f64::from(count), "{alarms} of {count}");
    }

    #[test]
    fn a_text_is_cut_where_another_variant_begins() {
        let of = |scores: &[[f64; 3]], variants| {
            owners(&scores.iter().map(|scores| scores.to_vec()).collect::<Vec<_>>(), variants, |score| score)
        };
        let (first, last) = ([1.0, 0.0, -1.0], [-1.0, 0.0, 1.0]);
        // One token that speaks for the other variant does not make a part.
        let scores = [first, first, last, first, first, first, last, last, first, last, last, last, last];
        assert_eq!(of(&scores, 3), [0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2]);
        assert_eq!(of(&scores[..6], 2), [0; 6]);
        assert!(of(&[], 2).is_empty());
    }
}
