//! Writes a model as a GGUF file, in fewer bits.

use std::io::{BufWriter, IntoInnerError, Write};
use std::path::Path;

use rayon::prelude::*;
use verdigris_kernels::{Bytes, Format};
use verdigris_logits::TokenId;
use verdigris_text::shown;

use super::write::{Planned, Put, head, pad};
use super::{Gguf, model, tokenizer};
use crate::description::config::{
    Attention, DecoderConfig, Dense, FeedForward, Mixer, Norm, Pairs, Positions, Rotary, Scaling,
};
use crate::description::families::{Fields, family};
use crate::description::parts::{Parts, Projection, Scales};
use crate::description::rotary::Angles;
use crate::description::stored_tensor::StoredTensor;
use crate::description::weight::Weight;
use crate::error::ModelError;
use crate::whole_file::write_whole;

/// The result of [`convert`](crate::ModelFolder::convert).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The number of weights stored in each format.
    pub weights: Vec<(Format, u64)>,
}

/// A tensor to be written.
enum Source<'a> {
    Matrix(Weight),
    Vector(&'a [f32]),
    Numbers(Vec<f32>),
    /// The matrices of all experts, and the shape of their tensor.
    Stack(Weight, Vec<usize>),
    /// A tensor that stays in its format.
    Kept(Kept),
}

/// A tensor as it is stored.
struct Kept {
    shape: Vec<usize>,
    format: Format,
    bytes: Bytes,
}

/// Parts of names of tensors that are not matrices of weights, or that are small and matter much: routers, and the
/// numbers of recurrent layers.
const KEPT: [&str; 4] = [".ffn_gate_inp.", ".ssm_conv1d.", ".ssm_norm.", ".shortconv.conv."];

/// The model to convert.
pub(crate) struct Model<'a> {
    pub(crate) config: &'a DecoderConfig,
    pub(crate) fields: &'a Fields,
    pub(crate) parts: &'a Parts,
    /// Its `tokenizer.json`.
    pub(crate) tokenizer: &'a [u8],
    /// The tokens that end a text, and the token that begins it.
    pub(crate) ends: &'a [TokenId],
    pub(crate) begin: Option<TokenId>,
    pub(crate) chat_template: Option<String>,
}

/// Writes the file. Matrices are stored in `format` if their rows are whole blocks of it; everything else is unchanged.
/// `each` is called with the number of weights written and their total.
pub(crate) fn convert(
    model: &Model<'_>,
    to: &Path,
    format: Format,
    may_replace: bool,
    each: &mut dyn FnMut(u64, u64),
) -> Result<Converted, ModelError> {
    let cannot = |fault: String| ModelError::Convert { fault };
    let architecture = architecture(model).map_err(cannot)?;
    let mut values = described(model, architecture).map_err(cannot)?;
    values.extend(tokenizer::values(model.tokenizer, model.config.vocabulary).map_err(cannot)?);
    is_said(model, &values).map_err(cannot)?;
    write_file(&values, &tensors(model, architecture), to, format, may_replace, each)
}

/// Writes a GGUF file again with its matrices in another format. They are decoded first, so their earlier loss of
/// precision remains. Everything else is unchanged.
pub(crate) fn convert_again(
    gguf: &Gguf,
    to: &Path,
    format: Format,
    may_replace: bool,
    each: &mut dyn FnMut(u64, u64),
) -> Result<Converted, ModelError> {
    // These say how the file was stored, and in how many files.
    let is_kept =
        |name: &str| !["general.file_type", "general.alignment"].contains(&name) && !name.starts_with("split.");
    let kept = gguf.stored_values().iter().filter(|(name, _)| is_kept(name));
    let values: Vec<(String, Put)> = kept.map(|(name, value)| (name.clone(), Put::Stored(value.clone()))).collect();
    let tensor = |(name, stored): (&String, &StoredTensor)| {
        let is_kept = !name.ends_with(".weight") || KEPT.iter().any(|part| name.contains(part));
        let source = match stored.shape.len() {
            _ if is_kept => stored
                .checked()
                .map(|(format, bytes)| Source::Kept(Kept { shape: stored.shape.clone(), format, bytes })),
            1 => stored.as_vector().map(Source::Numbers),
            2 => stored.as_matrix().map(|matrix| Source::Matrix(matrix.into())),
            _ => stored.as_rows().map(|matrix| Source::Stack(matrix.into(), stored.shape.clone())),
        };
        let cannot = |fault: String| ModelError::Convert { fault: format!("the tensor {:?} {fault}", shown(name)) };
        Ok((name.clone(), source.map_err(cannot)?))
    };
    let tensors = gguf.stored_tensors().map(tensor).collect::<Result<Vec<_>, ModelError>>()?;
    write_file(&values, &tensors, to, format, may_replace, each)
}

fn write_file(
    values: &[(String, Put)],
    tensors: &[(String, Source<'_>)],
    to: &Path,
    format: Format,
    may_replace: bool,
    each: &mut dyn FnMut(u64, u64),
) -> Result<Converted, ModelError> {
    let planned: Vec<Planned> = tensors.iter().map(|(name, source)| plan(name, source, format)).collect();
    let mut done = 0;
    let total: usize = planned.iter().map(|planned| planned.shape.iter().product::<usize>()).sum();
    let written: Result<u64, Unwritten> = write_whole(to, may_replace, |file| {
        let mut file = BufWriter::new(file);
        file.write_all(&head(values, &planned))?;
        for ((_, source), planned) in tensors.iter().zip(&planned) {
            write(&mut file, source, planned, &mut |weights| {
                done += weights;
                each(done as u64, total as u64);
            })?;
            pad(&mut file, planned.bytes())?;
        }
        Ok(file.into_inner().map_err(IntoInnerError::into_error)?.metadata()?.len())
    });
    let mut weights: Vec<(Format, u64)> = Vec::new();
    for planned in &planned {
        let count = planned.shape.iter().product::<usize>() as u64;
        match weights.iter_mut().find(|(format, _)| *format == planned.format) {
            Some((_, all)) => *all += count,
            None => weights.push((planned.format, count)),
        }
    }
    let failed = |fault| match fault {
        Unwritten::File(source) => ModelError::Write { path: to.to_owned(), source },
        Unwritten::Weight { name, fault } => {
            ModelError::Convert { fault: format!("the tensor {:?} {fault}", shown(&name)) }
        }
    };
    Ok(Converted { bytes: written.map_err(failed)?, weights })
}

/// Why a file was not written.
#[derive(Debug)]
enum Unwritten {
    File(std::io::Error),
    /// A tensor has a weight that the format cannot hold.
    Weight {
        name: String,
        fault: String,
    },
}

impl From<std::io::Error> for Unwritten {
    fn from(error: std::io::Error) -> Self {
        Self::File(error)
    }
}

/// Checks that weights are numbers that a format can hold.
fn check(numbers: &[f32], planned: &Planned) -> Result<(), Unwritten> {
    /// The largest number of f16.
    const LARGEST: f32 = 65504.0;
    let fault = if let Some(bad) = numbers.iter().find(|number| !number.is_finite()) {
        format!("has a weight that is {bad}: the model is damaged")
    } else if let Some(bad) = numbers.iter().find(|number| planned.format == Format::F16 && number.abs() > LARGEST) {
        format!("has the weight {bad}, and f16 ends at {LARGEST}: choose bf16 or f32")
    } else {
        return Ok(());
    };
    Err(Unwritten::Weight { name: planned.name.clone(), fault })
}

/// The name of the architecture in the file.
fn architecture(model: &Model<'_>) -> Result<&'static str, String> {
    Ok(match model.fields.model_type().unwrap_or_default() {
        // They differ only in the layout of their matrices.
        "llama" | "mistral" | "phi3" => "llama",
        "qwen2" => "qwen2",
        "qwen3" => "qwen3",
        "smollm3" => "smollm3",
        "gemma2" => "gemma2",
        "gemma3" | "gemma3_text" => "gemma3",
        other => {
            return Err(format!(
                "models of type {:?} cannot be written as GGUF files; llama, mistral, phi3, qwen2, qwen3, smollm3, \
                 gemma2 and gemma3 can",
                shown(other)
            ));
        }
    })
}

/// The attention and the network of all layers: the models that can be written have no others.
fn alike(config: &DecoderConfig) -> (&Attention, &Dense) {
    config.alike().expect("layers that differ in windows and positions only")
}

/// The values that describe the model.
fn described(model: &Model<'_>, architecture: &str) -> Result<Vec<(String, Put)>, String> {
    let config = model.config;
    let (attention, network) = alike(config);
    let (Norm::Rms { epsilon } | Norm::Layer { epsilon }) = config.norm;
    let mut values = vec![("general.architecture".to_owned(), Put::Text(architecture.into()))];
    let of = |name: &str, value: Put| (format!("{architecture}.{name}"), value);
    let size = |name: &str, value: usize| {
        u32::try_from(value).map(|value| of(name, Put::U32(value))).map_err(|_| format!("{name} is too large"))
    };
    values.extend([
        size("context_length", config.context)?,
        size("embedding_length", config.width)?,
        size("block_count", config.blocks.len())?,
        size("feed_forward_length", network.width)?,
        size("attention.head_count", attention.heads)?,
        size("attention.head_count_kv", attention.kv_heads)?,
        size("attention.key_length", attention.head_dim)?,
        size("attention.value_length", attention.head_dim)?,
        size("vocab_size", config.vocabulary)?,
        of("attention.layer_norm_rms_epsilon", Put::F32(epsilon as f32)),
    ]);
    if let Some(window) = config.attentions().find_map(|attention| attention.window) {
        values.push(size("attention.sliding_window", window)?);
    }
    for (name, cap) in [("attn_logit_softcapping", attention.cap), ("final_logit_softcapping", config.logit_cap)] {
        values.extend(cap.map(|cap| of(name, Put::F32(cap as f32))));
    }
    if let Positions::Rotary(all) = &config.positions {
        let rotary = &all[0];
        values.push(of("rope.freq_base", Put::F32(rotary.theta as f32)));
        values.push(size("rope.dimension_count", rotary.elements.unwrap_or(attention.head_dim))?);
        let text = |name: &str, value: &str| of(name, Put::Text(value.into()));
        match rotary.scaling {
            Scaling::Linear(factor) => {
                values.push(text("rope.scaling.type", "linear"));
                values.push(of("rope.scaling.factor", Put::F32(factor as f32)));
            }
            Scaling::Yarn { factor, context, .. } => {
                values.push(text("rope.scaling.type", "yarn"));
                values.push(of("rope.scaling.factor", Put::F32(factor as f32)));
                values.push(size("rope.scaling.original_context_length", context as usize)?);
            }
            _ => {}
        }
    }
    // The tokens that end a text, a turn or a message; each of them ends generation.
    const ENDS: [&str; 3] = ["eos_token_id", "eot_token_id", "eom_token_id"];
    if model.ends.len() > ENDS.len() {
        return Err(format!("it has {} end tokens, and a GGUF file can say {}", model.ends.len(), ENDS.len()));
    }
    for (name, id) in ENDS.into_iter().zip(model.ends).chain(["bos_token_id"].into_iter().zip(&model.begin)) {
        values.push((format!("tokenizer.ggml.{name}"), Put::U32(*id)));
    }
    let template = model.chat_template.clone();
    values.extend(template.map(|template| ("tokenizer.chat_template".to_owned(), Put::Text(template))));
    Ok(values)
}

/// Checks that a file with this description is read as the same model.
fn is_said(model: &Model<'_>, values: &[(String, Put)]) -> Result<(), String> {
    let gguf = Gguf::parse(&Bytes::new(std::sync::Arc::new(head(values, &[]))))?;
    let fields = model::fields(&gguf)?;
    let read = (family(&fields).map_err(|_| "a model type of no family")?.config)(&fields)?;
    let plain = |config: &DecoderConfig| {
        let mut config = config.clone();
        // The file shows this by its tensors.
        config.tied = true;
        let number = |number: &mut f64| *number = f64::from(*number as f32);
        config.logit_cap.iter_mut().for_each(number);
        let (Norm::Rms { epsilon } | Norm::Layer { epsilon }) = &mut config.norm;
        number(epsilon);
        for block in &mut config.blocks {
            // Biases are used if the file has their tensors.
            let Mixer::Attention(attention) = &mut block.mixer else { continue };
            attention.cap.iter_mut().for_each(number);
            (attention.bias, attention.output_bias) = (false, false);
            if let FeedForward::Dense(network) = &mut block.feed_forward {
                network.bias = false;
            }
        }
        if let Positions::Rotary(all) = &mut config.positions {
            for rotary in all {
                number(&mut rotary.theta);
                rotary.pairs = Pairs::Halves;
                if let Scaling::Llama3 { .. } | Scaling::Each(_) = rotary.scaling {
                    rotary.scaling = Scaling::None;
                }
            }
        }
        config
    };
    let (written, read) = (plain(model.config), plain(&read));
    let biased = |config: &DecoderConfig| {
        let (attention, network) = alike(config);
        (attention.bias && fields.model_type() != Ok("qwen2")) || attention.output_bias || network.bias
    };
    if biased(model.config) {
        return Err("its attention or feed-forward parts have biases, which its kind of GGUF file has not".into());
    }
    let kinds = |config: &DecoderConfig| -> Vec<_> {
        config.attentions().map(|attention| (attention.window, attention.rotary)).collect()
    };
    if kinds(&written) != kinds(&read) {
        return Err("a GGUF file of its kind cannot say which of its layers have a sliding window or positions".into());
    }
    if written != read {
        let [ours, theirs] = [written, read].map(|config| format!("{config:#?}"));
        let (ours, theirs) = difference(&ours, &theirs);
        return Err(format!("a GGUF file of this kind cannot say that it has {ours}; it would be read as {theirs}"));
    }
    Ok(())
}

/// The first line in which two descriptions differ, each with the name of its value.
fn difference<'a>(ours: &'a str, theirs: &'a str) -> (String, &'a str) {
    fn plain(line: &str) -> &str {
        line.trim().trim_end_matches([',', ' ', '{', '('])
    }
    let (mut name, mut lines) = ("", ours.lines().zip(theirs.lines()));
    let differs = lines.find(|(ours, theirs)| {
        name = ours.trim().split_once(": ").map_or(name, |(name, _)| name);
        ours != theirs
    });
    let (ours, theirs) = differs.map_or(("", ""), |(ours, theirs)| (plain(ours), plain(theirs)));
    (if ours.contains(": ") { ours.into() } else { format!("{name}: {ours}") }, theirs)
}

/// All tensors with their names.
fn tensors<'a>(model: &Model<'a>, architecture: &str) -> Vec<(String, Source<'a>)> {
    let Model { config, parts, .. } = *model;
    let &Attention { heads, kv_heads, head_dim, .. } = alike(config).0;
    let mut all = vec![("token_embd.weight".to_owned(), Source::Matrix(parts.embedding.clone()))];
    let Positions::Rotary(rotary) = &config.positions else { unreachable!("these models have rotary positions") };
    all.extend(factors(&rotary[0], config).map(|factors| ("rope_freqs.weight".to_owned(), Source::Numbers(factors))));
    // In files of these architectures neighbours are rotated together.
    let moves = ["llama", "smollm3"].contains(&architecture) && rotary[0].pairs == Pairs::Halves;
    for (i, layer) in parts.layers.iter().enumerate() {
        let mut norm = |name: &str, scales: &'a Option<Scales>| {
            let scales = scales.as_ref().map(|scales| Source::Vector(&scales.weight));
            all.extend(scales.map(|scales| (format!("blk.{i}.{name}.weight"), scales)));
        };
        norm("attn_norm", &layer.mixer_norm);
        norm("post_attention_norm", &layer.after_mixer);
        norm("ffn_norm", &layer.feed_forward_norm);
        norm("post_ffw_norm", &layer.after_feed_forward);
        let (Some(attention), Some(network)) = (layer.attention(), layer.dense()) else {
            unreachable!("these models have attention and one network in each layer")
        };
        for (name, weight) in [("attn_q_norm", &attention.query_norm), ("attn_k_norm", &attention.key_norm)] {
            all.extend(weight.as_deref().map(|weight| (format!("blk.{i}.{name}.weight"), Source::Vector(weight))));
        }
        let mut put = |name: &str, projection: &'a Projection, heads: Option<usize>| {
            let order = heads.filter(|_| moves).map(|heads| neighbours(heads, head_dim));
            let (matrix, bias) = match order {
                None => (projection.matrix.clone(), projection.bias.as_deref().map(Source::Vector)),
                Some(order) => {
                    let bias = projection.bias.as_ref().map(|bias| order.iter().map(|&row| bias[row]).collect());
                    (projection.matrix.gather(order.iter().copied()), bias.map(Source::Numbers))
                }
            };
            all.push((format!("blk.{i}.{name}.weight"), Source::Matrix(matrix)));
            all.extend(bias.map(|bias| (format!("blk.{i}.{name}.bias"), bias)));
        };
        put("attn_q", &attention.query, Some(heads));
        let (Some(key), Some(value)) = (&attention.key, &attention.value) else {
            unreachable!("these models have keys and values in each layer")
        };
        put("attn_k", key, Some(kv_heads));
        put("attn_v", value, None);
        put("attn_output", &attention.output, None);
        if let Some(gate) = &network.gate {
            put("ffn_gate", gate, None);
        }
        put("ffn_up", &network.up, None);
        put("ffn_down", &network.down, None);
    }
    all.push(("output_norm.weight".to_owned(), Source::Vector(&parts.norm.weight)));
    if !config.tied {
        all.push(("output.weight".to_owned(), Source::Matrix(parts.output.clone())));
    }
    all
}

/// The factors by which wavelengths are longer, if numbers in the description cannot express them.
fn factors(rotary: &Rotary, config: &DecoderConfig) -> Option<Vec<f32>> {
    match &rotary.scaling {
        Scaling::Each(factors) => Some(factors.iter().map(|&factor| factor as f32).collect()),
        Scaling::Llama3 { .. } => {
            let head_dim = config.rotated_head(0);
            let plain = Angles::new(&Rotary { scaling: Scaling::None, ..rotary.clone() }, head_dim, config.context);
            Some(plain.ratios(&Angles::new(rotary, head_dim, config.context)))
        }
        _ => None,
    }
}

/// The order of rows in which the halves of each head are neighbours.
pub(crate) fn neighbours(heads: usize, head_dim: usize) -> Vec<usize> {
    let row = |i: usize| i / head_dim * head_dim + i % 2 * (head_dim / 2) + i % head_dim / 2;
    (0..heads * head_dim).map(row).collect()
}

fn plan(name: &str, source: &Source<'_>, format: Format) -> Planned {
    let fitting = |matrix: &Weight| {
        // The embedding and the output matrix matter most.
        let is_outside = name == "token_embd.weight" || name == "output.weight";
        let wanted = if is_outside && is_small(format) { Format::Q6K } else { format };
        let fits = |format: &Format| matrix.columns().is_multiple_of(format.block());
        [wanted, in_32(wanted), Format::F16].into_iter().find(fits).unwrap_or(Format::F16)
    };
    let (shape, format) = match source {
        Source::Vector(numbers) => (vec![numbers.len()], Format::F32),
        Source::Numbers(numbers) => (vec![numbers.len()], Format::F32),
        Source::Matrix(matrix) => (vec![matrix.rows(), matrix.columns()], fitting(matrix)),
        Source::Stack(matrix, shape) => (shape.clone(), fitting(matrix)),
        Source::Kept(Kept { shape, format, .. }) => (shape.clone(), *format),
    };
    Planned { name: name.to_owned(), shape, format }
}

/// Whether the weights that matter most should be stored in more bits.
fn is_small(format: Format) -> bool {
    matches!(
        format,
        Format::Q2K
            | Format::Q3K
            | Format::Q4K
            | Format::Q4_0
            | Format::Q4_1
            | Format::Iq4Nl
            | Format::Iq4Xs
            | Format::Mxfp4
    )
}

/// For rows that are not whole blocks of 256: the next larger format with blocks of 32 (as in llama.cpp's own program).
fn in_32(format: Format) -> Format {
    match format {
        Format::Q2K | Format::Q3K => Format::Q4_0,
        Format::Q4K => Format::Q5_0,
        Format::Iq4Xs => Format::Iq4Nl,
        Format::Q5K => Format::Q5_1,
        _ => Format::Q8_0,
    }
}

/// Writes a tensor. `each` is called with the number of weights written since the last call.
fn write(
    out: &mut impl Write,
    source: &Source<'_>,
    planned: &Planned,
    each: &mut dyn FnMut(usize),
) -> Result<(), Unwritten> {
    /// Weights that are decoded at a time, per thread.
    const CHUNK: usize = 1 << 18;
    let matrix = match source {
        Source::Matrix(matrix) | Source::Stack(matrix, _) => matrix,
        Source::Kept(Kept { shape, bytes, .. }) => {
            out.write_all(bytes.get())?;
            each(shape.iter().product());
            return Ok(());
        }
        Source::Vector(numbers) => {
            check(numbers, planned)?;
            return Ok(write_numbers(out, numbers, each)?);
        }
        // Factors of positions may be infinite.
        Source::Numbers(numbers) => return Ok(write_numbers(out, numbers, each)?),
    };
    let columns = matrix.columns();
    let rows = (CHUNK / columns).max(1);
    let starts: Vec<usize> = (0..matrix.rows()).step_by(rows).collect();
    for starts in starts.chunks(2 * rayon::current_num_threads()) {
        let encode = |&from: &usize| {
            let count = rows.min(matrix.rows() - from);
            let mut numbers = vec![0.0; count * columns];
            for (j, row) in numbers.chunks_exact_mut(columns).enumerate() {
                matrix.decode(from + j, row);
            }
            check(&numbers, planned)?;
            let mut bytes = vec![0; count * planned.format.bytes(columns)];
            planned.format.encode(&numbers, &mut bytes);
            Ok((numbers.len(), bytes))
        };
        let encoded: Vec<(usize, Vec<u8>)> = starts.par_iter().map(encode).collect::<Result<_, Unwritten>>()?;
        for (weights, bytes) in encoded {
            out.write_all(&bytes)?;
            each(weights);
        }
    }
    Ok(())
}

fn write_numbers(out: &mut impl Write, numbers: &[f32], each: &mut dyn FnMut(usize)) -> std::io::Result<()> {
    numbers.iter().try_for_each(|number| out.write_all(&number.to_le_bytes()))?;
    each(numbers.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_must_fit_their_format() {
        let planned = |format| Planned { name: "output.weight".into(), shape: vec![2], format };
        let fault = |numbers: &[f32], format| match check(numbers, &planned(format)) {
            Err(Unwritten::Weight { name, fault }) => format!("{name} {fault}"),
            other => format!("{other:?}"),
        };
        for format in [Format::F16, Format::Bf16, Format::F32, Format::Q8_0] {
            assert_eq!(fault(&[1.0, -65504.0], format), "Ok(())");
            assert!(fault(&[1.0, f32::NEG_INFINITY], format).starts_with("output.weight has a weight that is -inf"));
        }
        assert_eq!(fault(&[70000.0], Format::Bf16), "Ok(())");
        assert!(fault(&[70000.0], Format::F16).contains("has the weight 70000, and f16 ends at 65504"));
    }

    #[test]
    fn differences_have_names() {
        let ours = "Config {\n    scale: Some(\n        0.5,\n    ),\n    scaling: Dynamic {\n    },\n}";
        let difference = |theirs: &str| difference(ours, theirs).0;
        assert_eq!(difference(&ours.replace("0.5", "0.25")), "scale: 0.5");
        assert_eq!(difference(&ours.replace("Dynamic {", "None,")), "scaling: Dynamic");
    }
}
