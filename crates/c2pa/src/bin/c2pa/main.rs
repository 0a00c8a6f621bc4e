//! `verdigris-c2pa`: C2PA manifests in addition to the mark.
//!
//! | module | contents |
//! |---|---|
//! | `sign` | signing texts |
//! | `verify` | judging texts |
//! | `verdicts` | the two verdicts on a text |
//! | `certificate` | a certificate for trying it out |
//! | `keys` | keys and their tokenizer |
//! | `files` | reading and writing files |
//! | `words` | verdicts as text |
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a program has no public items")]

mod certificate;
mod error;
mod files;
mod keys;
mod sign;
mod verdicts;
mod verify;
mod words;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Failure;

/// C2PA manifests for texts, in addition to their watermarks
#[derive(Parser)]
#[command(
    name = "verdigris-c2pa",
    version,
    term_width = 100,
    after_help = "\
Examples:
  verdigris-c2pa certificate try
  verdigris-c2pa sign tale.txt --certificate try.cert.pem --private-key try.key.pem \\
      --scheme native --key-id my -o signed.txt
  verdigris-c2pa verify signed.txt --key my.key"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Sign(sign::Sign),
    Verify(verify::Verify),
    Certificate(certificate::Certificate),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Sign(sign) => sign.run(),
        Command::Verify(verify) => verify.run(),
        Command::Certificate(certificate) => certificate.run(),
    };
    match done {
        Ok(status) => status,
        // The reader of the output has closed it.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(128 + 13),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
