//! GGUF files of all architectures, which llama.cpp's own converter wrote (`fixtures/golden/gguf_architectures.py`),
//! compared with the logits that `transformers` computed from the checkpoints.

use std::path::{Path, PathBuf};

use verdigris_models::{Batch, Device, ModelError, ModelFolder, Wanted};

mod golden;

use golden::{distance, rows};

/// The files that are not supported, with their architectures.
const UNSUPPORTED: [(&str, &str); 28] = [
    ("cohere2", "cohere2"),
    ("deepseek_v3", "deepseek2"),
    ("exaone4-full", "exaone4"),
    ("gemma4", "gemma4"),
    ("gemma4-mixture", "gemma4"),
    ("glm4", "glm4"),
    ("glm4_moe", "glm4moe"),
    ("glm4_moe-air", "glm4moe"),
    ("glm4_moe_lite", "deepseek2"),
    ("granite", "granite"),
    ("granitemoehybrid", "granitehybrid"),
    ("granitemoehybrid-attention", "granite"),
    ("granitemoehybrid-experts", "granitehybrid"),
    ("hunyuan_v1_dense", "hunyuan-dense"),
    ("lfm2", "lfm2"),
    ("lfm2_moe", "lfm2moe"),
    ("mamba2", "mamba2"),
    ("ministral3", "mistral3"),
    ("mistral3-ministral3", "mistral3"),
    ("nemotron_h", "nemotron_h"),
    ("nemotron_h-latent", "nemotron_h_moe"),
    ("olmo3", "olmo2"),
    ("qwen3_5", "qwen35"),
    ("qwen3_5_moe", "qwen35moe"),
    ("qwen3_5_text", "qwen35"),
    ("qwen3_next", "qwen3next"),
    ("seed_oss", "seed_oss"),
    ("starcoder2", "starcoder2"),
];

fn golden_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden")
}

fn file(name: &str) -> PathBuf {
    golden_folder().join("gguf_architectures").join(format!("{name}.gguf"))
}

/// The names of all files.
fn names() -> Vec<String> {
    let files = std::fs::read_dir(golden_folder().join("gguf_architectures")).unwrap();
    let mut names: Vec<String> =
        files.map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()).collect();
    names.sort();
    assert!(names.len() >= 35, "{names:?}");
    names
}

/// The logits of a file, and those of its checkpoint.
fn logits(name: &str) -> Result<[Vec<Vec<f32>>; 2], ModelError> {
    let model = ModelFolder::at(file(name)).model(&Device::Cpu)?;
    let groups = ["architectures", "coming", "foreign"].map(|group| golden_folder().join(group).join(name));
    let mut folders = groups.into_iter().chain([golden_folder().join("mxfp4").join(name.trim_end_matches("-mxfp4"))]);
    let folder = folders.find(|folder| folder.exists()).unwrap_or_else(|| panic!("{name} has no folder"));
    let golden = golden::load(folder.join("logits.safetensors"));
    let ids = golden["ids"].integers();
    let mut sequence = model.begin(ids.len()).unwrap();
    Ok([rows(&mut *sequence, Batch::chain(&ids, Wanted::All)), golden["logits"].rows()])
}

#[test]
fn logits_are_those_of_the_checkpoints() {
    for name in names().iter().filter(|name| UNSUPPORTED.iter().all(|(unsupported, _)| unsupported != name)) {
        let [got, expected] = logits(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        if name == "gpt_oss-mxfp4" {
            // Rows are rounded to 8 bits for products with blocks, and so are the numbers in files of llama.cpp.
            let zero = vec![vec![0.0; expected[0].len()]; expected.len()];
            let share = length(&got, &expected) / length(&expected, &zero);
            println!("{name}: difference in percent of the logits {:.2}", 100.0 * share);
            assert!(share > 0.0 && share < 0.03, "{name}: {share}");
            continue;
        }
        let worst = distance(&got, &expected);
        println!("{name}: largest difference {worst:e}");
        assert!(worst <= 1e-4, "{name}: {worst}");
    }
}

/// The root of the sum of the squares of all differences.
fn length(got: &[Vec<f32>], expected: &[Vec<f32>]) -> f64 {
    let pairs = got.iter().flatten().zip(expected.iter().flatten());
    pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn other_architectures_are_refused_by_name() {
    let names = names();
    for (name, architecture) in UNSUPPORTED {
        assert!(names.iter().any(|one| one == name), "{name}");
        let fault = logits(name).err().unwrap_or_else(|| panic!("{name} is read")).to_string();
        let said = format!("the architecture {architecture:?} is not supported in GGUF files");
        let by_value = format!("{architecture}.attention.sliding_window = 7 is not supported");
        let is_said = fault.contains(&said) || fault.contains(&by_value);
        assert!(is_said && !fault.contains('\n'), "{name}: {fault}");
    }
}
