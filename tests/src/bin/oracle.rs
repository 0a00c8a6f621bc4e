//! Compares masks on schemas and regular expressions of other people, bit for bit, with judges that share nothing with
//! the engine: `cargo run --release -p verdigris-tests --bin oracle [FOLDER] [PLACES]`.
//!
//! The folder (default `../shared`) holds `json-schema/schemas-dev.jsonl.zst` and `json-schema/regexes.jsonl`; if they
//! are missing, a message says that nothing was checked.
//!
//! - Regular expressions: after prefixes of texts that match and of randomly generated texts, by derivatives.
//! - Schemas: each is restricted to a set of values, those of its instances and modified ones, so that its language is
//!   the serializations of the values that the crate `jsonschema` accepts. Up to PLACES prefixes of those are checked
//!   (8,000 by default).
//! - Walks: under each original schema, texts are sampled token by token from the masks; all of them end, and all are
//!   valid.
//!
//! `VERDIGRIS_SEED` chooses the cases, the prefixes and the walks.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use rayon::prelude::*;
use serde_json::{Map, Value};
use verdigris::constrain::{Machine, Whitespace};
use verdigris::{Grammar, Style};
use verdigris_tests::foreign::{self, Case};
use verdigris_tests::harness;
use verdigris_tests::oracle::derivative::Derivatives;
use verdigris_tests::oracle::writing::{Writings, is_plain};
use verdigris_tests::oracle::{Language, SortedVocabulary};
use verdigris_tests::random_schema::Chance;
use verdigris_text::{Tokenizer, Vocabulary};

#[derive(serde::Deserialize)]
struct Pattern {
    id: String,
    regex: String,
    #[serde(rename = "match")]
    matches: Vec<String>,
}

fn main() -> ExitCode {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "../shared".into())).join("json-schema");
    let Some(places) = harness::argument(2, 8_000) else { return harness::usage("oracle [FOLDER] [PLACES]") };
    let (Some(cases), Ok(patterns)) =
        (foreign::cases(&folder.join("schemas-dev.jsonl.zst")), std::fs::read(folder.join("regexes.jsonl")))
    else {
        return harness::skipped(&folder, "schemas and regular expressions");
    };
    let (tokenizer, seed) = (harness::tokenizer("tale"), u64::from(harness::seed()));
    let words = SortedVocabulary::new(tokenizer.vocabulary());
    let mut failed = regular_expressions(&words, &tokenizer, &foreign::lines(&patterns), seed);
    failed += narrowed(&words, &cases, places, seed);
    failed += walks(&words, tokenizer.vocabulary(), &cases, places, seed);
    println!("{failed} failed");
    harness::status(failed == 0)
}

fn regular_expressions(words: &SortedVocabulary, tokenizer: &Tokenizer, patterns: &[Pattern], seed: u64) -> usize {
    let of_pattern = |(number, pattern)| {
        let chance = Chance::new(5 | (number as u64) << 4 | seed << 16);
        regular_expression(words, tokenizer, pattern, chance)
    };
    // `None` for those that look around.
    let all: Vec<Option<(usize, Vec<String>)>> = patterns.par_iter().enumerate().map(of_pattern).collect();
    let failures: Vec<&String> = all.iter().flatten().flat_map(|(_, failures)| failures).collect();
    failures.iter().for_each(|failure| println!("FAILED: {failure}"));
    println!(
        "{} regular expressions, {} beginnings compared ({} look around and were left out)",
        patterns.len(),
        all.iter().flatten().map(|(compared, _)| compared).sum::<usize>(),
        all.iter().filter(|of| of.is_none()).count()
    );
    failures.len()
}

/// The number of beginnings whose masks were compared, and failures. `None` if the expression looks around.
fn regular_expression(
    words: &SortedVocabulary,
    tokenizer: &Tokenizer,
    Pattern { id, regex, matches }: &Pattern,
    mut chance: Chance,
) -> Option<(usize, Vec<String>)> {
    let language = Derivatives::new(regex)?;
    let (mut compared, mut failures) = (0, Vec::new());
    let Ok(grammar) = Grammar::regex(regex) else {
        return Some((0, vec![format!("{id} has no grammar")]));
    };
    let machine = Machine::new(grammar, words.index().clone());
    let mut texts: Vec<Vec<u8>> = matches.iter().map(|text| text.as_bytes().to_vec()).collect();
    // Random texts.
    for _ in 0..3 {
        let (mut state, mut text) = (language.start().expect("some text matches"), Vec::new());
        for _ in 0..6 {
            let mask = words.mask(&language, &state);
            let Some(token) = mask.iter().nth(chance.below(mask.iter().count().max(1))) else { break };
            for &byte in tokenizer.vocabulary().bytes(token) {
                state = language.next(&state, byte).expect("the token was allowed");
                text.push(byte);
            }
        }
        texts.push(text);
    }
    for text in texts {
        for _ in 0..3 {
            let begun = &text[..chance.below(text.len() + 1)];
            let start = language.start().expect("some text matches");
            let state = begun.iter().try_fold(start, |state, &byte| language.next(&state, byte));
            let state = state.expect("it begins a text");
            let again = || Grammar::regex(regex).expect("it has a grammar");
            compared += 1;
            if let Err(difference) = words.compare(&language, &state, &machine, again, begun) {
                failures.push(format!("{id}: {difference}"));
            }
        }
    }
    Some((compared, failures))
}

/// Counts of outcomes over some schemas.
#[derive(Default)]
struct Tally {
    schemas: usize,
    compared: usize,
    refused: usize,
    without: usize,
    tokens: usize,
    failed: usize,
}

impl std::iter::Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            schemas: a.schemas + b.schemas,
            compared: a.compared + b.compared,
            refused: a.refused + b.refused,
            without: a.without + b.without,
            tokens: a.tokens + b.tokens,
            failed: a.failed + b.failed,
        })
    }
}

/// Every n-th case from one that the seed chooses, so that with `each` checks per case there are about `places` checks
/// in total.
fn spread(cases: &[Case], each: usize, places: usize, seed: u64) -> impl ParallelIterator<Item = (usize, &Case)> {
    let step = (cases.len() * each / places.max(1)).max(1);
    cases.par_iter().enumerate().filter(move |(at, _)| at % step == seed as usize % step)
}

/// Compares schemas that are restricted to a set of values.
fn narrowed(words: &SortedVocabulary, cases: &[Case], places: usize, seed: u64) -> usize {
    let Tally { schemas, compared, refused, without, failed, .. } =
        spread(cases, 4, places, seed).map(|(number, case)| narrowed_case(words, case, number, seed)).sum();
    println!(
        "{schemas} schemas narrowed to some values, {compared} beginnings compared ({refused} schemas refused, \
         {without} without a valid value)"
    );
    failed
}

fn narrowed_case(words: &SortedVocabulary, case: &Case, number: usize, seed: u64) -> Tally {
    let style = Style::default().any_order().whitespace(Whitespace::Compact);
    let (mut chance, mut tally) = (Chance::after(7 | seed << 8, (number as u64) << 32), Tally::default());
    // A schema that has an `enum`, or a `$ref` that ignores keywords next to it, cannot be restricted like this. Drafts
    // before 2019-09 do not know two formats that are enforced here nevertheless.
    let text = case.schema.to_string();
    let kept = ["\"format\":\"uuid\"", "\"format\":\"duration\""].iter().any(|format| text.contains(format));
    let has = |keywords: &Map<String, Value>| keywords.contains_key("enum") || keywords.contains_key("$ref");
    let Some(keywords) = case.schema.as_object().filter(|keywords| !has(keywords) && !kept) else { return tally };
    let Ok(judge) = jsonschema::options().should_validate_formats(true).build(&case.schema) else { return tally };
    let values = universe(case, &mut chance);
    let language = Writings::new(values.iter().filter(|value| judge.is_valid(value)));
    if language.start().is_none() {
        tally.without = 1;
        return tally;
    }
    let mut schema = Map::clone(keywords);
    schema.insert("enum".into(), values.clone().into());
    let schema = Value::Object(schema);
    let Ok(grammar) = Grammar::json_schema(&schema, style) else {
        tally.refused = 1;
        return tally;
    };
    tally.schemas = 1;
    let machine = Machine::new(grammar, words.index().clone());
    for _ in 0..4 {
        // A random position in a random text.
        let (mut state, mut text) = (language.start().expect("there is a text"), Vec::new());
        let length = chance.below(60);
        while text.len() < length {
            let next: Vec<(u8, Vec<u8>)> =
                (0..=255).filter_map(|byte| Some((byte, language.next(&state, byte)?))).collect();
            let Some((byte, after)) = next.get(chance.below(next.len().max(1))) else { break };
            (state, text) = (after.clone(), [&text[..], &[*byte]].concat());
        }
        tally.compared += 1;
        let again = || Grammar::json_schema(&schema, style).expect("it has a grammar");
        if let Err(difference) = words.compare(&language, &state, &machine, again, &text) {
            println!("FAILED: {}: {difference}", case.id);
            tally.failed += 1;
            break;
        }
    }
    tally
}

/// The instances of a case that are small enough to enumerate all serializations, and modified ones.
fn universe(case: &Case, chance: &mut Chance) -> Vec<Value> {
    let small = |value: &&Value| is_plain(value) && value.to_string().len() < 1500;
    let mut values: Vec<Value> = case.tests.iter().map(|test| &test.data).filter(small).take(12).cloned().collect();
    for at in 0..values.len() {
        for _ in 0..3 {
            let mut changed = values[at].clone();
            change(&mut changed, chance);
            values.push(changed);
        }
    }
    let mut all: Vec<Value> = Vec::new();
    values.into_iter().for_each(|value| {
        if !all.contains(&value) {
            all.push(value);
        }
    });
    all
}

/// Makes one change somewhere in a value.
fn change(value: &mut Value, chance: &mut Chance) {
    match value {
        Value::Object(properties) if !properties.is_empty() => {
            let name = properties.keys().nth(chance.below(properties.len())).expect("it is below the number").clone();
            match chance.below(4) {
                0 => _ = properties.shift_remove(&name),
                1 => _ = properties.insert("other".into(), Value::Null),
                _ => change(&mut properties[&name], chance),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = chance.below(items.len());
            match chance.below(4) {
                0 => _ = items.remove(at),
                1 => items.push(items[at].clone()),
                _ => change(&mut items[at], chance),
            }
        }
        scalar => {
            let others = [
                Value::Null,
                true.into(),
                7.into(),
                "x".into(),
                "".into(),
                Value::Array(Vec::new()),
                Map::new().into(),
            ];
            *scalar = others[chance.below(others.len())].clone();
        }
    }
}

/// Samples texts from the masks, and has them judged.
fn walks(words: &SortedVocabulary, vocabulary: &Vocabulary, cases: &[Case], places: usize, seed: u64) -> usize {
    let walk = |(number, case)| walks_of_case(words, vocabulary, case, number, seed);
    let all = spread(cases, 4, places, seed).map(walk);
    let Tally { compared, tokens, failed, .. } = all.sum();
    println!("{compared} walks of {tokens} tokens: all come to an end and are valid but {failed}");
    failed
}

fn walks_of_case(words: &SortedVocabulary, vocabulary: &Vocabulary, case: &Case, number: usize, seed: u64) -> Tally {
    let (mut chance, mut tally) = (Chance::after(9 | seed << 8, (number as u64) << 32), Tally::default());
    let Ok(grammar) = Grammar::json_schema(&case.schema, Style::default()) else { return tally };
    let Ok(judge) = jsonschema::validator_for(&case.schema) else { return tally };
    let machine = Machine::new(grammar, words.index().clone());
    for _ in 0..6 {
        let (mut state, mut text) = (machine.start(), Vec::new());
        for _ in 0..30 {
            let mask = machine.mask(state);
            let count = mask.tokens.iter().count();
            if count == 0 || mask.accepts && chance.below(2) == 0 {
                break;
            }
            let token = mask.tokens.iter().nth(chance.below(count)).expect("it is below the number");
            state = machine.advance(state, token, vocabulary.bytes(token));
            text.extend_from_slice(vocabulary.bytes(token));
            tally.tokens += 1;
        }
        tally.compared += 1;
        let end = machine.completion(state);
        text.extend_from_slice(end.as_deref().unwrap_or_default());
        if end.is_none() || !harness::is_valid(&judge, &text) {
            println!("FAILED: {} writes {}", case.id, String::from_utf8_lossy(&text));
            tally.failed += 1;
        }
    }
    tally
}
