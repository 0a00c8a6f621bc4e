//! Reads files of limited size, and writes files completely or not at all.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use tempfile::NamedTempFile;
use zeroize::Zeroizing;

use crate::error::Failure;

/// The maximum size of a PEM file in bytes.
const MAX_PEM: u64 = 1 << 20;

/// Whether a path means standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The name of a file in messages and results.
pub(crate) fn name(path: &Path) -> String {
    if is_stdin(path) { "standard input".into() } else { path.display().to_string() }
}

/// Returns the bytes of a file, or of standard input for `-`, if there are at most `most`.
pub(crate) fn bytes(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let mut read = Vec::new();
    read_into(path, most, &mut read)?;
    Ok(read)
}

fn read_into(path: &Path, most: u64, read: &mut Vec<u8>) -> Result<(), Failure> {
    let input: Box<dyn Read> = match is_stdin(path) {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(path).map_err(Failure::read(path))?),
    };
    input.take(most + 1).read_to_end(read).map_err(Failure::read(path))?;
    if read.len() as u64 > most {
        return Err(Failure::Usage(format!("{} is longer than {most} bytes, the maximum", name(path))));
    }
    Ok(())
}

/// Returns a text byte for byte, since a manifest is bound to its bytes.
pub(crate) fn text(path: &Path, most: u64) -> Result<String, Failure> {
    String::from_utf8(bytes(path, most)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::Usage(format!("{} is not UTF-8 at byte {at}: convert it to UTF-8 before it is signed", name(path)))
    })
}

/// Returns a PEM file, which may contain a secret.
pub(crate) fn pem(path: &Path) -> Result<Zeroizing<Vec<u8>>, Failure> {
    // Large enough that it never moves, which would leave a copy behind.
    let mut read = Zeroizing::new(Vec::with_capacity(MAX_PEM as usize + 2));
    read_into(path, MAX_PEM, &mut read)?;
    Ok(read)
}

/// Checks that a file can be written: it does not exist, unless it may be replaced, and its folder exists.
pub(crate) fn check(path: &Path, replace: bool) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(Failure::write(path)(io::Error::other("it is a folder")));
    }
    if path.exists() && !replace {
        return Err(exists(path));
    }
    std::fs::metadata(folder(path)).map(drop).map_err(Failure::write(path))
}

/// Writes a file under a temporary name, then renames it. If it is a secret, no other user can read even the temporary
/// file.
pub(crate) fn write(path: &Path, bytes: &[u8], replace: bool, secret: bool) -> Result<(), Failure> {
    let unfinished = || -> io::Result<NamedTempFile> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".verdigris-").suffix(".part");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(if secret { 0o600 } else { 0o666 }));
        let mut file = builder.tempfile_in(folder(path))?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    let file = unfinished().map_err(Failure::write(path))?;
    let done = if replace { file.persist(path) } else { file.persist_noclobber(path) };
    done.map(drop).map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => Failure::write(path)(error.error),
    })
}

fn exists(path: &Path) -> Failure {
    Failure::Usage(format!("{} exists already; --force replaces it", path.display()))
}

/// The folder that a file is in.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}
