//! Counts how often a ledger finds a text that was edited or cut, and how often it finds a text that it does not have:
//! `cargo run --release -p verdigris-tests --bin lookups [ENTRIES] [FOLDER]`.
//!
//! For each length, 400 texts of the folder's held-out prose (default `../shared/corpus`) are recorded among ENTRIES
//! others (default 10,000) of its training prose. Each is looked up after each edit. Then other held-out texts are
//! looked up, and answers of `tale` to the prompt of 200 recorded ones.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use verdigris::logits::random::philox4x32;
use verdigris::watermark::attack::Attack;
use verdigris_ledger::{Fingerprint, Ledger, NewEntry};
use verdigris_tests::harness;

const LENGTHS: [usize; 4] = [60, 150, 300, 1000];
const TEXTS: usize = 400;
/// The greatest number of texts that were not recorded and are looked up.
const STRANGERS: usize = 3000;

fn main() -> ExitCode {
    let usage = "cargo run --release -p verdigris-tests --bin lookups [ENTRIES] [FOLDER]";
    let (Some(entries), Some(folder)) =
        (harness::argument(1, 10_000), harness::argument(2, PathBuf::from("../shared")))
    else {
        return harness::usage(usage);
    };
    let (Some(human), Some(others)) = (text(&folder, "heldout", 4 << 20), text(&folder, "train", 128 << 20)) else {
        return harness::skipped(&folder, "corpus/");
    };
    let mut fine = true;
    for words in LENGTHS {
        fine &= of_length(words, entries, &human, &others);
    }
    fine &= of_one_prompt();
    println!("{}", if fine { "as claimed" } else { "FAILED: docs/ledger.md claims more" });
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The first bytes of a file of the corpus.
fn text(folder: &Path, name: &str, most: u64) -> Option<String> {
    let file = File::open(folder.join("corpus").join(format!("{name}.txt.zst"))).ok()?;
    let mut bytes = Vec::new();
    zstd::Decoder::new(file).expect("a zstd file").take(most).read_to_end(&mut bytes).expect("a whole file");
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Texts of this number of words, none of which spans two chapters.
fn cut(text: &str, words: usize) -> Vec<String> {
    let mut texts = Vec::new();
    for chapter in text.split("<|endoftext|>") {
        let pieces: Vec<&str> = chapter.split_inclusive(' ').collect();
        texts.extend(pieces.chunks_exact(words).map(<[&str]>::concat));
    }
    texts
}

/// A part of a text, at a random position.
fn excerpt(text: &str, share: f64, seed: u64) -> String {
    let words: Vec<&str> = text.split_inclusive(' ').collect();
    let length = (words.len() as f64 * share).round() as usize;
    let random = philox4x32([seed as u32, 0, 0, 0], [7, 0])[0] as usize;
    let start = random % (words.len() - length + 1);
    words[start..start + length].concat()
}

/// A text after an edit with a seed.
type Edit = (&'static str, fn(&str, u64) -> String);

const EDITS: [Edit; 11] = [
    ("none", |text, _| text.to_owned()),
    ("truncated to 50 %", |text, seed| Attack::Truncation.apply(text, 0.5, seed, "")),
    ("excerpt of 30 %", |text, seed| excerpt(text, 0.3, seed)),
    ("excerpt of 10 %", |text, seed| excerpt(text, 0.1, seed)),
    ("15 % of words deleted", |text, seed| Attack::Deletion.apply(text, 0.15, seed, "")),
    ("30 % of words deleted", |text, seed| Attack::Deletion.apply(text, 0.3, seed, "")),
    ("5 % of words mistyped", |text, seed| Attack::Typos.apply(text, 0.05, seed, "")),
    ("20 % of words mistyped", |text, seed| Attack::Typos.apply(text, 0.2, seed, "")),
    ("20 % of words replaced", |text, seed| Attack::Substitution.apply(text, 0.2, seed, "")),
    ("20 % of words swapped", |text, seed| Attack::Swap.apply(text, 0.2, seed, "")),
    ("capitals, wrapped lines", |text, seed| {
        Attack::Wrap.apply(&Attack::Capitals.apply(text, 1.0, seed, ""), 1.0, seed, "")
    }),
];

/// Looks up texts of one length; whether the results are those that the page claims.
fn of_length(words: usize, entries: usize, human: &str, others: &str) -> bool {
    let human = cut(human, words);
    // Spread over all books.
    let spread =
        |count: usize, first: usize| human.iter().skip(first).step_by((human.len() / count).max(2)).take(count);
    let recorded: Vec<&String> = spread(TEXTS, 0).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.ledger");
    let mut ledger = Ledger::create(&path).expect("a new ledger");
    let mut add = |id: &str, text: &str| {
        ledger.add(&NewEntry::new(id, &Fingerprint::of(text))).expect("a new entry");
    };
    let others = cut(others, words);
    let begun = Instant::now();
    others.iter().take(entries).enumerate().for_each(|(i, text)| add(&format!("other {i}"), text));
    recorded.iter().enumerate().for_each(|(i, text)| add(&i.to_string(), text));
    let count = ledger.count(None).expect("a count");
    let added = begun.elapsed().as_secs_f64() / count as f64;
    let bytes = std::fs::metadata(&path).expect("a file").len() / count;
    println!("texts of {words} words: {count} entries of {bytes} bytes, added in {:.1} ms each\n", added * 1e3);
    println!("| edit | found | similarity | contained | others |\n|---|--:|--:|--:|--:|");
    let mut fine = true;
    for (name, edit) in EDITS {
        let (mut found, mut similarity, mut contained, mut others) = (0, 0.0, 0.0, 0);
        for (i, text) in recorded.iter().enumerate() {
            let matches = ledger.find(&Fingerprint::of(&edit(text, i as u64)), None).expect("a look-up");
            for one in matches {
                if one.entry.id == i.to_string() {
                    found += 1;
                    similarity += one.similarity;
                    contained += one.contained;
                } else {
                    others += 1;
                }
            }
        }
        let share = f64::from(found) / recorded.len() as f64;
        let mean = |sum: f64| sum / f64::from(found).max(1.0);
        println!("| {name} | {share:.3} | {:.2} | {:.2} | {others} |", mean(similarity), mean(contained));
        fine &= words < 150 || share > 0.95 || ["excerpt of 10 %", "30 % of words deleted"].contains(&name);
    }
    let strangers: Vec<&String> = spread(STRANGERS, 1).filter(|text| !recorded.contains(text)).collect();
    let begun = Instant::now();
    let found: Vec<usize> =
        strangers.iter().map(|text| ledger.find(&Fingerprint::of(text), None).expect("a look-up").len()).collect();
    let seconds = begun.elapsed().as_secs_f64() / strangers.len() as f64;
    let (texts, pairs) = (found.iter().filter(|found| **found > 0).count(), found.iter().sum::<usize>());
    println!(
        "\nof {} texts that were not recorded, {texts} match an entry, {pairs} of {} pairs; {:.1} ms for each\n",
        strangers.len(),
        strangers.len() as u64 * count,
        seconds * 1e3
    );
    fine && texts * 200 <= strangers.len()
}

/// Looks up answers to a prompt that other recorded texts answer.
fn of_one_prompt() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let mut ledger = Ledger::create(&folder.path().join("a.ledger")).expect("a new ledger");
    let request = harness::TALE.request("The captain").max_tokens(200).seed(1);
    let texts = request.texts(400).expect("texts");
    let (recorded, strangers) = texts.split_at(200);
    for (i, written) in recorded.iter().enumerate() {
        ledger.add(&NewEntry::new(&i.to_string(), &Fingerprint::of(&written.text))).expect("a new entry");
    }
    let matches = |text: &str| !ledger.find(&Fingerprint::of(text), None).expect("a look-up").is_empty();
    let found = strangers.iter().filter(|written| matches(&written.text)).count();
    println!("of 200 other answers of tale to the prompt of 200 entries, {found} match an entry\n");
    found <= 2
}
