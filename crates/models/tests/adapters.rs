//! Adapters compared with `peft`: random adapters of tiny checkpoints that it saved, and the logits that it computed in
//! f32 (`fixtures/golden/adapters.py`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use verdigris_models::{Batch, Device, Format, LanguageModel, ModelError, ModelFolder, Wanted};

use crate::golden::distance;

fn golden_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden")
}

const NAMES: [&str; 12] = [
    "dora",
    "dora-embedding",
    "fused",
    "linear",
    "packed",
    "patterns",
    "positions",
    "saved",
    "scaled-embedding",
    "tied",
    "tied-output",
    "transposed",
];

fn adapter(name: &str) -> PathBuf {
    golden_folder().join("adapters").join(name)
}

fn found(name: &str) -> ModelFolder {
    ModelFolder::find(adapter(name), |_| ()).unwrap()
}

fn rows(model: &Arc<dyn LanguageModel>, ids: &[u32]) -> Vec<Vec<f32>> {
    crate::golden::rows(&mut *model.clone().begin(64).unwrap(), Batch::chain(ids, Wanted::All))
}

/// The error of loading a model with an adapter.
fn fault(folder: ModelFolder) -> String {
    match folder.model(&Device::Cpu) {
        Err(error @ (ModelError::Adapter { .. } | ModelError::Damaged { .. })) => {
            let fault = error.to_string();
            assert!(!fault.contains('\n'), "{fault}");
            fault
        }
        other => panic!("{:?}", other.map(|_| "a model")),
    }
}

#[test]
fn logits_are_those_of_peft() {
    for name in NAMES {
        let golden = crate::golden::load(adapter(name).join("logits.safetensors"));
        let (ids, expected) = (golden["ids"].integers(), golden["logits"].rows());
        let worst = distance(&rows(&found(name).model(&Device::Cpu).unwrap(), &ids), &expected);
        println!("{name}: largest difference {worst:e}");
        assert!(worst <= 1e-4, "{name}: {worst}");
    }
}

#[test]
fn rows_are_the_same_whatever_is_beside_them() {
    for name in NAMES {
        let model = found(name).model(&Device::Cpu).unwrap();
        crate::distributions::together_as_alone(name, &model, None);
        crate::distributions::a_path_of_a_tree_is_kept(name, &model, None);
    }
}

/// An adapter of a GGUF file, which has the rows of queries and keys in another order, and weights in blocks.
#[test]
fn files_of_llama_cpp_can_have_adapters() {
    let folder = tempfile::tempdir().unwrap();
    let small = golden_folder().join("../models/tale-small");
    let lora = adapter("tale-small");
    let ids = [5, 300, 17, 2048, 9, 44];
    let expected = rows(&ModelFolder::at(&small).with_adapter(&lora).model(&Device::Cpu).unwrap(), &ids);
    let without = rows(&ModelFolder::at(&small).model(&Device::Cpu).unwrap(), &ids);
    println!("the adapter changes logits by {}", distance(&expected, &without));
    assert!(distance(&expected, &without) > 0.8);
    for (format, bound) in [(Format::F16, 0.01), (Format::Q8_0, 0.5)] {
        let path = folder.path().join(format!("{format:?}.gguf"));
        ModelFolder::at(&small).convert(&path, format, false, |_, _| ()).unwrap();
        let model = ModelFolder::at(&path).with_adapter(&lora).model(&Device::Cpu).unwrap();
        let worst = distance(&rows(&model, &ids), &expected);
        println!("{format:?}: {worst}");
        assert!(worst < bound, "{format:?}: {worst}");
        // Merged, and written as one model.
        let merged = folder.path().join(format!("{format:?}-merged.gguf"));
        ModelFolder::find(&lora, |_| ()).unwrap().convert(&merged, format, false, |_, _| ()).unwrap();
        let difference = distance(&rows(&ModelFolder::at(&merged).model(&Device::Cpu).unwrap(), &ids), &expected);
        println!("{format:?}, merged: {difference}");
        assert!(difference < bound, "{format:?}, merged: {difference}");
    }
}

#[test]
fn an_adapter_of_another_model_is_told_by_the_weight() {
    let of = |base: &str, name: &str| {
        fault(ModelFolder::at(golden_folder().join("architectures").join(base)).with_adapter(adapter(name)))
    };
    let said = of("gpt2", "linear");
    assert!(said.contains("layers.0.mlp.down_proj.weight is changed, but the model has none"), "{said}");
    assert!(said.contains("goes with the model that it was trained from (../../architectures/llama)"), "{said}");
    let said = of("qwen3", "linear");
    assert!(
        said.contains("self_attn.q_proj.weight is changed by a matrix of [32, 32], but has shape [64, 32]"),
        "{said}"
    );
    let said = of("falcon", "packed");
    assert!(said.contains("embed_out") || said.contains("layers.0.attention.dense.bias is changed"), "{said}");
}

/// An adapter with its files changed by `change`.
fn damaged(name: &str, change: impl Fn(&Path)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("adapter");
    std::fs::create_dir(&to).unwrap();
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        std::fs::copy(adapter(name).join(file), to.join(file)).unwrap();
    }
    change(&to);
    fault(ModelFolder::at(golden_folder().join("architectures/llama")).with_adapter(to))
}

#[test]
fn a_damaged_adapter_is_an_error() {
    let cut = |file: &'static str| {
        move |folder: &Path| {
            let bytes = std::fs::read(folder.join(file)).unwrap();
            std::fs::write(folder.join(file), &bytes[..bytes.len() / 2]).unwrap();
        }
    };
    let replace = |from: &'static str, to: &'static str| {
        move |folder: &Path| {
            let path = folder.join("adapter_config.json");
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.contains(from));
            std::fs::write(path, text.replace(from, to)).unwrap();
        }
    };
    let remove = |file: &'static str| move |folder: &Path| std::fs::remove_file(folder.join(file)).unwrap();
    let rename = |from: &'static str, to: &'static str| {
        // Names of the same length leave the rest of the file unchanged.
        move |folder: &Path| {
            let path = folder.join("adapter_model.safetensors");
            let mut bytes = std::fs::read(&path).unwrap();
            let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
            std::fs::write(&path, bytes).unwrap();
        }
    };
    let said = |fault: String, said: &str| assert!(fault.contains(said), "{fault:?} should say {said:?}");
    said(damaged("linear", cut("adapter_model.safetensors")), "truncated or damaged");
    said(damaged("linear", cut("adapter_config.json")), "not an adapter's configuration");
    said(damaged("linear", remove("adapter_model.safetensors")), "it has no adapter_model.safetensors");
    said(damaged("linear", remove("adapter_config.json")), "it has no adapter_config.json");
    said(damaged("linear", replace("\"r\": 3", "\"r\": 4")), "has rank 3, but adapter_config.json says 4");
    said(damaged("linear", replace("\"LORA\"", "\"OFT\"")), "peft_type \"OFT\" is not supported");
    said(
        damaged("linear", replace("\"lora_bias\": false", "\"lora_bias\": true")),
        "lora_bias = true is not supported",
    );
    said(damaged("linear", rename("q_proj.lora_A", "q_proj.lora_C")), "is not known in adapters of LoRA");
    said(damaged("linear", rename("base_model.model.model", "base_model.other.model")), "is not known");
    said(damaged("linear", rename("layers.0.self_attn.q_proj.lora_A", "layers.0.self_attn.x_proj.lora_A")), "x_proj");
    said(
        damaged("linear", replace("\"use_dora\": false", "\"use_dora\": true")),
        "use_dora is true, but layers.0.mlp.down_proj.weight is changed without a magnitude vector",
    );
    said(damaged("linear", replace("\"bias\": \"none\"", "\"bias\": \"every\"")), "bias = \"every\" is not supported");
    said(
        damaged("linear", replace("\"modules_to_save\": null", "\"modules_to_save\": [\"lm_head\"]")),
        "modules_to_save has \"lm_head\", but there are no weights of it",
    );
    said(
        damaged("linear", replace("\"target_modules\": [", "\"target_modules\": 7, \"exclude_modules\": [")),
        "target_modules is 7",
    );
    said(
        damaged("linear", replace("model.layers.0.self_attn.q_proj", "another")),
        "layers.0.self_attn.q_proj.weight is changed, but target_modules does not name it",
    );
    said(damaged("dora-embedding", replace("\"use_dora\": true", "\"use_dora\": false")), "is not known in adapters");
}
