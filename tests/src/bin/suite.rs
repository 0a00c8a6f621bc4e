//! Runs the JSON Schema Test Suite, which is not part of the project: `cargo run --release -p verdigris-tests --bin
//! suite [FOLDER] [--update]`.
//!
//! Each case is a schema with instances. An instance is accepted if its JSON is a text of the grammar, with properties
//! in any order. The outcome of every group of cases is kept in `tests/cases/suite.txt`; any difference is a failure
//! until the file is rewritten with `--update`. Nothing invalid may ever be accepted.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use verdigris::Grammar;
use verdigris::constrain::{Machine, Registry, Style, TokenIndex};
use verdigris_tests::harness;

const DRAFTS: [&str; 5] = ["draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"];

#[derive(Deserialize)]
struct Group {
    description: String,
    schema: Value,
    tests: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    description: String,
    data: Value,
    valid: bool,
}

/// The numbers of cases that pass, that are refused with their schema, that are valid but refused, and that are invalid
/// but accepted.
#[derive(Default)]
struct Tally {
    pass: usize,
    refused: usize,
    missed: usize,
    wrong: usize,
}

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let update = arguments.iter().position(|argument| argument == "--update").map(|at| arguments.remove(at)).is_some();
    let suite = PathBuf::from(arguments.first().map_or("../shared/json-schema/test-suite", String::as_str));
    if !suite.join(DRAFTS[0]).is_dir() {
        return harness::skipped(&suite, "drafts");
    }
    let index = Arc::new(TokenIndex::new(harness::tokenizer("tale-small").vocabulary()));
    let remotes = Registry::folder(suite.join("remotes")).expect("schemas that others refer to");
    let mut outcomes = String::new();
    let mut wrong = 0;
    println!("| draft | cases | pass | schema refused | valid instance refused | invalid instance accepted |");
    println!("|---|--:|--:|--:|--:|--:|");
    for draft in DRAFTS {
        let mut tally = Tally::default();
        for path in json_files(&suite.join(draft)) {
            let groups: Vec<Group> =
                serde_json::from_slice(&std::fs::read(&path).expect("a file of the suite")).expect("groups of cases");
            let file = path.file_stem().expect("a name").to_string_lossy().into_owned();
            for group in groups {
                let outcome = run(&group, draft, &remotes, &index, &mut tally);
                writeln!(outcomes, "{draft} {file}: {}: {outcome}", group.description)
                    .expect("strings can be written to");
            }
        }
        let Tally { pass, refused, missed, wrong: accepted } = tally;
        println!("| {draft} | {} | {pass} | {refused} | {missed} | {accepted} |", pass + refused + missed + accepted);
        wrong += accepted;
    }
    let known = harness::path("tests/cases/suite.txt");
    if update {
        std::fs::write(&known, &outcomes).expect("the file can be written");
    }
    let expected = std::fs::read_to_string(&known).unwrap_or_default();
    let [new, old] = [&outcomes, &expected].map(|text| {
        text.lines().fold(BTreeMap::<&str, usize>::new(), |mut counts, line| {
            *counts.entry(line).or_default() += 1;
            counts
        })
    });
    let differs: Vec<&str> =
        new.iter().filter(|(line, count)| old.get(*line) != Some(*count)).map(|(line, _)| *line).collect();
    for line in &differs {
        println!("DIFFERS: {line}");
    }
    println!("{} groups differ from tests/cases/suite.txt, {wrong} invalid instances accepted", differs.len());
    harness::status(differs.is_empty() && wrong == 0)
}

fn json_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a draft of the suite");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "json"));
    files.sort();
    files
}

fn run(group: &Group, draft: &str, remotes: &Registry, index: &Arc<TokenIndex>, tally: &mut Tally) -> String {
    let mut schema = group.schema.clone();
    // The suite gives the draft by the folder's name.
    if let Some(keywords) = schema.as_object_mut().filter(|keywords| !keywords.contains_key("$schema")) {
        let uri = match draft {
            "draft2019-09" | "draft2020-12" => {
                format!("https://json-schema.org/{}/schema", draft.replace("draft", "draft/"))
            }
            old => format!("http://json-schema.org/{}/schema#", old.replace("draft", "draft-0")),
        };
        keywords.insert("$schema".into(), uri.into());
    }
    let grammar = match Grammar::json_schema_with(&schema, Style::default().any_order(), remotes) {
        Ok(grammar) => grammar,
        // Refusing a schema without valid texts is correct if the group has no valid instance.
        Err(fault) if fault.fault.contains("no finite text") && group.tests.iter().all(|case| !case.valid) => {
            tally.pass += group.tests.len();
            return "pass".into();
        }
        Err(fault) => {
            tally.refused += group.tests.len();
            return format!("refused: {fault}");
        }
    };
    let machine = Machine::new(grammar, index.clone());
    let mut faults = Vec::new();
    for case in &group.tests {
        let text = case.data.to_string();
        match (case.valid, harness::accepts(&machine, &text)) {
            (true, true) | (false, false) => tally.pass += 1,
            (true, false) => {
                tally.missed += 1;
                faults.push(format!("refuses {}", case.description));
            }
            (false, true) => {
                tally.wrong += 1;
                println!("WRONG: {draft} {}: {}: {text}", group.description, case.description);
                faults.push(format!("ACCEPTS {}", case.description));
            }
        }
    }
    if faults.is_empty() { "pass".into() } else { faults.join("; ") }
}
