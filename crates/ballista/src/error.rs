//! Why a part of the cluster cannot do its work.

use ballista_core::error::BallistaError;
use datafusion::error::DataFusionError;

/// Each message is one line that names the cause and the cure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// A scheduler could not begin, or had to end.
    #[error("the scheduler cannot serve {address}: {why}")]
    Scheduler {
        /// Where it was to listen.
        address: String,
        /// What the system says.
        why: String,
    },
    /// An executor could not begin, or had to end.
    #[error("the executor {name:?} cannot work for the scheduler at {scheduler}: {why}")]
    Executor {
        /// Its name.
        name: String,
        /// Host and port of the scheduler.
        scheduler: String,
        /// What the engine says.
        why: String,
    },
    /// A query has failed.
    #[error("{}", line(.0))]
    Query(#[from] DataFusionError),
    /// There is nothing to read.
    #[error("{0}: name a file or folder of Parquet that every executor finds under this name")]
    Input(String),
}

/// What the engines say, on one line.
fn line(error: &DataFusionError) -> String {
    let told = match error.find_root() {
        DataFusionError::External(root) => root.to_string(),
        root => root.strip_backtrace(),
    };
    // An error of a function comes from its executor within the names of all layers that it went through.
    let told = told.rsplit_once("External(").map_or(&*told, |(_, root)| root.trim_end().trim_end_matches(')'));
    told.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn of_ballista(error: &BallistaError) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
