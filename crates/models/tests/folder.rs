//! Model folders: whole, sharded, and damaged in many ways.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use tempfile::TempDir;
use verdigris_models::{Batch, Device, ModelFolder, Rows, Wanted};

fn fixture(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/tale-small").join(file)
}

fn copy() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        fs::copy(fixture(file), folder.path().join(file)).unwrap();
    }
    folder
}

fn fault(folder: &Path) -> String {
    let fault = ModelFolder::at(folder).load(&Device::Cpu).err().expect("must not load").to_string();
    assert!(!fault.contains('\n'), "one line: {fault}");
    fault
}

fn edit(folder: &TempDir, file: &str, change: impl Fn(String) -> String) {
    let path = folder.path().join(file);
    fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
}

#[test]
fn shards_are_one_model() {
    let folder = copy();
    let whole = ModelFolder::at(folder.path()).load(&Device::Cpu).unwrap();
    let bytes = fs::read(fixture("model.safetensors")).unwrap();
    let weights = SafeTensors::deserialize(&bytes).unwrap();
    let mut shards: [HashMap<&str, TensorView<'_>>; 2] = Default::default();
    let mut map = serde_json::Map::new();
    for (i, (name, tensor)) in weights.iter().enumerate() {
        map.insert(name.to_owned(), format!("shard-{}.safetensors", i % 2).into());
        shards[i % 2].insert(name, tensor);
    }
    for (i, shard) in shards.iter().enumerate() {
        let path = folder.path().join(format!("shard-{i}.safetensors"));
        safetensors::serialize_to_file(shard, None, &path).unwrap();
    }
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    let index = folder.path().join("model.safetensors.index.json");
    fs::write(&index, serde_json::json!({ "weight_map": map }).to_string()).unwrap();
    let sharded = ModelFolder::at(folder.path()).load(&Device::Cpu).unwrap();
    let logits = |m: &verdigris_models::LoadedModel| {
        let mut rows = Rows::default();
        m.model.clone().begin(3).unwrap().forward(&Batch::chain(&[1, 2, 3], Wanted::Last), &mut rows).unwrap();
        rows.last().to_vec()
    };
    assert!(logits(&whole) == logits(&sharded));

    fs::remove_file(folder.path().join("shard-1.safetensors")).unwrap();
    assert!(fault(folder.path()).contains("it has no shard-1.safetensors"));
    fs::write(&index, r#"{"weight_map":{"a":"../secret.safetensors"}}"#).unwrap();
    assert!(fault(folder.path()).contains("is not a file name"));
}

#[test]
fn what_is_no_model_is_said_to_be_none() {
    let empty = tempfile::tempdir().unwrap();
    assert!(fault(empty.path()).contains("is not a model: it has no config.json"));
    assert!(fault(Path::new("no/such/folder")).contains("there is nothing at that path"));
    for file in ["tokenizer.json", "model.safetensors"] {
        let folder = copy();
        fs::remove_file(folder.path().join(file)).unwrap();
        assert!(fault(folder.path()).contains(&format!("it has no {file}")));
    }
}

#[test]
fn damaged_weights_are_named() {
    let whole = fs::read(fixture("model.safetensors")).unwrap();
    for length in [0, 7, 100, whole.len() / 2, whole.len() - 1] {
        let folder = copy();
        fs::write(folder.path().join("model.safetensors"), &whole[..length]).unwrap();
        let fault = fault(folder.path());
        assert!(fault.contains("model.safetensors is truncated or damaged"), "{fault}");
    }
    let folder = copy();
    fs::write(folder.path().join("model.safetensors"), [0xff; 64]).unwrap();
    assert!(fault(folder.path()).contains("truncated or damaged"));
}

#[test]
fn a_config_that_does_not_fit_is_named() {
    for (from, to, said) in [
        ("\"hidden_size\": 128", "\"hidden_size\": 256", "has shape"),
        ("\"num_hidden_layers\": 4", "\"num_hidden_layers\": 5", "model.layers.4.self_attn.q_proj.weight is missing"),
        ("\"vocab_size\": 4096", "\"vocab_size\": 4000", "the tokenizer has 4096 tokens, but the model only 4000"),
        ("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "cannot share"),
        ("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 0", "key-value heads is 0"),
        ("\"head_dim\": 32", "\"head_dim\": 33", "an even number of elements"),
        ("\"model_type\": \"llama\"", "\"model_type\": \"mamba\"", "\"mamba\" is not supported"),
        ("\"hidden_act\": \"silu\"", "\"hidden_act\": \"tanh\"", "\"tanh\" is not supported"),
        ("\"max_position_embeddings\": 2048", "\"max_position_embeddings\": 99999999999", "context length"),
        ("\"attention_bias\": false", "\"rope_scaling\": {\"type\": \"yarn\"}, \"attention_bias\": false", "\"yarn\""),
        ("{", "", "not a model's configuration"),
    ] {
        let folder = copy();
        edit(&folder, "config.json", |text| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        });
        let fault = fault(folder.path());
        assert!(fault.contains(said), "{fault:?} should say {said:?}");
    }
}

#[test]
fn a_damaged_tokenizer_is_named() {
    let folder = copy();
    edit(&folder, "tokenizer.json", |text| text[..text.len() / 2].to_owned());
    assert!(fault(folder.path()).contains("tokenizer.json: not a `tokenizer.json`"));
}

#[test]
fn a_tokenizer_loads_from_its_folder_and_its_file() {
    for path in [fixture(""), fixture("tokenizer.json")] {
        assert_eq!(ModelFolder::at(path).tokenizer().unwrap().vocabulary().size(), 4096);
    }
}

/// From a separate file, or from the tokenizer's configuration; and the end tokens of a turn as well as that of a text.
#[test]
fn chat_templates_are_found() {
    let folder = copy();
    let put = |file: &str, text: &str| fs::write(folder.path().join(file), text).unwrap();
    let model = ModelFolder::at(folder.path());
    assert_eq!((model.chat().unwrap(), model.load(&Device::Cpu).unwrap().end), (None, vec![0]));
    put(
        "tokenizer_config.json",
        r#"{"bos_token": {"content": "<s>"}, "eos_token": "</s>",
            "chat_template": [{"name": "rag", "template": "a"}, {"name": "default", "template": "b"}]}"#,
    );
    put("generation_config.json", r#"{"eos_token_id": [7, 0, 9]}"#);
    let loaded = model.load(&Device::Cpu).unwrap();
    let chat = loaded.chat.clone().unwrap();
    assert_eq!((chat.template.as_str(), chat.begin.as_deref(), chat.end.as_deref()), ("b", Some("<s>"), Some("</s>")));
    let ends = |mut loaded: verdigris_models::LoadedModel| {
        loaded.end.sort_unstable();
        (loaded.end, loaded.begin)
    };
    assert_eq!(ends(loaded), (vec![0, 7, 9], Some(0)));
    put("chat_template.jinja", "c");
    assert_eq!(model.chat().unwrap().unwrap().template, "c");
    let file = folder.path().join("m.gguf");
    model.convert(&file, verdigris_models::Format::Q8_0, false, |_, _| ()).unwrap();
    let chat = ModelFolder::at(&file).chat().unwrap().unwrap();
    assert_eq!((chat.template.as_str(), chat.end.as_deref()), ("c", Some("<|endoftext|>")));
    assert_eq!(ends(ModelFolder::at(&file).load(&Device::Cpu).unwrap()), (vec![0, 7, 9], Some(0)), "none is lost");
    put("generation_config.json", "{");
    let error = model.load(&Device::Cpu).err().unwrap().to_string();
    assert!(error.contains("generation_config.json"), "{error}");
}

/// An output matrix that differs from the embedding is used, whatever the configuration says; a copy of the embedding
/// is not.
#[test]
fn an_output_matrix_that_differs_is_used() {
    let bytes = fs::read(fixture("model.safetensors")).unwrap();
    let stored = SafeTensors::deserialize(&bytes).unwrap();
    let embedding = stored.tensor("model.embed_tokens.weight").unwrap();
    let mut turned = embedding.data().to_vec();
    turned.reverse();
    // Each number keeps the order of its bytes.
    turned.chunks_exact_mut(2).for_each(|number| number.reverse());
    let rows = |head: Option<&[u8]>, is_tied: bool| {
        let folder = copy();
        edit(&folder, "config.json", |config| {
            let mut config: serde_json::Value = serde_json::from_str(&config).unwrap();
            config["tie_word_embeddings"] = is_tied.into();
            config.to_string()
        });
        let head = head.map(|data| TensorView::new(embedding.dtype(), embedding.shape().to_vec(), data).unwrap());
        let all = stored.tensors().into_iter().chain(head.map(|head| ("lm_head.weight".to_owned(), head)));
        safetensors::serialize_to_file(all, None, &folder.path().join("model.safetensors")).unwrap();
        let model = ModelFolder::at(folder.path()).model(&Device::Cpu).unwrap();
        let mut rows = Rows::default();
        model.begin(8).unwrap().forward(&Batch::chain(&[5, 6, 7], Wanted::Last), &mut rows).unwrap();
        rows.last().to_vec()
    };
    let tied = rows(None, true);
    assert_eq!(rows(Some(embedding.data()), true), tied);
    let own = rows(Some(&turned), false);
    assert_ne!(own, tied);
    assert_eq!(rows(Some(&turned), true), own);
}
