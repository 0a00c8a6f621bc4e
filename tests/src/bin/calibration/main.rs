//! Checks that false alarms are as rare as p-values claim: `cargo run --release -p verdigris-tests --bin calibration
//! [KEYS] [FOLDER]`.
//!
//! Windows of 200 tokens of human prose (the folder's `corpus/`, default `../shared`), of code (this project's own
//! sources) and of templated text are judged under many keys of every dialect. Then human prose in other layouts
//! (doubled spaces, tabs, wrapped lines, capitals, titles) is judged as the detector reads and repairs it, and texts of
//! keys with variants, marked and unmarked. Without the folder only code and templated text are judged, and a message
//! says so. `VERDIGRIS_SEED` is the number of the first key. Each window is judged under KEYS keys; with fewer than 20,
//! others judge other windows.
#![forbid(unsafe_code)]

mod forged;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rayon::prelude::*;
use verdigris::logits::random::philox4x32;
use verdigris::watermark::attack::Attack;
use verdigris::watermark::{Observation, Scheme, ScoreDistribution};
use verdigris::{Look, Reader};
use verdigris_tests::dialects::{Kind, every_kind};
use verdigris_tests::harness;

const WINDOW: usize = 200;
const LEVELS: [f64; 3] = [1e-2, 1e-3, 1e-4];
const HUMAN_WINDOWS: usize = 10_000;
const OTHER_WINDOWS: usize = 1_000;
/// Windows in other layouts, which are tokenized three times under every key.
const LAYOUT_WINDOWS: usize = 500;
/// Rates are compared with the spread over at least this number of keys.
const FEWEST_KEYS: u32 = 20;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let keys: u32 = arguments.next().map_or(100, |n| n.parse().expect("a number of keys"));
    let shared = PathBuf::from(arguments.next().unwrap_or_else(|| "../shared".into()));
    // The number of the first key.
    let first = harness::seed();
    let spread = Spread::new(first, keys);
    let reader = Reader::new(harness::tokenizer("tale"));
    let tokens = |text: &str, windows: usize| {
        let mut tokens = reader.tokenizer().encode(text).expect("a token for every text");
        tokens.truncate(windows * WINDOW);
        tokens.truncate(tokens.len() / WINDOW * WINDOW);
        tokens
    };
    let mut texts = Vec::new();
    match human(&shared) {
        Some(text) => texts.push(("human prose", tokens(&text, HUMAN_WINDOWS))),
        None => println!("SKIPPED: {} holds no corpus/; human prose was not judged\n", shared.display()),
    }
    texts.push(("code", tokens(&code(), OTHER_WINDOWS)));
    texts.push(("templated text", tokens(&templated(), OTHER_WINDOWS)));
    let mut passed = true;
    for (name, tokens) in texts {
        println!("{name}: {} windows of {WINDOW} tokens under {spread} of each dialect\n", tokens.len() / WINDOW);
        println!("| dialect | scored | mean z | sd of z | 1e-2 | 1e-3 | 1e-4 | KS of mid-p | worst key at 1e-2 |");
        println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
        for kind in every_kind() {
            // Two of its numbers take a thousand steps each.
            let keys = if kind.name == "three-bricks, gumbel" { keys.div_ceil(10) } else { keys };
            let row = judge(&kind, &reader, &tokens, &Spread::new(first, keys));
            println!("{row}");
            passed &= row.honest();
        }
        println!();
        if name == "human prose" {
            let few = Spread::new(first, keys.div_ceil(4));
            passed &= layouts(&reader, &tokens[..LAYOUT_WINDOWS * WINDOW], &few);
            passed &= forged::forged(&reader, &tokens, &spread);
        }
    }
    harness::as_claimed(passed)
}

/// Whether texts in other layouts are called marked as rarely as the p-values claim, with all looks counted.
fn layouts(reader: &Reader, tokens: &[u32], spread: &Spread) -> bool {
    println!("the same in other layouts, read with repair, under {spread} of each dialect\n");
    println!("| dialect | layout | scored | mean z | sd of z | 1e-2 | 1e-3 | 1e-4 | KS of p | worst key at 1e-2 |");
    println!("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    let mut passed = true;
    let layouts = Attack::ALL.into_iter().filter(|(attack, ..)| attack.is_layout()).map(|(attack, layout, _)| {
        let text = |window: &[u32]| attack.apply(&reader.tokenizer().decode(window), 1.0, 1, "");
        (layout, tokens.chunks_exact(WINDOW).map(text).collect::<Vec<_>>())
    });
    let layouts: Vec<(&str, Vec<String>)> = layouts.collect();
    for kind in every_kind().iter().filter(|kind| ["native, min 4", "native-gumbel, all 4"].contains(&kind.name)) {
        for (layout, texts) in &layouts {
            let of_key = |number: u32| -> Vec<WindowScores> {
                let key = kind.key(number, reader.vocabulary());
                let judge = |text: &String| {
                    let evidence = reader.judge(&[&key], text, &Look::default()).expect("a text").evidence;
                    let p = evidence.ln_p_corrected().exp();
                    WindowScores { p, mid: p, z: evidence.z, scored: evidence.scored as u32 }
                };
                spread.part(number, texts).iter().map(judge).collect()
            };
            let row = CalibrationRow::new(format!("{} | {layout}", kind.name), spread, of_key);
            passed &= row.honest();
            println!("{row}");
        }
    }
    println!();
    passed
}

/// Human text of this corpus; whether a model was trained on it does not matter here.
fn human(shared: &Path) -> Option<String> {
    let read = |name: &str, most: usize| {
        let file = std::fs::File::open(shared.join("corpus").join(name)).ok()?;
        let mut bytes = Vec::new();
        let text = zstd::Decoder::new(file).expect("a zstd file");
        std::io::Read::read_to_end(&mut std::io::Read::take(text, most as u64), &mut bytes).expect("a whole file");
        let whole = std::str::from_utf8(&bytes).map_or_else(|error| error.valid_up_to(), str::len);
        bytes.truncate(whole);
        Some(String::from_utf8(bytes).expect("checked").replace("<|endoftext|>", ""))
    };
    Some(read("heldout.txt.zst", 8 << 20)? + &read("train.txt.zst", 8 << 20)?)
}

fn code() -> String {
    fn walk(folder: &Path, out: &mut String) {
        let mut paths: Vec<PathBuf> =
            folder.read_dir().expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                walk(&path, out);
            } else if path.extension().is_some_and(|kind| kind == "rs" || kind == "py" || kind == "toml") {
                out.push_str(&std::fs::read_to_string(path).expect("source is text"));
            }
        }
    }
    let mut out = String::new();
    ["crates", "cli", "tests", "fixtures/golden"].iter().for_each(|part| walk(&harness::path(part), &mut out));
    out
}

/// Form letters: the same sentences with other names, days and amounts.
fn templated() -> String {
    let names =
        ["Anna Berg", "Tom Reed", "Mary Lane", "John Frost", "Eva Stone", "Paul Wood", "Ida Marsh", "Karl Hill"];
    let goods = ["two lamps", "a grey coat", "the second volume", "six chairs", "a box of tea", "one clock"];
    let days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
    let mut out = String::new();
    for i in 0..6000u32 {
        let [a, b, c, d] = philox4x32([i, 0, 0, 0], [77, 0]);
        let pick = |from: &[&'static str], by: u32| from[by as usize % from.len()];
        out.push_str(&format!(
            "Dear {},\n\nwe thank you for your order of {}. It will be sent on {} and costs {}.{:02}. If you have any \
             question, please write to us and give the number {}.\n\nYours sincerely,\n{}\n\n",
            pick(&names, a),
            pick(&goods, b),
            pick(&days, c),
            d % 90 + 3,
            a % 100,
            c % 90_000 + 10_000,
            pick(&names, b >> 9)
        ));
    }
    out
}

/// The keys that judge some windows. For each key that is asked for, every window is judged once; few keys are made
/// more, each of which judges a part of the windows.
struct Spread {
    first: u32,
    keys: u32,
    parts: u32,
}

impl Spread {
    fn new(first: u32, keys: u32) -> Self {
        let parts = FEWEST_KEYS.div_ceil(keys);
        Self { first, keys: keys * parts, parts }
    }

    fn numbers(&self) -> Range<u32> {
        self.first..self.first + self.keys
    }

    /// The windows that the key with a number judges.
    fn part<'a, T>(&self, number: u32, windows: &'a [T]) -> &'a [T] {
        let part = ((number - self.first) % self.parts) as usize;
        let cut = |part: usize| part * windows.len() / self.parts as usize;
        &windows[cut(part)..cut(part + 1)]
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys", self.keys)?;
        match self.parts {
            1 => Ok(()),
            parts => write!(f, " (1/{parts} of the windows each)"),
        }
    }
}

/// Statistics of the windows of one text under one dialect.
struct CalibrationRow {
    name: String,
    scored: f64,
    mean: f64,
    deviation: f64,
    rates: [f64; 3],
    /// Their standard errors.
    errors: [f64; 3],
    distance: f64,
    worst: (u32, f64),
}

impl CalibrationRow {
    /// The row of the results of each key for each of its windows.
    fn new(name: String, spread: &Spread, of_key: impl Fn(u32) -> Vec<WindowScores> + Send + Sync) -> Self {
        let all: Vec<Vec<WindowScores>> = spread.numbers().into_par_iter().map(of_key).collect();
        let n = all.iter().map(Vec::len).sum::<usize>() as f64;
        let every = || all.iter().flatten();
        let sum = |f: fn(&WindowScores) -> f64| every().map(f).sum::<f64>();
        let (mean, squares) = (sum(|w| w.z) / n, sum(|w| w.z * w.z) / n);
        let mut mids: Vec<f64> = every().map(|w| w.mid).collect();
        mids.sort_by(f64::total_cmp);
        let distance = mids.iter().enumerate().map(|(i, &mid)| {
            let (below, above) = (i as f64 / n, (i + 1) as f64 / n);
            (mid - below).abs().max((above - mid).abs())
        });
        let rate = |windows: &[WindowScores], level: f64| {
            windows.iter().filter(|w| w.p <= level).count() as f64 / windows.len() as f64
        };
        let worst = all.iter().zip(spread.numbers()).map(|(windows, key)| (key, rate(windows, LEVELS[0])));
        Self {
            name,
            scored: sum(|w| f64::from(w.scored)) / n,
            mean,
            deviation: (squares - mean * mean).sqrt(),
            errors: LEVELS.map(|level| {
                let rates: Vec<f64> = all.iter().map(|windows| rate(windows, level)).collect();
                error_of(&rates)
            }),
            rates: LEVELS.map(|level| every().filter(|w| w.p <= level).count() as f64 / n),
            distance: distance.fold(0.0, f64::max),
            worst: worst.max_by(|a, b| a.1.total_cmp(&b.1)).expect("at least one key"),
        }
    }

    fn honest(&self) -> bool {
        are_rare(self.rates, self.errors, LEVELS)
    }
}

/// The standard error of the mean of a rate over keys. The windows of one key share phrases, and those of a template
/// are little more than one observation, so it is estimated from the spread over keys.
fn error_of(rates: &[f64]) -> f64 {
    let (k, mean) = (rates.len() as f64, rates.iter().sum::<f64>() / rates.len() as f64);
    let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    (squares / (k - 1.0) / k).sqrt()
}

/// Whether rates of alarms exceed their levels by no more than chance.
fn are_rare(rates: [f64; 3], errors: [f64; 3], levels: [f64; 3]) -> bool {
    (0..3).all(|i| rates[i] - 4.0 * errors[i] <= 1.1 * levels[i])
}

impl std::fmt::Display for CalibrationRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, scored, mean, deviation, rates, distance, worst, .. } = self;
        let [a, b, c] = [0, 1, 2].map(|i| rates[i] / LEVELS[i]);
        write!(
            f,
            "| {name} | {scored:.0} | {mean:.3} | {deviation:.3} | {a:.2} | {b:.2} | {c:.2} | {distance:.4} | {:.1} \
             (key {}) |",
            worst.1 / LEVELS[0],
            worst.0
        )
    }
}

/// One window under one key: p, mid-p and z.
#[derive(Clone, Copy)]
struct WindowScores {
    p: f64,
    mid: f64,
    z: f64,
    scored: u32,
}

fn judge(kind: &Kind, reader: &Reader, tokens: &[u32], spread: &Spread) -> CalibrationRow {
    let (each, _) = tokens.as_chunks::<WINDOW>();
    CalibrationRow::new(kind.name.to_owned(), spread, |number| {
        let key = kind.key(number, reader.vocabulary());
        windows(&*key.scheme().expect("a scheme"), spread.part(number, each).as_flattened())
    })
}

/// Judges each window by itself like the detector, but computes the observations of the whole text once.
fn windows(scheme: &dyn Scheme, tokens: &[u32]) -> Vec<WindowScores> {
    let (distribution, width) = (scheme.distribution(), scheme.context_width());
    let mut observations: Vec<Observation> = Vec::with_capacity(tokens.len());
    scheme.observe(tokens, &mut observations);
    let mut known: HashMap<(u32, u64), (f64, f64)> = HashMap::new();
    let (mut contexts, mut identities) = (HashSet::new(), HashSet::new());
    (0..tokens.len() / WINDOW)
        .map(|window| {
            contexts.clear();
            identities.clear();
            let (mut scored, mut sum) = (0u32, 0.0);
            // The observation of token i is at index i - width.
            for observation in &observations[window * WINDOW..(window + 1) * WINDOW - width] {
                if contexts.insert(observation.context) && identities.insert(observation.identity) {
                    scored += 1;
                    sum += f64::from(observation.score);
                }
            }
            let discrete = !matches!(distribution, ScoreDistribution::Exponential | ScoreDistribution::TwoKeys { .. });
            let tails = || {
                let p = distribution.ln_tail(u64::from(scored), sum).exp();
                let above =
                    if discrete && sum < f64::from(scored) * 1e6 { next_tail(&distribution, scored, sum) } else { p };
                (p, (p + above) / 2.0)
            };
            let (p, mid) = match discrete {
                true => *known.entry((scored, sum as u64)).or_insert_with(tails),
                false => tails(),
            };
            WindowScores { p, mid, z: distribution.z_score(u64::from(scored), sum), scored }
        })
        .collect()
}

/// The tail from the next larger sum.
fn next_tail(distribution: &ScoreDistribution, scored: u32, sum: f64) -> f64 {
    let most = f64::from(scored);
    match distribution {
        ScoreDistribution::Green { .. } | ScoreDistribution::OneList { .. } if sum >= most => 0.0,
        _ => distribution.ln_tail(u64::from(scored), sum + 1.0).exp(),
    }
}
