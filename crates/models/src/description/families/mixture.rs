//! Mixtures of experts: their description, and their weights as each family stores them.

use verdigris_text::shown;

use super::fields::Fields;
use super::mxfp4;
use super::prefixed::Prefixed;
use crate::description::config::{Activation, Dense, Groups, Mixture, Router, Score, Shared};
use crate::description::parts::{DenseParts, MixtureParts, Projection};
use crate::description::weight::Weight;
use crate::error::ModelError;

/// The mixture in layer `layer` of a model, if it has one there.
pub(super) fn mixture(model: &str, fields: &Fields, layer: usize) -> Result<Option<Mixture>, String> {
    let softmax = |normalized: bool| Router { normalized: normalized.then_some(0.0), ..Router::default() };
    let normalized = || fields.flag("norm_topk_prob", false).map(softmax);
    let (router, shared, width) = match model {
        "mixtral" => (softmax(true), None, "intermediate_size"),
        "olmoe" => (normalized()?, None, "intermediate_size"),
        "qwen3_moe" => (normalized()?, None, "moe_intermediate_size"),
        "qwen3_next" | "qwen3_5_moe_text" => {
            let shared = fields.size(&["shared_expert_intermediate_size"])?;
            (softmax(true), Some((shared, true)), "moe_intermediate_size")
        }
        "lfm2_moe" => {
            let router = Router {
                score: Score::Sigmoid,
                choice_bias: fields.flag("use_expert_bias", true)?,
                normalized: fields.flag("norm_topk_prob", true)?.then_some(1e-6),
                scale: fields.number("routed_scaling_factor")?.unwrap_or(1.0),
                ..Router::default()
            };
            (router, None, "moe_intermediate_size")
        }
        "qwen2_moe" => {
            let shared = fields.size(&["shared_expert_intermediate_size"])?;
            (normalized()?, Some((shared, true)), "moe_intermediate_size")
        }
        "gpt_oss" => {
            (Router { score: Score::SoftmaxOfChosen, bias: true, ..Router::default() }, None, "intermediate_size")
        }
        "glm4_moe" | "deepseek_v3" | "glm4_moe_lite" => {
            let width = "moe_intermediate_size";
            let shared = fields.size(&[width])?.saturating_mul(fields.size(&["n_shared_experts"])?);
            (grouped(fields)?, Some((shared, false)), width)
        }
        _ => return Ok(None),
    };
    let experts = fields.size(&["num_experts", "num_local_experts", "n_routed_experts"])?;
    let is_dense = match model {
        "glm4_moe" | "deepseek_v3" => layer < fields.size(&["first_k_dense_replace"])?,
        "glm4_moe_lite" => !is_listed_as_sparse(fields, layer)?,
        _ => false,
    };
    if is_dense {
        return Ok(None);
    }
    if model.starts_with("qwen") && !is_sparse(fields, layer, experts)? {
        return Ok(None);
    }
    let activation = match model {
        "gpt_oss" => {
            fields.refuse("swiglu_limit", |value| value.as_f64() == Some(7.0))?;
            fields.refuse("swiglu_alpha", |value| value.as_f64() == Some(1.702))?;
            Activation::ClampedSwiglu
        }
        _ => fields.activation(&["hidden_act"], "silu")?,
    };
    let network = |width: usize| Dense { width, activation, gated: true, bias: model == "gpt_oss" };
    let shared = shared.map(|(width, gated)| Shared { network: network(width), gated });
    let chosen = fields.size(&["num_experts_per_tok", "experts_per_token"])?;
    Ok(Some(Mixture { experts, chosen, expert: network(fields.size(&[width])?), router, shared, latent: None }))
}

/// The router of DeepSeek-V3, which may choose experts from some groups only.
pub(super) fn grouped(fields: &Fields) -> Result<Router, String> {
    let (count, kept) = (fields.size(&["n_group"])?, fields.size(&["topk_group"])?);
    Ok(Router {
        score: Score::Sigmoid,
        choice_bias: true,
        groups: (count != 1 || kept != 1).then_some(Groups { count, kept }),
        normalized: fields.flag("norm_topk_prob", true)?.then_some(1e-20),
        scale: fields.number("routed_scaling_factor")?.unwrap_or(1.0),
        ..Router::default()
    })
}

/// Whether a layer has experts by `mlp_layer_types`; all but the first have if it is missing.
fn is_listed_as_sparse(fields: &Fields, layer: usize) -> Result<bool, String> {
    let Some(types) = fields.list("mlp_layer_types")? else { return Ok(layer > 0) };
    match types.get(layer).map(|kind| (kind, kind.as_str())) {
        Some((_, Some("dense"))) => Ok(false),
        Some((_, Some("sparse"))) => Ok(true),
        Some((other, _)) => Err(format!(
            "mlp_layer_types has {}, which is not supported; dense and sparse are",
            shown(&other.to_string())
        )),
        None => Err(format!("mlp_layer_types has {} layers, and the model has more", types.len())),
    }
}

/// Whether a layer of Qwen has experts: every few layers do, but for those that are listed.
fn is_sparse(fields: &Fields, layer: usize, experts: usize) -> Result<bool, String> {
    let step = fields.size_or(&["decoder_sparse_step"])?.unwrap_or(1).max(1);
    let listed = fields.list("mlp_only_layers")?.unwrap_or_default();
    let is_listed = listed.iter().any(|one| one.as_u64() == Some(layer as u64));
    Ok(experts > 0 && (layer + 1).is_multiple_of(step) && !is_listed)
}

/// The weights of a mixture, in a layer whose names begin with `layer`.
pub(super) fn parts(
    names: &Prefixed<'_>,
    model: &str,
    layer: &str,
    width: usize,
    mixture: &Mixture,
) -> Result<MixtureParts, ModelError> {
    let part = match model {
        "mixtral" => "block_sparse_moe",
        "lfm2_moe" => "feed_forward",
        _ => "mlp",
    };
    let of = |name: &str| format!("{layer}.{part}.{name}");
    let router = if model == "gpt_oss" { of("router") } else { of("gate") };
    let of_shared = match model {
        "glm4_moe" | "deepseek_v3" | "glm4_moe_lite" => of("shared_experts"),
        _ => of("shared_expert"),
    };
    let shared = |shared: Shared| dense(names, &of_shared, GATE_UP_DOWN, width, &shared.network);
    let gate = mixture.shared.filter(|shared| shared.gated).map(|_| of("shared_expert_gate"));
    let gate = gate.map(|name| names.projection(&name, 1, width, false)).transpose()?;
    let bias_name = if model == "lfm2_moe" { "expert_bias" } else { "gate.e_score_correction_bias" };
    let choice_bias = mixture.router.choice_bias.then(|| names.vector(&of(bias_name), mixture.experts));
    let of_each = if ["mixtral", "lfm2_moe"].contains(&model) { W1_W3_W2 } else { GATE_UP_DOWN };
    Ok(MixtureParts {
        router: names.projection(&router, mixture.experts, width, mixture.router.bias)?,
        choice_bias: choice_bias.transpose()?,
        experts: experts(names, &of("experts"), of_each, width, mixture)?,
        shared: mixture.shared.map(shared).transpose()?,
        shared_gate: gate.map(|gate| gate.matrix),
        expert_scales: None,
        latent: None,
    })
}

/// The names of a network's matrices.
pub(super) type NetworkNames = [&'static str; 3];

pub(super) const GATE_UP_DOWN: NetworkNames = ["gate_proj", "up_proj", "down_proj"];
pub(super) const W1_W3_W2: NetworkNames = ["w1", "w3", "w2"];

pub(super) fn dense(
    names: &Prefixed<'_>,
    prefix: &str,
    [gate, up, down]: NetworkNames,
    width: usize,
    network: &Dense,
) -> Result<DenseParts, ModelError> {
    let of = |name: &str, out, input| names.projection(&format!("{prefix}.{name}"), out, input, network.bias);
    Ok(DenseParts {
        gate: network.gated.then(|| of(gate, network.width, width)).transpose()?,
        up: of(up, network.width, width)?,
        down: of(down, width, network.width)?,
    })
}

/// The experts of a layer, in whichever of these ways they are stored: each matrix by itself; the matrices of all
/// experts in one tensor (`experts x out x in`), with gate and up apart or one after the other; or transposed
/// (`experts x in x out`) with the columns of gate and up in turn (gpt-oss).
pub(super) fn experts(
    names: &Prefixed<'_>,
    prefix: &str,
    of_each: NetworkNames,
    width: usize,
    mixture: &Mixture,
) -> Result<Vec<DenseParts>, ModelError> {
    let (all, network) = (mixture.experts, &mixture.expert);
    let inner = network.width;
    let at = |name: &str| format!("{prefix}.{name}");
    if network.activation == Activation::ClampedSwiglu && !names.has(&at("gate_exps.weight")) {
        return interleaved(names, &at, all, width, inner);
    }
    if names.has(&at("input_linear.weight")) {
        return joined(names, [&at("input_linear.weight"), &at("output_linear.weight")], width, mixture);
    }
    if names.has(&at("gate_up_proj")) {
        let down = if names.has(&at("down_exps.weight")) { "down_exps.weight" } else { "down_proj" };
        return joined(names, [&at("gate_up_proj"), &at(down)], width, mixture);
    }
    if names.has(&at("up_exps.weight")) {
        let stacked = |name: &str, out, input| {
            let matrices = names.stacked(&at(&format!("{name}_exps.weight")), [all, out, input])?;
            let biases = match network.bias {
                true => names.vectors(&at(&format!("{name}_exps.bias")), [all, out])?.into_iter().map(Some).collect(),
                false => vec![None; all],
            };
            let joined = matrices.into_iter().zip(biases).map(|(matrix, bias)| Projection { matrix, bias });
            Ok::<_, ModelError>(joined.collect::<Vec<_>>())
        };
        let gates: Vec<Option<Projection>> = match network.gated {
            true => stacked("gate", inner, width)?.into_iter().map(Some).collect(),
            false => vec![None; all],
        };
        let three = gates.into_iter().zip(stacked("up", inner, width)?).zip(stacked("down", width, inner)?);
        return Ok(three.map(|((gate, up), down)| DenseParts { gate, up, down }).collect());
    }
    (0..all).map(|i| dense(names, &at(&i.to_string()), of_each, width, network)).collect()
}

/// The experts of two tensors, of which one has gate and up one after the other.
fn joined(
    names: &Prefixed<'_>,
    [both, down]: [&str; 2],
    width: usize,
    &Mixture { experts, expert: Dense { width: inner, .. }, .. }: &Mixture,
) -> Result<Vec<DenseParts>, ModelError> {
    let plain = |matrix| Projection { matrix, bias: None };
    let both = names.stacked(both, [experts, 2 * inner, width])?;
    let down = names.stacked(down, [experts, width, inner])?;
    let expert = |(both, down): (Weight, Weight)| DenseParts {
        gate: Some(plain(both.part(0..inner))),
        up: plain(both.part(inner..2 * inner)),
        down: plain(down),
    };
    Ok(both.into_iter().zip(down).map(expert).collect())
}

/// The experts of gpt-oss: gate and up in turn, transposed or in MXFP4.
fn interleaved(
    names: &Prefixed<'_>,
    at: &dyn Fn(&str) -> String,
    all: usize,
    width: usize,
    inner: usize,
) -> Result<Vec<DenseParts>, ModelError> {
    let of_both = names.vectors(&at("gate_up_proj_bias"), [all, 2 * inner])?;
    let of_down = names.vectors(&at("down_proj_bias"), [all, width])?;
    let every_other = |from: usize| (0..inner).map(move |i| 2 * i + from);
    let (both, down): (Vec<Vec<Weight>>, Vec<Weight>) = if names.has(&at("gate_up_proj_blocks")) {
        let both = mxfp4::matrices(
            names,
            &at("gate_up_proj"),
            [all, 2 * inner, width],
            &[&|row| 2 * row, &|row| 2 * row + 1],
        )?;
        let down = mxfp4::matrices(names, &at("down_proj"), [all, width, inner], &[&|row| row])?;
        (both, down.into_iter().flatten().collect())
    } else {
        let both = names.stacked_transposed(&at("gate_up_proj"), [all, 2 * inner, width])?;
        let apart = |both: Weight| [0, 1].map(|from| both.gather(every_other(from))).to_vec();
        let down = names.stacked_transposed(&at("down_proj"), [all, width, inner])?;
        (both.into_iter().map(apart).collect(), down)
    };
    let experts = both.into_iter().zip(of_both).zip(down.into_iter().zip(of_down));
    type Biased<T> = (T, Vec<f32>);
    let expert = |((both, of_both), (down, of_down)): (Biased<Vec<Weight>>, Biased<Weight>)| {
        let mut apart = both.into_iter().enumerate().map(|(from, matrix)| {
            let bias = every_other(from).map(|i| of_both[i]).collect();
            Projection { matrix, bias: Some(bias) }
        });
        let (gate, up) = (apart.next(), apart.next().expect("gate and up"));
        DenseParts { gate, up, down: Projection { matrix: down, bias: Some(of_down) } }
    };
    Ok(experts.map(expert).collect())
}
