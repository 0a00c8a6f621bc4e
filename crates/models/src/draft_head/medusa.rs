//! Heads that independently guess the tokens after the next one, all from one hidden state (Cai et al., *Medusa: Simple
//! LLM Inference Acceleration Framework with Multiple Decoding Heads*, ICML 2024, section 2.1).
//!
//! Head `k` gives the distribution of the token `k + 1` positions after the one that the model itself decides, from
//!
//! ```text
//! W2 (h + SiLU(W1 h + b))
//! ```
//!
//! with its own `W1` and `b`, or several such blocks one after the other, and with its own `W2` or rows of the model's
//! output matrix.
//!
//! The authors publish heads as tensors `{head}.{block}.linear.weight`, `{head}.{block}.linear.bias` and, for `W2`,
//! `{head}.{blocks}.weight`. Their files count the heads wrongly (`medusa_num_heads`), so the tensors are counted.

use std::sync::Arc;

use verdigris_kernels::{Activation, activate, linear};
use verdigris_logits::TokenId;
use verdigris_text::shown;

use super::files::DraftFiles;
use super::kind::Kind;
use crate::description::parts::Projection;
use crate::description::weight::Weight;
use crate::error::ModelError;
use crate::language_model::Rows;

/// The maximum number of heads.
const MOST: usize = 16;

/// The maximum number of blocks of a head.
const MOST_BLOCKS: usize = 8;

/// The prefix of the names of all tensors, which published heads may lack.
const PREFIX: &str = "medusa_head.";

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
    blocks: Vec<Projection>,
    output: Option<Weight>,
}

impl MedusaHeads {
    pub(super) fn new(files: DraftFiles) -> Result<Self, ModelError> {
        let size = |name: &str| files.fields.size(&[name]).map_err(|fault| files.wrong(fault));
        let (layers, width) = (size("medusa_num_layers")?, files.config.width);
        if !(1..=MOST_BLOCKS).contains(&layers) {
            return Err(
                files.wrong(format!("its heads have {layers} blocks (medusa_num_layers), not 1 to {MOST_BLOCKS}"))
            );
        }
        let prefix = match files.checkpoint.names().any(|name| name.starts_with(PREFIX)) {
            true => PREFIX,
            false => "",
        };
        let count = match files.kind() {
            Kind::PublishedMedusa => counted(&files, prefix, layers)?,
            _ => size("medusa_num_heads")?,
        };
        if !(1..=MOST).contains(&count) {
            return Err(files.wrong(format!("it has {count} heads (medusa_num_heads), not 1 to {MOST}")));
        }
        let head = |i: usize| {
            let block = |layer: usize| {
                let name = |part: &str| format!("{prefix}{i}.{layer}.linear.{part}");
                let matrix = files.checkpoint.matrix(&name("weight"), [width, width])?;
                Ok(Projection { matrix, bias: Some(files.checkpoint.vector(&name("bias"), width)?) })
            };
            let (own, shape) = (format!("{prefix}{i}.{layers}.weight"), [files.tokens.len(), width]);
            let output = files.checkpoint.has(&own).then(|| files.checkpoint.matrix(&own, shape)).transpose()?;
            Ok(Head { blocks: (0..layers).map(block).collect::<Result<_, ModelError>>()?, output })
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
        let (mut states, mut change) = (vec![0.0; count * width], vec![0.0; width]);
        for (head, state) in self.heads[..count].iter().zip(states.chunks_exact_mut(width)) {
            state.copy_from_slice(hidden);
            for block in &head.blocks {
                linear(state, block.matrix.matrix().weights(), &mut change);
                let bias = block.bias.iter().flatten();
                change.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias);
                activate(Activation::Silu, &mut change, None);
                state.iter_mut().zip(&change).for_each(|(x, change)| *x += change);
            }
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

/// The number of published heads, if they fit the model.
fn counted(files: &DraftFiles, prefix: &str, layers: usize) -> Result<usize, ModelError> {
    let shape = |part: &str| files.checkpoint.shape(&format!("{prefix}0.{part}"));
    let (Some(&[_, width]), output) = (shape("0.linear.weight"), shape(&format!("{layers}.weight"))) else {
        return Err(files.wrong(format!("its weights have no matrix {prefix}0.0.linear.weight, as Medusa heads have")));
    };
    let vocabulary = output.and_then(|shape| shape.first().copied()).unwrap_or(files.tokens.len());
    if (width, vocabulary) != (files.config.width, files.tokens.len()) {
        let name = files.fields.text("base_model_name_or_path").ok().flatten().unwrap_or("another model");
        return Err(files.wrong(format!(
            "it was trained for {} with hidden_size {width} and vocab_size {vocabulary}, but this model has {} and {}: \
             take the model that it was trained for",
            shown(name),
            files.config.width,
            files.tokens.len()
        )));
    }
    let head = |name: &str| name.strip_prefix(prefix)?.split_once('.')?.0.parse::<usize>().ok();
    Ok(files.checkpoint.names().filter_map(head).max().unwrap_or_default().saturating_add(1))
}
