//! Files that hold a secret: read into memory that is wiped, and written for their owner alone.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use zeroize::Zeroizing;

/// The contents of a file that holds a secret.
pub struct SecretFile {
    /// The bytes, at most one more than the limit, by which a longer file is recognized.
    pub bytes: Zeroizing<Vec<u8>>,
    /// The permission bits, if other users can read the file: a secret in it must not be used. Root's files of mode
    /// 0440 are not exposed, which is how secrets are mounted into containers with processes of other users.
    pub exposed: Option<u32>,
}

impl SecretFile {
    /// Reads at most `most` bytes of a file and one more. A pipe is read only if it belongs to this process, such as a
    /// shell's `<(command)`.
    ///
    /// # Errors
    /// If it cannot be read, or is a folder ([`io::ErrorKind::IsADirectory`]), a device, or another pipe
    /// ([`io::ErrorKind::InvalidInput`]).
    pub fn read(path: &Path, most: u64) -> io::Result<Self> {
        // Checked before opening, since a named pipe would wait for a writer.
        check_kind(path, &path.metadata()?)?;
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        check_kind(path, &metadata)?;
        // The full capacity at once, since a growing buffer would leave copies of the secret behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(most as usize + 1));
        file.take(most + 1).read_to_end(&mut bytes)?;
        Ok(Self { bytes, exposed: exposed(&metadata) })
    }
}

/// Writes a new file of mode 0600.
///
/// # Errors
/// If the file exists ([`io::ErrorKind::AlreadyExists`]), which is then not changed, or cannot be written.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_with(path, bytes, 0o600)
}

/// The same with another mode, which Unix alone has.
pub(crate) fn create_with(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    let mut file = options.open(path)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).inspect_err(|_| {
        // Do not leave an incomplete file behind.
        let _ = std::fs::remove_file(path);
    })
}

/// Refuses files that a secret cannot be read from.
fn check_kind(path: &Path, metadata: &Metadata) -> io::Result<()> {
    let refuse = |fault| Err(io::Error::new(io::ErrorKind::InvalidInput, fault));
    if metadata.is_file() {
        return Ok(());
    }
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder, not a file"));
    }
    #[cfg(unix)]
    if std::os::unix::fs::FileTypeExt::is_fifo(&metadata.file_type()) {
        let ours = ["/dev/fd/", "/dev/stdin", "/proc/self/fd/"];
        let is_ours = ours.iter().any(|start| path.to_str().is_some_and(|path| path.starts_with(start)));
        return if is_ours { Ok(()) } else { refuse("it is a named pipe, not a file: give it as <(cat PIPE)") };
    }
    let _ = path;
    refuse("it is not a file")
}

/// The permission bits of a file that other users can read.
#[cfg(unix)]
fn exposed(metadata: &Metadata) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let mode = metadata.mode() & 0o777;
    // Only root can have given it to this group, which cannot write it.
    let is_mounted = metadata.uid() == 0 && mode == 0o440;
    (metadata.is_file() && mode & 0o077 != 0 && !is_mounted).then_some(mode)
}

#[cfg(not(unix))]
fn exposed(_: &Metadata) -> Option<u32> {
    None
}
