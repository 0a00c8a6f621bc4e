//! Errors of a scan: each is one line with the cause and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use datafusion::error::DataFusionError;
use datafusion::parquet::errors::ParquetError;
use verdigris_datafusion::{JudgeError, KeysError};

/// Any failure. All of them end the program with status 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Keys(#[from] KeysError),
    #[error(transparent)]
    Judge(#[from] JudgeError),
    #[error("{}", line(.0))]
    Query(#[from] DataFusionError),
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Read { path: path.into(), source }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Write { path: path.into(), source }
    }

    pub(crate) fn write_parquet(path: &Path) -> impl FnOnce(ParquetError) -> Self {
        move |error| Self::Write { path: path.into(), source: io::Error::other(error) }
    }
}

/// The engine's message without the names of its layers.
pub(crate) fn line(error: &DataFusionError) -> String {
    let told = match error.find_root() {
        DataFusionError::External(root) => root.to_string(),
        DataFusionError::ArrowError(root, _) => root.to_string(),
        DataFusionError::ParquetError(root) => root.to_string(),
        DataFusionError::ObjectStore(root) => root.to_string(),
        root => root.strip_backtrace(),
    };
    told.split_whitespace().collect::<Vec<_>>().join(" ")
}
