//! Errors of a command: each is one line with the cause and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use verdigris_c2pa::C2paError;
use verdigris_detector::KeysError;

/// Any failure. All of them end the program with status 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Keys(#[from] KeysError),
    #[error(transparent)]
    C2pa(#[from] C2paError),
    #[error("{}: {source}", path.display())]
    InFile { path: PathBuf, source: C2paError },
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
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

    pub(crate) fn in_file(path: &Path) -> impl FnOnce(C2paError) -> Self {
        move |source| Self::InFile { path: path.into(), source }
    }
}
