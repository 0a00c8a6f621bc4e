//! Gemma 4's assistants (Google, 2026): small decoders without keys and values of their own.
//!
//! For a token `t` that follows the text whose last token has the state `f`, an assistant computes
//!
//! ```text
//! h = norm(layers(into [embedding(t); f]))
//! logits = output h
//! ```
//!
//! with the target's embedding. Its layers attend to the keys and values that the last layers of the target with own
//! ones stored, one of full attention and one with a window, which are computed here again from the residual stream
//! before those layers. The next guess continues from `out h` instead of `f`, at the same position: whatever the
//! assistant has guessed, it sees the tokens of the text and no others.
//!
//! Some assistants compute few logits (`use_ordered_embeddings`): tokens are grouped, the groups with the highest
//! scores are chosen, and all other tokens have one less than the least logit of these.

use std::sync::Arc;

use serde_json::Value;
use verdigris_kernels::{Product, linear_all, rms_norm};
use verdigris_logits::TokenId;
use verdigris_text::shown;

use super::draft_vocabulary::presence;
use super::files::DraftFiles;
use crate::cache::CacheLayout;
use crate::cpu::{Beginning, CpuDecoder, CpuItem, Given, Peers, Sight, State, Work, forward, give, reserve};
use crate::description::config::{Attention, DecoderConfig, Mixer, Norm, Positions};
use crate::description::families::GEMMA4;
use crate::description::parts::Parts;
use crate::description::rotary::Angles;
use crate::description::weight::Weight;
use crate::error::ModelError;
use crate::language_model::{Batch, Rows, Wanted};

/// The most tokens that go through the layers at a time.
const AT_ONCE: usize = 16;

/// The weights of an assistant, shared by all texts.
#[derive(Clone, Debug)]
pub struct AssistantModel(Arc<Assistant>);

#[derive(Debug)]
struct Assistant {
    decoder: CpuDecoder,
    source: Source,
    /// The target's embedding, and its factor.
    embedding: Weight,
    embedding_scale: f32,
    /// `hidden size x (2 hidden size of the target)`.
    into: Weight,
    /// `hidden size of the target x hidden size`.
    out: Weight,
    groups: Option<Groups>,
    tokens: Vec<TokenId>,
}

/// The layers of the target whose keys and values are read.
#[derive(Debug)]
struct Source {
    decoder: CpuDecoder,
    /// The layer of the assistant that stores those of each.
    to: Vec<usize>,
    /// The numbers of layers before each, and of all.
    layers: Vec<usize>,
}

/// The tokens in groups.
#[derive(Debug)]
struct Groups {
    /// The scores of groups: `groups x hidden size`.
    scores: Weight,
    /// The number of groups that are chosen.
    chosen: usize,
    /// The tokens of all groups, one group after the other.
    order: Vec<TokenId>,
    /// The rows of the output matrix in this order.
    output: Weight,
}

impl AssistantModel {
    pub(super) fn new(mut files: DraftFiles) -> Result<Self, ModelError> {
        let Description { config, stores } = describe(&mut files).map_err(|fault| files.wrong(fault))?;
        config.check().map_err(|fault| files.wrong(fault.to_string()))?;
        let (width, of_target) = (config.width, files.config.width);
        let parts = (GEMMA4.parts)(&files.checkpoint, &without_keys(&config), &files.fields)?;
        let into = files.checkpoint.matrix("pre_projection.weight", [width, 2 * of_target])?;
        let out = files.checkpoint.matrix("post_projection.weight", [of_target, width])?;
        let groups = groups(&files, &parts.output)?;
        let decoder = CpuDecoder::new(config, parts, None, CacheLayout::DEFAULT)?;
        let DraftFiles { embedding, layers, norm, output, tokens, config, .. } = files;
        let source = {
            let (to, mut before): (Vec<usize>, Vec<usize>) = stores.into_iter().unzip();
            let blocks = before.iter().map(|&layer| config.blocks[layer].clone()).collect();
            let layers = before.iter().map(|&layer| layers[layer].clone()).collect();
            let parts = Parts::new(embedding.clone(), layers, norm, output);
            before.push(config.blocks.len());
            let config = DecoderConfig { blocks, per_layer: None, ..config.clone() };
            Source { decoder: CpuDecoder::new(config, parts, None, CacheLayout::DEFAULT)?, to, layers: before }
        };
        let embedding_scale = config.embedding_scale.unwrap_or(1.0) as f32;
        Ok(Self(Arc::new(Assistant { decoder, source, embedding, embedding_scale, into, out, groups, tokens })))
    }

    /// The tokens that it can guess: its rows have one logit for each, in this order.
    pub fn tokens(&self) -> &[TokenId] {
        &self.0.tokens
    }

    /// The length of the target's hidden states.
    pub fn hidden_size(&self) -> usize {
        self.0.out.rows()
    }

    /// The layers after which it reads the target's states: see [`Rows::with_layers`].
    pub fn layers(&self) -> &[usize] {
        &self.0.source.layers
    }

    /// The most tokens that a text can have.
    pub fn context_length(&self) -> usize {
        self.0.decoder.config.context
    }

    /// Begins a text with room for `capacity` tokens.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`] for more than the context, and an error if there is not enough memory.
    pub fn begin(&self, capacity: usize) -> Result<AssistantSequence, ModelError> {
        let state = State::new(&self.0.decoder, capacity)?;
        Ok(AssistantSequence { model: self.clone(), state, work: Work::default(), last: Vec::new() })
    }
}

/// One text as an assistant sees it: the tokens whose states the target has computed.
pub struct AssistantSequence {
    model: AssistantModel,
    state: State,
    work: Work,
    /// The target's state of the last token, after the last norm.
    last: Vec<f32>,
}

impl AssistantSequence {
    /// The number of tokens of the text.
    pub fn len(&self) -> usize {
        self.state.held.length()
    }

    /// Whether the text has no token.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of tokens that can be held. A guess needs room for one more.
    pub fn capacity(&self) -> usize {
        self.state.held.capacity()
    }

    /// The state from which the first guess continues.
    pub fn last_state(&self) -> &[f32] {
        &self.last
    }

    /// Appends tokens to the text, by the target's states of each: `tokens x layers x hidden size`.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`], and an error if there is not enough memory.
    pub fn read(&mut self, of_target: &[f32]) -> Result<(), ModelError> {
        let Self { model, state, work, last } = self;
        let Source { decoder, to, layers } = &model.0.source;
        let (width, a_token) = (decoder.config.width, layers.len() * decoder.config.width);
        // The rows of each layer after one another.
        let mut rows = vec![Vec::with_capacity(of_target.len() / layers.len()); to.len()];
        for token in of_target.chunks_exact(a_token) {
            rows.iter_mut().zip(token.chunks(width)).for_each(|(rows, state)| rows.extend_from_slice(state));
        }
        let (Norm::Rms { epsilon } | Norm::Layer { epsilon }) = decoder.config.norm;
        for (rows, layer) in rows.iter_mut().zip(&decoder.parts.layers) {
            let mut normed = vec![0.0; rows.len()];
            let scales = layer.mixer_norm.as_ref().expect("a norm before attention");
            rms_norm(rows, &scales.weight, epsilon as f32, &mut normed);
            *rows = normed;
        }
        let given: Vec<_> = to.iter().zip(&rows).map(|(&to, rows)| Given { to, rows }).collect();
        give(decoder, state, &given, work)?;
        if let Some(state) = of_target.chunks_exact(width).next_back() {
            last.resize(width, 0.0);
            rms_norm(state, &decoder.parts.norm.weight, epsilon as f32, last);
        }
        Ok(())
    }

    /// Guesses the token after each of some tokens, any of which may follow the text or other guesses. `states` has the
    /// state to continue from for each of them: `tokens x hidden size of the target`. Writes a logit for each of the
    /// [tokens](AssistantModel::tokens) that can be guessed, and the states from which later guesses continue.
    ///
    /// # Errors
    /// [`ModelError::UnknownToken`], [`ModelError::ContextFull`], and an error if there is not enough memory.
    ///
    /// # Panics
    /// If the text is empty, or if there is not one state per token.
    pub fn guess(
        &mut self,
        tokens: &[TokenId],
        states: &[f32],
        logits: &mut Vec<f32>,
        next: &mut Vec<f32>,
    ) -> Result<(), ModelError> {
        let Self { model, state, work, .. } = self;
        let Assistant { decoder, embedding, embedding_scale, into, out, groups, .. } = &*model.0;
        let (width, of_target) = (decoder.config.width, out.rows());
        assert!(states.len() == tokens.len() * of_target && state.held.length() > 0, "a state for each token");
        logits.resize(tokens.len() * model.0.tokens.len(), 0.0);
        next.resize(states.len(), 0.0);
        let length = state.held.length();
        let at_once = (state.held.capacity() - length).clamp(1, AT_ONCE);
        let to = logits.chunks_mut(at_once * model.0.tokens.len()).zip(next.chunks_mut(at_once * of_target));
        let from = tokens.chunks(at_once).zip(states.chunks(at_once * of_target));
        for ((tokens, states), (logits, next)) in from.zip(to) {
            let parents = vec![None; tokens.len()];
            let batch = Batch { wanted: Wanted::From(tokens.len()), ..Batch::tree(tokens, &parents) };
            state.held.after(&batch, embedding.rows())?;
            let mut joined = vec![0.0; 2 * states.len()];
            let each = joined.chunks_mut(2 * of_target).zip(states.chunks(of_target));
            for ((joined, state), &token) in each.zip(tokens) {
                embedding.decode(token as usize, &mut joined[..of_target]);
                joined[..of_target].iter_mut().for_each(|x| *x *= embedding_scale);
                joined[of_target..].copy_from_slice(state);
            }
            let (mut stream, mut rows) = (vec![0.0; tokens.len() * width], Rows::with_hidden());
            into.product(&joined, &mut stream);
            let beginning = Some(Beginning { stream: &stream, mixed: None });
            let items = &mut [CpuItem { state, batch, beginning, sight: Sight::Held, rows: &mut rows }];
            reserve(decoder, items)?;
            forward(decoder, items, work, &mut Peers::none())?;
            state.held.truncate(length);
            let hidden: Vec<f32> = (0..tokens.len()).flat_map(|i| rows.hidden(i).iter().copied()).collect();
            out.product(&hidden, next);
            match groups {
                None => decoder.parts.output.product(&hidden, logits),
                Some(groups) => {
                    let rows = logits.chunks_mut(model.0.tokens.len()).zip(hidden.chunks(width));
                    rows.for_each(|(logits, hidden)| groups.product(hidden, logits));
                }
            }
        }
        Ok(())
    }
}

impl Groups {
    /// Computes the logits of the chosen groups from one state. Those of other tokens are one less than the least of
    /// them.
    fn product(&self, hidden: &[f32], logits: &mut [f32]) {
        let mut scores = vec![0.0; self.scores.rows()];
        self.scores.product(hidden, &mut scores);
        let mut best: Vec<usize> = (0..scores.len()).collect();
        best.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        best.truncate(self.chosen);
        let size = self.order.len() / scores.len();
        let rows: Vec<Weight> = best.iter().map(|&group| self.output.part(group * size..(group + 1) * size)).collect();
        let mut of_chosen = vec![0.0; best.len() * size];
        let mut products: Vec<_> = (rows.iter().zip(of_chosen.chunks_mut(size)))
            .map(|(rows, out)| Product { x: hidden, w: rows.matrix().weights(), out })
            .collect();
        linear_all(hidden.len(), &mut products);
        logits.fill(of_chosen.iter().fold(f32::INFINITY, |least, &logit| least.min(logit)) - 1.0);
        for (group, of_group) in best.into_iter().zip(of_chosen.chunks(size)) {
            let tokens = &self.order[group * size..][..size];
            tokens.iter().zip(of_group).for_each(|(&token, &logit)| logits[token as usize] = logit);
        }
    }
}

/// The groups of an assistant's tokens, if it has any.
fn groups(files: &DraftFiles, output: &Weight) -> Result<Option<Groups>, ModelError> {
    let (fields, wrong) = (&files.fields, |fault: String| files.wrong(fault));
    if !fields.flag("use_ordered_embeddings", false).map_err(wrong)? {
        return Ok(None);
    }
    const ORDER: &str = "masked_embedding.token_ordering";
    let vocabulary = output.rows();
    let size =
        |name: &str, otherwise| Ok::<_, ModelError>(fields.size_or(&[name]).map_err(wrong)?.unwrap_or(otherwise));
    let (count, chosen) = (size("num_centroids", 2048)?, size("centroid_intermediate_top_k", 32)?);
    if count == 0 || !vocabulary.is_multiple_of(count) || !(1..=count).contains(&chosen) {
        return Err(wrong(format!("{chosen} of {count} groups of {vocabulary} tokens cannot be chosen")));
    }
    let order = files.checkpoint.integers(ORDER)?.ok_or_else(|| wrong(format!("{ORDER} is missing")))?;
    if order.len() != vocabulary || presence(&order, vocabulary).is_none() {
        return Err(wrong(format!("{ORDER} does not have each of {vocabulary} tokens once")));
    }
    let scores = files.checkpoint.matrix("masked_embedding.centroids.weight", [count, output.columns()])?;
    let output = output.gather(order.iter().map(|&token| token as usize));
    Ok(Some(Groups { scores, chosen, order, output }))
}

/// The shape of an assistant.
struct Description {
    /// The first layer with and without a window stores keys and values; others read them.
    config: DecoderConfig,
    /// These layers, each with the layer of the target that stores the same.
    stores: Vec<(usize, usize)>,
}

fn describe(files: &mut DraftFiles) -> Result<Description, String> {
    let model_type = files.fields.model_type()?;
    if model_type != "gemma4_text" {
        return Err(format!("its layers are those of {:?}, which are not supported; Gemma 4's are", shown(model_type)));
    }
    for name in ["enable_moe_block", "use_double_wide_mlp"] {
        files.fields.refuse(name, |value| value == false)?;
    }
    files.fields.refuse("hidden_size_per_layer_input", |value| value.as_u64() == Some(0))?;
    // All are, which the layers of a model cannot be.
    files.fields.set("num_kv_shared_layers", Value::from(0));
    let mut config = files.config_of(GEMMA4, &files.fields)?;
    let width = files.fields.size_or(&["backbone_hidden_size"])?.unwrap_or(1536);
    files.check_target(width, config.vocabulary)?;
    let of_target = &files.config;
    let mut stores: Vec<(usize, usize)> = Vec::new();
    for i in 0..config.blocks.len() {
        let earlier = stores.iter().map(|&(owner, _)| owner);
        let (before, rest) = config.blocks.split_at_mut(i);
        let Mixer::Attention(attention) = &mut rest[0].mixer else { unreachable!("Gemma 4 has no other layers") };
        let same = |owner: &usize| before[*owner].mixer.rotary() == attention.rotary;
        let owner = earlier.into_iter().find(same);
        // It sees the tokens of the text less than this far before the last one, and the one before these.
        attention.window = attention.window.map(|window| window.saturating_add(1));
        attention.reads = owner;
        if owner.is_none() {
            stores.push((i, store(of_target, &config.positions, attention)?));
        }
    }
    let context = config.context.min(of_target.context);
    Ok(Description { config: DecoderConfig { context, logit_cap: None, ..config }, stores })
}

/// The last layer of a target that stores keys and values which a layer of an assistant can read.
fn store(target: &DecoderConfig, positions: &Positions, own: &Attention) -> Result<usize, String> {
    let kind = if own.window.is_some() { "a window" } else { "full attention" };
    let stores =
        |attention: &Attention| attention.reads.is_none() && attention.window.is_some() == own.window.is_some();
    let layers = (0..target.blocks.len()).rev();
    let mut found = layers.filter_map(|layer| Some((layer, target.attention(layer).filter(|one| stores(one))?)));
    let (layer, stored) = found.next().ok_or_else(|| format!("this model has no layer with {kind}"))?;
    let shape = |attention: &Attention| (attention.kv_heads, attention.head_dim);
    if shape(stored) != shape(own) || !rotate_alike((&target.positions, stored), (positions, own)) {
        return Err(format!(
            "its layers with {kind} read other keys and values than layer {layer} of this model stores: take the model \
             that it was trained for"
        ));
    }
    Ok(layer)
}

/// Whether two layers rotate heads by the same angles, which files can describe in several ways.
fn rotate_alike(one: (&Positions, &Attention), other: (&Positions, &Attention)) -> bool {
    const AT: u32 = 1000;
    let angles = |(positions, of): (&Positions, &Attention)| match (positions, of.rotary) {
        (Positions::Rotary(all), Some(which)) => {
            let rotary = all.get(which)?;
            let (mut cosines, mut sines) = (Vec::new(), Vec::new());
            Angles::new(rotary, of.head_dim, AT as usize + 1).extend(AT, &mut cosines, &mut sines);
            Some((which, rotary.pairs, [cosines, sines].concat()))
        }
        _ => None,
    };
    match (angles(one), angles(other)) {
        (Some((which, pairs, angles)), Some((other, of_other, others))) => {
            let close = angles.iter().zip(&others).all(|(a, b)| (a - b).abs() < 1e-3);
            (which, pairs, angles.len()) == (other, of_other, others.len()) && close
        }
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// The same configuration for weights without keys and values.
fn without_keys(config: &DecoderConfig) -> DecoderConfig {
    let mut config = config.clone();
    for block in &mut config.blocks {
        if let Mixer::Attention(attention) = &mut block.mixer {
            attention.reads = Some(0);
        }
    }
    config
}
