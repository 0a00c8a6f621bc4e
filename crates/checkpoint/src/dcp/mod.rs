//! Checkpoints of `torch.distributed.checkpoint`, which FSDP 2, torchtitan, accelerate and others write.
//!
//! `.metadata` is a pickle that describes each tensor, how it was cut into chunks, and the location of each chunk: the
//! file and the offset in bytes ([metadata.py], [filesystem.py]). A chunk is stored as a complete file of `torch.save`.
//!
//! | module | contents |
//! |---|---|
//! | `metadata` | the content of `.metadata` |
//! | `names` | finds the tensors that are the model's weights |
//! | `cover` | tests whether chunks fill a tensor |
//!
//! [metadata.py]: https://github.com/pytorch/pytorch/blob/main/torch/distributed/checkpoint/metadata.py
//! [filesystem.py]: https://github.com/pytorch/pytorch/blob/main/torch/distributed/checkpoint/filesystem.py

mod cover;
mod metadata;
mod names;

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use verdigris_kernels::Bytes;

use crate::error::CheckpointError;
use crate::file;
use crate::torch_file::TorchFile;
use crate::weight::{Chunk, Weight};
use cover::{Cover, Region};
use metadata::{ChunkLocation, Metadata, TensorMetadata};

/// The file that locates everything else.
pub(crate) const METADATA: &str = ".metadata";

/// The weights of a checkpoint, and a short description.
pub(crate) fn read(folder: &Path) -> Result<(Vec<Weight>, String), CheckpointError> {
    let metadata = Metadata::read(&folder.join(METADATA))?;
    let mut files = Files { folder, open: HashMap::new() };
    let names = names::of_weights(&metadata)
        .map_err(|fault| CheckpointError::Unsupported { path: folder.to_owned(), fault })?;
    let weights = names.into_iter().map(|(key, name)| weight(&mut files, &metadata, key, &name));
    let weights = weights.collect::<Result<Vec<_>, _>>()?;
    Ok((weights, format!("torch DCP, {} files", files.open.len())))
}

/// A weight from the chunks that `.metadata` lists.
fn weight(files: &mut Files<'_>, metadata: &Metadata, key: &str, name: &str) -> Result<Weight, CheckpointError> {
    let inconsistent = |fault: String| CheckpointError::Inconsistent { path: files.folder.to_owned(), fault };
    let tensor = &metadata.tensors[key];
    match cover::cover(&tensor.shape, &tensor.chunks) {
        Cover::Whole => {}
        Cover::Outside(chunk) => return Err(inconsistent(format!("{} of {key} lies outside of it", shown(&chunk)))),
        Cover::Twice(one, other) => {
            return Err(inconsistent(format!("{} and {} of {key} overlap", shown(&one), shown(&other))));
        }
        Cover::Holes { filled, of } => {
            return Err(inconsistent(format!("the chunks of {key} hold {filled} of its {of} numbers")));
        }
    }
    let mut chunks = Vec::new();
    for Region { offsets, sizes } in &tensor.chunks {
        // Empty chunks are not stored.
        if sizes.contains(&0) {
            continue;
        }
        let location = metadata.locations.get(&(key.to_owned(), offsets.clone())).ok_or_else(|| {
            CheckpointError::Inconsistent {
                path: files.folder.join(METADATA),
                fault: format!("it does not say where the chunk of {key} at {offsets:?} is"),
            }
        })?;
        let file = files.read(key, location)?;
        let found = file.tensor(file.root())?;
        if (found.shape(), found.dtype()) != (&**sizes, tensor.dtype) {
            let (shape, dtype) = (found.shape(), found.dtype());
            let fault =
                format!("{key} should have {sizes:?} numbers of {} there, not {shape:?} of {dtype}", tensor.dtype);
            return Err(CheckpointError::Inconsistent { path: file.path().to_owned(), fault });
        }
        chunks.push(Chunk { offsets: offsets.clone(), tensor: found });
    }
    let TensorMetadata { shape, dtype, .. } = tensor;
    Ok(Weight::pasted(name, shape, *dtype, chunks))
}

fn shown(chunk: &Region) -> String {
    format!("the chunk at {:?} of size {:?}", chunk.offsets, chunk.sizes)
}

/// The files of the ranks, each mapped on first use.
struct Files<'a> {
    folder: &'a Path,
    open: HashMap<PathBuf, Bytes>,
}

impl Files<'_> {
    /// The tensor file at a location inside a file.
    fn read(&mut self, key: &str, location: &ChunkLocation) -> Result<TorchFile, CheckpointError> {
        let unsupported = |fault: String| CheckpointError::Unsupported { path: self.folder.to_owned(), fault };
        let ChunkLocation { file: name, offset, length, transform } = location;
        if let Some(transform) = transform {
            let fault =
                format!("its files are stored with {transform}, which is not read here: save it without extensions");
            return Err(unsupported(fault));
        }
        let relative = Path::new(name);
        if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(unsupported(format!("{key} is said to be in {name:?}, which is not a file of this folder")));
        }
        if name.ends_with(".safetensors") {
            let fault =
                "its files are of safetensors: torch's consolidate_safetensors_files makes a model folder of them";
            return Err(unsupported(fault.into()));
        }
        let path = self.folder.join(relative);
        let file = match self.open.get(&path) {
            Some(file) => file.clone(),
            None => {
                let file = file::map(&path).map_err(|error| match error {
                    CheckpointError::Read { source, .. } if source.kind() == ErrorKind::NotFound => {
                        let fault = format!("{name} is missing: copy it from the machine of the rank that wrote it");
                        CheckpointError::Incomplete { path: self.folder.to_owned(), fault }
                    }
                    error => error,
                })?;
                self.open.entry(path.clone()).or_insert(file).clone()
            }
        };
        let part = offset.checked_add(*length).and_then(|end| file.part(*offset..end));
        let part = part.ok_or_else(|| CheckpointError::Damaged {
            path: path.clone(),
            fault: format!("it has {} bytes, and {key} lies beyond", file.get().len()),
        })?;
        TorchFile::of(&path, part)
    }
}
