//! One file with the state of one prompt.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use verdigris_logits::TokenId;
use verdigris_models::Sequence;
use verdigris_models::prompt_file::{self, PromptFile, PromptFileError, digest_of};
use verdigris_models::whole_file::write_private;
use verdigris_schedule::{PrefixStore, StoredTexts};

use super::ids::Ids;
use crate::engine::Engine;
use crate::error::Error;

/// A file with the state of the last prompt that was read: its keys and values. A request whose prompt begins with the
/// same tokens does not read these again ([`Request::prompt_cache`](crate::Request::prompt_cache)). Its text is the
/// same as without the file, bit for bit.
///
/// The file is replaced after a prompt with other tokens was read, unless it is read-only. It can be read by its owner
/// only, since a prompt can be computed from its state.
///
/// ```no_run
/// use verdigris::{Engine, PromptCache};
///
/// let engine = Engine::load("fixtures/models/tale")?;
/// let cache = PromptCache::open(&engine, "captain.cache")?;
/// let written = engine.request("The captain").prompt_cache(&cache).text()?;
/// println!("{}\n{} tokens were not read", written.text, cache.restored());
/// cache.finish().iter().for_each(|fault| eprintln!("{fault}"));
/// # Ok::<(), verdigris::Error>(())
/// ```
pub struct PromptCache {
    file: Arc<CacheFile>,
}

/// The file as the store of a schedule.
pub(crate) struct CacheFile {
    path: PathBuf,
    ids: Ids,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    restored: usize,
    /// Whether a part of the file was found to be damaged.
    is_damaged: bool,
    faults: Vec<String>,
    /// The thread that writes the file.
    writer: Option<JoinHandle<io::Result<bool>>>,
}

impl PromptCache {
    /// Prepares a file, which need not exist, for a model.
    ///
    /// # Errors
    /// [`Error::NoStates`] if the states of the model cannot be saved, and [`Error::PromptCache`] if there is something
    /// else at this path, or the state of another model, which must not be replaced.
    pub fn open(engine: &Engine, path: impl Into<PathBuf>) -> Result<Self, Error> {
        let (path, ids) = (path.into(), Ids::new(engine)?);
        if path.is_dir() {
            return Err(Error::PromptCache { path, fault: "it is a folder".into() });
        }
        let state = ids.state(engine.context_length()).ok_or(Error::NoStates)?;
        match open(&path, |path| PromptFile::open(path, &state)) {
            Some(Err(fault @ (PromptFileError::Foreign | PromptFileError::OtherModel))) => {
                Err(Error::PromptCache { path, fault: fault.to_string() })
            }
            // Other faults are reported when the file is used.
            _ => Ok(Self { file: Arc::new(CacheFile { path, ids, progress: Mutex::default() }) }),
        }
    }

    /// The number of tokens that did not have to be read so far.
    pub fn restored(&self) -> usize {
        self.file.progress().restored
    }

    /// Waits until the file is written, and returns the reasons why the file could not be used or written, in one line
    /// each. No text depends on them.
    pub fn finish(self) -> Vec<String> {
        let writer = self.file.progress().writer.take();
        let written = writer.map(|writer| writer.join().unwrap_or_else(|_| Err(io::Error::other("its writer failed"))));
        let mut faults = std::mem::take(&mut self.file.progress().faults);
        if let Some(Err(fault)) = written {
            let path = self.file.path.display();
            faults.push(format!("cannot write {path}: {fault}; the next run reads the prompt again"));
        }
        faults
    }

    /// The file as a store of requests.
    pub(crate) fn clone_of_file(&self) -> Arc<CacheFile> {
        self.file.clone()
    }
}

/// Opens a file; `None` if there is none, or an empty one.
fn open<T>(path: &Path, open: impl FnOnce(&Path) -> Result<T, PromptFileError>) -> Option<Result<T, PromptFileError>> {
    match path.metadata() {
        Ok(metadata) if metadata.is_file() && metadata.len() == 0 => None,
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        _ => Some(open(path)),
    }
}

impl CacheFile {
    /// Checks that it was opened for this engine.
    pub(crate) fn check(&self, engine: &Engine) -> Result<(), Error> {
        if self.ids.are_of(engine) {
            return Ok(());
        }
        let (what, with) = ("a prompt cache of one engine".into(), "a request of another");
        Err(Error::Apart { what, with, why: "it was opened for that engine; open one for this engine" })
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file, if it has a state that these texts can use.
    fn usable(&self, texts: StoredTexts<'_>) -> Option<Result<PromptFile, PromptFileError>> {
        let state = self.ids.state(texts.capacity)?;
        open(&self.path, |path| {
            let file = PromptFile::open(path, &state)?;
            file.check(&self.ids.scope(texts), 0, &digest_of(&[]))?;
            Ok(file)
        })
    }

    /// Notes a fault once.
    fn note(&self, fault: &PromptFileError) {
        let is_replaced = fault.may_be_replaced();
        let rest = if is_replaced { "the prompt is read, and the file is replaced" } else { "it is not used" };
        let said = format!("{}: {fault}; {rest}", self.path.display());
        let mut progress = self.progress();
        progress.is_damaged |= is_replaced;
        if !progress.faults.contains(&said) {
            progress.faults.push(said);
        }
    }
}

impl PrefixStore for CacheFile {
    fn restore(&self, texts: StoredTexts<'_>, tokens: &[TokenId], kept: usize, sequence: &mut dyn Sequence) {
        let restored = self.usable(texts).map(|file| {
            let file = file?;
            let common = tokens.iter().zip(file.tokens()).take_while(|(a, b)| a == b).count();
            let usable = file.usable(common, sequence);
            // Texts after the first begin with pages in memory.
            if usable > kept {
                sequence.truncate(0);
                file.restore(usable, sequence)?;
            }
            Ok(usable.saturating_sub(kept))
        });
        match restored {
            Some(Ok(tokens)) => self.progress().restored += tokens,
            Some(Err(fault)) => self.note(&fault),
            None => (),
        }
    }

    fn save(&self, texts: StoredTexts<'_>, tokens: Arc<[TokenId]>, sequence: Box<dyn Sequence>) {
        let Some(state) = self.ids.state(texts.capacity) else { return };
        match self.usable(texts) {
            Some(Ok(file)) if file.tokens().starts_with(&tokens) && !self.progress().is_damaged => return,
            Some(Err(fault)) if !fault.may_be_replaced() => return self.note(&fault),
            _ => (),
        }
        // Replacing a file needs no right to write to it, but its owner wants to keep it.
        if self.path.metadata().is_ok_and(|metadata| metadata.permissions().readonly()) {
            return;
        }
        let (path, scope) = (self.path.clone(), self.ids.scope(texts));
        let write = move || {
            write_private(&path, |file| {
                let mut out = BufWriter::new(file);
                let is_saved = prompt_file::write(&mut out, &state, &scope, 0, &tokens, &*sequence)?;
                out.flush()?;
                if is_saved { Ok(true) } else { Err(io::Error::other("the model cannot save its state here")) }
            })
        };
        let mut progress = self.progress();
        // Of several texts the first one stores its prompt.
        if progress.writer.is_none() {
            progress.writer = std::thread::Builder::new().name("prompt cache".into()).spawn(write).ok();
        }
    }
}

impl Drop for CacheFile {
    fn drop(&mut self) {
        // The file is written even if no one waits for it.
        if let Some(writer) = self.progress().writer.take() {
            let _ = writer.join();
        }
    }
}
