//! `verdigris-scan`: tests the texts of a data lake for marks.
//!
//! | module | contents |
//! |---|---|
//! | `options` | command-line options |
//! | `inputs` | the files to read, and their formats |
//! | `documents` | files as one table |
//! | `query` | SQL queries of that table |
//! | `scan` | verdicts for all documents |
//! | `parts` | splitting a file into parts |
//! | `folder` | the folder of written parts |
//! | `manifest` | the record of which scan a folder belongs to |
//! | `tally` | totals of all documents |
//! | `print`, `progress` | output on the terminal |
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a program has no public items")]

mod documents;
mod error;
mod folder;
mod inputs;
mod manifest;
mod options;
mod parts;
mod print;
mod progress;
mod query;
#[cfg(feature = "s3")]
mod s3;
mod scan;
mod tally;

use std::io;
use std::pin::pin;
use std::process::ExitCode;
use std::thread::available_parallelism;

use clap::Parser;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures_util::future::{Either, select};
use verdigris_datafusion::Keys;

use crate::error::Failure;
use crate::options::Options;

/// The number of rows that are read and judged together.
const BATCH: usize = 1024;

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(status) => status,
        // The reader of the output has closed it.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(128 + 13),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<ExitCode, Failure> {
    if !(options.fdr > 0.0 && options.fdr < 1.0) {
        return Err(Failure::Usage(format!("--fdr is {}, but must be above 0 and below 1", options.fdr)));
    }
    let threads = options.threads.map_or_else(|| available_parallelism().map_or(1, usize::from), usize::from);
    let started = |error: &dyn std::fmt::Display| Failure::Usage(format!("cannot start {threads} threads: {error}"));
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().map_err(|error| started(&error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    runtime.map_err(|error| started(&error))?.block_on(async {
        match select(pin!(ask(options, threads)), pin!(tokio::signal::ctrl_c())).await {
            Either::Left((done, _)) => done,
            Either::Right(_) => {
                let rest = if options.sql.is_none() && options.output.is_some() {
                    ": give the same command again to resume"
                } else {
                    ""
                };
                Err(Failure::Usage(format!("stopped{rest}")))
            }
        }
    })
}

async fn ask(options: &Options, threads: usize) -> Result<ExitCode, Failure> {
    let keys = Keys::load(&options.key, options.ring.as_deref(), &options.tokenizer)?;
    if !options.quiet {
        keys.notes().iter().for_each(|note| eprintln!("note: {note}"));
    }
    // A scan returns documents in order, so it reads one file at a time; a query has no such order.
    let readers = if options.sql.is_some() { threads } else { 1 };
    let config = SessionConfig::new().with_batch_size(BATCH).with_target_partitions(readers);
    let context = SessionContext::new_with_config(config);
    let output = options.output.as_deref().filter(|_| options.sql.is_none());
    let inputs = inputs::inputs(&context, &options.inputs, output).await?;
    match &options.sql {
        Some(sql) => query::query(options, sql, &context, keys, inputs).await,
        None => scan::scan(options, &context, keys, inputs).await,
    }
}
