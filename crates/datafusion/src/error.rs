//! Why a query cannot be answered.

use std::fmt;

use datafusion::arrow::datatypes::DataType;
use datafusion::error::DataFusionError;
use verdigris_detector::DetectError;

/// Why the functions cannot be made or called. Each message is one line that names the cause and the cure.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum JudgeError {
    /// A query names a key that is not there.
    #[error("there is no key with the id {id:?} here: {}", known(.ids))]
    UnknownKey {
        /// What was asked for.
        id: String,
        /// What there is.
        ids: Vec<String>,
    },
    /// A key was made for a tokenizer that is not there.
    #[error("{0}, and give its tokenizer")]
    NoTokenizer(#[source] DetectError),
    /// Two keys have one id, so that a query could mean either.
    #[error("two keys that mark differently have the id {0:?}: leave one of them out")]
    TwoKeys(String),
    /// There is no key, or none that can be used.
    #[error(transparent)]
    Key(#[from] DetectError),
    /// A column that holds no texts.
    #[error("{function} judges texts, and this column is of type {kind}: name another one, or CAST it AS VARCHAR")]
    NotText {
        /// Who was asked.
        function: String,
        /// What it was given.
        kind: DataType,
    },
    /// An id of a key that is no text.
    #[error("{function} takes the id of a key, a text, and this is of type {kind}")]
    NotAnId {
        /// Who was asked.
        function: String,
        /// What it was given.
        kind: DataType,
    },
    /// Texts of a group under different keys are no one evidence.
    #[error("verdigris_combine has texts under the keys {0:?} and {1:?} in one group: GROUP BY the id of the key, too")]
    SeveralKeys(String, String),
    /// Each text under such a key may carry another number.
    #[error("the key {0:?} carries payloads, of which each text may have another: judge such texts one by one")]
    Payload(String),
    /// What another executor has handed over is not what this version hands over.
    #[error("the state of verdigris_combine cannot be read: run the same version of Verdigris everywhere")]
    State,
}

/// The message: what clusters carry from an executor to whoever asked is what `Debug` says.
impl fmt::Debug for JudgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

fn known(ids: &[String]) -> String {
    /// More are not read by anybody.
    const SHOWN: usize = 20;
    let shown: Vec<String> = ids.iter().take(SHOWN).map(|id| format!("{id:?}")).collect();
    match ids.len() {
        0 => "there are no keys at all".into(),
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
