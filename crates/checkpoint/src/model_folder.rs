//! A model folder out of a checkpoint.

mod shards;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use safetensors::Dtype;

use crate::checkpoint::Checkpoint;
use crate::error::CheckpointError;
use crate::weight::Weight;
use shards::Shard;

/// Files without which a folder is no model that writes.
const NEEDED: [&str; 2] = ["config.json", "tokenizer.json"];

/// Files that models may have beside them.
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

/// A file of weights has no more bytes than this where it holds more than one weight, as those of `transformers`.
const SHARD_BYTES: u64 = 5_000_000_000;

/// A model's configuration, its tokenizer, and what else goes with them.
#[derive(Clone, Debug)]
pub struct ModelFiles {
    files: Vec<PathBuf>,
}

impl ModelFiles {
    /// Those in a folder of a model, such as the one that the training began with.
    ///
    /// # Errors
    /// If it has no configuration or no tokenizer.
    pub fn of(folder: &Path) -> Result<Self, CheckpointError> {
        Self::within(&[folder.to_owned()])
    }

    /// Those that lie beside a checkpoint: in its folder, that of the ranks' files, or one above.
    ///
    /// # Errors
    /// If there is no configuration or no tokenizer.
    pub fn beside(checkpoint: &Checkpoint) -> Result<Self, CheckpointError> {
        Self::within(&checkpoint.places())
    }

    /// Of each file the first that is there.
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

/// A model folder that is to be written.
#[derive(Debug)]
pub struct ModelFolder<'a> {
    checkpoint: &'a Checkpoint,
    files: &'a ModelFiles,
    dtype: Option<Dtype>,
    shard_bytes: u64,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// How many files of weights.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// How many numbers are stored in which type.
    pub numbers: Vec<(Dtype, u64)>,
}

impl<'a> ModelFolder<'a> {
    /// A folder with the weights of a checkpoint, in the type that they have there (those of DeepSpeed in f32).
    pub fn new(checkpoint: &'a Checkpoint, files: &'a ModelFiles) -> Self {
        Self { checkpoint, files, dtype: checkpoint.usual_dtype(), shard_bytes: SHARD_BYTES }
    }

    /// Stores all weights that float, of 16 bits or more, in one type: F32, F16 or BF16.
    ///
    /// # Panics
    /// If it is another type.
    #[must_use]
    pub fn stored_as(mut self, dtype: Dtype) -> Self {
        assert!(matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16), "weights are not stored as {dtype}");
        self.dtype = Some(dtype);
        self
    }

    /// Begins another file of weights where one would have more bytes than this.
    #[must_use]
    pub fn shard_bytes(mut self, most: u64) -> Self {
        self.shard_bytes = most;
        self
    }

    /// Writes the folder, which gets its name when it is complete: `begun` hears of it under the name that it has
    /// before, and may return what is to be kept until then. `each` hears how many of how many bytes of weights are
    /// written. At most one weight is in memory, and that only where it has to be put together from blocks.
    ///
    /// # Errors
    /// If something is there already, unless it is an empty folder; those of the file system; and where a number is too
    /// large for half precision.
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
        let _kept = begun(folder.path());
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
        // It has another name by now.
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
        // The user knows the folder by the name that it will have.
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
