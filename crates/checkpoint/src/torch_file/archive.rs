//! The files in an archive of torch.

use std::collections::HashMap;
use std::io::Cursor;
use std::path::Path;

use verdigris_kernels::Bytes;
use zip::{CompressionMethod, ZipArchive};

use crate::error::CheckpointError;

/// The start of files that torch wrote before version 1.6: a pickled number that no other file starts with.
const LEGACY: &[u8] = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.";

/// The most files in an archive: torch writes one per storage.
const MOST_FILES: usize = 1 << 20;

/// The files in an archive by name, without their common folder. CRCs are not checked, since torch can be configured
/// not to compute them, and does not check them either.
#[derive(Debug)]
pub(super) struct Archive {
    files: HashMap<String, Bytes>,
}

impl Archive {
    pub(super) fn read(path: &Path, bytes: Bytes) -> Result<Self, CheckpointError> {
        let damaged = |fault: String| CheckpointError::Damaged { path: path.to_owned(), fault };
        let unsupported = |fault: &str| CheckpointError::Unsupported { path: path.to_owned(), fault: fault.into() };
        if bytes.get().starts_with(LEGACY) {
            return Err(unsupported(
                "it is of the format that torch wrote before version 1.6: load it in torch and save it again",
            ));
        }
        let mut archive = ZipArchive::new(Cursor::new(bytes.get())).map_err(|fault| damaged(fault.to_string()))?;
        if archive.len() > MOST_FILES {
            return Err(damaged(format!("the archive holds {} files", archive.len())));
        }
        let mut files = HashMap::new();
        for index in 0..archive.len() {
            let file = archive.by_index_raw(index).map_err(|fault| damaged(fault.to_string()))?;
            let name = file.name().map_err(|fault| damaged(fault.to_string()))?;
            let name = name.split_once('/').map_or(&*name, |(_, name)| name).to_owned();
            if file.compression() != CompressionMethod::Stored || file.encrypted() {
                return Err(unsupported("files in it are compressed, which torch never does: unpack and store them"));
            }
            let place = || {
                let start = usize::try_from(file.data_start()?).ok()?;
                bytes.part(start..start.checked_add(usize::try_from(file.size()).ok()?)?)
            };
            let part = place().ok_or_else(|| damaged(format!("{name} reaches past its end")))?;
            if name == "byteorder" && part.get() != b"little" {
                return Err(unsupported(
                    "its numbers are big-endian: load it in torch on the machine that wrote it, and save it as \
                     little-endian (torch.serialization.set_default_load_endianness)",
                ));
            }
            files.insert(name, part);
        }
        Ok(Self { files })
    }

    pub(super) fn get(&self, name: &str) -> Option<&Bytes> {
        self.files.get(name)
    }
}
