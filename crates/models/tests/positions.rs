//! Far into a text, a bf16 model is as exact about positions as an f32 model (docs/positions.md).

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use safetensors::tensor::{Dtype, TensorView};
use serde_json::json;
use verdigris_logits::{Purpose, Random};
use verdigris_models::{Batch, Device, Format, LanguageModel, ModelFolder, Rows, Sequence, Wanted};

const FAR: [usize; 6] = [256, 257, 1025, 2000, 4097, 4098];

/// The bits of the bf16 number that is nearest.
fn bf16(number: f32) -> u16 {
    let bits = number.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// A random model whose weights are the same in bf16 and in f32.
fn model(folder: &Path, kind: Dtype) -> ModelFolder {
    let (vocabulary, width, inner) = (50, 64, 96);
    let config = json!({"model_type": "llama", "vocab_size": vocabulary, "hidden_size": width,
        "intermediate_size": inner, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true});
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let mut weights: HashMap<String, (Vec<usize>, Vec<u8>)> = HashMap::new();
    let mut put = |name: String, shape: &[usize], around: f32| {
        let random = Random::new(weights.len() as u64);
        let noise = |i: usize| around + 0.5 * (random.uniform(i as u64, Purpose::Weight) as f32 - 0.5);
        let numbers = (0..shape.iter().product()).map(|i| bf16(noise(i)));
        let bytes = match kind {
            Dtype::BF16 => numbers.flat_map(u16::to_le_bytes).collect(),
            _ => numbers.flat_map(|bits| (u32::from(bits) << 16).to_le_bytes()).collect(),
        };
        weights.insert(name, (shape.to_vec(), bytes));
    };
    put("model.embed_tokens.weight".into(), &[vocabulary, width], 0.0);
    put("model.norm.weight".into(), &[width], 1.0);
    for i in 0..2 {
        let layer = |part: &str| format!("model.layers.{i}.{part}.weight");
        put(layer("input_layernorm"), &[width], 1.0);
        put(layer("post_attention_layernorm"), &[width], 1.0);
        for (part, rows, columns) in [
            ("self_attn.q_proj", width, width),
            ("self_attn.k_proj", width / 2, width),
            ("self_attn.v_proj", width / 2, width),
            ("self_attn.o_proj", width, width),
            ("mlp.gate_proj", inner, width),
            ("mlp.up_proj", inner, width),
            ("mlp.down_proj", width, inner),
        ] {
            put(layer(part), &[rows, columns], 0.0);
        }
    }
    let views =
        weights.iter().map(|(name, (shape, bytes))| (name, TensorView::new(kind, shape.clone(), bytes).unwrap()));
    safetensors::serialize_to_file(views, None, &folder.join("model.safetensors")).unwrap();
    ModelFolder::at(folder)
}

/// Rows far into a text.
fn rows(model: Arc<dyn LanguageModel>) -> Vec<Vec<f32>> {
    let text: Vec<u32> = (0..4100u32).map(|i| (i * i * 7 + i * 13) % 50).collect();
    let mut sequence: Box<dyn Sequence> = model.begin(text.len()).unwrap();
    let mut rows = Rows::default();
    let mut at = 0;
    let row_at = |&position: &usize| {
        for some in [&text[at..position], &text[position..=position]] {
            // An empty part has no chunks.
            some.chunks(256).for_each(|some| sequence.forward(&Batch::chain(some, Wanted::Last), &mut rows).unwrap());
        }
        at = position + 1;
        rows.last().to_vec()
    };
    FAR.iter().map(row_at).collect()
}

/// The largest difference relative to the size of the logits, for each row.
fn differences(ours: &[Vec<f32>], theirs: &[Vec<f32>]) -> Vec<f32> {
    let of_row = |(a, b): (&Vec<f32>, &Vec<f32>)| {
        let size = (b.iter().map(|x| x * x).sum::<f32>() / b.len() as f32).sqrt();
        a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max) / size
    };
    ours.iter().zip(theirs).map(of_row).collect()
}

#[test]
fn bf16_is_as_good_far_out_as_at_the_beginning() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [whole, half] = [(0, Dtype::F32), (1, Dtype::BF16)].map(|(i, kind)| model(folders[i].path(), kind));
    let expected = rows(whole.model(&Device::Cpu).unwrap());
    // The kernels compute in f32 with the stored weights: only the cache loses precision.
    let own = || rows(half.clone().cached_as(Format::F32).model(&Device::Cpu).unwrap());
    let are_tiles_allowed = verdigris_kernels::allow_tiles(false);
    assert_eq!(own(), expected);
    // If the CPU multiplies tiles of bf16, rows are split into two parts.
    verdigris_kernels::allow_tiles(are_tiles_allowed);
    let in_tiles = differences(&own(), &expected);
    println!("bf16, keys and values in f32: {in_tiles:?}");
    assert!(in_tiles.iter().all(|&difference| difference < 1e-4), "{in_tiles:?}");
    let with_cache = differences(&rows(half.model(&Device::Cpu).unwrap()), &expected);
    println!("bf16, keys and values in f16: {with_cache:?}");
    assert!(with_cache.iter().all(|&difference| difference > 0.0 && difference < 4e-3), "{with_cache:?}");
}
