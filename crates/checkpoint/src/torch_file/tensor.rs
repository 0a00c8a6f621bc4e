//! The tensors of a torch file.

use std::borrow::Cow;
use std::path::Path;

use safetensors::Dtype;
use verdigris_kernels::Bytes;

use super::archive::Archive;
use crate::error::CheckpointError;
use crate::pickle::Node;

/// The most axes of a torch tensor (`MAX_DIMS` of its kernels).
const MOST_AXES: usize = 64;

/// A view of numbers in a file: those at `offset + sum of index * stride`.
#[derive(Clone, Debug)]
pub struct Tensor {
    dtype: Dtype,
    shape: Vec<usize>,
    strides: Vec<usize>,
    /// In numbers, not bytes.
    offset: usize,
    storage: Bytes,
}

impl Tensor {
    /// A tensor of numbers in memory, row by row.
    #[cfg(test)]
    pub(crate) fn of(dtype: Dtype, shape: &[usize], bytes: Vec<u8>) -> Self {
        let strides = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
        let storage = Bytes::new(std::sync::Arc::new(bytes));
        Self { dtype, shape: shape.to_vec(), strides, offset: 0, storage }
    }

    /// The type of its numbers.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The size of each axis; empty for a single number.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    pub(super) fn read(path: &Path, archive: &Archive, node: Node<'_>) -> Result<Self, CheckpointError> {
        let damaged = |fault: String| CheckpointError::Damaged { path: path.to_owned(), fault };
        let unsupported = |fault: String| CheckpointError::Unsupported { path: path.to_owned(), fault };
        let no_tensor = || damaged(format!("{} is where a tensor should be", node.kind()));
        let (module, function, arguments) = rebuilt(node).ok_or_else(no_tensor)?;
        match (module, function) {
            ("torch._utils", "_rebuild_tensor_v2" | "_rebuild_tensor_v3") => {}
            ("torch._utils" | "torch._tensor" | "torch.distributed.tensor", _) => {
                let fault =
                    format!("a tensor in it is made by {module}.{function}: save plain ones (DTensor.full_tensor())");
                return Err(unsupported(fault));
            }
            _ => return Err(no_tensor()),
        }
        let [storage, offset, size, stride] = arguments.tuple().ok_or_else(no_tensor)?;
        let storage = storage.persistent().and_then(|id| id.tuple::<5>()).ok_or_else(no_tensor)?;
        let [kind, class, key, _, _] = storage;
        if kind.text() != Some("storage") {
            return Err(no_tensor());
        }
        let (_, class) = class.global().ok_or_else(no_tensor)?;
        let dtype = match class {
            // The type is an argument next to the view.
            "UntypedStorage" => {
                let [_, _, _, _, _, _, dtype] = arguments.tuple().ok_or_else(no_tensor)?;
                dtype.global().map_or("nothing", |(_, name)| name)
            }
            class => class,
        };
        let dtype = dtype_of(dtype).ok_or_else(|| {
            unsupported(format!("numbers of the type {dtype} in it are not read: convert them first"))
        })?;
        let key = key.text().ok_or_else(no_tensor)?;
        let storage = archive.get(&format!("data/{key}")).ok_or_else(|| damaged(format!("it has no data/{key}")))?;
        let sizes = |node: Node<'_>| node.size().filter(|all| all.len() <= MOST_AXES);
        let parts = || Some((offset.count()?, sizes(size)?, sizes(stride)?));
        let (offset, shape, strides) = parts().ok_or_else(no_tensor)?;
        let tensor = Self { dtype, shape, strides, offset, storage: storage.clone() };
        if tensor.fits() { Ok(tensor) } else { Err(damaged(format!("a tensor reaches past data/{key}"))) }
    }

    /// Whether all its numbers are in the storage.
    fn fits(&self) -> bool {
        if self.shape.len() != self.strides.len() {
            return false;
        }
        let has_size = self.shape.iter().try_fold(1usize, |numel, &size| numel.checked_mul(size));
        let last = || {
            let mut axes = self.shape.iter().zip(&self.strides);
            axes.try_fold(self.offset, |last, (size, stride)| last.checked_add((size - 1).checked_mul(*stride)?))
        };
        let holds = self.storage.get().len() / bytes(self.dtype);
        match has_size {
            None => false,
            Some(0) => true,
            // A tensor that overlaps itself could claim more numbers than there are.
            Some(numel) => numel <= holds && last().is_some_and(|last| last < holds),
        }
    }

    /// The elements `from..to` of a contiguous one-dimensional tensor.
    pub(crate) fn narrow(&self, from: usize, to: usize) -> Option<Self> {
        let ([size], [1]) = (&*self.shape, &*self.strides) else { return None };
        (from <= to && to <= *size).then(|| {
            let (shape, offset) = (vec![to - from], self.offset + from);
            Self { shape, offset, strides: vec![1], storage: self.storage.clone(), dtype: self.dtype }
        })
    }

    /// Whether consecutive elements are contiguous.
    fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        self.shape.iter().zip(&self.strides).rev().all(|(&size, &stride)| {
            let fits = size == 1 || stride == expected;
            expected *= size;
            fits
        })
    }

    /// The numbers as bytes, row by row; without a copy if they are contiguous.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        let (width, all) = (bytes(self.dtype), self.storage.get());
        let numel = self.numel();
        if numel == 0 || self.is_contiguous() {
            let from = if numel == 0 { 0 } else { self.offset * width };
            return Cow::Borrowed(&all[from..from + numel * width]);
        }
        let mut out = Vec::with_capacity(numel * width);
        let mut index = vec![0; self.shape.len()];
        for _ in 0..numel {
            let at: usize = self.offset + index.iter().zip(&self.strides).map(|(i, stride)| i * stride).sum::<usize>();
            out.extend_from_slice(&all[at * width..(at + 1) * width]);
            for (i, size) in index.iter_mut().zip(&self.shape).rev() {
                *i += 1;
                if *i < *size {
                    break;
                }
                *i = 0;
            }
        }
        Cow::Owned(out)
    }
}

/// The function that builds a tensor, and its arguments, without wrappers that make it a parameter or add attributes.
fn rebuilt(mut node: Node<'_>) -> Option<(&str, &str, Node<'_>)> {
    // A parameter with attributes has two such layers.
    for _ in 0..3 {
        let (module, function, arguments) = node.call()?;
        match (module, function) {
            ("torch._tensor", "_rebuild_from_type_v2") => {
                let [function, class, inner] = arguments.tuple()?;
                // The numbers of other tensor classes cannot be read as plain bytes.
                if !matches!(class.global()?.1, "Tensor" | "Parameter" | "Buffer") {
                    return Some((module, "_rebuild_from_type_v2", arguments));
                }
                match function.global()? {
                    (module, function) if function.starts_with("_rebuild_tensor") => {
                        return Some((module, function, inner));
                    }
                    _ => [node] = inner.tuple()?,
                }
            }
            ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => [node] = arguments.tuple()?,
            _ => return Some((module, function, arguments)),
        }
    }
    None
}

/// The size of a number in bytes.
pub(crate) fn bytes(dtype: Dtype) -> usize {
    dtype.bitsize() / 8
}

/// The types, by the names of torch's storages and by their own.
pub(crate) fn dtype_of(name: &str) -> Option<Dtype> {
    Some(match name {
        "DoubleStorage" | "float64" => Dtype::F64,
        "FloatStorage" | "float32" => Dtype::F32,
        "HalfStorage" | "float16" => Dtype::F16,
        "BFloat16Storage" | "bfloat16" => Dtype::BF16,
        "LongStorage" | "int64" => Dtype::I64,
        "IntStorage" | "int32" => Dtype::I32,
        "ShortStorage" | "int16" => Dtype::I16,
        "CharStorage" | "int8" => Dtype::I8,
        "ByteStorage" | "uint8" => Dtype::U8,
        "BoolStorage" | "bool" => Dtype::BOOL,
        "uint16" => Dtype::U16,
        "uint32" => Dtype::U32,
        "uint64" => Dtype::U64,
        "float8_e4m3fn" => Dtype::F8_E4M3,
        "float8_e5m2" => Dtype::F8_E5M2,
        _ => return None,
    })
}
