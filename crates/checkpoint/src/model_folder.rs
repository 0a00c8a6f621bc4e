//! Writing a checkpoint as a model folder.

mod shards;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use safetensors::Dtype;

use crate::checkpoint::Checkpoint;
use crate::error::CheckpointError;
use shards::Shard;

/// The files that a usable model folder must have.
const NEEDED: [&str; 2] = ["config.json", "tokenizer.json"];

/// The files that a model folder may have in addition.
const OTHERS: [&str; 8] = [
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
];

/// The most bytes of a file with more than one weight, as in `transformers`.
const SHARD_BYTES: u64 = 5_000_000_000;

/// A model's configuration, its tokenizer, and related files.
#[derive(Clone, Debug)]
pub struct ModelFiles {
    files: Vec<PathBuf>,
}

impl ModelFiles {
    /// The files in a model folder, such as the one that training started from.
    ///
    /// # Errors
    /// If it has no configuration or no tokenizer.
    pub fn of(folder: &Path) -> Result<Self, CheckpointError> {
        Self::within(&[folder.to_owned()])
    }

    /// The files next to a checkpoint: in its folder, in that of the ranks' files, or in one above.
    ///
    /// # Errors
    /// If the configuration or the tokenizer is missing.
    pub fn beside(checkpoint: &Checkpoint) -> Result<Self, CheckpointError> {
        Self::within(&checkpoint.places())
    }

    /// Searches the folders in order for each file.
    fn within(folders: &[PathBuf]) -> Result<Self, CheckpointError> {
        let find = |file: &str| folders.iter().map(|folder| folder.join(file)).find(|path| path.is_file());
        let looked = || folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(" or ");
        let needed = NEEDED
            .into_iter()
            .map(|file| find(file).ok_or_else(|| CheckpointError::NoModelFile { file, looked: looked() }));
        let mut files = needed.collect::<Result<Vec<_>, _>>()?;
        files.extend(OTHERS.into_iter().filter_map(find));
        Ok(Self { files })
    }
}

/// A model folder to be written.
#[derive(Debug)]
pub struct ModelFolder<'a> {
    checkpoint: &'a Checkpoint,
    files: &'a ModelFiles,
    dtype: Option<Dtype>,
    shard_bytes: u64,
}

/// A summary of what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The number of files with weights.
    pub files: usize,
    /// Their total size in bytes.
    pub bytes: u64,
    /// The number of numbers stored in each type.
    pub numbers: Vec<(Dtype, u64)>,
}

impl<'a> ModelFolder<'a> {
    /// A folder with the weights of a checkpoint, in their original types (for DeepSpeed, in f32).
    pub fn new(checkpoint: &'a Checkpoint, files: &'a ModelFiles) -> Self {
        Self { checkpoint, files, dtype: checkpoint.usual_dtype(), shard_bytes: SHARD_BYTES }
    }

    /// Stores all floating-point weights of 16 bits or more in one type: F32, F16 or BF16.
    ///
    /// # Panics
    /// If it is another type.
    #[must_use]
    pub fn stored_as(mut self, dtype: Dtype) -> Self {
        assert!(matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16), "weights are not stored as {dtype}");
        self.dtype = Some(dtype);
        self
    }

    /// Limits the size of a file of weights in bytes, unless it has only one weight.
    #[must_use]
    pub fn shard_bytes(mut self, most: u64) -> Self {
        self.shard_bytes = most;
        self
    }

    /// Writes the folder under a temporary name, and renames it when it is complete. `begun` is called with the
    /// temporary path, and may return a guard that is kept until the folder is complete or removed. `each` is called
    /// with the bytes of weights written so far and in total. At most one weight is in memory, and only if it must be
    /// assembled from blocks.
    ///
    /// # Errors
    /// If the target exists, unless it is an empty folder; errors of the file system; and if a number is too large for
    /// the type.
    pub fn write<G>(
        &self,
        to: &Path,
        begun: impl FnOnce(&Path) -> G,
        mut each: impl FnMut(u64, u64),
    ) -> Result<Written, CheckpointError> {
        let failed = |source| CheckpointError::Write { path: to.to_owned(), source };
        let is_empty = || fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_none());
        if to.symlink_metadata().is_ok() && !is_empty() {
            return Err(CheckpointError::Exists(to.to_owned()));
        }
        let above = match to.parent() {
            Some(above) if above.as_os_str().is_empty() => Path::new("."),
            Some(above) => above,
            None => return Err(CheckpointError::Exists(to.to_owned())),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".verdigris-").suffix(".part");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
        let folder = builder.tempdir_in(above).map_err(failed)?;
        // The guard is dropped after the folder.
        let (_kept, folder) = (begun(folder.path()), folder);
        for file in &self.files.files {
            let name = file.file_name().expect("it was found by its name");
            let bytes = fs::read(file).map_err(|source| CheckpointError::Read { path: file.clone(), source })?;
            fs::write(folder.path().join(name), bytes).map_err(failed)?;
        }
        let shards = shards::of(self.checkpoint.weights(), self.dtype, self.shard_bytes);
        let total = shards.iter().map(|shard| shard.bytes).sum();
        let mut done = 0;
        for shard in &shards {
            self.write_shard(&folder.path().join(&shard.file), shard, to, &mut |bytes| {
                done += bytes;
                each(done, total);
            })?;
        }
        if let Some(index) = shards::index(&shards) {
            fs::write(folder.path().join("model.safetensors.index.json"), index).map_err(failed)?;
        }
        fs::rename(folder.path(), to).map_err(failed)?;
        // It has been renamed by now.
        _ = folder.keep();
        Ok(Written { files: shards.len(), bytes: total, numbers: self.numbers() })
    }

    fn write_shard(
        &self,
        path: &Path,
        shard: &Shard<'_>,
        to: &Path,
        each: &mut dyn FnMut(u64),
    ) -> Result<(), CheckpointError> {
        // Errors name the final folder, which the user knows.
        let failed = |source: io::Error| CheckpointError::Write { path: to.join(&shard.file), source };
        let mut file = BufWriter::new(File::create(path).map_err(failed)?);
        file.write_all(&shard.header()).map_err(failed)?;
        for (weight, dtype) in &shard.weights {
            weight.read_as(*dtype, &mut |bytes| {
                file.write_all(bytes).map_err(failed)?;
                each(bytes.len() as u64);
                Ok(())
            })?;
        }
        file.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| file.sync_all()).map_err(failed)
    }

    fn numbers(&self) -> Vec<(Dtype, u64)> {
        let mut numbers: Vec<(Dtype, u64)> = Vec::new();
        for weight in self.checkpoint.weights() {
            let (dtype, count) = (weight.written_as(self.dtype), weight.numel() as u64);
            match numbers.iter_mut().find(|(of, _)| *of == dtype) {
                Some((_, all)) => *all += count,
                None => numbers.push((dtype, count)),
            }
        }
        numbers
    }
}
