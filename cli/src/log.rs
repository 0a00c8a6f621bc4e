//! The log on standard error.

use std::io::{self, Write};

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use crate::terminal;

/// The format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// Starts the log of a command, with the filter of `RUST_LOG`, or else `usual`.
pub(crate) fn begin(format: LogFormat, usual: &str) {
    start(format, usual, io::stderr);
}

/// Starts the log with a writer for each line.
pub(crate) fn start<W: Write>(format: LogFormat, usual: &str, writer: impl Fn() -> W + Send + Sync + 'static) {
    let filter = match std::env::var_os(EnvFilter::DEFAULT_ENV) {
        Some(_) => EnvFilter::from_default_env(),
        None => EnvFilter::new(usual),
    };
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).log_internal_errors(false);
    match format {
        LogFormat::Text => log.with_ansi(terminal::coloured_log()).init(),
        LogFormat::Json => log.json().flatten_event(true).with_current_span(false).with_span_list(false).init(),
    }
}
