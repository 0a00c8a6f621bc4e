//! GGUF files of all architectures, which llama.cpp's own converter wrote (`fixtures/golden/gguf_architectures.py`),
//! compared with the logits that `transformers` computed from the checkpoints.

use std::path::{Path, PathBuf};

use verdigris_kernels::Format;
use verdigris_models::{Batch, Device, DraftHead, ModelError, ModelFolder, Wanted};

use crate::golden::{distance, rows};

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
    logits_of(&file(name), name)
}

fn logits_of(file: &Path, name: &str) -> Result<[Vec<Vec<f32>>; 2], ModelError> {
    let model = ModelFolder::at(file).model(&Device::Cpu)?;
    // Those of another folder have windows, which files of llama.cpp have not.
    let first = if ["glm4", "starcoder2"].contains(&name) { "foreign" } else { "architectures" };
    let folders = [(first, name), ("mxfp4", name.trim_end_matches("-mxfp4"))]
        .map(|(at, name)| golden_folder().join(at).join(name));
    let folder = folders.iter().find(|folder| folder.exists()).unwrap_or_else(|| panic!("{name} has no folder"));
    let golden = crate::golden::load(folder.join("logits.safetensors"));
    let ids = golden["ids"].integers();
    let mut sequence = model.begin(ids.len()).unwrap();
    Ok([rows(&mut *sequence, Batch::chain(&ids, Wanted::All)), golden["logits"].rows()])
}

#[test]
fn logits_are_those_of_the_checkpoints() {
    for name in names() {
        let [got, expected] = logits(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
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

/// A value or a tensor in a file: its name, and the bytes of its description.
struct Entry {
    name: String,
    /// Of its name.
    name_at: usize,
    /// Of its type, if it is a value, or of the number of its dimensions.
    at: usize,
}

/// The values and the tensors of a file.
fn entries(file: &[u8]) -> [Vec<Entry>; 2] {
    let u32_at = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| usize::try_from(u64::from_le_bytes(file[at..at + 8].try_into().unwrap())).unwrap();
    let size = |kind: u32, at: usize| match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        8 => 8 + u64_at(at),
        10..=12 => 8,
        other => panic!("the type {other}"),
    };
    let mut at = 24;
    let entry = |at: &mut usize| {
        let (name_at, length) = (*at + 8, u64_at(*at));
        *at = name_at + length;
        Entry { name: String::from_utf8(file[name_at..*at].to_vec()).unwrap(), name_at, at: *at }
    };
    let values = (0..u64_at(16)).map(|_| {
        let value = entry(&mut at);
        let kind = u32_at(at);
        at += 4;
        if kind == 9 {
            let (kind, count) = (u32_at(at), u64_at(at + 4));
            at += 12;
            (0..count).for_each(|_| at += size(kind, at));
        } else {
            at += size(kind, at);
        }
        value
    });
    let values = values.collect();
    let tensors = (0..u64_at(8)).map(|_| {
        let tensor = entry(&mut at);
        at += 4 + 8 * u32_at(at) as usize + 12;
        tensor
    });
    [values, tensors.collect()]
}

/// Loads a file in memory. An error is one line, which is returned.
fn fault(file: Vec<u8>, about: &str) -> Option<String> {
    let fault = ModelFolder::gguf_in_memory(file).model(&Device::Cpu).err()?.to_string();
    assert!(!fault.contains('\n') && fault.len() < 1000, "{about}: {fault}");
    Some(fault)
}

/// Loads a draft head in memory for a target. An error is one line, which is returned.
fn fault_of_head(file: Vec<u8>, target: &ModelFolder, about: &str) -> Option<String> {
    let fault = DraftHead::load(&ModelFolder::gguf_in_memory(file), target).err()?.to_string();
    assert!(!fault.contains('\n') && fault.len() < 1000, "{about}: {fault}");
    Some(fault)
}

/// The files of draft heads, each with the folder of its target.
fn heads() -> [(PathBuf, PathBuf); 6] {
    let golden = golden_folder();
    let head = |name: &str, target: PathBuf| (golden.join(format!("gguf_heads/{name}.gguf")), target);
    let of_tale = |name| head(name, golden.join("../models/tale-small"));
    let assistant = |name| head(name, golden.join("architectures").join(name));
    let [eagle3, speculators, dflash, dspark] = ["eagle3", "speculators", "dflash", "dspark"].map(of_tale);
    let [dense, unified] = ["gemma4", "gemma4_unified"].map(assistant);
    [eagle3, speculators, dflash, dspark, dense, unified]
}

/// Values that are missing, of another type, or out of range, and tensors that are missing or of another shape:
/// whatever is wrong with a file, the answer is a model, or a draft head, or a line.
#[test]
fn damaged_descriptions_are_errors() {
    let models = names().into_iter().map(|name| (file(&name), None));
    let heads = heads().into_iter().map(|(file, target)| (file, Some(ModelFolder::at(target))));
    let mut faults = 0;
    for (file, target) in models.chain(heads) {
        let (whole, name) = (std::fs::read(&file).unwrap(), file.display());
        let [values, tensors] = entries(&whole);
        let fault = |file: Vec<u8>, about: &str| match &target {
            None => fault(file, about),
            Some(target) => fault_of_head(file, target, about),
        };
        assert_eq!(fault(whole.clone(), ""), None);
        let mut check = |at: usize, bytes: &[u8], about: &str| {
            let mut damaged = whole.clone();
            damaged[at..at + bytes.len()].copy_from_slice(bytes);
            faults += usize::from(fault(damaged, &format!("{name}: {about}")).is_some());
        };
        for value in values.iter().filter(|value| !value.name.starts_with("tokenizer.")) {
            check(value.name_at, b"x", &format!("no {}", value.name));
            for kind in [5u32, 6, 4] {
                check(value.at, &kind.to_le_bytes(), &format!("{} of type {kind}", value.name));
            }
            let numbers = [0u32, 1, 3, u32::MAX, f32::NAN.to_bits(), f32::MAX.to_bits(), (-1f32).to_bits()];
            for number in numbers.iter().filter(|_| !value.name.starts_with("general.")) {
                check(value.at + 4, &number.to_le_bytes(), &format!("{} = {number}", value.name));
            }
        }
        for tensor in &tensors {
            if tensor.name == "token_embd.weight" {
                check(tensor.name_at, b"rope_freqs", "factors of wavelengths instead of an embedding");
            }
            check(tensor.name_at, b"x", &format!("no {}", tensor.name));
            for size in [0u64, 1, 7, 1 << 20, u64::MAX] {
                check(tensor.at + 4, &size.to_le_bytes(), &format!("{} with rows of {size}", tensor.name));
            }
            check(tensor.at, &1u32.to_le_bytes(), &format!("{} as a vector", tensor.name));
        }
    }
    assert!(faults > 1000, "{faults}");
}

#[test]
fn faults_of_heads_are_named() {
    const U32: u32 = 4;
    for (head, value, kind, number, said) in [
        (0, "eagle3.block_count", U32, 2u32, "it has 2 layers (num_hidden_layers)"),
        (0, "eagle3.target_hidden_size", U32, 64, "a model with hidden_size 64"),
        (0, "eagle3.embedding_length", U32, 64, "fc.weight has shape [128, 384], not [64, 384]"),
        (1, "eagle3.attention.key_length", U32, 32, "eagle3.rope.dimension_count is 16 where heads have 32 elements"),
        (2, "dflash.block_size", U32, 1, "its blocks have 1 tokens (block_size), not 2 to 64"),
        (2, "tokenizer.ggml.mask_token_id", U32, 4096, "mask_token_id is not a token of the model"),
        (3, "dflash.attention.head_count", U32, 0, "the number of attention heads is 0"),
        (4, "gemma4-assistant.embedding_length_out", U32, 24, "a model with hidden_size 24"),
        (5, "gemma4-assistant.attention.key_length_swa", U32, 8, "attention.value_length_swa = 16 is not supported"),
    ] {
        let (file, target) = &heads()[head];
        let mut whole = std::fs::read(file).unwrap();
        let [values, _] = entries(&whole);
        let at = values.iter().find(|entry| entry.name == value).expect(value).at;
        whole[at..at + 8].copy_from_slice(&[kind.to_le_bytes(), number.to_le_bytes()].concat());
        let fault = fault_of_head(whole, &ModelFolder::at(target), value).expect(value);
        assert!(fault.contains(said), "{fault:?} should say {said:?}");
    }
    // Heads and models do not replace each other.
    let (file, target) = &heads()[0];
    let fault = ModelFolder::at(file).model(&Device::Cpu).err().unwrap().to_string();
    assert!(fault.contains("it is a draft head (eagle3)") && fault.contains("--draft"), "{fault}");
    let model = ModelFolder::at(self::file("mixtral"));
    assert!(DraftHead::is_in(&ModelFolder::at(file)) && !DraftHead::is_in(&model));
    let fault = DraftHead::load(&model, &ModelFolder::at(target)).unwrap_err().to_string();
    assert!(fault.contains("model_type is \"mixtral\", which is not a draft head"), "{fault}");
}

#[test]
fn faults_are_named() {
    const U32: u32 = 4;
    for (name, value, kind, bytes, said) in [
        ("qwen3_moe-all", "qwen3moe.expert_count", U32, 0u32, "qwen3moe.expert_count is 0, but qwen3moe has experts"),
        ("qwen3_moe-all", "qwen3moe.expert_used_count", U32, 7, "a token cannot use 7 of 6 experts"),
        ("qwen3_moe-all", "qwen3moe.expert_count", U32, u32::MAX, "the number of experts is 4294967295"),
        ("qwen3_moe-all", "qwen3moe.expert_count", U32, 5, "has shape [6, 32], not [5, 32]"),
        ("qwen3_moe-all", "qwen3moe.expert_count", 6, 0, "qwen3moe.expert_count is not a number of things"),
        ("qwen3_moe-all", "qwen3moe.expert_feed_forward_length", U32, 9, "has shape [6, 8, 32], not [6, 9, 32]"),
        ("qwen3_moe-all", "qwen3moe.block_count", U32, u32::MAX, "the number of layers is 4294967295"),
        ("gpt_oss", "gpt-oss.attention.sliding_window", U32, 0, "sliding_window is 0"),
        ("gpt_oss", "gpt-oss.rope.scaling.original_context_length", 6, 0, "is not a number of things"),
        ("deepseek_v3", "deepseek2.expert_gating_func", U32, 0, "deepseek2.expert_gating_func is missing, which means"),
        ("deepseek_v3", "deepseek2.rope.dimension_count", U32, 25, "dimension_count is 25, but heads have 24 elements"),
        ("mixtral", "llama.expert_used_count", U32, 0, "the number of experts of a token is 0"),
        ("glm4_moe", "glm4moe.expert_gating_func", U32, 1, "glm4moe.expert_gating_func = 1 is not supported"),
        ("glm4_moe", "glm4moe.expert_group_count", U32, 5, "6 experts cannot be 5 equal groups"),
        ("glm4_moe", "glm4moe.rope.dimension_count", U32, 17, "glm4moe.rope.dimension_count is 17, but heads have 16"),
        ("nemotron_h-latent", "nemotron_h_moe.expert_used_count", U32, 7, "a token cannot use 7 of 6 experts"),
        ("nemotron_h-latent", "nemotron_h_moe.moe_latent_size", U32, 8, "has shape [6, 16, 16], not [6, 16, 8]"),
        ("nemotron_h-latent", "nemotron_h_moe.moe_latent_size", U32, 0, "has shape [6, 16, 16], not [6, 16, 32]"),
        ("nemotron_h", "nemotron_h.ssm.time_step_rank", U32, 7, "ssm.inner_size is 64, which nemotron_h.ssm.time_step"),
        ("nemotron_h", "nemotron_h.attention.value_length", U32, 8, "value_length is 8 where heads have 16 elements"),
        ("granite", "granite.residual_scale", 6, f32::NAN.to_bits(), "granite.residual_scale is not a number"),
    ] {
        let mut file = std::fs::read(file(name)).unwrap();
        let at = entries(&file)[0].iter().find(|entry| entry.name == value).expect("a value").at;
        file[at..at + 4].copy_from_slice(&kind.to_le_bytes());
        file[at + 4..at + 8].copy_from_slice(&bytes.to_le_bytes());
        let fault = fault(file, value).unwrap_or_default();
        assert!(fault.contains(said), "{name}: {fault:?} should say {said:?}");
    }
}

/// The matrices of experts are written again in another format too, and everything else is unchanged.
#[test]
fn files_with_experts_are_written_again() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["qwen3_moe-all", "gpt_oss", "glm4_moe", "nemotron_h-latent"] {
        let [plain, _] = logits(name).unwrap();
        for (format, bound) in [(Format::Bf16, 0.02), (Format::Q8_0, 0.2)] {
            let to = folder.path().join(format!("{name}-{format:?}.gguf"));
            let converted = ModelFolder::at(file(name)).convert(&to, format, false, |_, _| ()).unwrap();
            assert!(converted.weights.iter().any(|(one, count)| *one == format && *count > 1000), "{converted:?}");
            let [again, _] = logits_of(&to, name).unwrap();
            let zero = vec![vec![0.0; plain[0].len()]; plain.len()];
            let share = length(&again, &plain) / length(&plain, &zero);
            println!("{name} in {format:?}: difference in percent of the logits {:.2}", 100.0 * share);
            assert!(share > 0.0 && share < bound, "{name} in {format:?}: {share}");
        }
    }
}
