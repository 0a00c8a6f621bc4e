//! Writes GGUF files: named values, names and offsets of tensors, their bytes.

use std::io::{self, Write};

use verdigris_kernels::{Bytes, Format};

use super::FORMATS;

/// The alignment of tensors, in bytes.
const ALIGNMENT: u64 = 32;

/// A named value, in the size that the format requires.
#[derive(Clone, Debug)]
pub(crate) enum Put {
    U32(u32),
    F32(f32),
    Truth(bool),
    Text(String),
    Texts(Vec<String>),
    Integers(Vec<i32>),
    /// The type and the value as another file stores them.
    Stored(Bytes),
}

/// A tensor to be written.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) name: String,
    /// Rows first.
    pub(crate) shape: Vec<usize>,
    pub(crate) format: Format,
}

impl Planned {
    pub(crate) fn bytes(&self) -> u64 {
        let columns = self.shape.last().copied().unwrap_or(0);
        let rows: usize = self.shape.iter().rev().skip(1).product();
        rows as u64 * self.format.bytes(columns) as u64
    }
}

/// Everything before the tensors' bytes.
pub(crate) fn head(values: &[(String, Put)], tensors: &[Planned]) -> Vec<u8> {
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((values.len() as u64).to_le_bytes());
    for (name, value) in values {
        text(&mut out, name);
        put(&mut out, value);
    }
    let mut offset = 0u64;
    for tensor in tensors {
        text(&mut out, &tensor.name);
        out.extend((tensor.shape.len() as u32).to_le_bytes());
        // The file has the length of a row first.
        tensor.shape.iter().rev().for_each(|&n| out.extend((n as u64).to_le_bytes()));
        let number = FORMATS.iter().find(|(_, format)| *format == tensor.format).expect("each format has a number").0;
        out.extend(number.to_le_bytes());
        out.extend(offset.to_le_bytes());
        offset += tensor.bytes().next_multiple_of(ALIGNMENT);
    }
    out.resize(out.len().next_multiple_of(ALIGNMENT as usize), 0);
    out
}

/// Writes the padding after a tensor of this many bytes.
pub(crate) fn pad(out: &mut impl Write, bytes: u64) -> io::Result<()> {
    let missing = bytes.next_multiple_of(ALIGNMENT) - bytes;
    out.write_all(&[0; ALIGNMENT as usize][..missing as usize])
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put(out: &mut Vec<u8>, value: &Put) {
    let mut of_type = |kind: u32, bytes: &[u8]| {
        out.extend(kind.to_le_bytes());
        out.extend(bytes);
    };
    let list = |kind: u32, count: usize| [&kind.to_le_bytes()[..], &(count as u64).to_le_bytes()].concat();
    match value {
        Put::Stored(bytes) => out.extend(bytes.get()),
        Put::U32(value) => of_type(4, &value.to_le_bytes()),
        Put::F32(value) => of_type(6, &value.to_le_bytes()),
        Put::Truth(value) => of_type(7, &[u8::from(*value)]),
        Put::Text(value) => {
            of_type(8, &[]);
            text(out, value);
        }
        Put::Texts(values) => {
            of_type(9, &list(8, values.len()));
            values.iter().for_each(|value| text(out, value));
        }
        Put::Integers(values) => {
            of_type(9, &list(5, values.len()));
            values.iter().for_each(|value| out.extend(value.to_le_bytes()));
        }
    }
}
