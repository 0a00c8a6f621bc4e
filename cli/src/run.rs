//! How a command runs, whatever it does.

use clap::Args;

use crate::error::Failure;
use crate::number::whole;

/// More threads than any machine has cores are a slip of the finger.
const MOST_THREADS: usize = 1024;

#[derive(Args)]
pub(crate) struct RunOptions {
    /// Compute on so many threads, 1 to 1024 [default: one for each core]
    #[arg(short, long, value_name = "N", value_parser = whole::<usize>)]
    threads: Option<usize>,
    /// Say nothing but what is asked for: no progress, no summary, no warning
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl RunOptions {
    /// Comes before all that computes.
    pub(crate) fn begin(&self) -> Result<(), Failure> {
        let Some(threads) = self.threads else { return Ok(()) };
        if !(1..=MOST_THREADS).contains(&threads) {
            return Err(Failure::Usage(format!("--threads is {threads}, but must be 1 to {MOST_THREADS}")));
        }
        let built = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
        built.map_err(|error| Failure::Usage(format!("cannot start {threads} threads: {error}")))
    }
}
