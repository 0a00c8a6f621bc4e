//! A model by whatever a user calls it: a path, or a name on the hub.

use std::path::Path;

use super::folder::ModelFolder;
use super::name::{Fetched, HubName};
use crate::error::ModelError;

impl ModelFolder {
    /// The folder or file at a path; where there is nothing, the model of that name on the Hugging Face hub, which is
    /// fetched (feature `hub`). `each` hears of progress.
    ///
    /// # Errors
    /// [`ModelError::Hub`] where a model cannot be fetched. That there is no model at a path shows when it is loaded.
    pub fn find(path: impl AsRef<Path>, each: impl FnMut(Fetched<'_>)) -> Result<Self, ModelError> {
        match hub_name(path.as_ref()) {
            Some(name) => name.fetch(each),
            None => Ok(Self::at(path.as_ref())),
        }
    }

    /// As [`ModelFolder::find`], but of a model on the hub its tokenizer alone.
    ///
    /// # Errors
    /// As [`ModelFolder::find`].
    pub fn find_tokenizer(path: impl AsRef<Path>, each: impl FnMut(Fetched<'_>)) -> Result<Self, ModelError> {
        match hub_name(path.as_ref()) {
            Some(name) => name.fetch_tokenizer(each),
            None => Ok(Self::at(path.as_ref())),
        }
    }
}

fn hub_name(path: &Path) -> Option<HubName> {
    // What begins with a folder that is there is a path, perhaps with a slip.
    let is_path = path.exists() || path.parent().is_some_and(Path::exists);
    if is_path {
        return None;
    }
    HubName::parse(path.to_str()?)
}

#[cfg(not(feature = "hub"))]
impl HubName {
    fn fetch(&self, _: impl FnMut(Fetched<'_>)) -> Result<ModelFolder, ModelError> {
        let fault = "this program was built without the feature `hub`, which fetches models; give the path of a folder or a file";
        Err(ModelError::Hub { name: self.repository.clone(), fault: fault.into() })
    }

    fn fetch_tokenizer(&self, each: impl FnMut(Fetched<'_>)) -> Result<ModelFolder, ModelError> {
        self.fetch(each)
    }
}

#[cfg(all(test, not(feature = "hub")))]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said() {
        let fault = ModelFolder::find("Qwen/Qwen2.5-0.5B", |_| ()).unwrap_err().to_string();
        assert!(fault.starts_with("Qwen/Qwen2.5-0.5B on the Hugging Face hub") && fault.contains("`hub`"), "{fault}");
        assert!(ModelFolder::find("no-such-folder", |_| ()).is_ok(), "a path, which is looked at when it is loaded");
    }
}
