//! Errors of the parts of a cluster.

use ballista_core::error::BallistaError;
use datafusion::error::DataFusionError;

/// The reason why a part of the cluster failed. Each message is one line with the cause and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The scheduler could not start, or failed.
    #[error("the scheduler cannot serve {address}: {why}")]
    Scheduler {
        /// The address to listen on.
        address: String,
        /// The cause.
        why: String,
    },
    /// An executor could not start, or failed.
    #[error("the executor {name:?} cannot work for the scheduler at {scheduler}: {why}")]
    Executor {
        /// Its name.
        name: String,
        /// Host and port of the scheduler.
        scheduler: String,
        /// The cause.
        why: String,
    },
    /// A query failed.
    #[error("{}", line(.0))]
    Query(#[from] DataFusionError),
    /// The input cannot be read.
    #[error("{0}: name a file or folder of Parquet that every executor can open under this name")]
    Input(String),
}

/// The engine's message on one line.
fn line(error: &DataFusionError) -> String {
    let told = match error.find_root() {
        DataFusionError::External(root) => root.to_string(),
        root => root.strip_backtrace(),
    };
    // The executor wraps an error of a function in the names of all layers that it passed through.
    let told = told.rsplit_once("External(").map_or(&*told, |(_, root)| root.trim_end().trim_end_matches(')'));
    told.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn of_ballista(error: &BallistaError) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
