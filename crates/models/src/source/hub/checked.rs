//! Compares files with the hub's hashes.
//!
//! The tag of a file is its hash: SHA-256 for large files, which are stored apart from the repository, and git's SHA-1
//! for all others.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// Compares a file with its tag. The inner error is a mismatch. A tag that is not a hash is ignored.
pub(super) fn check(path: &Path, tag: &str) -> io::Result<Result<(), String>> {
    let mut file = File::open(path)?;
    let is_hash = tag.chars().all(|c| c.is_ascii_hexdigit());
    let (kind, found) = match tag.len() {
        64 if is_hash => ("SHA-256", digest(Sha256::new(), &mut file)?),
        40 if is_hash => {
            let head = format!("blob {}\0", file.metadata()?.len());
            ("git's SHA-1", digest(Sha1::new_with_prefix(head), &mut file)?)
        }
        _ => return Ok(Ok(())),
    };
    let is_same = found.eq_ignore_ascii_case(tag);
    Ok(if is_same { Ok(()) } else { Err(format!("its {kind} is {found}, but the hub's is {tag}")) })
}

fn digest(mut hash: impl Digest, file: &mut File) -> io::Result<String> {
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            n => hash.update(&buffer[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_hashes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hello");
        std::fs::write(&path, "hello\n").unwrap();
        // `git hash-object` and `sha256sum` of that.
        let sha1 = "ce013625030ba8dba906f756967f9e9ca394464a";
        let sha256 = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        for tag in [sha1, sha256, "another-kind-of-tag"] {
            assert_eq!(check(&path, tag).unwrap(), Ok(()));
        }
        for tag in [sha1, sha256] {
            let other = tag.replace('5', "6");
            let fault = check(&path, &other).unwrap().unwrap_err();
            assert!(fault.contains(tag) && fault.contains(&other), "{fault}");
        }
    }
}
