//! Options for how a command runs.

use clap::Args;

use crate::error::Failure;
use crate::number::whole;

/// The most threads: more than this is taken for a typo.
const MOST_THREADS: usize = 1024;

#[derive(Args)]
pub(crate) struct RunOptions {
    /// The number of threads that compute, 1 to 1024 [default: one for each core]
    #[arg(short, long, value_name = "N", value_parser = whole::<usize>)]
    threads: Option<usize>,
    /// Print only the requested output: no progress, no summary, no warnings
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl RunOptions {
    /// Applies the options. Must be called before anything is computed.
    pub(crate) fn begin(&self) -> Result<(), Failure> {
        let Some(threads) = self.threads else { return Ok(()) };
        if !(1..=MOST_THREADS).contains(&threads) {
            return Err(Failure::Usage(format!("--threads is {threads}, but must be 1 to {MOST_THREADS}")));
        }
        let built = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
        built.map_err(|error| Failure::Usage(format!("cannot start {threads} threads: {error}")))
    }
}
