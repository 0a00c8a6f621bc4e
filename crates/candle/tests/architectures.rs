//! Every architecture compared with `transformers`: tiny random checkpoints that it saved, and the logits that it
//! computed in f32 (`fixtures/golden/architectures.py`), for texts that are read in several ways, truncated and forked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use verdigris_candle::{Candle, model_types};
use verdigris_models::{Batch, Device, LanguageModel, ModelError, ModelFolder, Sequence, Wanted};

#[path = "../../models/tests/distributions/mod.rs"]
#[allow(dead_code, reason = "forks are tried on shorter texts here")]
mod distributions;
#[path = "../../models/tests/golden/mod.rs"]
mod golden;

use golden::{distance, rows};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden")
}

fn candle() -> Device {
    Device::Backend(Arc::new(Candle::new("cpu").unwrap()))
}

/// Checkpoints that only candle supports, and some that the decoders of `models` run too.
const CHECKPOINTS: [&str; 15] = [
    "foreign/falcon-7b",
    "foreign/glm4",
    "foreign/mamba",
    "foreign/mixtral",
    "foreign/phi",
    "foreign/qwen2_moe",
    "foreign/qwen3_moe",
    "foreign/starcoder2",
    "foreign/t5",
    "foreign/t5-gated",
    "architectures/gemma",
    "architectures/llama",
    "architectures/phi3",
    "architectures/qwen2",
    "architectures/qwen3",
];

struct Case {
    name: &'static str,
    model: Arc<dyn LanguageModel>,
    ids: Vec<u32>,
    /// For an encoder-decoder, the rows from the end of its source on.
    logits: Vec<Vec<f32>>,
}

impl Case {
    fn all() -> impl Iterator<Item = Self> {
        CHECKPOINTS.into_iter().map(|name| {
            let folder = fixtures().join(name);
            let golden = golden::load(folder.join("logits.safetensors"));
            let model = ModelFolder::at(&folder).model(&candle()).unwrap_or_else(|error| panic!("{name}: {error}"));
            // One window is shorter than the text, and candle does not slide it.
            let length = golden["ids"].integers().len().min(model.context_length());
            let ids = golden["ids"].integers()[..length].to_vec();
            let mut logits = golden["logits"].rows();
            logits.truncate(length);
            Self { name, model, ids, logits }
        })
    }

    fn begin(&self) -> Box<dyn Sequence> {
        self.model.clone().begin(self.model.context_length().min(self.ids.len() + 36)).unwrap()
    }

    /// Checks that `got` has the rows of the text from a token on.
    fn near(&self, got: &[Vec<f32>], from: usize, what: &str) {
        assert_eq!(got.len(), self.ids.len() - from, "{} {what}", self.name);
        let both = got.len().min(self.logits.len());
        let (got, expected) = (&got[got.len() - both..], &self.logits[self.logits.len() - both..]);
        let worst = distance(got, expected);
        // candle's Falcon uses the tanh approximation of GELU; transformers uses GELU.
        let bound = if self.name == "foreign/falcon-7b" { 2e-3 } else { 1e-4 };
        assert!(worst <= bound, "{} {what}: {worst}", self.name);
    }
}

#[test]
fn every_model_type_has_a_checkpoint() {
    let type_of = |name: &str| {
        let config = std::fs::read_to_string(fixtures().join(name).join("config.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&config).unwrap()["model_type"].as_str().unwrap().to_owned()
    };
    let mut tested: Vec<String> = CHECKPOINTS.into_iter().map(type_of).collect();
    tested.sort();
    tested.dedup();
    assert_eq!(tested.join(", "), model_types());
}

#[test]
fn logits_are_those_of_transformers_however_a_text_is_read() {
    for case in Case::all() {
        let ids = &case.ids;
        case.near(&rows(&mut *case.begin(), Batch::chain(ids, Wanted::All)), 0, "at once");
        for size in [1, 5, 16] {
            let mut sequence = case.begin();
            let split: Vec<_> =
                ids.chunks(size).flat_map(|ids| rows(&mut *sequence, Batch::chain(ids, Wanted::All))).collect();
            case.near(&split, 0, "in chunks");
        }
        let mut sequence = case.begin();
        let (prompt, rest) = ids.split_at(ids.len() - 3);
        rows(&mut *sequence, Batch::chain(prompt, Wanted::Last));
        let last =
            rest.iter().flat_map(|&id| rows(&mut *sequence, Batch::chain(&[id], Wanted::Last))).collect::<Vec<_>>();
        case.near(&last, prompt.len(), "as a prompt and one by one");
    }
}

/// Like drafts: read together, partly taken back, and then read one by one, as a draft model does.
#[test]
fn a_text_goes_on_from_where_it_was_cut_back() {
    for case in Case::all() {
        let (ids, from) = (&case.ids, case.ids.len() / 2);
        let mut sequence = case.begin();
        rows(&mut *sequence, Batch::chain(&ids[..from], Wanted::Last));
        rows(&mut *sequence, Batch::chain(&[ids[from], 9, 9], Wanted::All));
        sequence.truncate(from + 1);
        let right = rows(&mut *sequence, Batch::chain(&ids[from + 1..], Wanted::All));
        case.near(&right, from + 1, "after a draft");
        sequence.truncate(from);
        for wrong in [3, 4, 5] {
            rows(&mut *sequence, Batch::chain(&[wrong], Wanted::Last));
        }
        sequence.truncate(from + 1);
        sequence.truncate(from);
        case.near(&rows(&mut *sequence, Batch::chain(&ids[from..], Wanted::All)), from, "after a draft model");
        sequence.truncate(0);
        case.near(&rows(&mut *sequence, Batch::chain(ids, Wanted::All)), 0, "from the beginning");
    }
}

#[test]
fn forks_and_their_origin_go_their_own_ways() {
    for case in Case::all() {
        let (ids, from) = (&case.ids, case.ids.len() / 2);
        let mut origin = case.begin();
        rows(&mut *origin, Batch::chain(&ids[..from], Wanted::Last));
        let mut forks = [origin.fork().unwrap(), origin.fork().unwrap()];
        // In turns, each with its own tokens, which would overwrite any shared memory.
        let mut got = Vec::new();
        for (i, &id) in ids[from..].iter().enumerate() {
            rows(&mut *forks[0], Batch::chain(&[(7 * i as u32 + 1) % 61], Wanted::Last));
            got.extend(rows(&mut *origin, Batch::chain(&[id], Wanted::Last)));
            rows(&mut *forks[1], Batch::chain(&[(5 * i as u32 + 2) % 61], Wanted::Last));
        }
        case.near(&got, from, "beside its forks");
        forks[1].truncate(from);
        case.near(&rows(&mut *forks[1], Batch::chain(&ids[from..], Wanted::All)), from, "as a fork");
    }
}

#[test]
fn trees_and_several_sequences_keep_the_contract() {
    for case in Case::all().filter(|case| case.model.context_length() >= 60) {
        distributions::a_path_of_a_tree_is_kept(case.name, &case.model, Some(1e-4));
        distributions::together_as_alone(case.name, &case.model, None);
    }
}

#[test]
fn a_gguf_file_of_llama_is_read() {
    let file = fixtures().join("gguf/llama.gguf");
    let [own, candles] = [Device::Cpu, candle()].map(|device| ModelFolder::at(&file).model(&device).unwrap());
    assert_eq!(own.vocabulary_size(), candles.vocabulary_size());
    let ids: Vec<u32> = (1..20).collect();
    let [own, candles] =
        [own, candles].map(|model| rows(&mut *model.begin(32).unwrap(), Batch::chain(&ids, Wanted::All)));
    let worst = distance(&own, &candles);
    // Both round activations to 8 bits, but in different blocks.
    assert!(worst <= 0.05, "{worst}");
}

/// The error of loading a copy of a checkpoint with a changed configuration.
fn refused(name: &str, change: impl FnOnce(&mut serde_json::Map<String, serde_json::Value>)) -> ModelError {
    let folder = tempfile::tempdir().unwrap();
    let mut config =
        serde_json::from_slice(&std::fs::read(fixtures().join(name).join("config.json")).unwrap()).unwrap();
    change(&mut config);
    std::fs::write(folder.path().join("config.json"), serde_json::to_vec(&config).unwrap()).unwrap();
    let weights = fixtures().join(name).join("model.safetensors");
    std::fs::copy(weights, folder.path().join("model.safetensors")).unwrap();
    match ModelFolder::at(folder.path()).model(&candle()) {
        Ok(_) => panic!("{name} was taken"),
        Err(error) => error,
    }
}

#[test]
fn what_candle_would_not_heed_is_refused_by_name() {
    let unknown = refused("foreign/mixtral", |config| drop(config.insert("model_type".into(), "plover".into())));
    assert!(matches!(&unknown, ModelError::Architecture { model_type, .. } if model_type == "plover"), "{unknown}");
    assert!(unknown.to_string().contains("mixtral"), "{unknown}");
    let yarn = serde_json::json!({"rope_type": "yarn", "factor": 4.0});
    let cases = [
        ("foreign/mixtral", "rope_parameters", yarn.clone()),
        ("foreign/phi", "rope_scaling", yarn),
        ("foreign/mixtral", "head_dim", 16.into()),
        ("foreign/mixtral", "quantization_config", serde_json::json!({"quant_method": "awq"})),
        ("foreign/mixtral", "num_experts_per_tok", "two".into()),
        ("foreign/qwen2_moe", "mlp_only_layers", serde_json::json!([0])),
        ("foreign/mamba", "state_size", 32.into()),
        ("foreign/starcoder2", "tie_word_embeddings", false.into()),
        ("architectures/llama", "attention_bias", true.into()),
        ("foreign/falcon-7b", "alibi", true.into()),
        ("foreign/falcon-7b", "ffn_hidden_size", 48.into()),
    ];
    for (checkpoint, name, value) in cases {
        let fault = refused(checkpoint, |config| drop(config.insert(name.into(), value))).to_string();
        assert!(fault.contains(name) || fault.contains("usize"), "{checkpoint}: {fault}");
    }
    let fault = refused("foreign/mixtral", |config| drop(config.insert("hidden_size".into(), 64.into()))).to_string();
    assert!(fault.contains("shape"), "{fault}");
}
