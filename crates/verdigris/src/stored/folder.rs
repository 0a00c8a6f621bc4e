//! A folder with the states of many beginnings of prompts.

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};
use verdigris_logits::TokenId;
use verdigris_models::prompt_file::{self, BLOCK, PromptFile, PromptFileError, Scope, TokensDigest};
use verdigris_models::whole_file::{TEMPORARY, write_private};
use verdigris_models::{Sequence, StateId};
use verdigris_schedule::{PrefixStore, StoredTexts};

use super::ids::Ids;
use crate::engine::Engine;
use crate::error::Error;

/// The ending of the names of its files.
const EXTENSION: &str = "prefix";

/// The number of prompts that may wait to be stored. Each holds its memory until then, so further ones are not stored.
const WAITING: usize = 4;

/// The time of last use in a file is not updated more often than this.
const USED: Duration = Duration::from_secs(60);

/// The age of temporary files whose process must have ended.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Receives faults of the folder, in one line each.
pub type FaultReader = Box<dyn Fn(&str) + Send + Sync>;

/// A folder with the states of beginnings of prompts, for a [`Service`](crate::Service) and for its next process: a
/// file for each 64 tokens and all tokens before them. Several processes can share a folder, also with different
/// models. Its files can be read by their owner only. Their names are digests, of the model, the salt and the tokens,
/// so texts of one salt never find the files of another.
pub struct PrefixFolder {
    folder: PathBuf,
    ids: Ids,
    faults: Arc<Faults>,
    pending: PendingStates,
    jobs: Option<SyncSender<Job>>,
    writer: Option<JoinHandle<()>>,
}

/// The states that wait to be stored in a folder.
#[derive(Clone, Default)]
pub struct PendingStates(Arc<(Mutex<usize>, Condvar)>);

impl PendingStates {
    /// Waits until all are stored, or for `most`. Returns whether all are.
    pub fn wait(&self, most: Duration) -> bool {
        let (count, done) = &*self.0;
        let count = count.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = done.wait_timeout_while(count, most, |count| *count > 0);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn change(&self, change: impl FnOnce(&mut usize)) {
        let (count, done) = &*self.0;
        change(&mut count.lock().unwrap_or_else(PoisonError::into_inner));
        done.notify_all();
    }
}

/// A state to store.
struct Job {
    state: StateId,
    scope: Scope,
    tokens: Arc<[TokenId]>,
    sequence: Box<dyn Sequence>,
}

/// Reports faults. Of consecutive faults of writing only the first is reported, since all have one cause.
struct Faults {
    report: FaultReader,
    is_failing: AtomicBool,
}

impl Faults {
    fn of_file(&self, path: &Path, fault: &dyn std::fmt::Display) {
        (self.report)(&format!("{}: {fault}; the prompt is read again", path.display()));
    }

    fn written(&self, folder: &Path, written: io::Result<()>) {
        let was_failing = self.is_failing.swap(written.is_err(), Ordering::Relaxed);
        if let Err(fault) = written
            && !was_failing
        {
            let folder = folder.display();
            (self.report)(&format!("cannot write to {folder}: {fault}; prompts are not stored until this is possible"));
        }
    }
}

impl PrefixFolder {
    /// Opens a folder, which is created if it does not exist, for at most `most` bytes of states: the least recently
    /// used files are removed. `report` receives faults later.
    ///
    /// # Errors
    /// [`Error::NoStates`] if the states of the model cannot be saved, and [`Error::PromptCache`] if the folder cannot
    /// be written to.
    pub fn open(engine: &Engine, folder: impl Into<PathBuf>, most: u64, report: FaultReader) -> Result<Self, Error> {
        let (folder, ids) = (folder.into(), Ids::new(engine)?);
        if let Err(fault) = prepare(&folder) {
            return Err(Error::PromptCache { path: folder, fault: fault.to_string() });
        }
        let faults = Arc::new(Faults { report, is_failing: AtomicBool::new(false) });
        let (sender, jobs) = sync_channel(WAITING);
        let pending = PendingStates::default();
        let (of_thread, to, stored) = (faults.clone(), folder.clone(), pending.clone());
        let run = move || store_all(&to, most, &jobs, &stored, &of_thread);
        let writer = std::thread::Builder::new().name("prefix store".into()).spawn(run).ok();
        Ok(Self { folder, ids, faults, pending, jobs: Some(sender), writer })
    }

    /// The states that wait to be stored, for a process that ends before the folder is dropped.
    pub fn pending(&self) -> PendingStates {
        self.pending.clone()
    }

    /// Whether it was opened for this engine.
    pub(crate) fn is_of(&self, engine: &Engine) -> bool {
        self.ids.are_of(engine)
    }

    /// Reports a file that cannot be used, and removes it if it is not what its name says: it is written again when its
    /// prompt was read.
    fn failed(&self, path: &Path, fault: &PromptFileError) {
        if matches!(fault, PromptFileError::Read(fault) if fault.kind() == io::ErrorKind::NotFound) {
            return;
        }
        self.faults.of_file(path, fault);
        if !matches!(fault, PromptFileError::Read(_) | PromptFileError::Model(_)) {
            let _ = fs::remove_file(path);
        }
    }
}

impl Drop for PrefixFolder {
    fn drop(&mut self) {
        // The thread ends when it has stored what it has.
        drop(self.jobs.take());
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Creates the folder for its owner only, checks that files can be created, and removes what killed processes left.
fn prepare(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    let (begin, end) = TEMPORARY;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_temporary = name.to_str().is_some_and(|name| name.starts_with(begin) && name.ends_with(end));
        let age = || entry.metadata().and_then(|metadata| metadata.modified()).ok()?.elapsed().ok();
        if is_temporary && age().is_some_and(|age| age > ABANDONED) {
            let _ = fs::remove_file(entry.path());
        }
    }
    let probe = folder.join("probe");
    write_private(&probe, |file| file.write_all(b"1"))?;
    match fs::remove_file(probe) {
        // Another process has the same probe.
        Err(fault) if fault.kind() != io::ErrorKind::NotFound => Err(fault),
        _ => Ok(()),
    }
}

/// A whole block of a text.
struct Block {
    start: usize,
    /// The digest of the tokens before it.
    before: [u8; 32],
    path: PathBuf,
}

/// The whole blocks of some tokens, in order.
fn blocks(folder: &Path, state: &StateId, scope: &Scope, tokens: &[TokenId]) -> impl Iterator<Item = Block> {
    let (mut digest, mut before) = (TokensDigest::default(), TokensDigest::default().get());
    tokens.chunks_exact(BLOCK).enumerate().map(move |(number, block)| {
        digest.extend(block);
        let after = digest.get();
        let name = Sha256::new_with_prefix("verdigris prefix 1")
            .chain_update(state.model)
            .chain_update(state.settings)
            .chain_update(scope)
            .chain_update(after)
            .finalize();
        let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = folder.join(name).with_extension(EXTENSION);
        Block { start: number * BLOCK, before: std::mem::replace(&mut before, after), path }
    })
}

impl PrefixStore for PrefixFolder {
    fn restore(&self, texts: StoredTexts<'_>, tokens: &[TokenId], _kept: usize, sequence: &mut dyn Sequence) {
        let Some(state) = self.ids.state(texts.capacity) else { return };
        let scope = self.ids.scope(texts);
        let now = SystemTime::now();
        sequence.truncate(sequence.len() / BLOCK * BLOCK);
        // Blocks are restored as far as a text can continue from them.
        let mut found = Vec::new();
        for Block { start, before, path } in blocks(&self.folder, &state, &scope, tokens) {
            if start < sequence.len() {
                continue;
            }
            let opened = PromptFile::open(&path, &state).and_then(|file| {
                file.check(&scope, start, &before)?;
                let is_it = file.tokens() == &tokens[start..start + BLOCK];
                if is_it { Ok(file) } else { Err(PromptFileError::Damaged("its tokens")) }
            });
            match opened {
                Ok(file) => found.push((start, path, file)),
                Err(fault) => return self.failed(&path, &fault),
            }
            if found.last().is_none_or(|(_, _, file)| file.usable(BLOCK, sequence) < BLOCK) {
                continue;
            }
            for (start, path, file) in found.drain(..) {
                match file.restore(BLOCK, sequence) {
                    Ok(()) => used(&path, start, now),
                    Err(fault) => return self.failed(&path, &fault),
                }
            }
        }
    }

    fn unit(&self) -> usize {
        BLOCK
    }

    fn save(&self, texts: StoredTexts<'_>, tokens: Arc<[TokenId]>, sequence: Box<dyn Sequence>) {
        // No text could continue from the blocks.
        if sequence.saved_ends().is_some_and(|ends| !ends.contains(&tokens.len())) {
            return;
        }
        if let (Some(jobs), Some(state)) = (&self.jobs, self.ids.state(texts.capacity)) {
            self.pending.change(|count| *count += 1);
            // If too many wait, this one is stored another time.
            if jobs.try_send(Job { state, scope: self.ids.scope(texts), tokens, sequence }).is_err() {
                self.pending.change(|count| *count -= 1);
            }
        }
    }
}

/// Stores states until no more can come.
fn store_all(folder: &Path, most: u64, jobs: &Receiver<Job>, pending: &PendingStates, faults: &Faults) {
    faults.written(folder, bound(folder, most));
    for job in jobs {
        let stored = store(folder, &job).and_then(|is_new| if is_new { bound(folder, most) } else { Ok(()) });
        faults.written(folder, stored);
        pending.change(|count| *count -= 1);
    }
}

/// Stores the blocks of a state that are not in the folder. Returns whether there were any.
fn store(folder: &Path, Job { state, scope, tokens, sequence }: &Job) -> io::Result<bool> {
    let (mut is_new, now, has_states) = (false, SystemTime::now(), sequence.saved_ends().is_some());
    for Block { start, path, .. } in blocks(folder, state, scope, tokens) {
        // The end of one text can be inside another, whose file does not have the states there.
        let needs_states = has_states && start + BLOCK == tokens.len();
        let has_end = || PromptFile::open(&path, state).is_ok_and(|file| file.usable(BLOCK, &**sequence) == BLOCK);
        if path.exists() && (!needs_states || has_end()) {
            used(&path, start, now);
            continue;
        }
        is_new = true;
        write_private(&path, |file| {
            let mut out = BufWriter::new(file);
            let is_saved = prompt_file::write(&mut out, state, scope, start, &tokens[..start + BLOCK], &**sequence)?;
            out.flush()?;
            if is_saved { Ok(()) } else { Err(io::Error::other("the model cannot save its state here")) }
        })?;
        set_used(&path, start, now);
    }
    Ok(is_new)
}

/// Records that a file is used, unless it was used a moment ago.
fn used(path: &Path, start: usize, now: SystemTime) {
    let last = path.metadata().and_then(|metadata| metadata.modified());
    if last.is_ok_and(|last| now.duration_since(last).is_ok_and(|since| since > USED)) {
        set_used(path, start, now);
    }
}

/// The later of two blocks of a text counts as used earlier, so that it is removed first: it is useless without the
/// other.
fn set_used(path: &Path, start: usize, now: SystemTime) {
    let used = now - Duration::from_millis((start / BLOCK) as u64);
    // If it fails, the file may be removed too early.
    let _ = File::open(path).and_then(|file| file.set_times(FileTimes::new().set_modified(used)));
}

/// Removes the least recently used files until the rest has at most `most` bytes.
fn bound(folder: &Path, most: u64) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        // Another process may have removed it.
        if path.extension() == Some(OsStr::new(EXTENSION))
            && let Ok(metadata) = path.metadata()
        {
            files.push((metadata.modified()?, metadata.len(), path));
        }
    }
    let mut bytes: u64 = files.iter().map(|(_, length, _)| length).sum();
    files.sort_unstable();
    for (_, length, path) in files {
        if bytes <= most {
            break;
        }
        match fs::remove_file(&path) {
            Err(fault) if fault.kind() != io::ErrorKind::NotFound => return Err(fault),
            _ => bytes -= length,
        }
    }
    Ok(())
}
