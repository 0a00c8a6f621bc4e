//! Whether texts of keys with variants, and of keys with a public part, are called marked or forged too often.

use std::fmt;

use rayon::prelude::*;
use verdigris::Outcome;
use verdigris::logits::random::philox4x32;
use verdigris::watermark::Scheme;
use verdigris::{Key, Level, Look, Reader};
use verdigris_tests::dialects::every_kind;

use crate::{Spread, WINDOW, are_rare, error_of};

/// Windows of each key.
const WINDOWS: usize = 1000;
const LEVELS: [f64; 3] = [1e-1, 1e-2, 1e-3];
/// The tokens among which the writer of a marked text chooses each one.
const CHOICES: usize = 3;

/// Makes the key with a number.
type Maker<'a> = dyn Fn(u32) -> Key + Sync + 'a;

/// Makes a text for a key from a window, with a seed.
type Writer = dyn Fn(&Key, &[u32], u32) -> Vec<u32> + Sync;

/// The share of texts that are called marked, and forged, as a multiple of each level.
struct ForgedRow {
    key: &'static str,
    texts: &'static str,
    marked: [f64; 3],
    forged: [f64; 3],
    /// The standard errors of both.
    errors: [[f64; 3]; 2],
    /// The key with most alarms at a level of 1e-2, as a multiple of it.
    worst: (u32, f64),
    /// Whether the texts are unmarked.
    is_plain: bool,
}

/// Whether alarms are as rare as levels claim: unmarked texts that are called marked, and any texts that are called
/// forged though each token has one mark at most.
pub(super) fn forged(reader: &Reader, tokens: &[u32], spread: &Spread) -> bool {
    let (windows, _) = tokens.as_chunks::<WINDOW>();
    let windows = &windows[..windows.len().min(WINDOWS)];
    println!(
        "keys with 8 variants, or a public part: {} windows of {WINDOW} tokens under {spread} of each kind\n",
        windows.len()
    );
    println!(
        "| key | texts | marked at 1e-1 | 1e-2 | 1e-3 | forged at 1e-1 | 1e-2 | 1e-3 | alarms of the worst key at 1e-2 |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|--:|");
    let mut passed = true;
    let kinds = every_kind();
    let key = |kind: &str, number: u32| {
        let kind = kinds.iter().find(|other| other.name == kind).expect("one of the kinds");
        kind.key(number, reader.vocabulary()).with_variants(8).expect("a native key")
    };
    let variants: [(&str, &Maker<'_>); 4] = [
        ("native, min 4", &|number| key("native, min 4", number)),
        ("native-gumbel, all 4", &|number| key("native-gumbel, all 4", number)),
        ("with a public part", &|number| private(key("native-gumbel, all 4", number))),
        ("published", &|number| private(key("native-gumbel, all 4", number)).published().expect("a part")),
    ];
    for (name, key) in variants {
        let is_published = name == "published";
        let kinds: [(&str, bool, &Writer); 3] = [
            ("unmarked", true, &|_, window, _| window.to_vec()),
            ("marked with one variant", false, &|key, window, seed| marked(key, &[seed % 8], window, seed)),
            ("two marked ones, joined", false, &|key, window, seed| {
                marked(key, &[seed % 8, (seed + 1 + seed / 8 % 7) % 8], window, seed)
            }),
        ];
        for (texts, is_plain, text) in kinds.into_iter().filter(|(_, is_plain, _)| *is_plain || !is_published) {
            let of_key = |number: u32| {
                let key = key(number);
                let part = spread.part(number, windows);
                let mut count = [[0usize; 3]; 2];
                for (window, seed) in part.iter().zip(number.wrapping_mul(7919)..) {
                    let text = text(&key, window, seed);
                    for (i, level) in LEVELS.into_iter().enumerate() {
                        let look = Look { level: Level::new(level).expect("a level"), ..Look::default() };
                        let outcome = reader.judge_tokens(&[&key], &text, &look).expect("tokens").outcome();
                        count[0][i] += usize::from(outcome.is_marked());
                        count[1][i] += usize::from(outcome == Outcome::Forged);
                    }
                }
                count.map(|of_levels| of_levels.map(|alarms| alarms as f64 / part.len() as f64))
            };
            let all: Vec<[[f64; 3]; 2]> = spread.numbers().into_par_iter().map(of_key).collect();
            let row = ForgedRow::new(name, texts, is_plain, spread.first, &all);
            println!("{row}");
            passed &= row.is_honest();
        }
    }
    println!();
    passed
}

fn private(key: Key) -> Key {
    key.with_public_part().expect("a key of noise")
}

/// A text as long as a window, whose tokens are the best of a few from the window for the variants, each of which
/// writes an equal part.
fn marked(key: &Key, variants: &[u32], window: &[u32], seed: u32) -> Vec<u32> {
    let schemes: Vec<_> =
        variants.iter().map(|&variant| key.variant(variant as u8).scheme().expect("a scheme")).collect();
    let mut text: Vec<u32> = Vec::with_capacity(window.len());
    for i in 0..window.len() {
        let random = philox4x32([i as u32, seed, 0, 0], [78, 0]);
        let choices = random.iter().take(CHOICES).map(|r| window[*r as usize % window.len()]);
        let scheme = &*schemes[i * schemes.len() / window.len()];
        let best = choices.max_by(|&a, &b| score(scheme, &text, a).total_cmp(&score(scheme, &text, b)));
        text.push(best.expect("some choices"));
    }
    text
}

/// The score of a token after a text; 0 if it has none.
fn score(scheme: &dyn Scheme, text: &[u32], token: u32) -> f32 {
    let Some(start) = text.len().checked_sub(scheme.context_width()) else { return 0.0 };
    let mut observations = Vec::with_capacity(1);
    scheme.observe(&[&text[start..], &[token]].concat(), &mut observations);
    observations.first().map_or(0.0, |one| one.score).max(0.0)
}

impl ForgedRow {
    /// The row of the rates of marked and of forged texts of each key, from the first on.
    fn new(key: &'static str, texts: &'static str, is_plain: bool, first: u32, all: &[[[f64; 3]; 2]]) -> Self {
        let rates = |which: usize, i: usize| -> Vec<f64> { all.iter().map(|rates| rates[which][i]).collect() };
        let mean = |which| [0, 1, 2].map(|i| rates(which, i).iter().sum::<f64>() / all.len() as f64);
        let (marked, forged) = (mean(0), mean(1));
        let errors = [0, 1].map(|which| [0, 1, 2].map(|i| error_of(&rates(which, i))));
        let alarms = (first..).zip(all).map(|(key, rates)| (key, rates[usize::from(!is_plain)][1]));
        let worst = alarms.max_by(|a, b| a.1.total_cmp(&b.1)).expect("at least one key");
        Self { key, texts, marked, forged, errors, worst, is_plain }
    }

    /// Whether the rates of alarms exceed the levels by no more than chance, as in the tables of dialects.
    fn is_honest(&self) -> bool {
        let rare = |rates, errors| are_rare(rates, errors, LEVELS);
        rare(self.forged, self.errors[1]) && (!self.is_plain || rare(self.marked, self.errors[0]))
    }
}

impl fmt::Display for ForgedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, texts, marked, forged, worst, is_plain, .. } = self;
        // Of marked texts the share is shown, for alarms its multiple of the level.
        let marked = |i: usize| match is_plain {
            true => format!("{:.2}", marked[i] / LEVELS[i]),
            false => format!("{:.0} %", 100.0 * marked[i]),
        };
        write!(f, "| {key} | {texts} |")?;
        (0..3).try_for_each(|i| write!(f, " {} |", marked(i)))?;
        (0..3).try_for_each(|i| write!(f, " {:.3} |", forged[i] / LEVELS[i]))?;
        write!(f, " {:.1} (key {}) |", worst.1 / LEVELS[1], worst.0)
    }
}
