//! Finds a model by a path, or by its name on the hub.

use std::path::Path;

use verdigris_text::shown;

use super::folder::ModelFolder;
use super::name::{Fetched, HubName};
use crate::error::ModelError;

impl ModelFolder {
    /// The folder or file at a path; if nothing is there, the model of that name on the Hugging Face hub, which is
    /// fetched (feature `hub`). For an adapter it is the adapter's base, found in the same way, with the adapter.
    /// `each` is called with the progress.
    ///
    /// # Errors
    /// [`ModelError::Hub`] if a model cannot be fetched, and [`ModelError::Adapter`] if an adapter's base cannot be
    /// found. A path without a model is only reported on loading.
    pub fn find(path: impl AsRef<Path>, mut each: impl FnMut(Fetched<'_>)) -> Result<Self, ModelError> {
        with_base(path.as_ref(), &mut |path| match hub_name(path) {
            Some(name) => name.fetch(&mut each),
            None => Ok(Self::at(path)),
        })
    }

    /// Like [`ModelFolder::find`], for what drafts: a model, or a draft head, which has no tokenizer.
    ///
    /// # Errors
    /// The same as [`ModelFolder::find`].
    pub fn find_drafter(path: impl AsRef<Path>, mut each: impl FnMut(Fetched<'_>)) -> Result<Self, ModelError> {
        with_base(path.as_ref(), &mut |path| match hub_name(path) {
            Some(name) => name.fetch_drafter(&mut each),
            None => Ok(Self::at(path)),
        })
    }

    /// Like [`ModelFolder::with_adapter`]; if nothing is at that path, with the adapter of that name on the hub.
    ///
    /// # Errors
    /// [`ModelError::Hub`] if it cannot be fetched. A path without an adapter is only reported on loading.
    pub fn with_found_adapter(self, path: impl AsRef<Path>, each: impl FnMut(Fetched<'_>)) -> Result<Self, ModelError> {
        let path = path.as_ref();
        match hub_name(path) {
            Some(name) => Ok(self.with_adapter(name.fetch(each)?.folder().unwrap_or(path))),
            None => Ok(self.with_adapter(path)),
        }
    }

    /// Like [`ModelFolder::find`], but fetches only the tokenizer of a model on the hub.
    ///
    /// # Errors
    /// The same as [`ModelFolder::find`].
    pub fn find_tokenizer(path: impl AsRef<Path>, mut each: impl FnMut(Fetched<'_>)) -> Result<Self, ModelError> {
        with_base(path.as_ref(), &mut |path| match hub_name(path) {
            Some(name) => name.fetch_tokenizer(&mut each),
            None => Ok(Self::at(path)),
        })
    }
}

/// The model found by `find`; for an adapter, its base with the adapter.
fn with_base(
    path: &Path,
    find: &mut dyn FnMut(&Path) -> Result<ModelFolder, ModelError>,
) -> Result<ModelFolder, ModelError> {
    let found = find(path)?;
    let Some(config) = found.base_of_adapter()? else { return Ok(found) };
    let wrong = |fault: String| ModelError::Adapter { path: path.into(), fault };
    let cure = "give the model that it was trained from, and this folder as an adapter of it";
    let Some(base) = config.base() else {
        return Err(wrong(format!(
            "it does not say which model it is an adapter of (base_model_name_or_path): {cure}"
        )));
    };
    // A path is relative to the working directory, as in peft, or else to the adapter's folder.
    let beside = found.folder().unwrap_or(path).join(base);
    let (here, there) = (Path::new(base), beside.as_path());
    let base_folder = match (here.exists(), there.exists(), hub_name(here).is_some()) {
        (true, _, _) => find(here)?,
        (false, true, _) => find(there)?,
        (false, false, true) => match config.revision() {
            Some(revision) => find(Path::new(&format!("{base}@{revision}")))?,
            None => find(here)?,
        },
        (false, false, false) => return Err(wrong(format!("its base {} is not there: {cure}", shown(base)))),
    };
    if base_folder.base_of_adapter()?.is_some() {
        return Err(wrong(format!(
            "its base {} is an adapter itself; merge that with its own base first",
            shown(base)
        )));
    }
    Ok(base_folder.with_adapter(found.folder().unwrap_or(path)))
}

fn hub_name(path: &Path) -> Option<HubName> {
    // If its parent folder exists, it is a path, perhaps with a typing error.
    let is_path = path.exists() || path.parent().is_some_and(Path::exists);
    if is_path {
        return None;
    }
    HubName::parse(path.to_str()?)
}

#[cfg(not(feature = "hub"))]
impl HubName {
    fn fetch(&self, _: impl FnMut(Fetched<'_>)) -> Result<ModelFolder, ModelError> {
        let fault = "this program was built without the feature `hub`, which fetches models; give the path of a folder \
            or a file";
        Err(ModelError::Hub { name: self.repository.clone(), fault: fault.into() })
    }

    fn fetch_tokenizer(&self, each: impl FnMut(Fetched<'_>)) -> Result<ModelFolder, ModelError> {
        self.fetch(each)
    }

    fn fetch_drafter(&self, each: impl FnMut(Fetched<'_>)) -> Result<ModelFolder, ModelError> {
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
