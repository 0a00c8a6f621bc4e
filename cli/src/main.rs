//! The program `verdigris`: the library's rooms behind a command line.
#![forbid(unsafe_code)]

mod attack;
mod bench;
mod built_in;
mod convert;
mod demo;
mod detect;
mod error;
mod form;
mod generate;
mod identify;
mod key;
mod model;
mod payload;
mod report;
mod sampling;
mod text;
mod train;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Failure;

/// Write text with a language model, mark it with a keyed watermark, and prove the mark from the text alone.
#[derive(Parser)]
#[command(name = "verdigris", version, max_term_width = 100, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  verdigris demo                                    see all of it in one screen
  verdigris key new my.key                          make a key
  verdigris generate \"The captain\" --key my.key > tale.txt
  verdigris detect tale.txt --key my.key            is it marked, and how sure is that?

Set RUST_LOG=debug for a log on standard error, and NO_COLOR=1 for no colour.";

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of them")]
enum Command {
    Generate(generate::Generate),
    Detect(detect::Detect),
    Identify(identify::Identify),
    Payload(payload::Payload),
    Attack(attack::AttackCommand),
    #[command(subcommand)]
    Key(key::KeyCommand),
    Convert(convert::Convert),
    #[command(subcommand)]
    Train(train::Train),
    Demo(demo::Demo),
    #[command(subcommand)]
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let result = match arguments.command {
        Command::Generate(generate) => generate.run(),
        Command::Detect(detect) => detect.run(),
        Command::Identify(identify) => identify.run(),
        Command::Payload(payload) => payload.run(),
        Command::Attack(attack) => attack.run(),
        Command::Key(key) => key.run(),
        Command::Convert(convert) => convert.run(),
        Command::Train(train) => train.run(),
        Command::Demo(demo) => demo.run(),
        Command::Bench(bench) => bench.run(),
    };
    match result {
        Ok(code) => code,
        // Whoever reads the output has seen enough.
        Err(Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            let red = report::style(anstyle::AnsiColor::Red).bold();
            anstream::eprintln!("{red}error:{red:#} {failure}");
            ExitCode::from(2)
        }
    }
}
