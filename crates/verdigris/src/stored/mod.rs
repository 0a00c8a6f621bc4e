//! States of prompts in files, so that the next process need not read the prompts again.
//!
//! | module | contents |
//! |---|---|
//! | [`cache`] | one file with the state of one prompt |
//! | [`folder`] | a folder with the states of many beginnings of prompts, which several processes may share |
//! | [`ids`] | the model, the tokenizer and the tenant that a state belongs to |

pub(crate) mod cache;
pub(crate) mod folder;
mod ids;
