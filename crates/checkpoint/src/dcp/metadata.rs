//! `.metadata`: a pickle of torch's class `Metadata`.

use std::collections::HashMap;
use std::path::Path;

use safetensors::Dtype;

use super::cover::Region;
use crate::error::CheckpointError;
use crate::file;
use crate::pickle::{Node, Pickle};
use crate::torch_file::tensor::dtype_of;
use crate::weight::numel;

/// The most chunks in a checkpoint: a thousand tensors and an optimizer's two moments of each, on a thousand ranks.
const MOST_CHUNKS: usize = 1 << 22;

/// The content of `.metadata`.
#[derive(Debug)]
pub(super) struct Metadata {
    /// Tensors by their keys.
    pub(super) tensors: HashMap<String, TensorMetadata>,
    /// The keys of tensors, in the file's order.
    pub(super) keys: Vec<String>,
    /// For keys joined from nested dictionaries: the original keys, if the file has them.
    pub(super) paths: HashMap<String, Vec<String>>,
    /// The location of a chunk, by its key and offsets.
    pub(super) locations: HashMap<(String, Vec<usize>), ChunkLocation>,
}

/// The type and shape of a tensor, and its chunks.
#[derive(Debug)]
pub(super) struct TensorMetadata {
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    pub(super) chunks: Vec<Region>,
}

/// The location of a chunk.
#[derive(Debug)]
pub(super) struct ChunkLocation {
    /// Relative to the folder.
    pub(super) file: String,
    /// In bytes, like the length.
    pub(super) offset: usize,
    pub(super) length: usize,
    /// The transformation of the bytes, if there was one.
    pub(super) transform: Option<String>,
}

impl Metadata {
    pub(super) fn read(path: &Path) -> Result<Self, CheckpointError> {
        let bytes = file::map(path)?;
        let pickle = Pickle::read(bytes.get()).map_err(|fault| CheckpointError::pickle(path.to_owned(), fault))?;
        Self::of(pickle.root()).map_err(|fault| CheckpointError::Damaged { path: path.to_owned(), fault })
    }

    fn of(root: Node<'_>) -> Result<Self, String> {
        let of = |name: &str| root.attribute(name).ok_or_else(|| format!("it is {} without {name}", root.kind()));
        let mut metadata =
            Self { tensors: HashMap::new(), keys: Vec::new(), paths: HashMap::new(), locations: HashMap::new() };
        let mut chunks = 0;
        let entries = of("state_dict_metadata")?.entries().ok_or("state_dict_metadata is not a dictionary")?;
        for (key, value) in entries {
            let key = key.text().ok_or("a key is not a string")?;
            // Other entries are bytes, without further description.
            if value.is_a("TensorStorageMetadata") {
                let tensor = TensorMetadata::of(value).map_err(|fault| format!("{key}: {fault}"))?;
                // Tensors may share one list of chunks.
                chunks += tensor.chunks.len();
                if chunks > MOST_CHUNKS {
                    return Err(format!("it has more than {MOST_CHUNKS} chunks"));
                }
                if metadata.tensors.insert(key.to_owned(), tensor).is_none() {
                    metadata.keys.push(key.to_owned());
                }
            }
        }
        let entries = of("storage_data")?.entries().ok_or("storage_data is not a dictionary")?;
        for (index, value) in entries {
            let key = index.attribute("fqn").and_then(Node::text).ok_or("an index has no fqn")?;
            // Other entries have no offsets.
            let Some(offsets) = index.attribute("offset").filter(|node| !node.is_none()) else { continue };
            let offsets = offsets.size().ok_or_else(|| format!("the offset of {key} is {}", offsets.kind()))?;
            let location =
                ChunkLocation::of(value).ok_or_else(|| format!("where {key} is stored is {}", value.kind()))?;
            metadata.locations.insert((key.to_owned(), offsets), location);
        }
        if let Some(entries) = root.attribute("planner_data").and_then(Node::entries) {
            for (key, path) in entries {
                let (Some(key), Some(path)) = (key.text(), path.items()) else { continue };
                // Steps into lists are numbers.
                let step = |step: Node<'_>| step.text().map(str::to_owned).or_else(|| Some(step.int()?.to_string()));
                if let Some(path) = path.map(step).collect() {
                    metadata.paths.insert(key.to_owned(), path);
                }
            }
        }
        Ok(metadata)
    }
}

impl TensorMetadata {
    fn of(node: Node<'_>) -> Result<Self, String> {
        let properties = node.attribute("properties").ok_or("it has no properties")?;
        // Either a tuple that starts with the type, or attributes.
        let dtype = properties.attribute("dtype").or_else(|| Some(properties.state()?.tuple::<1>()?[0]));
        let dtype = dtype.and_then(Node::global).ok_or("it has no type")?.1;
        let dtype = dtype_of(dtype).ok_or_else(|| format!("numbers of the type {dtype} are not read"))?;
        let shape = node.attribute("size").and_then(Node::size).ok_or("it has no size")?;
        numel(&shape).ok_or_else(|| format!("its size is {shape:?}"))?;
        let chunks = node.attribute("chunks").and_then(Node::items).ok_or("it has no chunks")?;
        let chunk = |chunk: Node<'_>| {
            let [offsets, sizes] = ["offsets", "sizes"].map(|name| chunk.attribute(name).and_then(Node::size));
            Some(Region { offsets: offsets?, sizes: sizes? })
        };
        let chunks = chunks.map(chunk).collect::<Option<_>>().ok_or("a chunk has no offsets or sizes")?;
        Ok(Self { dtype, shape, chunks })
    }
}

impl ChunkLocation {
    fn of(node: Node<'_>) -> Option<Self> {
        let transforms = node.attribute("transform_descriptors").and_then(Node::items);
        let transform = transforms.and_then(|mut all| all.next()).map(|first| first.text().unwrap_or("?").to_owned());
        Some(Self {
            file: node.attribute("relative_path")?.text()?.to_owned(),
            offset: node.attribute("offset")?.count()?,
            length: node.attribute("length")?.count()?,
            transform,
        })
    }
}
