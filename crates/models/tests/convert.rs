//! Folders converted to GGUF files and read again.

use std::path::{Path, PathBuf};

use serde_json::json;
use verdigris_models::{Batch, Device, Format, ModelFolder, Rows, Wanted};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

fn rows(model: &ModelFolder, ids: &[u32]) -> Vec<f32> {
    let mut rows = Rows::default();
    let model = model.clone().cached_as(Format::F32).model(&Device::Cpu).unwrap_or_else(|error| panic!("{error}"));
    model.begin(ids.len()).unwrap().forward(&Batch::chain(ids, Wanted::All), &mut rows).unwrap();
    (0..rows.count()).flat_map(|i| rows.row(i).to_vec()).collect()
}

/// One of the random checkpoints, with a tokenizer of one token per byte up to Z.
fn with_tokenizer(name: &str, folder: &Path) -> ModelFolder {
    let from = fixtures().join("golden/architectures").join(name);
    std::fs::copy(from.join("model.safetensors"), folder.join("model.safetensors")).unwrap();
    let config = std::fs::read(from.join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_slice(&config).unwrap();
    // The checkpoint's own are outside this vocabulary.
    (config["eos_token_id"], config["bos_token_id"]) = (58.into(), 58.into());
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let vocabulary: serde_json::Map<String, serde_json::Value> =
        (0..58u8).map(|i| (char::from(b'!' + i).to_string(), i.into())).collect();
    let added = json!({"id": 58, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": true});
    let tokenizer = json!({
        "version": "1.0", "added_tokens": [added], "normalizer": null, "post_processor": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    });
    std::fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    ModelFolder::at(folder)
}

#[test]
fn what_is_written_is_what_is_read() {
    let ids: Vec<u32> = (1..25).map(|i| i * 7 % 61).collect();
    for name in ["llama", "qwen2", "qwen2-yarn", "qwen3", "smollm3", "gemma2", "gemma3", "llama-3-scaled"] {
        let folder = tempfile::tempdir().unwrap();
        let model = match name {
            // Llama 3's wavelengths without biases, which a file cannot express; nor can it express unusual slopes of
            // YaRN. Gemma's scores must be scaled by the size of heads.
            "llama-3-scaled" | "qwen2-yarn" | "gemma3" => {
                let model = with_tokenizer(if name == "llama-3-scaled" { "llama" } else { name }, folder.path());
                let path = folder.path().join("config.json");
                let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
                if name == "gemma3" {
                    config["query_pre_attn_scalar"] = 16.into();
                }
                config["rope_parameters"] = match name {
                    "gemma3" => config["rope_parameters"].take(),
                    "qwen2-yarn" => json!({"rope_type": "yarn", "factor": 4.0,
                        "original_max_position_embeddings": 16, "rope_theta": 100.0}),
                    _ => json!({"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
                        "high_freq_factor": 4.0, "original_max_position_embeddings": 8, "rope_theta": 100.0}),
                };
                std::fs::write(path, config.to_string()).unwrap();
                model
            }
            name => with_tokenizer(name, folder.path()),
        };
        let file = folder.path().join("model.gguf");
        let mut last = 0;
        let converted = model.convert(&file, Format::F32, false, |done, of| {
            assert!(last < done && done <= of);
            last = done;
        });
        let converted = converted.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(converted.bytes, file.metadata().unwrap().len());
        let (ours, theirs) = (rows(&ModelFolder::at(&file), &ids), rows(&model, &ids));
        let worst = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        println!("{name}: largest difference {worst:e}");
        assert!(worst < 1e-4, "{name}: {worst}");
        let [ours, theirs] = [ModelFolder::at(&file), model].map(|model| model.tokenizer().unwrap());
        assert_eq!(ours.vocabulary().fingerprint(), theirs.vocabulary().fingerprint(), "{name}");
    }
}

/// A trained model loses little of its quality.
#[test]
fn fewer_bits_are_nearly_as_good() {
    let folder = tempfile::tempdir().unwrap();
    let model = ModelFolder::at(fixtures().join("models/tale"));
    let text = "It was a bright cold day, and the captain of the ship looked out over the sea with great care.";
    let ids = model.tokenizer().unwrap().encode(text).unwrap();
    let loss = |model: &ModelFolder| {
        let rows = rows(model, &ids);
        let width = rows.len() / ids.len();
        let surprise = |(row, &next): (&[f32], &u32)| {
            let total: f64 = row.iter().map(|&z| f64::from(z).exp()).sum();
            total.ln() - f64::from(row[next as usize])
        };
        rows.chunks(width).zip(&ids[1..]).map(surprise).sum::<f64>() / (ids.len() - 1) as f64
    };
    let whole = loss(&model);
    for (format, bound, most) in [
        (Format::Bf16, 0.01, 2.1),
        (Format::Q8_0, 0.01, 1.2),
        (Format::Q5K, 0.05, 0.75),
        (Format::Q4_1, 0.1, 0.7),
        (Format::Q4K, 0.1, 0.7),
        (Format::Q2K, 0.3, 0.5),
    ] {
        let file = folder.path().join(format!("{format:?}.gguf"));
        let converted = model.convert(&file, format, false, |_, _| ()).unwrap();
        let weights: u64 = converted.weights.iter().map(|(_, count)| count).sum();
        let per_weight = converted.bytes as f64 / weights as f64;
        let worse = loss(&ModelFolder::at(&file)) - whole;
        println!("{format:?}: {worse:+.4} nats a token over {whole:.4}, {per_weight:.2} bytes a weight, {converted:?}");
        assert!(worse.abs() < bound && per_weight < most, "{format:?}: {worse} {per_weight}");
    }
}

#[test]
fn what_cannot_be_converted_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.gguf");
    let fault = |model: ModelFolder| model.convert(&file, Format::Q8_0, false, |_, _| ()).unwrap_err().to_string();
    assert!(fault(with_tokenizer("bloom", folder.path())).contains("\"bloom\" cannot be written"));
    assert!(fault(with_tokenizer("mistral", folder.path())).contains("sliding window"));
    assert!(fault(with_tokenizer("llama-long", folder.path())).contains("biases"));
    assert!(
        fault(with_tokenizer("qwen2-yarn", folder.path()))
            .contains("it has beta_fast: 4.0; it would be read as beta_fast: 32.0")
    );
    assert!(fault(with_tokenizer("llama-dynamic", folder.path())).contains("Dynamic"));
    let model = with_tokenizer("llama", folder.path());
    let tokenizer = std::fs::read_to_string(folder.path().join("tokenizer.json")).unwrap();
    std::fs::write(folder.path().join("tokenizer.json"), tokenizer.replace("\"BPE\"", "\"WordLevel\"")).unwrap();
    assert!(fault(model.clone()).contains("only tokenizers of bytes"), "{}", fault(model.clone()));
    std::fs::write(folder.path().join("tokenizer.json"), tokenizer).unwrap();
    let nowhere = model.convert(&folder.path().join("no/where.gguf"), Format::Q8_0, false, |_, _| ()).unwrap_err();
    assert!(nowhere.to_string().contains("cannot write"), "{nowhere}");
    assert!(!file.exists() && std::fs::read_dir(folder.path()).unwrap().count() == 3);
    model.convert(&file, Format::Q8_0, false, |_, _| ()).unwrap();
    assert!(
        fault(ModelFolder::at(&file).with_adapter(folder.path())).contains("an adapter is merged with a model folder")
    );
}

/// Only the format of a GGUF file's matrices changes: a wider format keeps its numbers, and all its values are still
/// there.
#[test]
fn a_file_is_written_again_in_another_format() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let tale = ModelFolder::at(fixtures().join("models/tale-small"));
    let ids: Vec<u32> = (1..25).map(|i| i * 97 % 4096).collect();
    let written = |from: &ModelFolder, name: &str, format| {
        from.convert(&path(name), format, false, |_, _| ()).unwrap();
        ModelFolder::at(path(name))
    };
    let small = written(&tale, "q4_0.gguf", Format::Q4_0);
    let wide = written(&small, "f16.gguf", Format::F16);
    let again = written(&wide, "again.gguf", Format::Q4_0);
    // With weights in blocks, rows are rounded to 8 bits; with F16 weights they are not.
    let spread = |rows: &[f32]| rows.iter().map(|x| x * x).sum::<f32>().sqrt();
    let difference = |a: &ModelFolder, b: &ModelFolder| {
        let (a, b) = (rows(a, &ids), rows(b, &ids));
        spread(&a.iter().zip(&b).map(|(a, b)| a - b).collect::<Vec<_>>()) / spread(&a)
    };
    let (kept, lost) = (difference(&small, &wide), difference(&tale, &wide));
    assert!(kept < 0.02 && lost > 3.0 * kept, "{kept} {lost}");
    let size = |name: &str| std::fs::metadata(path(name)).unwrap().len();
    assert!(size("f16.gguf") > 2 * size("q4_0.gguf") && size("again.gguf") == size("q4_0.gguf"));
    assert!(difference(&small, &again) < 0.02, "what was rounded once stays as it was");
    let tokens = |model: &ModelFolder| model.tokenizer().unwrap().encode("The captain, and his ship").unwrap();
    assert_eq!(tokens(&wide), tokens(&tale));
    let load = |model: &ModelFolder| model.load(&Device::Cpu).unwrap();
    assert_eq!((load(&wide).end, load(&wide).begin), (load(&small).end, load(&small).begin));
}
