//! Checks on real models what drafts must not change: `cargo run --release -p verdigris-tests --bin drafts pairs
//! [DRAWS]`, and `... drafts greedy [PROMPTS [SMOLLM2.gguf [DRAFT.gguf]]]`.
//!
//! - `pairs` samples the first two tokens of 200,000 texts with each method of drafting and verifying, and compares
//!   them with their exact distribution by chi-square.
//! - `greedy` generates after 1,000 prompts at temperature 0, with each model, drafter and shape, and compares each
//!   text with the one without drafts: with the models of the project, or SmolLM2-135M-Instruct from a file.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use verdigris_tests::drafts::{Drafted, WAYS, greedy, pairs};
use verdigris_tests::harness::{self, TALE, TALE_SMALL};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Anything that is not a number gives 0, which is refused.
    let count = |usual| arguments.get(1).map_or(usual, |count| count.parse::<u64>().unwrap_or(0));
    match arguments.first().map(String::as_str) {
        Some("pairs") if count(200_000) >= 1000 => of_pairs(count(200_000)),
        Some("greedy") if count(1000) > 0 => of_texts(count(1000), &arguments[arguments.len().min(2)..]),
        _ => {
            harness::usage("drafts pairs [DRAWS, at least 1000] | drafts greedy [PROMPTS [SMOLLM2.gguf [DRAFT.gguf]]]")
        }
    }
}

fn of_pairs(draws: u64) -> ExitCode {
    let mut all = true;
    for (way, (name, ..)) in WAYS.iter().enumerate() {
        let fit = pairs(&TALE, &TALE_SMALL, way, draws);
        all &= fit.is_good();
        let verdict = if fit.is_good() { "the distribution" } else { "NOT the distribution" };
        println!("{name}: chi-square {:.1} with {} degrees of freedom, {verdict}", fit.chi2, fit.degrees);
    }
    harness::status(all)
}

fn of_texts(prompts: u64, files: &[String]) -> ExitCode {
    let models = match files {
        [] => Drafted::of_project(),
        [model, others @ ..] => Drafted::of_smollm2(model.as_ref(), others.first().map(Path::new)).map(|one| vec![one]),
    };
    let models = match models {
        Ok(models) => models,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    match greedy(&models, prompts, 24) {
        Ok(accepted) => {
            accepted.iter().for_each(|(name, accepted)| println!("{name}: the same texts, {accepted} drafts stood"));
            ExitCode::SUCCESS
        }
        Err(text) => {
            println!("another text: {text}");
            ExitCode::FAILURE
        }
    }
}
