//! Errors of queries.

use std::fmt;

use datafusion::arrow::datatypes::DataType;
use datafusion::error::DataFusionError;
use verdigris_detector::DetectError;

/// The reason why the functions cannot be created or called. Each message is one line with the cause and the remedy.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum JudgeError {
    /// A query names an unknown key.
    #[error("there is no key with the id {id:?} here: {}", known(.ids))]
    UnknownKey {
        /// The requested id.
        id: String,
        /// The known ids.
        ids: Vec<String>,
    },
    /// A key was made for a tokenizer that was not given.
    #[error("{0}, and give its tokenizer")]
    NoTokenizer(#[source] DetectError),
    /// Two keys have one id, so that a query could mean either.
    #[error("two keys that mark differently have the id {0:?}: leave one of them out")]
    TwoKeys(String),
    /// There is no key, or a key cannot be used.
    #[error(transparent)]
    Key(#[from] DetectError),
    /// A column that does not contain texts.
    #[error("{function} judges texts, but this column is of type {kind}: name another one, or CAST it AS VARCHAR")]
    NotText {
        /// The function.
        function: String,
        /// The type of the column.
        kind: DataType,
    },
    /// The id of a key is not a string.
    #[error("{function} takes the id of a key as a string, but this is of type {kind}")]
    NotAnId {
        /// The function.
        function: String,
        /// The type of the column.
        kind: DataType,
    },
    /// Texts of a group are judged under different keys, whose evidence cannot be combined.
    #[error("verdigris_combine has texts under the keys {0:?} and {1:?} in one group: GROUP BY the id of the key, too")]
    SeveralKeys(String, String),
    /// Texts under a key with payloads cannot be combined, since each may carry a different payload.
    #[error("the key {0:?} carries payloads, which may differ between texts: judge such texts one by one")]
    Payload(String),
    /// The state from another executor does not have this version's format.
    #[error("the state of verdigris_combine cannot be read: run the same version of Verdigris everywhere")]
    State,
}

/// Writes the message, since clusters pass the `Debug` output of an executor's error to the client.
impl fmt::Debug for JudgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

fn known(ids: &[String]) -> String {
    /// The most ids that are listed.
    const SHOWN: usize = 20;
    let shown: Vec<String> = ids.iter().take(SHOWN).map(|id| format!("{id:?}")).collect();
    match ids.len() {
        0 => "there are no keys".into(),
        1 => format!("there is {}", shown[0]),
        many if many > SHOWN => format!("there are {many}, such as {}", shown.join(", ")),
        _ => format!("there are {}", shown.join(", ")),
    }
}

impl From<JudgeError> for DataFusionError {
    fn from(error: JudgeError) -> Self {
        Self::External(Box::new(error))
    }
}
