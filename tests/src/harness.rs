//! Parts that the programs and the suites share: files of the project, judges, and the end of a program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::LazyLock;

use serde_json::{Map, Value};
use verdigris::constrain::Machine;
use verdigris::{Engine, ModelFolder, Tokenizer};

/// `tale`.
pub static TALE: LazyLock<Engine> = LazyLock::new(|| engine("tale"));

/// `tale-small`.
pub static TALE_SMALL: LazyLock<Engine> = LazyLock::new(|| engine("tale-small"));

/// A path in the repository.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// The folder of one of the models of the project.
pub fn model(name: &str) -> ModelFolder {
    ModelFolder::at(path("fixtures/models").join(name))
}

/// One of the models of the project.
///
/// # Panics
/// If it cannot be read.
pub fn engine(name: &str) -> Engine {
    Engine::load(path("fixtures/models").join(name)).expect("a model of the project")
}

/// The tokenizer of one of the models of the project.
///
/// # Panics
/// If it cannot be read.
pub fn tokenizer(name: &str) -> Tokenizer {
    model(name).tokenizer().expect("a model of the project")
}

/// The model of a program: a folder or a GGUF file, or `tale`.
///
/// # Panics
/// If it cannot be read.
pub fn chosen(model: Option<String>) -> Engine {
    Engine::load(model.map_or_else(|| path("fixtures/models/tale"), PathBuf::from)).expect("a model")
}

/// The regular expressions of `tests/cases`, one a line.
///
/// # Panics
/// If the file cannot be read.
pub fn patterns() -> String {
    fs::read_to_string(path("tests/cases/regexes.txt")).expect("the cases")
}

/// The schemas of `tests/cases` by their names.
///
/// # Panics
/// If the file cannot be read.
pub fn schemas() -> Map<String, Value> {
    let schemas = fs::read(path("tests/cases/schemas.json")).expect("the cases");
    serde_json::from_slice(&schemas).expect("the cases")
}

/// Whether a machine accepts a text.
pub fn accepts(machine: &Machine, text: &str) -> bool {
    machine.accepts(machine.next(machine.start(), text.as_bytes()))
}

/// Whether a text is JSON that is valid by the `jsonschema` crate.
pub fn is_valid(judge: &jsonschema::Validator, text: &[u8]) -> bool {
    serde_json::from_slice(text).is_ok_and(|value: Value| judge.is_valid(&value))
}

/// The argument of the program at an index, from 1 on; a default if there are not as many, and `None` if it is not such
/// a value.
pub fn argument<T: FromStr>(at: usize, default: T) -> Option<T> {
    std::env::args().nth(at).map_or(Some(default), |argument| argument.parse().ok())
}

/// The seed of a suite that draws its cases, which it prints: `VERDIGRIS_SEED`; 0 by default.
///
/// # Panics
/// If it is not a number below 2^28.
pub fn seed() -> u32 {
    let seed = crate::sampled::seed().unwrap_or(0);
    println!("VERDIGRIS_SEED={seed}\n");
    seed as u32
}

/// Ends a program that was called with other arguments than this line shows.
pub fn usage(line: &str) -> ExitCode {
    eprintln!("usage: {line}");
    ExitCode::from(2)
}

/// Ends a program for which a folder lacks files that are not part of the project.
pub fn skipped(folder: &Path, lacks: &str) -> ExitCode {
    println!("SKIPPED: {} holds no {lacks}; nothing was checked", folder.display());
    ExitCode::SUCCESS
}

/// Ends a program with the numbers of checks that passed and failed.
pub fn counted(checks: usize, failed: usize) -> ExitCode {
    println!("{} passed, {failed} failed", checks - failed);
    status(failed == 0)
}

/// Ends a program that compares false alarms with what p-values claim.
pub fn as_claimed(honest: bool) -> ExitCode {
    println!("{}", if honest { "as rare as claimed" } else { "FAILED: more false alarms than claimed" });
    status(honest)
}

/// The status of a program whose checks all passed, or did not.
pub fn status(passed: bool) -> ExitCode {
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
