//! Medusa heads with gradients: [`verdigris_models::draft_head::medusa`] (Cai et al. 2024, section 2.2, where the
//! target is frozen).

use std::collections::BTreeMap;

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::ops::silu;
use serde_json::{Map, Value, json};
use verdigris_models::DecoderConfig;

use super::examples::Batch;
use super::head::{Guess, Guesses, Head};
use crate::error::TrainError;

/// Heads, each of which guesses a later token.
pub(super) struct Medusa {
    count: usize,
    variables: BTreeMap<String, Var>,
}

fn name(head: usize, part: &str) -> String {
    format!("medusa_head.{head}.{part}")
}

const WEIGHT: &str = "0.linear.weight";
const BIAS: &str = "0.linear.bias";
const OUTPUT: &str = "1.weight";

impl Medusa {
    /// Heads that return the target's own state, and so its guess at the next token, which is the paper's initial state
    /// too. With `output`, rows of the target's output matrix, each begins with a copy of them.
    pub(super) fn fresh(width: usize, count: usize, output: Option<&Tensor>) -> Result<Self> {
        let mut weights = BTreeMap::new();
        for head in 0..count {
            let zeros = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &Device::Cpu);
            weights.insert(name(head, WEIGHT), zeros(&[width, width])?);
            weights.insert(name(head, BIAS), zeros(&[width])?);
            if let Some(output) = output {
                weights.insert(name(head, OUTPUT), output.clone());
            }
        }
        Self::new(count, weights)
    }

    pub(super) fn new(count: usize, weights: BTreeMap<String, Tensor>) -> Result<Self> {
        let variables = weights.iter().map(|(name, weight)| Ok((name.clone(), Var::from_tensor(weight)?)));
        Ok(Self { count, variables: variables.collect::<Result<_>>()? })
    }
}

impl Head for Medusa {
    fn name(&self) -> &'static str {
        "medusa"
    }

    fn variables(&self) -> &BTreeMap<String, Var> {
        &self.variables
    }

    fn description(&self, _: &DecoderConfig) -> Map<String, Value> {
        let Value::Object(description) = json!({
            "model_type": "verdigris_medusa",
            "medusa_num_heads": self.count,
            "medusa_num_layers": 1,
        }) else {
            unreachable!("it is an object")
        };
        description
    }

    fn guesses(&self, batch: &Batch) -> std::result::Result<Guesses, TrainError> {
        // Nothing is guessed without an earlier state.
        let places: Vec<(usize, usize)> = batch.places(1).collect();
        let flat = |text: usize, at: usize| (text * batch.length + at) as u32;
        let target = batch.states(&places.iter().map(|&(text, at)| flat(text, at)).collect::<Vec<_>>())?;
        let guess = |head: usize| {
            let before = |at: usize| at.checked_sub(head + 1);
            let from: Vec<u32> = places.iter().map(|&(text, at)| flat(text, before(at).unwrap_or(0))).collect();
            let counts = places
                .iter()
                .map(|&(text, at)| before(at).is_some_and(|at| batch.decides[text * batch.length + at]))
                .collect();
            let hidden = batch.states(&from)?;
            let block = hidden.matmul(&self.variables[&name(head, WEIGHT)].t()?)?;
            let block = silu(&block.broadcast_add(&self.variables[&name(head, BIAS)])?)?;
            let output = self.variables.get(&name(head, OUTPUT)).map(|var| var.as_tensor().clone());
            Ok(Guess { states: (hidden + block)?, output, counts })
        };
        let each = (0..self.count).map(guess).collect::<Result<_>>()?;
        Ok(Guesses { target, each, capped: false })
    }
}
