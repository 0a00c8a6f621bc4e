//! The decoder built from candle's operations, compared with the one that runs on kernels.

use std::path::Path;

use candle_core::{Device, Tensor};
use verdigris_models::{Batch, Format, ModelFolder, Rows, Wanted};
use verdigris_train::{Decoder, TrainError, Weights};

fn fixture(name: &str) -> ModelFolder {
    ModelFolder::at(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name))
}

const TEXT: [u32; 12] = [412, 7, 1999, 88, 1024, 300, 12, 12, 4095, 2, 777, 51];

#[test]
fn the_differentiable_path_computes_the_same() {
    let folder = fixture("models/tale-small");
    let decoder = Decoder::new(folder.config().unwrap(), &Weights::of(&folder).unwrap()).unwrap();
    let ids = Tensor::new(&[TEXT], &Device::Cpu).unwrap();
    let slow = decoder.forward_differentiable(&ids).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let model = folder.cached_as(Format::F32).model(&verdigris_models::Device::Cpu).unwrap();
    let mut rows = Rows::default();
    model.begin(400).unwrap().forward(&Batch::chain(&TEXT, Wanted::All), &mut rows).unwrap();
    let fast: Vec<f32> = (0..rows.count()).flat_map(|i| rows.row(i).to_vec()).collect();
    assert_eq!(slow.len(), fast.len());
    let worst = slow.iter().zip(&fast).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-4, "{worst}");
}

#[test]
fn other_architectures_are_refused() {
    let gpt2 = fixture("golden/architectures/gpt2");
    let fault = Decoder::new(gpt2.config().unwrap(), &Weights::of(&gpt2).unwrap()).unwrap_err();
    assert!(matches!(fault, TrainError::Architecture), "{fault}");
    let gguf = Weights::of(&ModelFolder::gguf_in_memory(Vec::new())).unwrap_err();
    assert!(matches!(gguf, TrainError::Architecture), "{gguf}");
}
