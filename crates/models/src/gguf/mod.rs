//! GGUF files (version 2 and 3): a model, its description and its tokenizer in one file.
//!
//! The format is that of `docs/gguf.md` in the ggml repository: named values, then the names, shapes and places of tensors, then
//! their bytes, aligned.

pub(crate) mod convert;
pub(crate) mod model;
mod split;
pub(crate) mod tokenizer;
pub(crate) mod write;

use std::collections::HashMap;

use verdigris_kernels::Format;

use crate::checkpoint::{Checkpoint, Stored};
use crate::matrix::Bytes;

/// No file has more values, or more tensors.
const MAX_ENTRIES: u64 = 1 << 20;

/// Lists of lists are not deeper.
const MAX_DEPTH: usize = 4;

/// A tensor's dimensions are not more.
const MAX_DIMENSIONS: u32 = 4;

/// A file as it is.
#[derive(Debug)]
pub(crate) struct Gguf {
    values: HashMap<String, Value>,
    tensors: HashMap<String, Stored>,
}

/// A named value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Integer(i64),
    Number(f64),
    Truth(bool),
    Text(String),
    List(Vec<Value>),
}

impl Value {
    pub(crate) fn integer(&self) -> Option<i64> {
        if let Self::Integer(value) = self { Some(*value) } else { None }
    }

    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(value) => Some(*value),
            Self::Integer(value) => Some(*value as f64),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(crate) fn list(&self) -> Option<&[Value]> {
        if let Self::List(list) = self { Some(list) } else { None }
    }
}

impl Gguf {
    /// Reads the head of a file in memory; what is wrong with it.
    pub(crate) fn parse(bytes: &Bytes) -> Result<Self, String> {
        let mut reader = Reader { rest: bytes.get() };
        if reader.take(4)? != b"GGUF" {
            return Err("it does not begin with GGUF".into());
        }
        let version = reader.u32()?;
        if !(2..=3).contains(&version) {
            return Err(format!("it has version {version}; 2 and 3 are supported"));
        }
        let (tensors, values) = (reader.u64()?, reader.u64()?);
        if tensors > MAX_ENTRIES || values > MAX_ENTRIES {
            return Err(format!("{tensors} tensors and {values} values are too many"));
        }
        let values = (0..values).map(|_| {
            let name = reader.text()?;
            let kind = reader.u32()?;
            Ok((name, reader.value(kind, 0)?))
        });
        let values = values.collect::<Result<HashMap<_, _>, String>>()?;
        let infos = (0..tensors).map(|_| reader.tensor()).collect::<Result<Vec<_>, String>>()?;
        let alignment = values.get("general.alignment").and_then(Value::integer).unwrap_or(32);
        let alignment = usize::try_from(alignment).ok().filter(|alignment| alignment.is_power_of_two());
        let alignment = alignment.ok_or("its alignment is no power of two")?;
        let head = bytes.get().len() - reader.rest.len();
        let data = head.checked_next_multiple_of(alignment).ok_or("it is too large")?;
        let mut tensors = HashMap::new();
        for Info { name, shape, format, offset } in infos {
            let outside = || format!("the tensor {name:?} lies outside of the file");
            let count = shape.iter().try_fold(1usize, |count, &n| count.checked_mul(n)).ok_or_else(outside)?;
            let stored = match format {
                Err(kind) => Stored { format: Err(kind), shape, bytes: bytes.part(0..0).ok_or_else(outside)? },
                Ok(format) => {
                    if !shape.last().copied().unwrap_or(0).is_multiple_of(format.block()) {
                        return Err(format!("the rows of the tensor {name:?} are not whole blocks"));
                    }
                    let length = count / format.block();
                    let length = length.checked_mul(format.block_bytes()).ok_or_else(outside)?;
                    let from = usize::try_from(offset).ok().and_then(|offset| data.checked_add(offset));
                    let from = from.ok_or_else(outside)?;
                    let to = from.checked_add(length).ok_or_else(outside)?;
                    Stored { format: Ok(format), shape, bytes: bytes.part(from..to).ok_or_else(outside)? }
                }
            };
            tensors.insert(name, stored);
        }
        Ok(Self { values, tensors })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.text()
    }

    pub(crate) fn size(&self, name: &str) -> Option<usize> {
        // Some files say it for each layer.
        let value = self.get(name)?;
        let one = if let Some(list) = value.list() { list.first()? } else { value };
        one.integer()?.try_into().ok()
    }

    pub(crate) fn has_tensor(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The tensors under other names.
    pub(crate) fn checkpoint(&self, rename: impl Fn(&str) -> Option<String>) -> Checkpoint {
        let tensors = self.tensors.iter().filter_map(|(name, stored)| Some((rename(name)?, stored.clone())));
        Checkpoint::of(tensors.collect())
    }
}

struct Info {
    name: String,
    /// Rows first.
    shape: Vec<usize>,
    format: Result<Format, String>,
    offset: u64,
}

/// What has not been read yet.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or("it ends too soon")?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("as many as were taken"))
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<String, String> {
        let length = usize::try_from(self.u64()?).map_err(|_| "it ends too soon")?;
        // Tokens may be any bytes in old files.
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    fn value(&mut self, kind: u32, depth: usize) -> Result<Value, String> {
        Ok(match kind {
            0 => Value::Integer(u8::from_le_bytes(self.array()?).into()),
            1 => Value::Integer(i8::from_le_bytes(self.array()?).into()),
            2 => Value::Integer(u16::from_le_bytes(self.array()?).into()),
            3 => Value::Integer(i16::from_le_bytes(self.array()?).into()),
            4 => Value::Integer(self.u32()?.into()),
            5 => Value::Integer(i32::from_le_bytes(self.array()?).into()),
            6 => Value::Number(f32::from_le_bytes(self.array()?).into()),
            7 => Value::Truth(self.array::<1>()? != [0]),
            8 => Value::Text(self.text()?),
            9 => {
                if depth == MAX_DEPTH {
                    return Err("lists are nested too deep".into());
                }
                let (kind, count) = (self.u32()?, self.u64()?);
                // Each has a byte at least.
                if count > self.rest.len() as u64 {
                    return Err("it ends too soon".into());
                }
                Value::List((0..count).map(|_| self.value(kind, depth + 1)).collect::<Result<_, _>>()?)
            }
            10 => Value::Integer(self.u64()?.try_into().map_err(|_| "a number is too large")?),
            11 => Value::Integer(i64::from_le_bytes(self.array()?)),
            12 => Value::Number(f64::from_le_bytes(self.array()?)),
            other => return Err(format!("a value has the unknown type {other}")),
        })
    }

    fn tensor(&mut self) -> Result<Info, String> {
        let name = self.text()?;
        let dimensions = self.u32()?;
        if dimensions > MAX_DIMENSIONS {
            return Err(format!("the tensor {name:?} has {dimensions} dimensions"));
        }
        let shape =
            (0..dimensions).map(|_| usize::try_from(self.u64()?).map_err(|_| "a tensor is too large".to_owned()));
        let mut shape = shape.collect::<Result<Vec<usize>, String>>()?;
        // Here the length of a row comes first.
        shape.reverse();
        let format = match self.u32()? {
            0 => Ok(Format::F32),
            1 => Ok(Format::F16),
            2 => Ok(Format::Q4_0),
            8 => Ok(Format::Q8_0),
            12 => Ok(Format::Q4K),
            14 => Ok(Format::Q6K),
            30 => Ok(Format::Bf16),
            other => Err(type_name(other)),
        };
        Ok(Info { name, shape, format, offset: self.u64()? })
    }
}

/// The name of a type that is not supported.
fn type_name(kind: u32) -> String {
    let known = [
        (3, "Q4_1"),
        (6, "Q5_0"),
        (7, "Q5_1"),
        (10, "Q2_K"),
        (11, "Q3_K"),
        (13, "Q5_K"),
        (15, "Q8_K"),
        (20, "IQ4_NL"),
        (23, "IQ4_XS"),
    ];
    let name = known.iter().find(|(number, _)| *number == kind);
    name.map_or_else(|| format!("type {kind}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn text(of: &str) -> Vec<u8> {
        [&(of.len() as u64).to_le_bytes()[..], of.as_bytes()].concat()
    }

    fn file() -> Vec<u8> {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend([1u64.to_le_bytes(), 2u64.to_le_bytes()].concat());
        bytes.extend([text("general.architecture"), 8u32.to_le_bytes().to_vec(), text("llama")].concat());
        bytes.extend([text("list"), 9u32.to_le_bytes().to_vec(), 4u32.to_le_bytes().to_vec()].concat());
        bytes.extend([&2u64.to_le_bytes()[..], &7u32.to_le_bytes(), &9u32.to_le_bytes()].concat());
        bytes.extend([text("w"), 2u32.to_le_bytes().to_vec(), 2u64.to_le_bytes().to_vec()].concat());
        bytes.extend([&3u64.to_le_bytes()[..], &0u32.to_le_bytes(), &0u64.to_le_bytes()].concat());
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes.extend((0..6).flat_map(|i| (i as f32).to_le_bytes()));
        bytes
    }

    #[test]
    fn values_and_tensors_are_read() {
        let gguf = Gguf::parse(&Bytes::new(Arc::new(file()))).unwrap();
        assert_eq!(gguf.text("general.architecture"), Some("llama"));
        assert_eq!(gguf.get("list"), Some(&Value::List(vec![Value::Integer(7), Value::Integer(9)])));
        let checkpoint = gguf.checkpoint(|name| Some(format!("{name}.weight")));
        assert_eq!(checkpoint.matrix("w.weight", [3, 2]).unwrap().numbers(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    }

    /// Cut short anywhere, and with any byte changed: an answer, and no panic.
    #[test]
    fn damage_is_an_error() {
        let whole = file();
        for length in 0..whole.len() {
            assert!(Gguf::parse(&Bytes::new(Arc::new(whole[..length].to_vec()))).is_err(), "{length}");
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = byte;
                drop(Gguf::parse(&Bytes::new(Arc::new(bytes))));
            }
        }
    }
}
