//! The files of a model on this machine, in the cache that programs for the hub share.
//!
//! `models--owner--name` has `refs/<revision>`, which holds a commit; `snapshots/<commit>`, with a link for each file;
//! `blobs`, which the links point to; and `.no_exist/<commit>`, with an empty file for each file that the commit lacks.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hf_hub::{Cache, CacheRepo, Repo, RepoType};

/// A model in the cache.
pub(super) struct Cached {
    repo: CacheRepo,
    /// The folder with all files of the model.
    root: PathBuf,
    revision: String,
}

/// One commit of a model in the cache.
pub(super) struct Snapshot {
    commit: String,
    folder: PathBuf,
    /// The folder with the names that the commit is known to lack.
    absent: PathBuf,
}

impl Cached {
    pub(super) fn new(cache: &Cache, repository: &str, revision: &str) -> Self {
        let repo = Repo::with_revision(repository.to_owned(), RepoType::Model, revision.to_owned());
        let root = cache.path().join(repo.folder_name());
        Self { repo: cache.repo(repo), root, revision: revision.to_owned() }
    }

    /// The commit of the revision at the time of the last request; the revision may itself be a commit.
    pub(super) fn current(&self) -> Option<Snapshot> {
        let commit = fs::read_to_string(self.root.join("refs").join(&self.revision));
        let snapshot = self.snapshot(commit.as_ref().map_or(&self.revision, |commit| commit.trim()))?;
        snapshot.folder.is_dir().then_some(snapshot)
    }

    /// The snapshot of a commit, which may be empty.
    pub(super) fn snapshot(&self, commit: &str) -> Option<Snapshot> {
        let absent = self.root.join(".no_exist").join(commit);
        is_word(commit).then(|| Snapshot { commit: commit.to_owned(), folder: self.repo.pointer_path(commit), absent })
    }

    /// The folder for files that are not checked yet. It is kept, so that an interrupted download can continue.
    pub(super) fn waiting(&self) -> PathBuf {
        self.root.join("unchecked")
    }

    /// Moves a checked file into a snapshot.
    pub(super) fn keep(&self, fetched: &Path, etag: &str, snapshot: &Snapshot, name: &str) -> io::Result<()> {
        let blob = self.repo.blob_path(etag);
        let link = snapshot.folder.join(name);
        for path in [&blob, &link] {
            fs::create_dir_all(path.parent().expect("they lie in a folder"))?;
        }
        fs::rename(fetched, &blob)?;
        if fs::symlink_metadata(&link).is_ok() {
            // It is a dangling link, or another program was faster.
            fs::remove_file(&link)?;
        }
        point(&blob, &link)
    }

    /// Records that the revision is this snapshot, and which files it lacks.
    pub(super) fn settle<'n>(&self, snapshot: &Snapshot, absent: impl Iterator<Item = &'n str>) -> io::Result<()> {
        fs::create_dir_all(&snapshot.absent)?;
        for name in absent {
            fs::write(snapshot.absent.join(name), "")?;
        }
        self.repo.create_ref(&snapshot.commit)
    }
}

impl Snapshot {
    /// The folder of the files.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of a file, if it is there.
    pub(super) fn get(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.join(name)).filter(|path| path.exists())
    }

    /// Whether a file is there, or known to be missing from the commit.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.get(name).is_some() || self.absent.join(name).exists()
    }
}

/// Whether a name from the hub can be a file name.
pub(super) fn is_word(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

/// Creates a link to a blob.
#[cfg(unix)]
fn point(blob: &Path, link: &Path) -> io::Result<()> {
    // Relative, so that the cache can be moved. Both are in the folder of the model.
    let model = blob.parent().and_then(Path::parent).expect("blobs lie in a folder of the model's");
    let up =
        link.parent().and_then(|folder| folder.strip_prefix(model).ok()).map_or(0, |path| path.components().count());
    let target = blob.strip_prefix(model).expect("it lies below it");
    std::os::unix::fs::symlink(PathBuf::from("../".repeat(up)).join(target), link)
}

/// Links need permission here, so the file itself is moved.
#[cfg(not(unix))]
fn point(blob: &Path, link: &Path) -> io::Result<()> {
    fs::rename(blob, link)
}
