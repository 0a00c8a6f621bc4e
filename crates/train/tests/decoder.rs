//! The decoder built from candle's operations, compared with the one that runs on kernels: the same numbers, and the
//! contract of a sequence.

use std::path::Path;
use std::sync::Arc;

use candle_core::{DType, Tensor};
use verdigris_models::{Batch, Device, Format, LanguageModel, ModelFolder, Rows, Sequence, Wanted};
use verdigris_train::{Decoder, TrainError, Weights};

#[path = "../../models/tests/laws/mod.rs"]
mod laws;

fn folder() -> ModelFolder {
    ModelFolder::at(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/tale-small"))
}

fn tensors() -> Decoder {
    Decoder::new(folder().config().unwrap(), &Weights::of(&folder()).unwrap()).unwrap()
}

fn on_kernels() -> Vec<Vec<f32>> {
    let model = folder().cached_as(Format::F32).load(&Device::Cpu).unwrap().model;
    rows(&mut *model.begin(400).unwrap(), Batch::chain(&TEXT, Wanted::All))
}

fn rows(sequence: &mut dyn Sequence, batch: Batch<'_>) -> Vec<Vec<f32>> {
    let mut rows = Rows::default();
    sequence.forward(&batch, &mut rows).unwrap();
    (0..rows.count()).map(|i| rows.row(i).to_vec()).collect()
}

const TEXT: [u32; 12] = [412, 7, 1999, 88, 1024, 300, 12, 12, 4095, 2, 777, 51];

#[test]
fn the_differentiable_path_computes_the_same() {
    let ids = Tensor::new(&[TEXT], &candle_core::Device::Cpu).unwrap();
    let slow = tensors().forward_differentiable(&ids).unwrap().squeeze(0).unwrap().to_vec2::<f32>().unwrap();
    let fast = on_kernels();
    let worst = slow.iter().flatten().zip(fast.iter().flatten()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-4, "{worst}");
}

/// Half precision takes the path of a GPU: candle's own operations, with positions and softmax in f32.
#[test]
fn half_precision_is_near_full_precision() {
    let (config, weights) = (folder().config().unwrap(), Weights::of(&folder()).unwrap());
    let full = on_kernels();
    for (kind, bound) in [(DType::F16, 0.05), (DType::BF16, 0.5)] {
        let half = Decoder::new(config.clone(), &weights.to_dtype(kind).unwrap()).unwrap();
        let mut half = Arc::new(half).begin(400).unwrap();
        let mut got = rows(&mut *half, Batch::chain(&TEXT[..5], Wanted::All));
        half.truncate(3);
        got.truncate(3);
        got.extend(rows(&mut *half, Batch::chain(&TEXT[3..], Wanted::All)));
        let differences = got.iter().flatten().zip(full.iter().flatten()).map(|(a, b)| (a - b).abs());
        let worst = differences.fold(0f32, f32::max);
        println!("{kind:?}: largest difference to f32 {worst:e}");
        assert!(worst > 0.0 && worst < bound, "{kind:?}: {worst}");
    }
}

#[test]
fn its_sequences_obey_the_laws() {
    let model: Arc<dyn LanguageModel> = Arc::new(tensors());
    laws::together_as_alone("of tensors", &model);
    laws::forks_go_their_own_ways("of tensors", &model);
    // candle computes the sums of a tree in another order than those of a chain.
    laws::a_path_of_a_tree_is_kept("of tensors", &model, Some(1e-4));
}

#[test]
fn other_architectures_are_refused() {
    let gpt2 = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/architectures/gpt2");
    let gpt2 = ModelFolder::at(gpt2);
    let fault = Decoder::new(gpt2.config().unwrap(), &Weights::of(&gpt2).unwrap()).unwrap_err();
    assert!(matches!(fault, TrainError::Architecture), "{fault}");
    let gguf = Weights::of(&ModelFolder::gguf_in_memory(Vec::new())).unwrap_err();
    assert!(matches!(gguf, TrainError::Architecture), "{gguf}");
}
