//! Files that commands write: whole or not at all, and without replacing existing files unless requested.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use verdigris::models::whole_file::{folder, write_whole};

use crate::error::Failure;

/// The bytes of a file in which a key shows itself.
const BEGINNING: u64 = 4096;

/// A file to write. It is checked before the work whose result it takes, so that a file that cannot be written is
/// reported first.
#[derive(Debug)]
pub(crate) struct OutputFile {
    /// The name as given, for messages.
    name: PathBuf,
    /// The path with links resolved, so that a link stays a link.
    path: PathBuf,
    replace: bool,
    /// Whether it is a device or a pipe, which is written to directly.
    stream: bool,
}

impl OutputFile {
    /// Refuses a file that exists, unless `replace` is set; one of `inputs` under any name, and a key, even with
    /// `replace`; and a folder that does not exist.
    pub(crate) fn new(name: &Path, replace: bool, inputs: &[&Path]) -> Result<Self, Failure> {
        if name == Path::new("-") {
            let message = "- is not a file name: leave the option out for standard output, or give ./- for such a file";
            return Err(Failure::Usage(message.into()));
        }
        let write = |source| Failure::Write { path: name.into(), source };
        let path = name.canonicalize().unwrap_or_else(|_| name.into());
        let there = match fs::metadata(&path) {
            Ok(there) => Some(there),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(write(error)),
        };
        let stream = there.as_ref().is_some_and(|there| !there.is_file());
        if there.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(write(io::Error::other("it is a folder")));
        }
        if there.is_some() && inputs.iter().any(|input| same_file(input, &path)) {
            let message = format!("{} is a file that is read here: write to another one", name.display());
            return Err(Failure::Usage(message));
        }
        if there.is_some() && !stream && !replace {
            return Err(exists(name));
        }
        if there.is_some() && !stream && is_key(&path) {
            let message = format!("{} is a key, which --force does not replace: write to another file", name.display());
            return Err(Failure::Usage(message));
        }
        fs::metadata(folder(&path)).map_err(write)?;
        Ok(Self { name: name.into(), path, replace, stream })
    }

    /// The path of the file, for what replaces files itself.
    pub(crate) fn into_path(self) -> Result<PathBuf, Failure> {
        match self.stream {
            true => Err(Failure::Usage(format!("{} is a device or a pipe: give a file", self.name.display()))),
            false => Ok(self.path),
        }
    }

    /// Lets `fill` write a temporary file in the same folder, which then takes the name at once. If anything fails, the
    /// folder is left unchanged.
    pub(crate) fn write(self, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        let write = |source| Failure::Write { path: self.name.clone(), source };
        if self.stream {
            let mut stream = OpenOptions::new().write(true).open(&self.path).map_err(write)?;
            return fill(&mut stream).and_then(|()| stream.flush()).map_err(write);
        }
        write_whole(&self.path, self.replace, |file| fill(file)).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(&self.name),
            _ => write(error),
        })
    }
}

fn exists(name: &Path) -> Failure {
    Failure::Usage(format!("{} exists already; --force replaces it", name.display()))
}

/// Whether a file begins like a key of marks, or like a private key of reports or signatures. Such a file cannot be
/// made again.
fn is_key(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(BEGINNING).read_to_end(&mut beginning));
    let text = String::from_utf8_lossy(&beginning);
    let text = text.trim_start();
    read.is_ok()
        && (text.starts_with('{') && text.contains("\"verdigris-key-")
            || text.starts_with("-----BEGIN") && text.contains("PRIVATE KEY-----"))
}

/// Whether two paths lead to the same file, under any names.
fn same_file(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    if let (Ok(a), Ok(b)) = (fs::metadata(a), fs::metadata(b)) {
        use std::os::unix::fs::MetadataExt;
        return (a.dev(), a.ino()) == (b.dev(), b.ino());
    }
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &Path, replace: bool, text: &str) -> Result<(), Failure> {
        OutputFile::new(path, replace, &[])?.write(|out| out.write_all(text.as_bytes()))
    }

    #[test]
    fn nothing_is_lost_unasked_and_nothing_is_half_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        put(&path, false, "one").unwrap();
        assert!(put(&path, false, "two").unwrap_err().to_string().contains("exists already; --force replaces it"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        let failing = |out: &mut dyn Write| {
            out.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        };
        let error = OutputFile::new(&path, true, &[]).unwrap().write(failing).unwrap_err();
        assert!(error.to_string().ends_with("the disk is full"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        put(&path, true, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no temporary file stays");
        assert!(put(&folder.path().join("none/a.txt"), false, "").is_err());
        assert!(put(folder.path(), true, "").is_err());
    }

    #[test]
    fn keys_are_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        for key in [
            "{\n  \"format\": \"verdigris-key-1\",",
            "-----BEGIN PRIVATE KEY-----\nMC4C",
            "\n-----BEGIN EC PRIVATE KEY-----",
        ] {
            fs::write(&path, key).unwrap();
            let error = put(&path, true, "new").unwrap_err().to_string();
            assert!(error.contains("is a key, which --force does not replace"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), key);
        }
        for text in ["a text on \"verdigris-key-1\"", "{\"text\": 1}", "-----BEGIN CERTIFICATE-----\n"] {
            fs::write(&path, text).unwrap();
            put(&path, true, "new").unwrap();
        }
    }

    /// A file that was created after the check is not replaced either.
    #[test]
    fn of_two_writers_one_wins() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let first = OutputFile::new(&path, false, &[]).unwrap();
        let second = OutputFile::new(&path, false, &[]).unwrap();
        first.write(|out| out.write_all(b"first")).unwrap();
        let error = second.write(|out| out.write_all(b"second")).unwrap_err();
        assert!(error.to_string().contains("exists already"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
    }

    #[cfg(unix)]
    #[test]
    fn an_input_is_never_written_to_and_a_link_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let (text, link, hard) = (folder.path().join("text"), folder.path().join("link"), folder.path().join("hard"));
        fs::write(&text, "text").unwrap();
        std::os::unix::fs::symlink(&text, &link).unwrap();
        fs::hard_link(&text, &hard).unwrap();
        for name in [&text, &link, &hard] {
            let error = OutputFile::new(name, true, &[&text]).unwrap_err();
            assert!(error.to_string().contains("is a file that is read here"), "{error}");
        }
        put(&link, true, "new").unwrap();
        assert!(link.is_symlink() && fs::read_to_string(&text).unwrap() == "new");
        put(Path::new("/dev/null"), false, "text").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
