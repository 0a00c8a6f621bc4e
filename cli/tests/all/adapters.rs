//! LoRA adapters, given as the model or together with a base model.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Folder, Run, TALE_SMALL};
use serde_json::{Value, json};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/golden/adapters").join(name)
}

/// A folder with a model, `base`, and its adapter, `adapter`.
fn prepared() -> Folder {
    let folder = Folder::new();
    folder.copy_model(TALE_SMALL, "base");
    fs::create_dir(folder.path("adapter")).unwrap();
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        fs::copy(golden("tale-small").join(file), folder.path("adapter").join(file)).unwrap();
    }
    set_base(&folder, "../../../models/tale-small", "base");
    folder
}

fn set_base(folder: &Folder, from: &str, to: &str) {
    let path = folder.path("adapter/adapter_config.json");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

fn write(folder: &Folder, arguments: &[&str]) -> Run {
    folder.run(&[&["generate", "The captain", "-n", "24", "--seed", "5"], arguments].concat())
}

#[track_caller]
fn text(folder: &Folder, arguments: &[&str]) -> String {
    write(folder, arguments).succeeds().out
}

#[test]
fn an_adapter_is_a_model_and_part_of_one() {
    let folder = prepared();
    let plain = text(&folder, &["--model", "base"]);
    let adapted = text(&folder, &["--model", "base", "--adapter", "adapter"]);
    assert_ne!(plain, adapted);
    // The path of the base model may be relative to the working directory or to the adapter's folder.
    assert_eq!(text(&folder, &["--model", "adapter"]), adapted);
    set_base(&folder, "\"base\"", "\"../base\"");
    assert_eq!(text(&folder, &["--model", "adapter"]), adapted);
    // Merged into an f16 GGUF file, the greedy text stays the same despite the rounding.
    folder.run(&["convert", "adapter", "--out", "merged.gguf", "--format", "f16"]).done();
    let merged = text(&folder, &["--model", "merged.gguf", "--temperature", "0"]);
    assert_eq!(merged, text(&folder, &["--model", "adapter", "--temperature", "0"]));
    // A key for an adapter is made for the tokenizer of its base model.
    folder.run(&["key", "new", "my.key", "--model", "adapter"]).done();
    text(&folder, &["--model", "adapter", "--key", "my.key", "--quiet"]);
}

#[test]
fn an_expert_can_be_an_adapter() {
    let folder = prepared();
    let steer =
        |expert: &str| text(&folder, &["--model", "base", "--expert", expert, "--anti", "base", "--alpha", "1"]);
    let plain = text(&folder, &["--model", "base"]);
    assert_eq!(steer("base"), plain, "equal models cancel out");
    let steered = steer("adapter");
    assert_ne!(steered, plain);
    // base + 1 * (adapter - base) is the adapter.
    assert_eq!(steered, text(&folder, &["--model", "adapter"]));
    assert!(!text(&folder, &["--model", "base", "--draft", "adapter"]).is_empty());
}

#[test]
fn a_bad_adapter_is_one_line() {
    let folder = prepared();
    write(&folder, &["--adapter", "none"]).fails("none: it has no adapter_config.json");
    write(&folder, &["--adapter", "base"]).fails("an adapter's folder has adapter_config.json");
    write(&folder, &["--adapter", "adapter"]).fails("q_proj.weight is changed by a matrix of [128, 128]");
    write(&folder, &["--model", "adapter", "--adapter", "adapter"]).fails("--model is an adapter already");
    let linear = golden("linear");
    let linear = linear.to_str().unwrap();
    write(&folder, &["--model", "base", "--adapter", linear]).fails("goes with the model that it was trained from");
    set_base(&folder, "\"base\"", "\"gone\"");
    write(&folder, &["--model", "adapter"]).fails("its base gone is not there");
    set_base(&folder, "\"gone\"", "null");
    write(&folder, &["--model", "adapter"]).fails("it does not say which model it is an adapter of");
    set_base(&folder, "\"base_model_name_or_path\": null", "\"base_model_name_or_path\": \"adapter\"");
    write(&folder, &["--model", "adapter"]).fails("its base adapter is an adapter itself");
    set_base(&folder, "\"LORA\"", "\"PREFIX_TUNING\"");
    write(&folder, &["--model", "adapter"]).fails("peft_type \"PREFIX_TUNING\" is not supported; LORA is");
    fs::rename(folder.path("adapter/adapter_model.safetensors"), folder.path("adapter/adapter_model.bin")).unwrap();
    set_base(&folder, "\"PREFIX_TUNING\"", "\"LORA\"");
    write(&folder, &["--model", "base", "--adapter", "adapter"]).fails("save them as safetensors");
}

/// Refuses weights that the adapter's configuration promises and its file lacks, and the other way round.
#[test]
fn an_adapter_whose_files_do_not_belong_together_is_refused() {
    for (field, value, said) in [
        ("use_dora", json!(true), "use_dora is true, but layers.0."),
        ("bias", json!("everything"), "bias = \"everything\" is not supported"),
        ("modules_to_save", json!(["lm_head"]), "modules_to_save has \"lm_head\", but there are no weights of it"),
        ("target_modules", json!(["nothing_of_it"]), "is changed, but target_modules does not name it"),
        ("target_modules", json!(7), "target_modules is 7"),
    ] {
        let folder = prepared();
        let path = folder.path("adapter/adapter_config.json");
        let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        config[field] = value;
        fs::write(path, config.to_string()).unwrap();
        folder.run(&["generate", "--model", "adapter"]).fails(said);
    }
}
