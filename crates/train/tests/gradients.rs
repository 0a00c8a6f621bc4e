//! Compares every gradient with finite differences, in f64.
//!
//! candle's fused operations silently drop gradients; a decoder that used one of them would train only its last layer
//! and still appear to learn. This test fails for each of them.

use std::collections::HashMap;

use candle_core::{Device, Tensor};
use verdigris_logits::{Purpose, Random};
use verdigris_models::config::{Activation, Attention, DecoderConfig, Dense, Norm, Positions, Rotary};
use verdigris_train::{TrainedModel, Weights};

fn config(bias: bool, tied: bool) -> DecoderConfig {
    let network = Dense { width: 12, activation: Activation::Silu, gated: true, bias };
    let attention = Attention { heads: 2, kv_heads: 1, head_dim: 4, bias, output_bias: bias, ..Attention::default() };
    let config = DecoderConfig {
        vocabulary: 11,
        width: 8,
        context: 16,
        norm: Norm::Rms { epsilon: 1e-5 },
        positions: Positions::Rotary(vec![Rotary::new(100.0)]),
        tied,
        ..DecoderConfig::default()
    };
    config.with_layers(2, attention, network)
}

fn weights(config: &DecoderConfig) -> Weights {
    let mut shapes: Vec<(String, Vec<usize>)> = vec![
        ("model.embed_tokens.weight".into(), vec![config.vocabulary, config.width]),
        ("model.norm.weight".into(), vec![config.width]),
    ];
    if !config.tied {
        shapes.push(("lm_head.weight".into(), vec![config.vocabulary, config.width]));
    }
    for i in 0..config.blocks.len() {
        for (part, rows, columns) in [
            ("self_attn.q_proj", 8, 8),
            ("self_attn.k_proj", 4, 8),
            ("self_attn.v_proj", 4, 8),
            ("self_attn.o_proj", 8, 8),
            ("mlp.gate_proj", 12, 8),
            ("mlp.up_proj", 12, 8),
            ("mlp.down_proj", 8, 12),
        ] {
            shapes.push((format!("model.layers.{i}.{part}.weight"), vec![rows, columns]));
            if config.attention(0).unwrap().bias {
                shapes.push((format!("model.layers.{i}.{part}.bias"), vec![rows]));
            }
        }
        for norm in ["input_layernorm", "post_attention_layernorm"] {
            shapes.push((format!("model.layers.{i}.{norm}.weight"), vec![config.width]));
        }
    }
    let mut draw = 0;
    let tensors: HashMap<String, Tensor> = shapes
        .into_iter()
        .map(|(name, shape)| {
            let values: Vec<f64> = (0..shape.iter().product())
                .map(|_| {
                    draw += 1;
                    Random::new(3).uniform(draw, Purpose::Weight) - 0.4
                })
                .collect();
            (name, Tensor::from_vec(values, shape, &Device::Cpu).unwrap())
        })
        .collect();
    Weights::from_tensors(tensors)
}

#[test]
fn every_weight_has_the_gradient_of_finite_differences() {
    for (bias, tied) in [(false, true), (true, false)] {
        let config = config(bias, tied);
        let model = TrainedModel::new(config.clone(), &weights(&config)).unwrap();
        let windows: [&[u32]; 2] = [&[1, 5, 2, 10, 0, 7], &[3, 3, 8, 1, 4, 9]];
        let loss = || model.loss(&windows).unwrap().to_scalar::<f64>().unwrap();
        let gradients = model.loss(&windows).unwrap().backward().unwrap();
        let mut checked = 0;
        for (name, var) in model.variables() {
            let gradient = gradients.get(var.as_tensor()).unwrap_or_else(|| panic!("{name} has no gradient"));
            let gradient = gradient.flatten_all().unwrap().to_vec1::<f64>().unwrap();
            let values = var.flatten_all().unwrap().to_vec1::<f64>().unwrap();
            let shape = var.shape().clone();
            let set =
                |values: &[f64]| var.set(&Tensor::from_slice(values, shape.clone(), &Device::Cpu).unwrap()).unwrap();
            for i in 0..values.len() {
                let step = 1e-5;
                let mut moved = values.clone();
                moved[i] += step;
                set(&moved);
                let above = loss();
                moved[i] -= 2.0 * step;
                set(&moved);
                let slope = (above - loss()) / (2.0 * step);
                assert!(
                    (slope - gradient[i]).abs() < 1e-7 + 1e-6 * slope.abs(),
                    "{name}[{i}]: {} and {slope}",
                    gradient[i]
                );
                checked += 1;
            }
            set(&values);
        }
        assert_eq!(checked, model.variables().values().map(|var| var.elem_count()).sum::<usize>());
    }
}
