//! Where models come from.
//!
//! | module | holds |
//! |---|---|
//! | [`folder`] | a model that is loaded: from a folder, a GGUF file, or out of the program |
//! | `find` | a model by whatever a user calls it |
//! | `name`, `hub` | names on the Hugging Face hub, and how such models are fetched (feature `hub`) |
//! | `files` | where a model's files lie |
//! | `other_formats` | folders in other formats, and what to do with them |
//! | `open` | files of strangers, opened and read with care |
//! | `chat` | a model's chat template, and what ends its messages |

pub(crate) mod chat;
pub(crate) mod files;
mod find;
pub mod folder;
#[cfg(feature = "hub")]
pub mod hub;
pub(crate) mod name;
mod open;
mod other_formats;
