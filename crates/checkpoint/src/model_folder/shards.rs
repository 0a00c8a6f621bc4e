//! Weights in files of [safetensors]: the length of a header, the header as JSON, then the numbers.
//!
//! [safetensors]: https://github.com/huggingface/safetensors#format

use safetensors::Dtype;
use serde_json::{Map, Value, json};

use crate::torch_file::tensor;
use crate::weight::Weight;

/// A file of weights.
pub(super) struct Shard<'a> {
    pub(super) file: String,
    /// Each weight with the type that it is written in.
    pub(super) weights: Vec<(&'a Weight, Dtype)>,
    /// The size of the weights in bytes.
    pub(super) bytes: u64,
}

impl Shard<'_> {
    /// The header, padded so that the weights start at a multiple of eight bytes.
    pub(super) fn header(&self) -> Vec<u8> {
        let mut header = Map::from_iter([("__metadata__".to_owned(), json!({"format": "pt"}))]);
        let mut begin = 0;
        for (weight, dtype) in &self.weights {
            let end = begin + weight.bytes_as(*dtype);
            let about = json!({"dtype": dtype, "shape": weight.shape(), "data_offsets": [begin, end]});
            header.insert(weight.name().to_owned(), about);
            begin = end;
        }
        let mut json = Value::from(header).to_string().into_bytes();
        json.resize(json.len().next_multiple_of(8), b' ');
        [&(json.len() as u64).to_le_bytes()[..], &json].concat()
    }
}

/// Distributes weights among files. Weights with wide numbers come first, so that all are aligned.
pub(super) fn of(weights: &[Weight], asked: Option<Dtype>, most: u64) -> Vec<Shard<'_>> {
    let mut all: Vec<(&Weight, Dtype)> = weights.iter().map(|weight| (weight, weight.written_as(asked))).collect();
    all.sort_by_key(|(_, dtype)| std::cmp::Reverse(tensor::bytes(*dtype)));
    let mut shards: Vec<Shard<'_>> = Vec::new();
    for (weight, dtype) in all {
        let bytes = weight.bytes_as(dtype) as u64;
        match shards.last_mut() {
            Some(shard) if shard.bytes + bytes <= most => {
                shard.weights.push((weight, dtype));
                shard.bytes += bytes;
            }
            _ => shards.push(Shard { file: String::new(), weights: vec![(weight, dtype)], bytes }),
        }
    }
    let count = shards.len();
    for (i, shard) in shards.iter_mut().enumerate() {
        shard.file = match count {
            1 => "model.safetensors".into(),
            _ => format!("model-{:05}-of-{count:05}.safetensors", i + 1),
        };
    }
    shards
}

/// The index from weights to files, if there are several files.
pub(super) fn index(shards: &[Shard<'_>]) -> Option<String> {
    if shards.len() < 2 {
        return None;
    }
    let files = shards.iter().flat_map(|shard| shard.weights.iter().map(|(weight, _)| (weight.name(), &shard.file)));
    let map: Map<String, Value> = files.map(|(name, file)| (name.to_owned(), file.as_str().into())).collect();
    let total: u64 = shards.iter().map(|shard| shard.bytes).sum();
    Some(format!("{:#}\n", json!({"metadata": {"total_size": total}, "weight_map": map})))
}
