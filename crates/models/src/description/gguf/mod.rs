//! GGUF files (version 2 and 3): a model, its description and its tokenizer in one file.
//!
//! The format is described in `docs/gguf.md` of the ggml repository: named values, then the names, shapes and offsets
//! of tensors, then their aligned bytes.

pub(crate) mod convert;
pub(crate) mod model;
pub(crate) mod shards;
mod split;
pub(crate) mod tokenizer;
pub(crate) mod write;

use std::collections::HashMap;

use verdigris_kernels::{Bytes, Format};
use verdigris_text::shown;

use crate::description::checkpoint::Checkpoint;
use crate::description::stored_tensor::StoredTensor;

/// The most values, or tensors, in a file.
const MAX_ENTRIES: u64 = 1 << 20;

/// The deepest nesting of lists.
const MAX_DEPTH: usize = 4;

/// The longest list of texts, or of lists.
const MAX_TEXTS: usize = 1 << 24;

/// The most dimensions of a tensor.
const MAX_DIMENSIONS: u32 = 4;

/// The supported formats of tensors, as ggml numbers them.
const FORMATS: [(u32, Format); 16] = [
    (0, Format::F32),
    (1, Format::F16),
    (2, Format::Q4_0),
    (3, Format::Q4_1),
    (6, Format::Q5_0),
    (7, Format::Q5_1),
    (8, Format::Q8_0),
    (10, Format::Q2K),
    (11, Format::Q3K),
    (12, Format::Q4K),
    (13, Format::Q5K),
    (14, Format::Q6K),
    (20, Format::Iq4Nl),
    (23, Format::Iq4Xs),
    (30, Format::Bf16),
    (39, Format::Mxfp4),
];

/// A parsed file.
#[derive(Debug)]
pub(crate) struct Gguf {
    values: HashMap<String, Value>,
    tensors: HashMap<String, StoredTensor>,
    /// The values as they are stored, each with its type, in the order of the file.
    stored_values: Vec<(String, Bytes)>,
    /// The names of the tensors in the order of the file.
    order: Vec<String>,
}

/// A named value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Integer(i64),
    Number(f64),
    Truth(bool),
    Text(String),
    Texts(Vec<String>),
    Numbers(Numbers),
    /// Lists of lists, which are not used.
    Lists,
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

    /// A value of a type of fixed size; `None` for other types, and for numbers out of range.
    fn scalar(kind: u32, bytes: &[u8]) -> Option<Self> {
        fn of<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
            bytes.try_into().ok()
        }
        Some(match kind {
            0 => Self::Integer(u8::from_le_bytes(of(bytes)?).into()),
            1 => Self::Integer(i8::from_le_bytes(of(bytes)?).into()),
            2 => Self::Integer(u16::from_le_bytes(of(bytes)?).into()),
            3 => Self::Integer(i16::from_le_bytes(of(bytes)?).into()),
            4 => Self::Integer(u32::from_le_bytes(of(bytes)?).into()),
            5 => Self::Integer(i32::from_le_bytes(of(bytes)?).into()),
            6 => Self::Number(f32::from_le_bytes(of(bytes)?).into()),
            7 => Self::Truth(of::<1>(bytes)? != [0]),
            10 => Self::Integer(u64::from_le_bytes(of(bytes)?).try_into().ok()?),
            11 => Self::Integer(i64::from_le_bytes(of(bytes)?)),
            12 => Self::Number(f64::from_le_bytes(of(bytes)?)),
            _ => return None,
        })
    }
}

/// The bytes of a value, for types of fixed size.
fn length(kind: u32) -> Option<usize> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

/// A list of numbers or truth values, as it is stored in the file.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    kind: u32,
    bytes: Bytes,
}

impl Numbers {
    pub(crate) fn at(&self, i: usize) -> Option<Value> {
        let length = length(self.kind)?;
        let from = i.checked_mul(length)?;
        Value::scalar(self.kind, self.bytes.get().get(from..from.checked_add(length)?)?)
    }

    /// The number of elements.
    pub(crate) fn count(&self) -> usize {
        length(self.kind).map_or(0, |length| self.bytes.get().len() / length)
    }

    /// The value of all elements, if they are equal.
    fn all(&self) -> Option<Value> {
        let length = length(self.kind)?;
        let all = self.bytes.get();
        let first = all.get(..length)?;
        all.chunks_exact(length).all(|one| one == first).then(|| Value::scalar(self.kind, first))?
    }
}

impl Gguf {
    /// Reads the head of a file in memory. The error says what is wrong with it.
    pub(crate) fn parse(bytes: &Bytes) -> Result<Self, String> {
        let mut reader = Reader { all: bytes, at: 0 };
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
        let mut stored_values = Vec::new();
        let values = (0..values).map(|_| {
            let name = reader.text()?;
            let from = reader.at;
            let kind = reader.u32()?;
            let value = reader.value(kind, 0)?;
            stored_values.push((name.clone(), bytes.part(from..reader.at).ok_or("it ends too soon")?));
            Ok((name, value))
        });
        let values = unique(values.collect::<Result<Vec<_>, String>>()?, "value")?;
        let infos = (0..tensors).map(|_| reader.tensor()).collect::<Result<Vec<_>, String>>()?;
        let alignment = values.get("general.alignment").and_then(Value::integer).unwrap_or(32);
        let alignment = usize::try_from(alignment).ok().filter(|alignment| alignment.is_power_of_two());
        let alignment = alignment.ok_or("its alignment is not a power of two")?;
        let data = reader.at.checked_next_multiple_of(alignment).ok_or("it is too large")?;
        let part = |offset: u64, length: Option<usize>| {
            let from = data.checked_add(usize::try_from(offset).ok()?)?;
            bytes.part(from..from.checked_add(length?)?)
        };
        let order = infos.iter().map(|info| info.name.clone()).collect();
        let mut tensors = Vec::new();
        for Info { name, shape, format, offset } in infos {
            let outside = || format!("the tensor {:?} lies outside of the file", shown(&name));
            let count = shape.iter().try_fold(1usize, |count, &n| count.checked_mul(n)).ok_or_else(outside)?;
            let stored = match format {
                Err(kind) => {
                    let size = INTEGERS.iter().find(|(name, _)| *name == kind).map_or(0, |(_, size)| *size);
                    let part = part(offset, count.checked_mul(size)).ok_or_else(outside)?;
                    StoredTensor { format: Err(kind), shape, bytes: part }
                }
                Ok(format) => {
                    if !shape.last().copied().unwrap_or(0).is_multiple_of(format.block()) {
                        return Err(format!("the rows of the tensor {:?} are not whole blocks", shown(&name)));
                    }
                    let length = count / format.block();
                    let part = part(offset, length.checked_mul(format.block_bytes())).ok_or_else(outside)?;
                    StoredTensor { format: Ok(format), shape, bytes: part }
                }
            };
            tensors.push((name, stored));
        }
        Ok(Self { values, tensors: unique(tensors, "tensor")?, stored_values, order })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// The text with this name, if there is such a value.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, String> {
        self.some(name, "text", Value::text)
    }

    /// The finite number with this name, if there is such a value.
    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, String> {
        self.some(name, "number", |value| value.number().filter(|number| number.is_finite()))
    }

    /// The truth value with this name, if there is such a value.
    pub(crate) fn truth(&self, name: &str) -> Result<Option<bool>, String> {
        self.some(name, "truth value", |value| if let Value::Truth(truth) = value { Some(*truth) } else { None })
    }

    /// The count with this name, if there is such a value. Some files list it per layer; then all layers must have the
    /// same.
    pub(crate) fn size(&self, name: &str) -> Result<Option<usize>, String> {
        self.some(name, "number of things, and the same for all layers", |value| {
            let all = if let Value::Numbers(numbers) = value { numbers.all()? } else { value.clone() };
            all.integer()?.try_into().ok()
        })
    }

    fn some<'a, T>(
        &'a self,
        name: &str,
        what: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| format!("{name} is not a {what}"))
    }

    /// The list of texts with this name.
    pub(crate) fn texts(&self, name: &str) -> Option<&[String]> {
        if let Value::Texts(texts) = self.get(name)? { Some(texts) } else { None }
    }

    /// The list of numbers with this name.
    pub(crate) fn numbers(&self, name: &str) -> Option<&Numbers> {
        if let Value::Numbers(numbers) = self.get(name)? { Some(numbers) } else { None }
    }

    /// Checks that all tensors but lists of tokens have supported formats. The error says which ones do not, and what
    /// to do.
    pub(crate) fn check_kinds(&self) -> Result<(), String> {
        let weights = self.tensors.iter().filter(|(name, _)| *name != "d2t");
        let mut unknown: Vec<(&String, &String)> =
            weights.filter_map(|(name, stored)| Some((name, stored.format.as_ref().err()?))).collect();
        unknown.sort_unstable();
        let Some((name, kind)) = unknown.first() else { return Ok(()) };
        let kinds: std::collections::BTreeSet<&String> = unknown.iter().map(|(_, kind)| *kind).collect();
        let all = kinds.into_iter().map(String::as_str).collect::<Vec<_>>().join(" and ");
        Err(format!(
            "{} of {} tensors ({} = {kind}) are stored as {all}, which is not supported; take the model's file in \
             another format, such as Q4_K_M, Q5_K_M or Q8_0",
            unknown.len(),
            self.tensors.len(),
            shown(name),
        ))
    }

    /// The values as they are stored, each with its type, in the order of the file.
    pub(crate) fn stored_values(&self) -> &[(String, Bytes)] {
        &self.stored_values
    }

    /// The tensors in the order of the file.
    pub(crate) fn stored_tensors(&self) -> impl Iterator<Item = (&String, &StoredTensor)> {
        self.order.iter().filter_map(|name| self.tensors.get_key_value(name))
    }

    pub(crate) fn has_tensor(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The tensors, renamed; some of them as vectors.
    pub(crate) fn checkpoint(
        &self,
        rename: impl Fn(&str) -> Option<String>,
        is_vector: impl Fn(&str) -> bool,
    ) -> Checkpoint {
        let tensors = self.tensors.iter().filter_map(|(name, stored)| {
            let mut stored = stored.clone();
            if is_vector(name) {
                let count = stored.shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size))?;
                stored.shape = vec![count];
            }
            Some((rename(name)?, stored))
        });
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

/// Entries by their names, of which no two may be the same.
fn unique<T>(entries: Vec<(String, T)>, what: &str) -> Result<HashMap<String, T>, String> {
    let mut all = HashMap::with_capacity(entries.len());
    for (name, entry) in entries {
        if all.contains_key(&name) {
            return Err(format!("the {what} {:?} occurs twice", shown(&name)));
        }
        all.insert(name, entry);
    }
    Ok(all)
}

/// A file that has been read up to an offset.
struct Reader<'a> {
    all: &'a Bytes,
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(count).ok_or("it ends too soon")?;
        let taken = self.all.get().get(self.at..end).ok_or("it ends too soon")?;
        self.at = end;
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
        match kind {
            8 => Ok(Value::Text(self.text()?)),
            9 if depth == MAX_DEPTH => Err("lists are nested too deep".into()),
            9 => {
                let (kind, count) = (self.u32()?, usize::try_from(self.u64()?).map_err(|_| "it ends too soon")?);
                self.list(kind, count, depth)
            }
            _ => {
                let length = length(kind).ok_or_else(|| format!("a value has the unknown type {kind}"))?;
                Value::scalar(kind, self.take(length)?).ok_or_else(|| "a number is too large".into())
            }
        }
    }

    fn list(&mut self, kind: u32, count: usize, depth: usize) -> Result<Value, String> {
        if let Some(length) = length(kind) {
            let from = self.at;
            self.take(count.checked_mul(length).ok_or("it ends too soon")?)?;
            let bytes = self.all.part(from..self.at).ok_or("it ends too soon")?;
            return Ok(Value::Numbers(Numbers { kind, bytes }));
        }
        if count > MAX_TEXTS {
            return Err(format!("a list of {count} texts is too long"));
        }
        if kind == 8 {
            return Ok(Value::Texts((0..count).map(|_| self.text()).collect::<Result<_, _>>()?));
        }
        for _ in 0..count {
            self.value(kind, depth + 1)?;
        }
        Ok(Value::Lists)
    }

    fn tensor(&mut self) -> Result<Info, String> {
        let name = self.text()?;
        let dimensions = self.u32()?;
        if dimensions > MAX_DIMENSIONS {
            return Err(format!("the tensor {:?} has {dimensions} dimensions", shown(&name)));
        }
        let shape =
            (0..dimensions).map(|_| usize::try_from(self.u64()?).map_err(|_| "a tensor is too large".to_owned()));
        let mut shape = shape.collect::<Result<Vec<usize>, String>>()?;
        // The file has the length of a row first.
        shape.reverse();
        let kind = self.u32()?;
        let format = FORMATS.iter().find(|(number, _)| *number == kind).map(|(_, format)| *format);
        let format = format.ok_or_else(|| type_name(kind));
        Ok(Info { name, shape, format, offset: self.u64()? })
    }
}

/// The types of whole numbers that lists of tokens have, and their bytes.
const INTEGERS: [(&str, usize); 2] = [("I32", 4), ("I64", 8)];

/// The name of a type that is not supported.
fn type_name(kind: u32) -> String {
    let known = [
        (9, "Q8_1"),
        (15, "Q8_K"),
        (16, "IQ2_XXS"),
        (17, "IQ2_XS"),
        (18, "IQ3_XXS"),
        (19, "IQ1_S"),
        (21, "IQ3_S"),
        (22, "IQ2_S"),
        (24, "I8"),
        (25, "I16"),
        (26, "I32"),
        (27, "I64"),
        (28, "F64"),
        (29, "IQ1_M"),
        (34, "TQ1_0"),
        (35, "TQ2_0"),
        (40, "NVFP4"),
        (41, "Q1_0"),
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
        assert_eq!(gguf.text("general.architecture"), Ok(Some("llama")));
        let list = gguf.numbers("list").unwrap();
        assert_eq!([0, 1, 2].map(|i| list.at(i).and_then(|value| value.integer())), [Some(7), Some(9), None]);
        assert!(gguf.size("list").is_err() && gguf.number("general.architecture").is_err());
        let checkpoint = gguf.checkpoint(|name| Some(format!("{name}.weight")), |_| false);
        assert_eq!(checkpoint.matrix("w.weight", [3, 2]).unwrap().matrix().numbers(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    }

    /// If it is truncated anywhere, or any byte is changed, it is refused or read, without a panic.
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
