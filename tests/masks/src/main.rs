//! Measures masks, compared with llguidance in the same run: `tests/scripts/masks [--tokenizer NAME] [--cases FILE]
//! [--no-peer] [--forced] [--cpu]`. `--cases grammars` are the example grammars and random ones, whose texts are
//! sampled.
//!
//! Each schema or regular expression is compiled, and each of its instances is walked token by token as in generation:
//! compute a mask, check that the token is in it, advance. Valid instances are walked a second time. Times are those of
//! one thread, in wall-clock time or with `--cpu` in CPU time, which other programs do not affect but which takes a
//! third of a microsecond to read. `SHOW=1` in the environment lists every schema and every valid instance that either
//! engine refuses, and the costs of each. `--forced` instead counts the forced tokens of valid instances, and
//! `--samples N` prints N texts of each example grammar with the tokens of `tale`, and the grammar in Lark, as JSON.
#![forbid(unsafe_code)]

mod grammars;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher, ParserFactory};
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::{Value, json};
use toktrie::{ApproximateTokEnv, TokRxInfo, TokTrie};
use verdigris_constrain::{Constraint, Grammar, Lexicon, Machine, Style, TokenIndex, Whitespace};
use verdigris_logits::{Purpose, Random};
use verdigris_text::{Tokenizer, Vocabulary};

/// A schema or a regular expression with its instances.
#[derive(Deserialize)]
#[serde(untagged)]
enum Case {
    Schema {
        id: String,
        schema: Value,
        tests: Vec<Instance>,
    },
    Regex {
        id: String,
        regex: String,
        r#match: Vec<String>,
        reject: Vec<String>,
    },
    #[serde(skip)]
    Grammar(grammars::Both),
}

impl Case {
    fn id(&self) -> &str {
        match self {
            Self::Schema { id, .. } | Self::Regex { id, .. } => id,
            Self::Grammar(both) => &both.id,
        }
    }

    fn grammar(&self, style: Style) -> Result<Grammar, String> {
        match self {
            Self::Schema { schema, .. } => Grammar::json_schema(schema, style).map_err(|fault| fault.to_string()),
            Self::Regex { regex, .. } => Grammar::regex(regex).map_err(|fault| fault.to_string()),
            Self::Grammar(both) => Grammar::parse(both.language, &both.grammar).map_err(|fault| fault.to_string()),
        }
    }

    /// The texts, and whether each is valid.
    fn texts(&self) -> Vec<(bool, String)> {
        match self {
            Self::Schema { tests, .. } => tests.iter().map(|test| (test.valid, spaced(&test.data))).collect(),
            Self::Regex { r#match, reject, .. } => {
                let valid = r#match.iter().map(|text| (true, text.clone()));
                valid.chain(reject.iter().map(|text| (false, text.clone()))).collect()
            }
            Self::Grammar(_) => Vec::new(),
        }
    }
}

#[derive(Deserialize)]
struct Instance {
    valid: bool,
    data: Value,
}

/// Counts allocations, which costs time: `tests/scripts/masks --memory`.
#[cfg(feature = "memory")]
#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

/// The allocated bytes, if they are counted.
fn held() -> Option<i64> {
    #[cfg(feature = "memory")]
    {
        let stats = ALLOCATOR.stats();
        return Some(stats.bytes_allocated as i64 - stats.bytes_deallocated as i64);
    }
    #[cfg(not(feature = "memory"))]
    None
}

/// The results of one engine.
#[derive(Default)]
struct Tally {
    compiled: usize,
    refused: usize,
    valid: usize,
    accepted: usize,
    invalid: usize,
    wrong: usize,
    /// Microseconds.
    first: Vec<f64>,
    masks: Vec<f64>,
    known: Vec<f64>,
    again: Vec<f64>,
    /// Kilobytes of a grammar with its first mask, and with the masks of all instances.
    small: Vec<f64>,
    large: Vec<f64>,
    slowest: (f64, String),
}

impl Tally {
    fn mask(&mut self, micros: f64, place: impl Fn() -> String) {
        self.masks.push(micros);
        if micros > self.slowest.0 {
            self.slowest = (micros, place());
        }
    }

    fn instance(&mut self, valid: bool, accepted: bool, place: &str) {
        match (valid, accepted) {
            (true, accepted) => {
                self.valid += 1;
                self.accepted += usize::from(accepted);
                if !accepted {
                    shown(|| format!("not accepted: {place}"));
                }
            }
            (false, accepted) => {
                self.invalid += 1;
                self.wrong += usize::from(accepted);
                if accepted {
                    println!("WRONG: {place}");
                }
            }
        }
    }
}

/// Prints details if `SHOW` is set.
fn shown(text: impl Fn() -> String) {
    if std::env::var_os("SHOW").is_some() {
        println!("{}", text());
    }
}

/// Whether times are CPU times of the thread.
static BY_CPU: AtomicBool = AtomicBool::new(false);

/// The current time.
fn now() -> Duration {
    let clock = if BY_CPU.load(Ordering::Relaxed) { ClockId::ThreadCPUTime } else { ClockId::Monotonic };
    clock_gettime(clock).try_into().expect("clocks begin at 0")
}

fn micros(since: Duration) -> f64 {
    (now() - since).as_secs_f64() * 1e6
}

/// JSON with a space after commas and colons, as in the original instances.
fn spaced(value: &Value) -> String {
    struct Spaced;
    impl serde_json::ser::Formatter for Spaced {
        fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> std::io::Result<()> {
            if first { Ok(()) } else { out.write_all(b", ") }
        }
        fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> std::io::Result<()> {
            if first { Ok(()) } else { out.write_all(b", ") }
        }
        fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> std::io::Result<()> {
            out.write_all(b": ")
        }
    }
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, Spaced);
    serde::Serialize::serialize(value, &mut serializer).expect("a value serialises");
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// The end of a text.
fn last(text: &str) -> &str {
    let from = text.char_indices().rev().nth(40).map_or(0, |(at, _)| at);
    &text[from..]
}

fn ours(
    case: &Case,
    texts: &[(bool, String, Vec<u32>)],
    tokenizer: &Tokenizer,
    index: &Arc<TokenIndex>,
    tally: &mut Tally,
) {
    let before = held();
    let kilobytes = || Some((held()? - before?) as f64 / 1e3);
    let start = now();
    let grammar = match case.grammar(Style::default().any_order()) {
        Ok(grammar) => grammar,
        Err(fault) => {
            tally.refused += 1;
            shown(|| format!("refused: {} in {:.0} us: {fault}", case.id(), micros(start)));
            return;
        }
    };
    let machine = Machine::new(grammar, index.clone());
    std::hint::black_box(machine.mask(machine.start()));
    let (first, masks_before) = (micros(start), tally.masks.len());
    tally.first.push(first);
    tally.compiled += 1;
    tally.small.extend(kilobytes());
    for (valid, text, tokens) in texts {
        let mut state = machine.start();
        let (mut accepted, mut read) = (true, 0);
        for (i, &token) in tokens.iter().enumerate() {
            let start = now();
            let mask = machine.mask(state);
            accepted = mask.tokens.contains(token);
            let next =
                if accepted { machine.advance(state, token, tokenizer.vocabulary().bytes(token)) } else { state };
            let us = micros(start);
            tally.mask(us, || format!("{} token {i} of {text}", case.id()));
            state = next;
            if !accepted {
                break;
            }
            read += tokenizer.vocabulary().bytes(token).len();
        }
        accepted &= machine.mask(state).accepts;
        if *valid && accepted {
            let mut state = machine.start();
            for &token in tokens {
                let start = now();
                let is_allowed = machine.mask(state).tokens.contains(token);
                state = machine.advance(state, token, tokenizer.vocabulary().bytes(token));
                tally.known.push(micros(start));
                assert!(is_allowed, "it was before");
            }
        }
        let read = last(text.get(..read).unwrap_or_default());
        let fault = machine.fault_at(state).map_or_else(String::new, |fault| format!(": {fault}"));
        tally.instance(*valid, accepted, &format!("{} after {read:?} of {text}{fault}", case.id()));
    }
    let start = now();
    std::hint::black_box(machine.mask(machine.start()));
    tally.again.push(micros(start));
    tally.large.extend(kilobytes());
    let new = &tally.masks[masks_before..];
    let (mean, max) = (new.iter().sum::<f64>() / new.len() as f64, new.iter().copied().fold(0.0, f64::max));
    let states = machine.states_memory() / 1000;
    shown(|| {
        let masks = format!("{} masks, mean {mean:.1}, max {max:.0} us", new.len());
        format!("{}: first {first:.0} us, {masks}, states {states} kB", case.id())
    });
}

fn theirs(
    case: &Case,
    texts: &[(bool, String, Vec<u32>)],
    tokenizer: &Tokenizer,
    (factory, eos): (&ParserFactory, u32),
    tally: &mut Tally,
) {
    let start = now();
    let grammar = match case {
        Case::Schema { schema, .. } => TopLevelGrammar::from_json_schema(schema.clone()),
        Case::Regex { regex, .. } => TopLevelGrammar::from_regex(regex),
        Case::Grammar(both) => TopLevelGrammar::from_lark(both.lark.clone()),
    };
    let matcher = match factory.create_parser(grammar) {
        Ok(parser) => Matcher::new(Ok(parser)),
        Err(fault) => {
            tally.refused += 1;
            shown(|| {
                format!("llguidance refuses {}: {}", case.id(), fault.to_string().lines().next().unwrap_or_default())
            });
            return;
        }
    };
    let mut first = matcher.deep_clone();
    if let Err(fault) = first.compute_mask() {
        tally.refused += 1;
        shown(|| format!("llguidance refuses {} later: {fault}", case.id()));
        return;
    }
    tally.first.push(micros(start));
    tally.compiled += 1;
    for (valid, text, tokens) in texts {
        let mut matcher = matcher.deep_clone();
        let (mut accepted, mut read) = (true, 0);
        for (i, &token) in tokens.iter().enumerate() {
            let start = now();
            let Ok(mask) = matcher.compute_mask() else {
                accepted = false;
                break;
            };
            accepted = mask.is_allowed(token) && matcher.consume_token(token).is_ok();
            tally.mask(micros(start), || format!("{} token {i} of {text}", case.id()));
            if !accepted {
                break;
            }
            read += tokenizer.vocabulary().bytes(token).len();
        }
        accepted = accepted && matcher.compute_mask_or_eos().is_ok_and(|mask| mask.is_allowed(eos));
        let read = last(text.get(..read).unwrap_or_default());
        tally.instance(*valid, accepted, &format!("{} after {read:?} of {text}", case.id()));
    }
}

/// The other engine for a vocabulary, and the token that ends a text.
fn factory(vocabulary: &Vocabulary) -> (ParserFactory, u32) {
    let end = (0..vocabulary.size() as u32).rfind(|&token| vocabulary.is_special(token)).expect("an end token");
    let words: Vec<Vec<u8>> = (0..vocabulary.size() as u32)
        .map(|token| match vocabulary.bytes(token) {
            // Its notation for a token that never occurs in text.
            [] => [b"\xff<", token.to_string().as_bytes(), b">"].concat(),
            bytes => bytes.to_vec(),
        })
        .collect();
    let start = now();
    let trie = TokTrie::from(&TokRxInfo::new(vocabulary.size() as u32, end), &words);
    let env: toktrie::TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    let mut factory = ParserFactory::new_simple(&env).expect("a factory");
    factory.quiet();
    println!("llguidance: set up in {:.1} ms", micros(start) / 1e3);
    (factory, end)
}

fn quantiles(values: &mut [f64], shares: &[f64]) -> String {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() as f64 * share) as usize).min(values.len() - 1)];
    shares.iter().map(|&share| format!("{:.1}", at(share))).collect::<Vec<_>>().join(" / ")
}

/// The number of texts that are sampled under each grammar, and of tokens after which each is led to its end.
const SAMPLES: u64 = 8;
const TOKENS: u64 = 60;

/// The cases of a file, or the example grammars with random ones: 50 altogether.
fn read_cases(shared: &Path, name: &str) -> Option<Vec<Case>> {
    if name == "grammars" {
        let mut all = grammars::examples(Path::new("fixtures/grammars"));
        all.extend((all.len() as u64..50).map(grammars::random));
        return Some(all.into_iter().map(Case::Grammar).collect());
    }
    let path = shared.join("json-schema").join(name);
    let Ok(bytes) = std::fs::read(&path) else {
        println!("SKIPPED: there is no {}; nothing was measured", path.display());
        return None;
    };
    let bytes = if name.ends_with(".zst") { zstd::decode_all(&bytes[..]).expect("a whole zstd file") } else { bytes };
    let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    Some(lines.map(|line| serde_json::from_slice(line).expect("a case")).collect())
}

/// The tokens among which a random text continues at a position, of those allowed.
type Choice = fn(&Vocabulary, Vec<u32>, &Random, u64) -> Vec<u32>;

/// Half of the time all tokens, half of the time those of visible ASCII characters, so that texts are not all of rare
/// characters.
fn often_plain(vocabulary: &Vocabulary, allowed: Vec<u32>, random: &Random, at: u64) -> Vec<u32> {
    let is_plain = |token: &u32| vocabulary.bytes(*token).iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n'));
    let plain: Vec<u32> = allowed.iter().copied().filter(is_plain).collect();
    if plain.is_empty() || random.uniform(at, Purpose::Accept) < 0.5 { allowed } else { plain }
}

/// Those that begin with the same sign, or with a letter, a digit or another character. Each kind is as likely, so that
/// texts are not all names, strings and comments.
fn often_signs(vocabulary: &Vocabulary, mut allowed: Vec<u32>, random: &Random, at: u64) -> Vec<u32> {
    let kind = |token: &u32| match vocabulary.bytes(*token).first() {
        Some(byte) if byte.is_ascii_alphabetic() => b'a',
        Some(byte) if byte.is_ascii_digit() => b'0',
        Some(byte) => byte.min(&0x80).to_owned(),
        None => 0,
    };
    allowed.sort_by_key(kind);
    let kinds: Vec<&[u32]> = allowed.chunk_by(|a, b| kind(a) == kind(b)).collect();
    let chosen = (random.uniform(at, Purpose::Accept) * kinds.len() as f64) as usize;
    kinds.get(chosen).map(|kind| kind.to_vec()).unwrap_or_default()
}

/// A random text under a grammar, whose tokens are uniform among those that `choice` leaves. `None` if it was cut
/// within a character.
fn sampled(machine: &Machine, tokenizer: &Tokenizer, seed: u64, choice: Choice) -> Option<(bool, String, Vec<u32>)> {
    let (random, vocabulary) = (Random::new(seed), tokenizer.vocabulary());
    let (mut state, mut tokens, mut text) = (machine.start(), Vec::new(), Vec::new());
    for at in 0..TOKENS {
        let mask = machine.mask(state);
        let from = choice(vocabulary, mask.tokens.iter().collect(), &random, at);
        let Some(&token) = from.get((random.uniform(at, Purpose::Token) * from.len() as f64) as usize) else { break };
        state = machine.advance(state, token, vocabulary.bytes(token));
        text.extend_from_slice(vocabulary.bytes(token));
        tokens.push(token);
    }
    let end = machine.completion(state).expect("every text can be completed");
    let end = String::from_utf8(end).ok()?;
    tokens.extend(tokenizer.encode(&end).expect("a text"));
    text.extend_from_slice(end.as_bytes());
    Some((true, String::from_utf8(text).ok()?, tokens))
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut name, mut cases, mut shared, mut peer, mut forced, mut samples) =
        ("qwen2".to_owned(), "sample200.jsonl".to_owned(), PathBuf::from("../shared"), true, false, 0);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("a value");
        match argument.as_str() {
            "--tokenizer" => name = value(),
            "--cases" => cases = value(),
            "--shared" => shared = value().into(),
            "--no-peer" => peer = false,
            "--forced" => forced = true,
            "--samples" => samples = value().parse().expect("a number"),
            "--cpu" => BY_CPU.store(true, Ordering::Relaxed),
            other => panic!(
                "{other} is not an option: --tokenizer, --cases, --shared, --no-peer, --forced, --samples, --cpu"
            ),
        }
    }
    if samples > 0 {
        return print_samples(samples);
    }
    let Some(cases) = read_cases(&shared, &cases) else { return };
    let json = std::fs::read(shared.join("tokenizers").join(&name).join("tokenizer.json")).expect("a tokenizer");
    let tokenizer = Tokenizer::from_json(&json).expect("a tokenizer");
    if forced {
        return count_forced(tokenizer, cases.into_iter());
    }
    let vocabulary = tokenizer.vocabulary();
    let start = now();
    let index = Arc::new(TokenIndex::new(vocabulary));
    println!("{name}: {} tokens, tree made in {:.1} ms", vocabulary.size(), micros(start) / 1e3);

    // What texts are sampled with is not known to the machines that are measured.
    let of_samples = Arc::new(TokenIndex::new(vocabulary));
    let factory = peer.then(|| factory(vocabulary));
    let mut tallies = [Tally::default(), Tally::default()];
    for case in cases {
        let text = |(valid, text): &(bool, String)| (*valid, text.clone(), tokenizer.encode(text).unwrap());
        let mut texts: Vec<_> = case.texts().iter().map(text).collect();
        if let (Case::Grammar(_), Ok(grammar)) = (&case, case.grammar(Style::default())) {
            let machine = Machine::new(grammar, of_samples.clone());
            texts.extend((0..SAMPLES).filter_map(|seed| sampled(&machine, &tokenizer, seed, often_plain)));
        }
        ours(&case, &texts, &tokenizer, &index, &mut tallies[0]);
        if let Some((factory, end)) = &factory {
            theirs(&case, &texts, &tokenizer, (factory, *end), &mut tallies[1]);
        }
    }
    for (who, tally) in ["ours", "llguidance"].iter().zip(&mut tallies).filter(|(_, tally)| tally.compiled > 0) {
        let mean = tally.masks.iter().sum::<f64>() / tally.masks.len() as f64;
        println!("\n{who}: {} compiled, {} refused", tally.compiled, tally.refused);
        println!(
            "  valid accepted {} of {}, invalid accepted {} of {}",
            tally.accepted, tally.valid, tally.wrong, tally.invalid
        );
        println!(
            "  {} masks, us avg {mean:.2}, p50/p90/p99/p99.9/max {}",
            tally.masks.len(),
            quantiles(&mut tally.masks, &[0.5, 0.9, 0.99, 0.999, 1.0])
        );
        if !tally.known.is_empty() {
            let mean = tally.known.iter().sum::<f64>() / tally.known.len() as f64;
            println!(
                "  the same once more, us avg {mean:.2}, p50/p99/max {}",
                quantiles(&mut tally.known, &[0.5, 0.99, 1.0])
            );
        }
        println!("  schema to first mask, us p50/p90/p99/max {}", quantiles(&mut tally.first, &[0.5, 0.9, 0.99, 1.0]));
        if !tally.again.is_empty() {
            println!("  the same schema again, us p50/max {}", quantiles(&mut tally.again, &[0.5, 1.0]));
        }
        for (what, kilobytes) in [("first", &mut tally.small), ("all", &mut tally.large)] {
            if !kilobytes.is_empty() {
                println!("  kB with {what} masks, p50/p90/p99/max {}", quantiles(kilobytes, &[0.5, 0.9, 0.99, 1.0]));
            }
        }
        let (slowest, place) = &tally.slowest;
        println!("  slowest: {slowest:.0} us, {}", place.chars().take(200).collect::<String>());
    }
}

/// Prints texts of each example grammar.
fn print_samples(count: usize) {
    let json = std::fs::read("fixtures/models/tale/tokenizer.json").expect("a tokenizer");
    let tokenizer = Tokenizer::from_json(&json).expect("a tokenizer");
    let index = Arc::new(TokenIndex::new(tokenizer.vocabulary()));
    for grammars::Both { id, language, grammar, lark } in grammars::examples(Path::new("fixtures/grammars")) {
        let machine = Machine::new(Grammar::parse(language, &grammar).expect("an example"), index.clone());
        let texts = (0..).filter_map(|seed| sampled(&machine, &tokenizer, seed, often_signs));
        let texts: Vec<String> = texts.map(|(_, text, _)| text).take(count).collect();
        println!("{}", json!({"id": id, "language": language.name(), "lark": lark, "texts": texts}));
    }
}

/// Counts the tokens of valid instances that a constraint forces, with the tokenizer's own tokens.
fn count_forced(tokenizer: Tokenizer, cases: impl Iterator<Item = Case>) {
    let lexicon = Lexicon::new(Arc::new(tokenizer), &[]);
    let styles = [
        ("compact", Style::default().whitespace(Whitespace::Compact)),
        ("compact, any order", Style::default().whitespace(Whitespace::Compact).any_order()),
        ("free white space", Style::default().whitespace(Whitespace::Free { most: 16 })),
    ];
    let mut counts = [(0, 0, 0); 3];
    for case in cases {
        let texts = case.texts();
        for ((_, style), (instances, tokens, forced)) in styles.iter().zip(&mut counts) {
            let Ok(grammar) = case.grammar(*style) else { continue };
            let constraint = Constraint::new(grammar, &lexicon);
            for (_, text) in texts.iter().filter(|(valid, _)| *valid) {
                let Ok(value) = serde_json::from_str::<Value>(text) else { continue };
                let written = if style.whitespace == Whitespace::Compact { value.to_string() } else { text.clone() };
                let written = lexicon.tokenizer().encode(&written).unwrap();
                let mut cursor = constraint.cursor(&[]);
                let (mut count, mut ahead) = (0, 0usize);
                for (i, &token) in written.iter().enumerate() {
                    // Tokens that are forced together are counted as a whole.
                    if ahead == 0 {
                        let next = cursor.forced();
                        ahead = if written[i..].starts_with(&next) { next.len() } else { 0 };
                    }
                    count += usize::from(ahead > 0);
                    ahead = ahead.saturating_sub(1);
                    cursor.advance(token);
                }
                if cursor.is_accepting() {
                    (*instances, *tokens, *forced) = (*instances + 1, *tokens + written.len(), *forced + count);
                }
            }
        }
    }
    for ((name, _), (instances, tokens, forced)) in styles.iter().zip(counts) {
        println!(
            "{name}: {forced} of {tokens} tokens of {instances} instances are forced, {:.1} %",
            100.0 * forced as f64 / tokens as f64
        );
    }
}
