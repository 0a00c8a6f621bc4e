//! Saved states of sequences: what a model has computed from the first tokens of a text, outside of the model.

use std::borrow::Cow;
use std::fmt;

/// A SHA-256 digest.
pub type Digest = [u8; 32];

/// Identifies everything that the states of a model's sequences depend on, besides the tokens. States are only valid
/// for a model with an equal id.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StateId {
    /// A digest of the model: its description and all its weights, with those of an adapter.
    pub model: Digest,
    /// A digest of everything else: the version of this crate, the kind of machine, the format of keys and values, and
    /// the capacity of the sequence if the computation depends on it.
    pub settings: Digest,
}

impl fmt::Debug for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |digest: &Digest| digest[..8].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        write!(f, "StateId({}, {})", hex(&self.model), hex(&self.settings))
    }
}

/// A named part of the state of some consecutive tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedSection<'a> {
    /// Its name, of 1 to 32 printable ASCII characters.
    pub name: Cow<'a, str>,
    /// Its contents.
    pub bytes: Cow<'a, [u8]>,
}
