//! Published heads that guess several tokens at once: DFlash (Chen et al., *DFlash: Block Diffusion for Flash
//! Speculative Decoding*, arXiv:2602.06036) and DSpark (DeepSeek-AI, 2026).
//!
//! A head reads the states `h` after some of the target's layers. Each token of the text is one row of its context,
//!
//! ```text
//! c = norm(fc [h; h; ...])
//! ```
//!
//! and the keys and values of a token are, in each layer, products of this row. The last token of the text, whose
//! states are not known yet, and masks for the next tokens are a block: a few layers read it at once, attend to the
//! context and, in both directions, to each other, and each of its rows is a guess.
//!
//! In DFlash a row guesses the token at its own position, so the first one guesses nothing. In DSpark it guesses the
//! token after its position, and `W2 W1[t]` is added to its logits for the token `t` at its position, which the caller
//! chooses ([`BlockSequence::after`]). DSpark's confidence in its guesses is not used: the number of drafts is chosen
//! by measurements.
//!
//! The library speculators writes DSpark with the description of its layers in a field of its own
//! (`transformer_layer_config`), lists the layers whose inputs are read, and trains the rows after the first one only.

use std::sync::Arc;

use serde_json::Value;
use verdigris_kernels::rms_norm;
use verdigris_logits::TokenId;
use verdigris_text::shown;

use super::draft_vocabulary;
use super::files::DraftFiles;
use super::fusion::Taps;
use crate::cache::CacheLayout;
use crate::cpu::{CpuDecoder, CpuItem, Given, Peers, Sight, State, Work, forward, give, reserve};
use crate::description::config::{DecoderConfig, Mixer, Norm};
use crate::description::families::{Fields, LLAMA, llama_layers};
use crate::description::parts::Parts;
use crate::description::weight::Weight;
use crate::error::ModelError;
use crate::language_model::{Batch, Rows, Wanted};

/// The most tokens of a block.
const MOST: usize = 64;

/// The weights of a head, shared by all texts.
#[derive(Clone, Debug)]
pub struct BlockModel {
    decoder: Arc<CpuDecoder>,
    taps: Arc<Taps>,
    /// The norm of the context.
    norm: Arc<[f32]>,
    markov: Option<Arc<Markov>>,
    block: Block,
    tokens: Arc<[TokenId]>,
}

/// The block of a head.
#[derive(Clone, Copy, Debug)]
struct Block {
    mask: TokenId,
    /// The number of its tokens.
    size: usize,
    /// The number of its first rows that guess nothing.
    silent: usize,
    sight: Sight,
}

/// The change of a row by the token before: `W2 W1[t]`.
#[derive(Debug)]
struct Markov {
    /// `W1`: `tokens x rank`.
    before: Weight,
    /// `W2`: `tokens that can be guessed x rank`.
    after: Weight,
}

/// The shape of a head.
struct Shape {
    config: DecoderConfig,
    /// The fields of its layers, if they are in a field of their own.
    inner: Option<Fields>,
    layers: Vec<usize>,
    block: Block,
    vocabulary: usize,
    rank: Option<usize>,
}

impl BlockModel {
    pub(super) fn new(files: DraftFiles) -> Result<Self, ModelError> {
        let Shape { config, inner, layers, block, vocabulary, rank } =
            shape(&files).map_err(|fault| files.wrong(fault))?;
        let (checkpoint, width) = (&files.checkpoint, config.width);
        let Norm::Rms { epsilon } = config.norm else { unreachable!("Qwen3 has no other norm") };
        let (decoder_layers, norm) = llama_layers(checkpoint, &config, inner.as_ref().unwrap_or(&files.fields))?;
        let taps = Taps {
            matrix: checkpoint.matrix("fc.weight", [width, layers.len() * width])?,
            norm: None,
            width,
            layers: layers.into(),
            epsilon: epsilon as f32,
        };
        let tokens = draft_vocabulary::of(&files, vocabulary)?;
        let [embedding, output] = files.own_or_of_target([config.vocabulary, width], &tokens)?;
        let markov = rank.map(|rank| {
            let matrix = |name: &str, rows| checkpoint.matrix(&format!("markov_head.{name}.weight"), [rows, rank]);
            let markov =
                Markov { before: matrix("markov_w1", config.vocabulary)?, after: matrix("markov_w2", tokens.len())? };
            Ok::<_, ModelError>(Arc::new(markov))
        });
        let markov = markov.transpose()?;
        let norm_of_context = checkpoint.vector("hidden_norm.weight", width)?.into();
        let parts = Parts::new(embedding, decoder_layers, norm, output);
        let decoder = Arc::new(CpuDecoder::new(config, parts, None, CacheLayout::DEFAULT)?);
        Ok(Self { decoder, taps: Arc::new(taps), norm: norm_of_context, markov, block, tokens: tokens.into() })
    }

    /// The number of tokens that it guesses at once.
    pub fn count(&self) -> usize {
        self.block.size - self.block.silent
    }

    /// The tokens that it can guess: its rows have one logit for each, in this order.
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// The length of the target's hidden states.
    pub fn hidden_size(&self) -> usize {
        self.taps.width
    }

    /// The layers after which it reads the target's states: see [`Rows::with_layers`].
    pub fn layers(&self) -> &[usize] {
        &self.taps.layers
    }

    /// The most tokens that a text with its block can have.
    pub fn context_length(&self) -> usize {
        self.decoder.config.context
    }

    /// Begins a text with room for `capacity` tokens, those of a block included.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`] for more than the context, and an error if there is not enough memory.
    pub fn begin(&self, capacity: usize) -> Result<BlockSequence, ModelError> {
        let state = State::new(&self.decoder, capacity)?;
        Ok(BlockSequence { model: self.clone(), state, work: Work::default(), read: Vec::new(), context: Vec::new() })
    }
}

/// One text as a head sees it: the tokens whose states the target has computed.
pub struct BlockSequence {
    model: BlockModel,
    state: State,
    work: Work,
    read: Vec<f32>,
    context: Vec<f32>,
}

impl BlockSequence {
    /// The number of tokens of its context.
    pub fn len(&self) -> usize {
        self.state.held.length()
    }

    /// Whether its context has no token.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is room for some more tokens and a block.
    pub fn has_room(&self, tokens: usize) -> bool {
        self.len() + tokens + self.model.block.size <= self.state.held.capacity()
    }

    /// Appends tokens to the context, by the target's states of each: `tokens x layers x hidden size`.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`], and an error if there is not enough memory.
    pub fn read(&mut self, of_target: &[f32]) -> Result<(), ModelError> {
        let Self { model: BlockModel { decoder, taps, norm, .. }, state, work, read, context } = self;
        read.clear();
        taps.read(of_target, read);
        context.resize(read.len(), 0.0);
        rms_norm(read, norm, taps.epsilon, context);
        let given: Vec<_> = (0..decoder.config.blocks.len()).map(|to| Given { to, rows: &context[..] }).collect();
        give(decoder, state, &given, work)
    }

    /// Guesses the tokens after `last`, the one after the context: writes a row for each of them
    /// ([`BlockModel::count`]), to which [`BlockSequence::after`] is to be added.
    ///
    /// # Errors
    /// [`ModelError::UnknownToken`], [`ModelError::ContextFull`], and an error if there is not enough memory.
    pub fn guess(&mut self, last: TokenId, rows: &mut Rows) -> Result<(), ModelError> {
        let Self { model: BlockModel { decoder, block: Block { mask, size, silent, sight }, .. }, state, work, .. } =
            self;
        let length = state.held.length();
        let mut tokens = vec![*mask; *size];
        tokens[0] = last;
        let batch = Batch::chain(&tokens, Wanted::From(*silent));
        state.held.after(&batch, decoder.config.vocabulary)?;
        let items = &mut [CpuItem { state, batch, beginning: None, sight: *sight, rows }];
        reserve(decoder, items)?;
        forward(decoder, items, work, &mut Peers::none())?;
        state.held.truncate(length);
        Ok(())
    }

    /// Adds to the logits of a guess what depends on the token before it.
    ///
    /// # Panics
    /// If the row has another length than the head has tokens.
    pub fn after(&self, before: TokenId, row: &mut [f32]) {
        let Some(markov) = &self.model.markov else { return };
        assert_eq!(row.len(), markov.after.rows(), "a logit for each token");
        if (before as usize) < markov.before.rows() {
            let (mut x, mut change) = (vec![0.0; markov.before.columns()], vec![0.0; row.len()]);
            markov.before.decode(before as usize, &mut x);
            markov.after.product(&x, &mut change);
            row.iter_mut().zip(change).for_each(|(logit, change)| *logit += change);
        }
    }
}

fn shape(files: &DraftFiles) -> Result<Shape, String> {
    let (fields, of_target) = (&files.fields, &files.config);
    let inner = files.fields_of_layers()?;
    let of_layers = inner.as_ref().unwrap_or(fields);
    let nested = fields.inner("dflash_config")?;
    let of = |name: &str| nested.as_ref().filter(|nested| nested.get(name).is_some()).unwrap_or(fields);
    let size = |name: &str| of(name).size_or(&[name]);
    let missing = |name: &str| format!("{name} is missing");
    let model_type = of_layers.model_type()?;
    if model_type != "qwen3" {
        return Err(format!("its layers are those of {:?}, which are not supported; Qwen3's are", shown(model_type)));
    }
    let is_one = |value: &Value| value.as_f64() == Some(1.0);
    of("output_multiplier").refuse("output_multiplier", is_one)?;
    of("attention_value_scale").refuse("attention_value_scale", is_one)?;
    of("final_logit_softcapping").refuse("final_logit_softcapping", |value| value.as_f64() == Some(0.0))?;
    of("conv_kernel_size").refuse("conv_kernel_size", |_| false)?;
    of_layers.refuse("rope_is_neox_style", |value| value == true)?;
    let mut config = files.config_of(LLAMA, of_layers)?;
    files.check_target(config.width, config.vocabulary)?;
    if of("use_swa").flag("use_swa", false)? {
        let window = size("swa_window_size")?.ok_or_else(|| missing("swa_window_size"))?;
        for block in &mut config.blocks {
            if let Mixer::Attention(attention) = &mut block.mixer {
                attention.window = Some(window);
            }
        }
    }
    if let Some(scale) = of("input_embedding_scale").number("input_embedding_scale")? {
        config.embedding_scale = Some(scale);
    }
    let causal = match fields.get("is_causal").filter(|value| !value.is_null()) {
        Some(_) => Some(fields.flag("is_causal", false)?),
        None => nested
            .as_ref()
            .filter(|nested| nested.get("causal").is_some_and(|value| !value.is_null()))
            .map(|nested| nested.flag("causal", false))
            .transpose()?,
    };
    let inputs = fields.list(INPUTS)?;
    let is_of_speculators = inner.is_some() || inputs.is_some();
    let is_dspark =
        is_of_speculators || fields.list("architectures")?.is_some_and(|names| names.iter().any(|name| name == DSPARK));
    let sight = match causal {
        Some(true) => Sight::Before,
        Some(false) => Sight::All { but_windows: false },
        None => Sight::All { but_windows: !is_dspark },
    };
    let block = size("block_size")?.unwrap_or(16);
    let samples_anchor = fields.flag("sample_from_anchor", is_dspark && !is_of_speculators)?;
    let silent = usize::from(!samples_anchor);
    if !(1 + silent..=MOST).contains(&block) {
        return Err(format!("its blocks have {block} tokens (block_size), not {} to {MOST}", 1 + silent));
    }
    let mask = size("mask_token_id")?.ok_or_else(|| missing("mask_token_id"))?;
    let mask = TokenId::try_from(mask).ok().filter(|&mask| (mask as usize) < config.vocabulary);
    let mask = mask.ok_or("mask_token_id is not a token of the model")?;
    let layers = match inputs {
        Some(inputs) => layers_read(INPUTS, inputs, 0, of_target.blocks.len())?,
        None => {
            let outputs = of(IDS).list(IDS)?.ok_or_else(|| missing(IDS))?;
            layers_read(IDS, outputs, 1, of_target.blocks.len())?
        }
    };
    let rank = fields.size_or(&["markov_rank"])?.filter(|&rank| rank > 0);
    if rank.is_some() {
        fields.refuse("markov_head_type", |value| value == "vanilla")?;
    }
    let vocabulary = fields.size_or(&["draft_vocab_size"])?.unwrap_or(config.vocabulary);
    let config = DecoderConfig { context: config.context.min(of_target.context), tied: false, ..config };
    config.check().map_err(|fault| fault.to_string())?;
    Ok(Shape { config, inner, layers, block: Block { mask, size: block, silent, sight }, vocabulary, rank })
}

/// The architecture whose rows guess the token after their position.
const DSPARK: &str = "Qwen3DSparkModel";

/// The field with the layers whose outputs are read, counted from 0; -1 are the embeddings.
const IDS: &str = "target_layer_ids";

/// The field of speculators with the layers whose inputs are read.
const INPUTS: &str = "aux_hidden_state_layer_ids";

/// The numbers of layers after which a head reads the states of a target with `count` layers: those of a list, and
/// `more` layers.
fn layers_read(name: &str, ids: &[Value], more: i64, count: usize) -> Result<Vec<usize>, String> {
    let number = |id: &Value| usize::try_from(id.as_i64()?.checked_add(more)?).ok();
    let layers: Option<Vec<usize>> = ids.iter().map(number).collect();
    // The output of the last layer would be taken after the norm in some programs, and before it in others.
    let fits =
        |layers: &Vec<usize>| layers.is_sorted_by(|a, b| a < b) && layers.last().is_some_and(|&last| last < count);
    layers.filter(fits).ok_or_else(|| {
        format!(
            "{name} is {}, but must be ascending layers of the model before its last one; it has {count}",
            shown(&Value::from(ids.to_vec()).to_string())
        )
    })
}
