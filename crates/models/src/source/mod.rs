//! The sources of models.
//!
//! | module | holds |
//! |---|---|
//! | [`folder`] | loads a model from a folder, a GGUF file, or files embedded in the program |
//! | `find` | finds a model by a path or a name |
//! | `name`, `hub` | names on the Hugging Face hub, and fetching these models (feature `hub`) |
//! | `file_names` | the names of the files of a model folder |
//! | `files` | the location of a model's files |
//! | `other_formats` | folders in other formats, and what to do with them |
//! | `open` | opens and reads untrusted files |
//! | `chat` | a model's chat template, and the tokens that end its messages |

pub(crate) mod chat;
pub(crate) mod file_names;
pub(crate) mod files;
mod find;
pub mod folder;
#[cfg(feature = "hub")]
pub mod hub;
pub(crate) mod name;
mod open;
mod other_formats;
