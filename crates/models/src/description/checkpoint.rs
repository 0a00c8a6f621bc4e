//! Named weights in files, as they are stored, with an adapter's changes.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use verdigris_kernels::{Bytes, Format};

use crate::description::adapter::{Adapter, plain_name};
use crate::description::matrix::Matrix;
use crate::description::stored_tensor::{StoredTensor, parse_safetensors};
use crate::description::weight::Weight;
use crate::error::ModelError;

/// The output head of a reward model.
const SCORES: &str = "score.weight";

/// A model's weights by their names.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    tensors: HashMap<String, StoredTensor>,
    adapter: Option<Adapter>,
    has_scores: bool,
}

impl Checkpoint {
    pub(crate) fn of(tensors: HashMap<String, StoredTensor>) -> Self {
        Self { tensors, adapter: None, has_scores: false }
    }

    /// Adds a safetensors file in memory.
    pub(crate) fn add_safetensors(&mut self, path: &Path, bytes: &Bytes) -> Result<(), ModelError> {
        self.tensors.extend(parse_safetensors(path, bytes)?);
        Ok(())
    }

    /// The same weights, changed by an adapter.
    pub(crate) fn adapted(mut self, adapter: Adapter) -> Result<Self, ModelError> {
        // The model may have no output matrix of its own (it can be the embedding), and a language model has no head
        // for scores.
        const OUTPUTS: [&str; 3] = ["lm_head.weight", "embed_out.weight", SCORES];
        let names: HashSet<&str> = self.tensors.keys().map(|name| plain_name(name)).chain(OUTPUTS).collect();
        adapter.check(&names)?;
        self.adapter = Some(adapter);
        Ok(self)
    }

    /// The same weights for a reward model, which returns one score instead of logits. Also returns the number of
    /// scores of its head, or `None` if it has no head.
    pub(crate) fn with_scores(mut self) -> (Self, Option<usize>) {
        self.has_scores = true;
        let scores = self.stored(SCORES).and_then(StoredTensor::rows);
        (self, scores)
    }

    /// The matrix that computes a score from the last hidden state, for a reward model.
    pub(crate) fn scores(&self, width: usize) -> Option<Result<Weight, ModelError>> {
        self.has_scores.then(|| self.matrix(SCORES, [1, width]))
    }

    /// The weights to which `rename` gives a name, without an adapter's changes.
    pub(crate) fn renamed(&self, rename: impl Fn(&str) -> Option<String>) -> Self {
        let renamed = |(name, stored): (&String, &StoredTensor)| Some((rename(name)?, stored.clone()));
        Self::of(self.tensors.iter().filter_map(renamed).collect())
    }

    /// Whether there is a weight of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The names of all weights.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The shape of the weight of this name.
    pub(crate) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|stored| &stored.shape[..])
    }

    /// Whether both weights are stored, and differ.
    pub(crate) fn differ(&self, one: &str, other: &str) -> bool {
        let stored = |name| self.tensors.get(name).and_then(|stored| stored.checked().ok());
        match (stored(one), stored(other)) {
            (Some(one), Some(other)) => one.0 != other.0 || one.1.get() != other.1.get(),
            _ => false,
        }
    }

    /// The matrix (`out x in`) of this name.
    pub(crate) fn matrix(&self, name: &str, shape: [usize; 2]) -> Result<Weight, ModelError> {
        self.changed(name, self.matrix_of(name, self.stored(name), shape)?)
    }

    /// The matrix (`out x in`) of this name, which is stored transposed.
    pub(crate) fn transposed(&self, name: &str, [out, input]: [usize; 2]) -> Result<Weight, ModelError> {
        self.changed(name, self.matrix_of(name, self.stored(name), [input, out])?.transposed())
    }

    /// The bytes of a tensor of unsigned bytes.
    pub(crate) fn bytes(&self, name: &str, shape: &[usize]) -> Result<Bytes, ModelError> {
        let wrong = |fault: String| ModelError::Weight { name: name.into(), fault };
        let stored = self.stored(name).ok_or_else(|| wrong("is missing".into()))?;
        if stored.shape != shape {
            return Err(wrong(format!("has shape {}, not {shape:?}", stored.shape())));
        }
        let length = shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size));
        match &stored.format {
            Err(kind) if kind == "U8" && length == Some(stored.bytes.get().len()) => Ok(stored.bytes.clone()),
            _ => Err(wrong("is not a tensor of unsigned bytes (U8)".into())),
        }
    }

    /// The matrices of a tensor that has several of the same shape, one after the other. An adapter cannot change them.
    pub(crate) fn stacked(&self, name: &str, [count, rows, columns]: [usize; 3]) -> Result<Vec<Matrix>, ModelError> {
        let weight = |fault: String| ModelError::Weight { name: name.into(), fault };
        let (format, bytes) = self.checked(name, self.stored(name), &[count, rows, columns])?;
        let all = Matrix::new(format, bytes, columns)
            .ok_or_else(|| weight(format!("rows of {columns} weights are not whole blocks of {format:?}")))?;
        Ok((0..count).map(|i| all.part(i * rows..(i + 1) * rows)).collect())
    }

    /// The output matrix of a model that uses its embedding for it. An adapter may change the two differently.
    pub(crate) fn tied(&self, name: &str, embedding: &str, shape: [usize; 2]) -> Result<Weight, ModelError> {
        let adapter = self.adapter.as_ref();
        let own = adapter.and_then(|adapter| adapter.whole(name).or_else(|| adapter.of_base(embedding)));
        let stored = own.or_else(|| self.tensors.get(embedding));
        self.changed(name, self.matrix_of(embedding, stored, shape)?)
    }

    /// The vector of this name.
    pub(crate) fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, ModelError> {
        let (format, bytes) = self.checked(name, self.stored(name), &[length])?;
        let matrix = Matrix::new(format, bytes, length);
        matrix.map(|matrix| matrix.numbers()).ok_or_else(|| ModelError::Weight {
            name: name.into(),
            fault: format!("{length} numbers are not whole blocks of {format:?}"),
        })
    }

    /// The integers of this name, if it is there.
    pub(crate) fn integers(&self, name: &str) -> Result<Option<Vec<u32>>, ModelError> {
        let wrong = |fault: String| ModelError::Weight { name: name.into(), fault };
        self.stored(name).map(|stored| stored.as_integers().map_err(wrong)).transpose()
    }

    /// The `length` truth values of this name, if it is there.
    pub(crate) fn truth_values(&self, name: &str, length: usize) -> Result<Option<Vec<bool>>, ModelError> {
        let values = |stored: &StoredTensor| match &stored.format {
            Err(kind) if matches!(&kind[..], "BOOL" | "U8") && stored.shape == [length] => {
                Ok(stored.bytes.get().iter().map(|&byte| byte != 0).collect())
            }
            _ => {
                let fault = format!("is not a list of {length} truth values (BOOL)");
                Err(ModelError::Weight { name: name.into(), fault })
            }
        };
        self.stored(name).map(values).transpose()
    }

    fn changed(&self, name: &str, matrix: Matrix) -> Result<Weight, ModelError> {
        match &self.adapter {
            Some(adapter) => adapter.change(name, matrix),
            None => Ok(matrix.into()),
        }
    }

    fn matrix_of(&self, name: &str, stored: Option<&StoredTensor>, shape: [usize; 2]) -> Result<Matrix, ModelError> {
        let (format, bytes) = self.checked(name, stored, &shape)?;
        Matrix::new(format, bytes, shape[1]).ok_or_else(|| {
            let fault = format!("rows of {} weights are not whole blocks of {format:?}", shape[1]);
            ModelError::Weight { name: name.into(), fault }
        })
    }

    fn stored(&self, name: &str) -> Option<&StoredTensor> {
        let whole = self.adapter.as_ref().and_then(|adapter| adapter.whole(name));
        whole.or_else(|| self.tensors.get(name))
    }

    fn checked(
        &self,
        name: &str,
        stored: Option<&StoredTensor>,
        shape: &[usize],
    ) -> Result<(Format, Bytes), ModelError> {
        let weight = |fault: String| match self.adapter.as_ref().filter(|adapter| adapter.whole(name).is_some()) {
            Some(adapter) => adapter.wrong(name, fault),
            None => ModelError::Weight { name: name.to_owned(), fault },
        };
        let stored = stored.ok_or_else(|| weight("is missing".into()))?;
        if stored.shape != shape {
            return Err(weight(format!("has shape {}, not {shape:?}", stored.shape())));
        }
        stored.checked().map_err(weight)
    }
}
