//! The hub's address, its token and its cache, and whether it answers.

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use hf_hub::Cache;
use hf_hub::api::sync::{ApiBuilder, ApiError};

/// The model that the hub is asked for; it need not have it.
const ASKED_FOR: &str = "HuggingFaceTB/SmolLM2-135M-Instruct";

/// The access to the hub, as the environment sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access {
    /// The hub's address: `HF_ENDPOINT`, or that of Hugging Face.
    pub endpoint: String,
    /// The folder of fetched models: `hub` in `HF_HOME`, or in `~/.cache/huggingface`.
    pub cache: PathBuf,
    /// The source of the token, if there is one.
    pub token: Option<TokenSource>,
    /// Whether `HF_HUB_OFFLINE` forbids requests.
    pub is_offline: bool,
}

/// The source of the token for a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenSource {
    /// The variable `HF_TOKEN`.
    Variable,
    /// The file that `hf auth login` writes.
    File,
}

impl Access {
    /// Reads the environment.
    pub fn from_env() -> Self {
        let cache = Cache::from_env();
        let variable = std::env::var("HF_TOKEN").is_ok_and(|token| !token.is_empty());
        let token = match variable {
            true => Some(TokenSource::Variable),
            false => cache.token().map(|_| TokenSource::File),
        };
        Self {
            endpoint: std::env::var("HF_ENDPOINT").unwrap_or_else(|_| "https://huggingface.co".into()),
            cache: cache.path().clone(),
            token,
            is_offline: std::env::var("HF_HUB_OFFLINE").is_ok_and(|value| is_set(&value)),
        }
    }

    /// Asks the hub for a model, which it need not have, and waits for at most `patience`.
    ///
    /// # Errors
    /// The reason for the missing answer.
    pub fn ask(&self, patience: Duration) -> Result<(), String> {
        let (sender, answer) = mpsc::channel();
        // Looking up a name has no time limit, so the thread is abandoned if it takes too long.
        let asked = thread::Builder::new().spawn(move || {
            let _ = sender.send(ask());
        });
        asked.map_err(|error| error.to_string())?;
        let late = |_| Err(format!("no answer in {} s", patience.as_secs_f64()));
        answer.recv_timeout(patience).unwrap_or_else(late)
    }
}

fn ask() -> Result<(), String> {
    let api = builder().with_retries(0).build().map_err(|error| error.to_string())?;
    match api.model(ASKED_FOR.into()).info() {
        Ok(_) => Ok(()),
        // An error for a missing model, or for a token without access, is an answer.
        Err(ApiError::RequestError(error)) if error.to_string().contains("status: 4") => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether a variable is set to what Hugging Face's libraries take as true.
fn is_set(value: &str) -> bool {
    ["1", "on", "yes", "true"].iter().any(|yes| value.eq_ignore_ascii_case(yes))
}

/// A client for the hub, with the token if there is one.
pub(super) fn builder() -> ApiBuilder {
    let builder = ApiBuilder::from_env().with_progress(false);
    match std::env::var("HF_TOKEN") {
        Ok(token) if !token.is_empty() => builder.with_token(Some(token)),
        _ => builder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_mean_what_they_mean_to_other_libraries() {
        for (value, expected) in [("1", true), ("True", true), ("ON", true), ("yes", true), ("", false), ("0", false)] {
            assert_eq!(is_set(value), expected, "{value:?}");
        }
        assert!(["False", "no", "off", "2"].iter().all(|value| !is_set(value)));
    }
}
