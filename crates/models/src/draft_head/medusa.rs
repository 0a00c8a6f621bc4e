//! Heads that independently guess the tokens after the next one, all from one hidden state (Cai et al., *Medusa: Simple
//! LLM Inference Acceleration Framework with Multiple Decoding Heads*, ICML 2024, section 2.1).
//!
//! Head `k` gives the distribution of the token `k + 1` positions after the one that the model itself decides, from
//!
//! ```text
//! W2 (h + SiLU(W1 h + b))
//! ```
//!
//! with its own `W1` and `b`, and with its own `W2` or rows of the model's output matrix.

use std::sync::Arc;

use verdigris_kernels::{Activation, activate, linear};
use verdigris_logits::TokenId;

use super::files::DraftFiles;
use crate::description::parts::Projection;
use crate::description::weight::Weight;
use crate::error::ModelError;
use crate::language_model::Rows;

/// The maximum number of heads.
const MOST: usize = 16;

/// The weights of some heads, shared by all texts.
#[derive(Clone, Debug)]
pub struct MedusaHeads {
    heads: Arc<[Head]>,
    /// Rows of the model's output matrix, for heads without their own.
    output: Weight,
    tokens: Arc<[TokenId]>,
    width: usize,
}

#[derive(Debug)]
struct Head {
    block: Projection,
    output: Option<Weight>,
}

impl MedusaHeads {
    pub(super) fn new(files: DraftFiles) -> Result<Self, ModelError> {
        let size = |name: &str| files.fields.size(&[name]).map_err(|fault| files.wrong(fault));
        let (count, layers, width) = (size("medusa_num_heads")?, size("medusa_num_layers")?, files.config.width);
        if layers != 1 {
            return Err(files.wrong(format!("its heads have {layers} layers (medusa_num_layers), not 1")));
        }
        if !(1..=MOST).contains(&count) {
            return Err(files.wrong(format!("it has {count} heads (medusa_num_heads), not 1 to {MOST}")));
        }
        let head = |i: usize| {
            let name = |part: &str| format!("medusa_head.{i}.{part}");
            let matrix = files.checkpoint.matrix(&name("0.linear.weight"), [width, width])?;
            let bias = Some(files.checkpoint.vector(&name("0.linear.bias"), width)?);
            let (own, shape) = (name("1.weight"), [files.tokens.len(), width]);
            let output = files.checkpoint.has(&own).then(|| files.checkpoint.matrix(&own, shape)).transpose()?;
            Ok(Head { block: Projection { matrix, bias }, output })
        };
        let heads = (0..count).map(head).collect::<Result<_, ModelError>>()?;
        let DraftFiles { output, tokens, .. } = files;
        Ok(Self { heads, output, tokens: tokens.into(), width })
    }

    /// The number of heads.
    pub fn count(&self) -> usize {
        self.heads.len()
    }

    /// The length of a hidden state.
    pub fn hidden_size(&self) -> usize {
        self.width
    }

    /// The tokens that they can guess: a row has one logit for each, in this order.
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Writes a row for each of the first `count` heads, from a hidden state.
    ///
    /// # Panics
    /// If the state has another length, or there are fewer heads.
    pub fn guess(&self, hidden: &[f32], count: usize, rows: &mut Rows) {
        let (width, size) = (self.width, self.tokens.len());
        assert_eq!(hidden.len(), width, "a hidden state");
        let mut states = vec![0.0; count * width];
        for (head, state) in self.heads[..count].iter().zip(states.chunks_exact_mut(width)) {
            linear(hidden, head.block.matrix.matrix().weights(), state);
            let bias = head.block.bias.iter().flatten();
            state.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias);
            activate(Activation::Silu, state, None);
            state.iter_mut().zip(hidden).for_each(|(x, hidden)| *x += hidden);
        }
        let logits = rows.prepare(count, size);
        if self.heads[..count].iter().all(|head| head.output.is_none()) {
            return self.output.product(&states, logits);
        }
        for ((head, state), row) in self.heads.iter().zip(states.chunks_exact(width)).zip(logits.chunks_exact_mut(size))
        {
            head.output.as_ref().unwrap_or(&self.output).product(state, row);
        }
    }
}
