//! The failure of a command: one line that names the cause and the cure.

use std::io;
use std::path::PathBuf;

use verdigris::constrain::NoRoom;

/// Any failure of a command. All of them end the program with status 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Verdigris(verdigris::Error),
    #[error(transparent)]
    Label(#[from] verdigris::label::LabelError),
    #[error(transparent)]
    Model(#[from] verdigris::models::ModelError),
    #[error(transparent)]
    Key(#[from] verdigris::watermark::KeyError),
    #[error(transparent)]
    Keys(#[from] verdigris::detector::KeysError),
    #[error(transparent)]
    ReportKey(#[from] verdigris::detector::report::ReportKeyError),
    #[error(transparent)]
    Checkpoint(#[from] verdigris_checkpoint::CheckpointError),
    #[cfg(feature = "ledger")]
    #[error(transparent)]
    Ledger(#[from] verdigris_ledger::LedgerError),
    #[cfg(feature = "train")]
    #[error(transparent)]
    Train(#[from] verdigris_train::TrainError),
    #[cfg(feature = "serve")]
    #[error(transparent)]
    Serve(#[from] verdigris_server::ServeError),
    #[cfg(feature = "mcp")]
    #[error(transparent)]
    Mcp(#[from] verdigris_mcp::McpError),
    #[cfg(feature = "serve")]
    #[error(transparent)]
    ApiKeys(#[from] verdigris_server::AccessError),
    #[error("cannot open {path}: {source}")]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot write {path}: {source}{}", cure(source))]
    Write { path: PathBuf, source: io::Error },
    /// A fault in the text of a file, whose own error does not include the file's name.
    #[error("{name}: {source}")]
    Text { name: String, source: Box<verdigris::Error> },
    #[error("{0}")]
    Usage(String),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// The remedy if a file cannot be written.
fn cure(source: &io::Error) -> &'static str {
    if source.kind() == io::ErrorKind::NotFound { "; make the folder first" } else { "" }
}

impl From<verdigris::DetectError> for Failure {
    fn from(error: verdigris::DetectError) -> Self {
        verdigris::Error::from(error).into()
    }
}

impl From<verdigris::Error> for Failure {
    fn from(error: verdigris::Error) -> Self {
        match error {
            // With the names of options.
            verdigris::Error::NoRoom(NoRoom { tokens, enough }) => Self::Usage(format!(
                "no text that matches the constraint fits into {tokens} tokens: raise --max-tokens{}, or shorten the \
                 prompt if the model's context is full",
                enough.map_or(String::new(), |enough| format!(" to {enough}"))
            )),
            verdigris::Error::Detect(error @ verdigris::DetectError::ForeignKey { .. }) => {
                Self::Usage(format!("{error}, with --model (the default is the built-in tale)"))
            }
            verdigris::Error::NoChatTemplate => Self::Usage(
                "this model has no chat template, since it was not made for conversations: name one that was with \
                 --model, or let generate continue a text"
                    .into(),
            ),
            verdigris::Error::NoReasoning => Self::Usage(
                "this model does not think before it answers, or its chat template has none of the known markers: \
                 leave --reasoning-effort and --thinking-token-budget out, or name the markers with --reasoning-format"
                    .into(),
            ),
            error => Self::Verdigris(error),
        }
    }
}
