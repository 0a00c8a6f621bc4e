//! The models in the cache: their names and sizes, and their removal.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::access::Access;
use crate::source::file_names::{ADAPTER_WEIGHTS, INDEX, MEDUSA_WEIGHTS, WEIGHTS};
use crate::source::name::HubName;

/// The beginning of the folder of a model in the cache.
const PREFIX: &str = "models--";

/// A model in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachedModel {
    /// The name by which it is found: `owner/name`, or `owner/name:file.gguf`.
    pub name: String,
    /// The number of bytes that it takes on the disk. Of a GGUF file it is that of the file.
    pub bytes: u64,
    /// The format of its weights: `safetensors`, `gguf`, `adapter`, `medusa`, or `none` without weights.
    pub format: &'static str,
    /// The folder of its files, or its file.
    pub path: PathBuf,
}

/// The reason why a model is not removed from the cache.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotRemoved {
    /// It is not in the cache.
    #[error("{name} is not in the cache {}; `verdigris models` lists what is", cache.display())]
    Missing {
        /// The given name.
        name: String,
        /// The cache.
        cache: PathBuf,
    },
    /// Only whole models are removed.
    #[error("models are removed with all their files and revisions: give the name {0}")]
    Part(String),
    /// Its folder is a link to another one.
    #[error("{} is a link, perhaps to a folder outside the cache: remove it by hand", .0.display())]
    Link(PathBuf),
    /// Its files cannot be removed.
    #[error("cannot remove {}: {source}", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// The fault.
        source: io::Error,
    },
}

impl Access {
    /// The models in the cache in alphabetical order. Folders without a name that can be fetched are left out, and a
    /// cache that does not exist has none.
    pub fn models(&self) -> Vec<CachedModel> {
        let mut models: Vec<CachedModel> = entries(&self.cache).iter().flat_map(|folder| in_folder(folder)).collect();
        models.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        models
    }

    /// The folder and the number of bytes of a model in the cache, with all its files and revisions.
    ///
    /// # Errors
    /// If it is not there, if the name is that of a part of a model, or if the folder is a link.
    pub fn folder_of(&self, name: &HubName) -> Result<(PathBuf, u64), NotRemoved> {
        if name.file.is_some() || name.revision != "main" {
            return Err(NotRemoved::Part(name.repository.clone()));
        }
        // The name has no part that leads out of the cache.
        let folder = self.cache.join(PREFIX.to_owned() + &name.repository.replace('/', "--"));
        match fs::symlink_metadata(&folder) {
            Ok(about) if about.is_symlink() => Err(NotRemoved::Link(folder)),
            Ok(about) if about.is_dir() => {
                let bytes = bytes(&folder);
                Ok((folder, bytes))
            }
            _ => Err(NotRemoved::Missing { name: name.repository.clone(), cache: self.cache.clone() }),
        }
    }

    /// Removes a model from the cache. Returns its folder and the number of bytes that are free now.
    ///
    /// # Errors
    /// Those of [`Access::folder_of`], and if its files cannot be removed.
    pub fn remove(&self, name: &HubName) -> Result<(PathBuf, u64), NotRemoved> {
        let (folder, bytes) = self.folder_of(name)?;
        // Links in it are removed, not followed.
        match fs::remove_dir_all(&folder) {
            Ok(()) => Ok((folder, bytes)),
            Err(source) => Err(NotRemoved::Io { path: folder, source }),
        }
    }
}

/// The model in a folder of the cache, or its GGUF files.
fn in_folder(folder: &Path) -> Vec<CachedModel> {
    let name = folder.file_name().and_then(|name| name.to_str()?.strip_prefix(PREFIX)?.split_once("--"));
    let Some(name) = name.map(|(owner, name)| format!("{owner}/{name}")).filter(|name| HubName::parse(name).is_some())
    else {
        return Vec::new();
    };
    let Some(snapshot) = snapshot(folder) else { return Vec::new() };
    let files: BTreeSet<String> = entries(&snapshot).iter().filter_map(|path| name_of(path)).collect();
    let has = |file: &str| files.contains(file);
    let format = match () {
        () if has(WEIGHTS) || has(INDEX) => Some("safetensors"),
        () if has(ADAPTER_WEIGHTS) => Some("adapter"),
        () if has(MEDUSA_WEIGHTS) => Some("medusa"),
        () => None,
    };
    let ggufs = files.iter().filter(|file| file.to_ascii_lowercase().ends_with(".gguf"));
    let mut models: Vec<CachedModel> = ggufs
        .filter(|file| snapshot.join(file).exists())
        .map(|file| (format!("{name}:{file}"), snapshot.join(file)))
        .filter(|(name, _)| HubName::parse(name).is_some())
        .map(|(name, path)| {
            let bytes = fs::metadata(&path).map_or(0, |about| about.len());
            CachedModel { name, bytes, format: "gguf", path }
        })
        .collect();
    if format.is_some() || models.is_empty() {
        models.push(CachedModel { name, bytes: bytes(folder), format: format.unwrap_or("none"), path: snapshot });
    }
    models
}

/// The snapshot of the main revision, or of any.
fn snapshot(folder: &Path) -> Option<PathBuf> {
    let snapshots = folder.join("snapshots");
    let main = fs::read_to_string(folder.join("refs/main")).ok();
    let main = main.filter(|commit| super::cached::is_word(commit.trim())).map(|commit| snapshots.join(commit.trim()));
    main.filter(|snapshot| snapshot.is_dir()).or_else(|| entries(&snapshots).into_iter().find(|path| path.is_dir()))
}

/// The entries of a folder in alphabetical order; none if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    entries.sort_unstable();
    entries
}

fn name_of(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_owned())
}

/// The number of bytes of the files below a folder. Links are not followed, so each file counts once.
fn bytes(folder: &Path) -> u64 {
    let (mut sum, mut open) = (0u64, vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        for path in entries(&folder) {
            match fs::symlink_metadata(&path) {
                Ok(about) if about.is_dir() => open.push(path),
                Ok(about) if about.is_file() => sum = sum.saturating_add(about.len()),
                _ => (),
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache with a model, one in a GGUF file, one that is not complete, a data set, and a folder of the user's.
    fn cache() -> (tempfile::TempDir, Access) {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: usize| {
            let path = folder.path().join("hub").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![b'a'; bytes]).unwrap();
        };
        for (model, files) in [
            ("models--o--one", &[("config.json", 3), ("model.safetensors", 40)][..]),
            ("models--o--two--b", &[("a-Q8_0.gguf", 7), ("notes.txt", 5)]),
            ("models--o--three", &[("config.json", 2)]),
            ("datasets--o--four", &[("model.safetensors", 9)]),
        ] {
            for (file, bytes) in files {
                write(&format!("{model}/snapshots/c0ffee/{file}"), *bytes);
            }
        }
        write("models--o--one/blobs/more", 100);
        fs::create_dir_all(folder.path().join("hub/models--o--one/refs")).unwrap();
        fs::write(folder.path().join("hub/models--o--one/refs/main"), "c0ffee\n").unwrap();
        write("my files/a", 1);
        let mut access = Access::from_env();
        access.cache = folder.path().join("hub");
        (folder, access)
    }

    fn name(name: &str) -> HubName {
        HubName::parse(name).unwrap()
    }

    #[test]
    fn models_have_names_formats_and_sizes() {
        let (_folder, access) = cache();
        let models = access.models();
        let found: Vec<_> = models.iter().map(|model| (&*model.name, model.bytes, model.format)).collect();
        let expected =
            [("o/one", 3 + 40 + 100 + 7, "safetensors"), ("o/three", 2, "none"), ("o/two--b:a-Q8_0.gguf", 7, "gguf")];
        assert_eq!(found, expected);
        assert!(models[2].path.ends_with("models--o--two--b/snapshots/c0ffee/a-Q8_0.gguf"));
        let none = Access { cache: access.cache.join("none"), ..access };
        assert_eq!(none.models(), []);
    }

    #[test]
    fn only_models_of_the_cache_are_removed() {
        let (folder, access) = cache();
        for (text, said) in [
            ("o/other", "is not in the cache"),
            ("o/one@v1", "give the name o/one"),
            ("o/two--b:a.gguf", "give the name"),
        ] {
            let fault = access.remove(&name(text)).unwrap_err().to_string();
            assert!(fault.contains(said) && fault.lines().count() == 1, "{fault}");
        }
        let (path, bytes) = access.remove(&name("o/two--b")).unwrap();
        assert_eq!((path.file_name().unwrap().to_str().unwrap(), bytes), ("models--o--two--b", 12));
        assert_eq!(access.models().len(), 2);
        assert!(folder.path().join("hub/my files/a").exists());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        use std::os::unix::fs::symlink;
        let (folder, access) = cache();
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("precious"), "a").unwrap();
        symlink(&outside, access.cache.join("models--o--linked")).unwrap();
        symlink(&outside, access.cache.join("models--o--one/snapshots/c0ffee/linked")).unwrap();
        let fault = access.remove(&name("o/linked")).unwrap_err().to_string();
        assert!(fault.contains("is a link"), "{fault}");
        access.remove(&name("o/one")).unwrap();
        assert!(outside.join("precious").exists() && !access.cache.join("models--o--one").exists());
    }
}
