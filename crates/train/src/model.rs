//! A model whose weights are variables.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use candle_core::{DType, Device, Tensor, Var};
use verdigris_logits::{Purpose, Random, TokenId};
use verdigris_models::DecoderConfig;

use crate::decoder::Decoder;
use crate::error::TrainError;
use crate::weights::{Weights, save};

/// The standard deviation of fresh weights.
pub(crate) const DEVIATION: f64 = 0.02;

/// A decoder in training: its weights can be changed in place.
pub struct TrainedModel {
    decoder: Decoder,
    variables: BTreeMap<String, Var>,
}

impl TrainedModel {
    /// A model that continues from the given weights.
    ///
    /// # Errors
    /// The same as [`Decoder::new`].
    pub fn new(config: DecoderConfig, weights: &Weights) -> Result<Self, TrainError> {
        // Built once to check that all weights are there and have the right shapes.
        Decoder::new(config.clone(), weights)?;
        let variables = weights
            .tensors()
            .iter()
            .filter(|(name, _)| !(config.tied && *name == "lm_head.weight"))
            .map(|(name, tensor)| Ok((name.clone(), Var::from_tensor(tensor)?)))
            .collect::<Result<BTreeMap<_, _>, TrainError>>()?;
        let tensors = variables.iter().map(|(name, var)| (name.clone(), var.as_tensor().clone())).collect();
        let decoder = Decoder::new(config, &Weights::from_tensors(tensors))?;
        Ok(Self { decoder, variables })
    }

    /// A model with fresh weights: normal with deviation 0.02, norms at one, and the matrices that write into the
    /// residual stream smaller by `sqrt(2 * layers)` (Radford et al. 2019, section 2.3). The shapes are those of
    /// `like`.
    ///
    /// # Errors
    /// The same as [`Decoder::new`].
    pub fn fresh(config: DecoderConfig, like: &Weights, seed: u64) -> Result<Self, TrainError> {
        let random = Random::new(seed);
        let mut draw = 0;
        let mut names: Vec<&String> = like.tensors().keys().collect();
        names.sort_unstable();
        let mut tensors = HashMap::new();
        for name in names {
            let shape = like.tensors()[name].shape();
            let deviation = match name {
                _ if name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight") => {
                    DEVIATION / (2.0 * config.blocks.len() as f64).sqrt()
                }
                _ if shape.rank() >= 2 => DEVIATION,
                _ => 0.0,
            };
            let center = if name.ends_with("norm.weight") { 1.0 } else { 0.0 };
            let values: Vec<f32> = (0..shape.elem_count())
                .map(|_| {
                    draw += 2;
                    (center + deviation * normal(&random, draw)) as f32
                })
                .collect();
            tensors.insert(name.clone(), Tensor::from_vec(values, shape.clone(), &Device::Cpu)?);
        }
        Self::new(config, &Weights::from_tensors(tensors))
    }

    /// The weights by name.
    pub fn variables(&self) -> &BTreeMap<String, Var> {
        &self.variables
    }

    /// The mean cross-entropy, in nats per token, of windows of equal length: each token but the first is predicted
    /// from those before it.
    ///
    /// # Errors
    /// [`TrainError::Compute`] if candle fails.
    pub fn loss(&self, windows: &[&[TokenId]]) -> Result<Tensor, TrainError> {
        let length = windows[0].len() - 1;
        let flat = |from: usize| -> Vec<TokenId> {
            windows.iter().flat_map(|window| &window[from..from + length]).copied().collect()
        };
        let inputs = Tensor::from_vec(flat(0), (windows.len(), length), &Device::Cpu)?;
        let targets = Tensor::from_vec(flat(1), windows.len() * length, &Device::Cpu)?;
        let logits = self.decoder.forward_differentiable(&inputs)?.flatten_to(1)?;
        Ok(candle_nn::loss::cross_entropy(&logits, &targets)?)
    }

    /// Writes the weights as safetensors, completely or not at all: in f16, or in f32 if one of them is too large for
    /// that. Returns the name of the type.
    ///
    /// # Errors
    /// [`TrainError::File`] if it cannot be written.
    pub fn save(&self, path: &Path) -> Result<&'static str, TrainError> {
        let (dtype, name) = match largest(&self.variables)? <= LARGEST {
            true => (DType::F16, "float16"),
            false => (DType::F32, "float32"),
        };
        let tensors = self
            .variables
            .iter()
            .map(|(name, var)| Ok((name.clone(), var.as_tensor().to_dtype(dtype)?)))
            .collect::<Result<HashMap<_, _>, TrainError>>()?;
        // Older versions of transformers refuse a file without this field.
        let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        save(path, &tensors, Some(metadata))?;
        Ok(name)
    }
}

/// The largest number of f16.
const LARGEST: f32 = 65504.0;

/// The largest absolute value of some weights.
fn largest(variables: &BTreeMap<String, Var>) -> Result<f32, TrainError> {
    let each = variables.values().map(|var| Ok(var.as_tensor().abs()?.max_all()?.to_scalar::<f32>()?));
    each.collect::<Result<Vec<f32>, TrainError>>().map(|all| all.into_iter().fold(0.0, f32::max))
}

/// A standard normal number by the Box-Muller transform.
pub(crate) fn normal(random: &Random, draw: u64) -> f64 {
    let (u, v) = (random.uniform(draw, Purpose::Weight), random.uniform(draw + 1, Purpose::Weight));
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}
