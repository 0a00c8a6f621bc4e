//! Why a command failed: one line that names the cause and the cure.

use std::io;
use std::path::PathBuf;

/// Any failure of a command. All of them end the program with status 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Verdigris(#[from] verdigris::Error),
    #[error(transparent)]
    Model(#[from] verdigris::models::ModelError),
    #[error(transparent)]
    Key(#[from] verdigris::watermark::KeyError),
    #[error(transparent)]
    Train(#[from] verdigris_train::TrainError),
    #[error("cannot open {path}: {source}")]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    /// A fault in the text of a file, which its own error does not know the name of.
    #[error("{name}: {source}")]
    Text { name: String, source: Box<verdigris::Error> },
    #[error("{0}")]
    Usage(String),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}
