//! A file of lines, each of which is on disk before its writer continues.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;

use serde::Serialize;
use tokio::sync::oneshot;

/// The maximum number of lines per write; more would delay the first of them.
const BATCH: usize = 1024;

/// A file of lines of JSON. Lines that arrive during a flush are written together, and share the next flush.
pub(crate) struct AuditLog {
    /// `None` once the log is being closed.
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

/// A task for the log's thread, and the channel for its result.
enum Order {
    Write(Vec<u8>, Completion),
    Reopen(Completion),
}

type Completion = oneshot::Sender<io::Result<()>>;

impl AuditLog {
    /// Opens the file for appending. No other server may have it open.
    ///
    /// # Errors
    /// If it cannot be opened or is locked.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut lines = Lines::open(path.into())?;
        let (orders, received) = mpsc::channel();
        let thread = std::thread::Builder::new().name("audit-log".into()).spawn(move || lines.follow(&received))?;
        Ok(Self { orders: Some(orders), thread: Some(thread) })
    }

    /// Writes a line, and waits until it is on disk.
    ///
    /// # Errors
    /// If that fails; then the line is removed from the file, if possible.
    pub(crate) async fn enter(&self, entry: &impl Serialize) -> io::Result<()> {
        let line = line(entry)?;
        self.order(|done| Order::Write(line, done)).await
    }

    /// Writes a line without waiting.
    pub(crate) fn note(&self, entry: &impl Serialize) {
        if let (Some(orders), Ok(line)) = (&self.orders, line(entry)) {
            let _ = orders.send(Order::Write(line, oneshot::channel().0));
        }
    }

    /// Waits until all lines so far are written. Not for asynchronous code.
    pub(crate) fn settle(&self) {
        let (done, written) = oneshot::channel();
        if self.orders.as_ref().is_some_and(|orders| orders.send(Order::Write(Vec::new(), done)).is_ok()) {
            // A line that cannot be written has been reported.
            let _ = written.blocking_recv();
        }
    }

    /// Continues in a new file of the same name if the old one has been moved.
    ///
    /// # Errors
    /// If the new file cannot be opened; then the log continues in the old one.
    pub(crate) async fn reopen(&self) -> io::Result<()> {
        self.order(Order::Reopen).await
    }

    async fn order(&self, order: impl FnOnce(Completion) -> Order) -> io::Result<()> {
        let (done, written) = oneshot::channel();
        let sent = self.orders.as_ref().is_some_and(|orders| orders.send(order(done)).is_ok());
        let gone = || io::Error::other("the audit log is closed");
        if sent { written.await.unwrap_or_else(|_| Err(gone())) } else { Err(gone()) }
    }
}

/// Waits until all lines are written.
impl Drop for AuditLog {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported already.
            let _ = thread.join();
        }
    }
}

fn line(entry: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    Ok(line)
}

/// The file, and the state of its end.
struct Lines {
    path: PathBuf,
    file: File,
    /// Whether the file may end with a part of a line.
    is_torn: bool,
}

impl Lines {
    fn open(path: PathBuf) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path)?;
        match file.try_lock() {
            Ok(()) => (),
            Err(TryLockError::WouldBlock) => return Err(io::Error::other("another server writes it")),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => (),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The folder must list a new file before its first line counts as on disk.
        #[cfg(unix)]
        if let Some(folder) = path.parent() {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            File::open(folder)?.sync_all()?;
        }
        let mut last = [b'\n'];
        if file.metadata()?.is_file() && file.seek(SeekFrom::End(0))? > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        Ok(Self { path, file, is_torn: last != *b"\n" })
    }

    /// Executes orders until the channel is closed.
    fn follow(&mut self, orders: &mpsc::Receiver<Order>) {
        while let Ok(first) = orders.recv() {
            let (mut bytes, mut waiting, mut reopen) = (Vec::new(), Vec::new(), None);
            for order in std::iter::once(first).chain(orders.try_iter()) {
                match order {
                    Order::Write(line, done) => {
                        bytes.extend(line);
                        waiting.push(done);
                    }
                    Order::Reopen(done) => reopen = Some(done),
                }
                if reopen.is_some() || waiting.len() == BATCH {
                    break;
                }
            }
            if !waiting.is_empty() {
                let written = self.write(&bytes);
                if let Err(error) = &written {
                    tracing::error!(file = %self.path.display(), %error, "the audit log cannot be written");
                }
                for done in waiting {
                    // The caller of `note` does not wait for the result.
                    let _ = done.send(match &written {
                        Ok(()) => Ok(()),
                        Err(error) => Err(error.kind().into()),
                    });
                }
            }
            if let Some(done) = reopen {
                let _ = done.send(self.reopen());
            }
        }
    }

    /// Appends lines, all or none.
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut about = self.file.metadata()?;
        // Lines in a file without a name would be lost.
        if is_removed(&about) {
            *self = Self::open(self.path.clone())?;
            about = self.file.metadata()?;
        }
        let tear: &[u8] = if self.is_torn { b"\n" } else { b"" };
        let written = self.file.write_all(&[tear, lines].concat()).and_then(|()| self.file.sync_data());
        self.is_torn = match &written {
            Ok(()) => false,
            Err(_) if about.is_file() && self.file.set_len(about.len()).is_ok() => self.is_torn,
            Err(_) => true,
        };
        written
    }

    fn reopen(&mut self) -> io::Result<()> {
        if !self.is_moved() {
            return Ok(());
        }
        *self = Self::open(self.path.clone())?;
        Ok(())
    }

    /// Whether the path no longer leads to this file.
    fn is_moved(&self) -> bool {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let here = |about: std::fs::Metadata| (about.dev(), about.ino());
            match (std::fs::metadata(&self.path), self.file.metadata()) {
                (Ok(named), Ok(ours)) => here(named) != here(ours),
                _ => true,
            }
        }
        #[cfg(not(unix))]
        false
    }
}

/// Whether a file has lost its last name.
fn is_removed(about: &std::fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        about.nlink() == 0
    }
    #[cfg(not(unix))]
    {
        let _ = about;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn numbers(path: &Path) -> Vec<u64> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap()
    }

    #[test]
    fn what_is_entered_is_there_once_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let log = Arc::new(AuditLog::open(&path).unwrap());
        assert!(AuditLog::open(&path).err().unwrap().to_string().contains("another server"));
        runtime().block_on(async {
            let tasks = (0..500_u64).map(|number| {
                let (log, path) = (log.clone(), path.clone());
                tokio::spawn(async move {
                    log.enter(&number).await.unwrap();
                    assert!(number % 50 != 0 || numbers(&path).contains(&number), "it is there when `enter` returns");
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.unwrap();
            }
        });
        log.note(&500_u64);
        drop(log);
        let mut all = numbers(&path);
        all.sort_unstable();
        assert_eq!(all, (0..=500).collect::<Vec<_>>());
        #[cfg(unix)]
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions()) & 0o777,
            0o600
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_was_removed_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let log = AuditLog::open(&path).unwrap();
        runtime().block_on(async {
            log.enter(&1).await.unwrap();
            std::fs::remove_file(&path).unwrap();
            log.enter(&2).await.unwrap();
            assert_eq!(numbers(&path), [2]);
            // Without its folder a line cannot be written.
            std::fs::remove_dir_all(folder.path()).unwrap();
            assert!(log.enter(&3).await.is_err());
        });
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_was_moved_away_is_left_and_one_that_was_torn_is_mended() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("audit.jsonl"), folder.path().join("old.jsonl"));
        std::fs::write(&path, "1\n{\"time\":").unwrap();
        let log = AuditLog::open(&path).unwrap();
        runtime().block_on(async {
            log.enter(&2).await.unwrap();
            log.reopen().await.unwrap();
            log.enter(&3).await.unwrap();
            std::fs::rename(&path, &old).unwrap();
            log.enter(&4).await.unwrap();
            log.reopen().await.unwrap();
            log.enter(&5).await.unwrap();
        });
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "1\n{\"time\":\n2\n3\n4\n");
        assert_eq!(numbers(&path), [5]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_cannot_be_written_is_told() {
        let log = AuditLog::open(Path::new("/dev/full")).unwrap();
        let error = runtime().block_on(log.enter(&1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(AuditLog::open(Path::new("/nowhere/audit.jsonl")).is_err());
    }
}
