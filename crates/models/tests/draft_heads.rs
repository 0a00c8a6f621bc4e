//! Draft heads compared with torch: random heads for `tale-small`, and their guesses
//! (`fixtures/golden/draft_heads.py`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use verdigris_models::{
    Batch, BatchItem, Device, DraftHead, DraftTarget, Format, ModelError, ModelFolder, Rows, Wanted,
};

use crate::golden::Golden;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

fn target() -> ModelFolder {
    ModelFolder::at(fixtures().join("models/tale-small"))
}

fn head(name: &str) -> DraftHead {
    DraftHead::load(&ModelFolder::at(fixtures().join("golden/draft_heads").join(name)), &target()).unwrap()
}

/// The expected values: ids, hidden states, and the rows of both heads.
fn expected() -> HashMap<String, Golden> {
    crate::golden::load(fixtures().join("golden/draft_heads/expected.safetensors"))
}

fn close(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    let worst = got.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
    assert!(worst < 2e-4, "{worst}");
}

fn states(rows: &Rows, count: usize) -> Vec<f32> {
    (0..count).flat_map(|i| rows.hidden(i)).copied().collect()
}

/// For any split of a text into batches, and for any wanted rows.
#[test]
fn a_model_keeps_its_hidden_states() {
    let model = target().cached_as(Format::F32).model(&Device::Cpu).unwrap();
    let expected = expected();
    let (ids, hidden) = (expected["ids"].integers(), expected["hidden"].numbers());
    assert_eq!(model.hidden_size(), Some(hidden.len() / ids.len()));
    for wanted in [Wanted::All, Wanted::Last] {
        let (mut sequence, mut rows) = (model.clone().begin(64).unwrap(), Rows::with_hidden());
        sequence.forward(&Batch::chain(&ids, wanted), &mut rows).unwrap();
        let whole = states(&rows, ids.len());
        close(&whole, &hidden);
        sequence.truncate(0);
        let mut parts = Vec::new();
        for part in ids.chunks(7) {
            sequence.forward(&Batch::chain(part, wanted), &mut rows).unwrap();
            parts.extend(states(&rows, part.len()));
        }
        assert_eq!(parts, whole);
    }
    // More tokens than go through the layers at a time.
    let long: Vec<u32> = ids.iter().cycle().take(700).copied().collect();
    let (mut sequence, mut rows) = (model.begin(700).unwrap(), Rows::with_hidden());
    sequence.forward(&Batch::chain(&long, Wanted::Last), &mut rows).unwrap();
    let whole = states(&rows, long.len());
    sequence.truncate(600);
    sequence.forward(&Batch::chain(&long[600..], Wanted::Last), &mut rows).unwrap();
    assert_eq!(states(&rows, 100), whole[600 * rows.hidden(0).len()..]);
}

#[test]
fn a_feature_drafter_guesses_what_torch_does() {
    let DraftHead::Feature(model) = head("feature") else { panic!("a feature drafter") };
    let expected = expected();
    let [hidden, feature] = ["hidden", "feature"].map(|name| expected[name].numbers());
    let ids = expected["ids"].integers();
    let (width, size) = (model.hidden_size(), model.tokens().len());
    let rows_of = |rows: &Rows| -> Vec<f32> { (0..rows.count()).flat_map(|i| rows.row(i)).copied().collect() };
    // With the target's states for the first tokens, then with its own.
    let known = ids.len() - 1 - 4;
    let (mut sequence, mut rows) = (model.begin(64).unwrap(), Rows::with_hidden());
    sequence.forward(&Batch::chain(&ids[1..=known], Wanted::All), &hidden[..known * width], &mut rows).unwrap();
    let mut got = rows_of(&rows);
    let mut state = rows.hidden(known - 1).to_vec();
    for &id in &ids[known + 1..] {
        sequence.forward(&Batch::chain(&[id], Wanted::All), &state, &mut rows).unwrap();
        got.extend(rows_of(&rows));
        state.copy_from_slice(rows.hidden(0));
    }
    close(&got, &feature);
    // Guesses are forgotten when the target's states are known, and the path of a tree is kept.
    sequence.truncate(known - 2);
    let parents = [None, None, Some(1)];
    let tokens = [9, ids[known - 1], ids[known]];
    let features = [&hidden[..width], &hidden[(known - 2) * width..known * width]].concat();
    sequence.forward(&Batch::tree(&tokens, &parents), &features, &mut rows).unwrap();
    close(&rows_of(&rows)[size..], &feature[(known - 2) * size..known * size]);
    sequence.keep(known - 2, &[1, 2]).unwrap();
    assert_eq!(sequence.len(), known);
    sequence.forward(&Batch::chain(&ids[known + 1..=known + 1], Wanted::Last), &hidden[..width], &mut rows).unwrap();
}

#[test]
fn medusa_heads_guess_what_torch_does() {
    let DraftHead::Medusa(heads) = head("medusa") else { panic!("heads") };
    let expected = expected();
    let [hidden, medusa] = ["hidden", "medusa"].map(|name| expected[name].numbers());
    let mut rows = Rows::default();
    let last = &hidden[hidden.len() - heads.hidden_size()..];
    heads.guess(last, 2, &mut rows);
    close(&[rows.row(0), rows.row(1)].concat(), &medusa);
    heads.guess(last, 1, &mut rows);
    assert_eq!(rows.count(), 1);
    close(rows.row(0), &medusa[..heads.tokens().len()]);
}

/// The format in which the authors of Medusa publish heads: a wrong number of heads, and tensors named by numbers.
#[test]
fn published_medusa_heads_guess_what_numpy_does() {
    let published = crate::golden::load(fixtures().join("golden/published_heads/expected.safetensors"));
    let (hidden, medusa) = (published["hidden"].rows(), published["medusa"].rows());
    let DraftHead::Medusa(heads) = published_head("medusa") else { panic!("heads") };
    assert_eq!((heads.count(), heads.tokens().len()), (2, 4096), "config.json counts 5 heads");
    let mut rows = Rows::default();
    heads.guess(hidden.last().unwrap(), 2, &mut rows);
    let worst = crate::golden::distance(&[rows.row(0).to_vec(), rows.row(1).to_vec()], &medusa);
    assert!(worst < 1e-4, "{worst}");
}

#[test]
fn a_model_keeps_the_states_of_some_layers() {
    let model = target().cached_as(Format::F32).model(&Device::Cpu).unwrap();
    let published = crate::golden::load(fixtures().join("golden/published_heads/expected.safetensors"));
    let (ids, expected) = (published["ids"].integers(), published["layers"].numbers());
    let width = model.hidden_size().unwrap();
    assert_eq!((model.layers(), expected.len()), (4, ids.len() * 3 * width));
    let (mut sequence, mut rows) = (model.clone().begin(700).unwrap(), Rows::with_layers(&[2, 3, 4]));
    sequence.forward(&Batch::chain(&ids, Wanted::Last), &mut rows).unwrap();
    let whole = states(&rows, ids.len());
    close(&whole, &expected);
    // In any order, and the embeddings too.
    sequence.truncate(0);
    let mut other = Rows::with_layers(&[4, 0, 2]);
    sequence.forward(&Batch::chain(&ids, Wanted::All), &mut other).unwrap();
    let middle = rows.hidden(5);
    let embeddings = &DraftTarget::of(&target()).unwrap().embeddings(&ids[5..6]);
    assert_eq!(other.hidden(5), [&middle[2 * width..], embeddings, &middle[..width]].concat());
    // More tokens than go through the layers at a time, and next to a text that keeps other states.
    let long: Vec<u32> = ids.iter().cycle().take(600).copied().collect();
    sequence.truncate(0);
    sequence.forward(&Batch::chain(&long, Wanted::Last), &mut rows).unwrap();
    assert_eq!(states(&rows, ids.len()), whole);
    let long_states = states(&rows, long.len());
    let (mut second, mut last) = (model.clone().begin(64).unwrap(), Rows::with_hidden());
    sequence.truncate(500);
    let items = &mut [
        BatchItem { sequence: &mut *second, batch: Batch::chain(&ids, Wanted::Last), rows: &mut last },
        BatchItem { sequence: &mut *sequence, batch: Batch::chain(&long[500..], Wanted::Last), rows: &mut rows },
    ];
    model.forward_each(items).unwrap();
    assert_eq!(states(&rows, 100), long_states[500 * 3 * width..]);
    close(&states(&last, ids.len()), &published["hidden"].numbers());
}

/// Both layouts, and files of llama.cpp: with the target's states for the first tokens, and with its own for the last
/// four.
#[test]
fn heads_of_eagle_3_guess_what_numpy_does() {
    let published = crate::golden::load(fixtures().join("golden/published_heads/expected.safetensors"));
    let (ids, layers) = (published["ids"].integers(), published["layers"].numbers());
    let both = ["eagle3", "speculators"].into_iter().flat_map(|name| [(name, false), (name, true)]);
    for (name, is_gguf) in both {
        let head = if is_gguf { gguf_head(name) } else { published_head(name) };
        assert_eq!((head.layers(), head.hidden_size()), (&[2, 3, 4][..], 128));
        let DraftHead::Feature(model) = head else { panic!("a feature drafter") };
        assert_eq!(model.tokens(), published[&format!("{name}_tokens")].integers(), "{name}");
        let expected = published[name].rows();
        let (known, width) = (ids.len() - 1 - 4, model.hidden_size());
        let mut read = Vec::new();
        model.read_states(&layers[..known * 3 * 128], &mut read);
        let (mut sequence, mut rows) = (model.begin(64).unwrap(), model.rows());
        sequence.forward(&Batch::chain(&ids[1..=known], Wanted::All), &read, &mut rows).unwrap();
        let mut got: Vec<Vec<f32>> = (0..rows.count()).map(|i| rows.row(i).to_vec()).collect();
        let mut state = rows.hidden(known - 1).to_vec();
        for &id in &ids[known + 1..] {
            sequence.forward(&Batch::chain(&[id], Wanted::All), &state, &mut rows).unwrap();
            got.push(rows.row(0).to_vec());
            state.copy_from_slice(rows.hidden(0));
        }
        // A file cannot say that a head continues from its normalised states.
        let same = if is_gguf && name == "speculators" { known } else { got.len() };
        let worst = crate::golden::distance(&got[..same], &expected[..same]);
        println!("{name}: {worst}");
        assert!(worst < 1e-4, "{name}: {worst}");
        // In one tree with a wrong guess, and token by token.
        sequence.truncate(known - 2);
        let tokens = [9, ids[known - 1], ids[known]];
        let features = [&read[..width], &read[(known - 2) * width..]].concat();
        sequence.forward(&Batch::tree(&tokens, &[None, None, Some(1)]), &features, &mut rows).unwrap();
        let after = [rows.row(1).to_vec(), rows.row(2).to_vec()];
        assert!(crate::golden::distance(&after, &expected[known - 2..known]) < 1e-4, "{name}");
        // More tokens than go through the layers at a time.
        let long: Vec<u32> = ids[1..=known].iter().cycle().take(510).chain(&ids[1..=2]).copied().collect();
        let of_long =
            [read.repeat(510usize.div_ceil(known))[..510 * width].to_vec(), read[..2 * width].to_vec()].concat();
        let mut sequence = model.begin(512).unwrap();
        sequence.forward(&Batch::chain(&long, Wanted::Last), &of_long, &mut rows).unwrap();
        let once = rows.row(0).to_vec();
        sequence.truncate(510);
        sequence.forward(&Batch::chain(&long[510..], Wanted::Last), &of_long[510 * width..], &mut rows).unwrap();
        assert_eq!(rows.row(0), once, "{name}");
    }
}

/// DFlash, with a layer that has a window, and DSpark: the rows of a block after a context that is read at once, in
/// parts, and again after it was cut back.
#[test]
fn heads_that_guess_blocks_do_what_numpy_does() {
    let published = crate::golden::load(fixtures().join("golden/published_heads/expected.safetensors"));
    let (ids, layers) = (published["ids"].integers(), published["block_layers"].numbers());
    for (name, count, is_gguf) in [("dflash", 3, false), ("dflash", 3, true), ("dspark", 4, false), ("dspark", 4, true)]
    {
        let head = if is_gguf { gguf_head(name) } else { published_head(name) };
        assert_eq!((head.layers(), head.hidden_size()), (&[1, 3][..], 128), "{name}");
        let DraftHead::Block(model) = head else { panic!("a head that guesses blocks") };
        assert_eq!(model.count(), count);
        let (known, a_token) = (ids.len() - 5, 2 * 128);
        let (mut sequence, mut rows) = (model.begin(ids.len() + 4).unwrap(), Rows::default());
        let (first, rest) = layers[..known * a_token].split_at(3 * a_token);
        sequence.read(first).unwrap();
        sequence.guess(ids[3], &mut rows).unwrap();
        sequence.read(rest).unwrap();
        assert_eq!(sequence.len(), known);
        sequence.guess(ids[known], &mut rows).unwrap();
        let mut got: Vec<Vec<f32>> = (0..rows.count()).map(|i| rows.row(i).to_vec()).collect();
        let worst = crate::golden::distance(&got, &published[name].rows());
        println!("{name}: {worst}");
        assert!(worst < 1e-4, "{name}: {worst}");
        for (row, &before) in got.iter_mut().zip(&ids[known..]) {
            row.iter_mut().for_each(|logit| *logit = 0.0);
            sequence.after(before, row);
        }
        if name == "dspark" {
            assert_eq!(model.tokens(), published["dspark_tokens"].integers());
            assert!(crate::golden::distance(&got, &published["dspark_markov"].rows()) < 1e-4);
        } else {
            assert!(got.iter().flatten().all(|&change| change == 0.0));
        }
        // There is room for a block after all but a few tokens.
        assert!(sequence.has_room(4) && !sequence.has_room(6));
        assert!(sequence.guess(5000, &mut rows).is_err());
    }
}

/// The layout of speculators, whose first row guesses nothing, has the guesses of the usual one that says so.
#[test]
fn dspark_of_speculators_is_the_same_head() {
    use serde_json::json;
    let published = crate::golden::load(fixtures().join("golden/published_heads/expected.safetensors"));
    let (ids, layers) = (published["ids"].integers(), published["block_layers"].numbers());
    let known = ids.len() - 5;
    let guesses = |edit: &dyn Fn(&mut serde_json::Value)| {
        let (_copy, folder) = with_config("dspark", edit);
        let head = DraftHead::load(&folder, &target()).unwrap();
        assert_eq!(head.layers(), [1, 3]);
        let DraftHead::Block(model) = head else { panic!("a head that guesses blocks") };
        let (mut sequence, mut rows) = (model.begin(ids.len() + 4).unwrap(), Rows::default());
        sequence.read(&layers[..known * 2 * 128]).unwrap();
        sequence.guess(ids[known], &mut rows).unwrap();
        (0..rows.count()).map(|i| rows.row(i).to_vec()).collect::<Vec<_>>()
    };
    let usual = guesses(&|config| config["sample_from_anchor"] = json!(false));
    let of_speculators = guesses(&|config| {
        let mut layers = config.take();
        let fields = layers.as_object_mut().unwrap();
        let mut outside = serde_json::Map::new();
        for name in ["block_size", "mask_token_id", "markov_rank", "markov_head_type", "draft_vocab_size"] {
            outside.insert(name.into(), fields.remove(name).unwrap());
        }
        fields.retain(|name, _| name != "target_layer_ids" && name != "architectures");
        *config = outside.into();
        config["speculators_model_type"] = json!("dspark");
        config["architectures"] = json!(["DSparkSpeculator"]);
        config["aux_hidden_state_layer_ids"] = json!([1, 3]);
        config["transformer_layer_config"] = layers;
    });
    assert_eq!(usual.len(), 3);
    assert_eq!(of_speculators, usual);
    assert!(crate::golden::distance(&usual, &published["dspark"].rows()[1..]) < 1e-4);
}

#[test]
fn heads_that_guess_blocks_and_cannot_be_used_are_refused() {
    use serde_json::json;
    type Edit = dyn Fn(&mut serde_json::Value);
    let edits: [(&str, &Edit, &str); 11] = [
        ("dflash", &|config| config["model_type"] = json!("llama"), "its layers are those of \"llama\""),
        ("dflash", &|config| config["hidden_size"] = json!(64), "it was trained for a model with hidden_size 64"),
        (
            "dflash",
            &|config| config["dflash_config"]["target_layer_ids"] = json!([0, 3]),
            "before its last one; it has 4",
        ),
        ("dflash", &|config| config["dflash_config"]["target_layer_ids"] = json!([2, 0]), "target_layer_ids is [2,0]"),
        ("dflash", &|config| config["dflash_config"] = json!({"target_layer_ids": [0, 2]}), "mask_token_id is missing"),
        ("dflash", &|config| config["dflash_config"]["mask_token_id"] = json!(9999), "is not a token of the model"),
        ("dflash", &|config| config["block_size"] = json!(1), "its blocks have 1 tokens (block_size), not 2 to 64"),
        ("dflash", &|config| config["dflash_config"]["conv_kernel_size"] = json!(3), "conv_kernel_size"),
        ("dspark", &|config| config["markov_head_type"] = json!("gated"), "markov_head_type"),
        ("dspark", &|config| config["draft_vocab_size"] = json!(63), "d2t has 64 tokens"),
        ("dspark", &|config| config["target_layer_ids"] = json!([-2, 2]), "target_layer_ids is [-2,2]"),
    ];
    for (name, edit, said) in edits {
        let (_folder, head) = with_config(name, edit);
        let fault = refused(&head, &target());
        assert!(fault.contains(said), "{fault:?} should say {said:?}");
    }
}

/// The layers of Qwen3.5 (dense and with experts), DeepSeek-V3 and GLM-4.5 that predict later tokens, of folders and
/// GGUF files: with the model's states for the first tokens, and with their own for the last four.
#[test]
fn layers_that_predict_later_tokens_do_what_transformers_does() {
    let root = fixtures().join("golden/predictors");
    for (name, has_gguf) in [("qwen3_5", true), ("qwen3_5_moe", true), ("deepseek_v3", false), ("glm4_moe", true)] {
        let golden = crate::golden::load(root.join(name).join("expected.safetensors"));
        let (ids, hidden, expected) = (golden["ids"].integers(), golden["hidden"].numbers(), golden["rows"].rows());
        let files = [Some(root.join(name)), has_gguf.then(|| root.join(name).join("model.gguf"))];
        for path in files.into_iter().flatten() {
            let folder = ModelFolder::at(&path).cached_as(Format::F32);
            let model = folder.model(&Device::Cpu).unwrap();
            let width = model.hidden_size().unwrap();
            let (mut text, mut rows) = (model.clone().begin(ids.len()).unwrap(), Rows::with_hidden());
            text.forward(&Batch::chain(&ids, Wanted::Last), &mut rows).unwrap();
            let of_model = states(&rows, ids.len());
            close(&of_model, &hidden);
            let head = DraftHead::own(&folder).unwrap();
            assert_eq!((head.layers(), head.hidden_size()), (&[][..], width));
            let DraftHead::Feature(layer) = head else { panic!("a feature drafter") };
            assert_eq!(layer.tokens().len(), 61);
            let known = ids.len() - 1 - 4;
            let (mut sequence, mut rows) = (layer.begin(64).unwrap(), layer.rows());
            let chain = Batch::chain(&ids[1..=known], Wanted::All);
            sequence.forward(&chain, &hidden[..known * width], &mut rows).unwrap();
            let mut got: Vec<Vec<f32>> = (0..rows.count()).map(|i| rows.row(i).to_vec()).collect();
            let mut state = rows.hidden(known - 1).to_vec();
            for &id in &ids[known + 1..] {
                sequence.forward(&Batch::chain(&[id], Wanted::All), &state, &mut rows).unwrap();
                got.push(rows.row(0).to_vec());
                state.copy_from_slice(rows.hidden(0));
            }
            let worst = crate::golden::distance(&got, &expected);
            println!("{}: {worst}", path.display());
            assert!(worst < 5e-5, "{}: {worst}", path.display());
        }
    }
}

#[test]
fn models_without_a_layer_for_later_tokens_say_so() {
    for name in ["golden/architectures/qwen3_5", "golden/gguf_architectures/glm4_moe.gguf", "models/tale-small"] {
        let fault = DraftHead::own(&ModelFolder::at(fixtures().join(name))).unwrap_err().to_string();
        assert!(fault.contains("no layer that predicts later tokens") && !fault.contains('\n'), "{fault}");
    }
}

/// A head in a file of llama.cpp.
fn gguf_head(name: &str) -> DraftHead {
    DraftHead::load(&ModelFolder::at(gguf_file(name)), &target()).unwrap()
}

fn gguf_file(name: &str) -> PathBuf {
    fixtures().join("golden/gguf_heads").join(name).with_extension("gguf")
}

fn published_head(name: &str) -> DraftHead {
    DraftHead::load(&ModelFolder::at(fixtures().join("golden/published_heads").join(name)), &target()).unwrap()
}

/// A copy of a published head with an edited `config.json`.
fn with_config(name: &str, edit: impl Fn(&mut serde_json::Value)) -> (tempfile::TempDir, ModelFolder) {
    let (from, to) = (fixtures().join("golden/published_heads").join(name), tempfile::tempdir().unwrap());
    for file in std::fs::read_dir(&from).unwrap().map(|file| file.unwrap().file_name()) {
        std::fs::copy(from.join(&file), to.path().join(&file)).unwrap();
    }
    let mut config = serde_json::from_slice(&std::fs::read(from.join("config.json")).unwrap()).unwrap();
    edit(&mut config);
    std::fs::write(to.path().join("config.json"), config.to_string()).unwrap();
    let folder = ModelFolder::at(to.path());
    (to, folder)
}

/// The error of a head, which is one line.
fn refused(head: &ModelFolder, target: &ModelFolder) -> String {
    assert!(DraftHead::is_in(head));
    let fault = DraftHead::load(head, target).unwrap_err().to_string();
    assert!(!fault.contains('\n'), "{fault}");
    fault
}

#[test]
fn published_medusa_heads_that_cannot_be_used_are_refused() {
    let published = ModelFolder::at(fixtures().join("golden/published_heads/medusa"));
    let other = ModelFolder::at(fixtures().join("models/tale"));
    let fault = refused(&published, &other);
    assert!(fault.contains("it was trained for example/tale-small with hidden_size 128"), "{fault}");
    for (name, value, expected) in [
        ("medusa_num_layers", serde_json::json!(0), "0 blocks"),
        ("medusa_num_layers", serde_json::json!(1u64 << 60), "blocks"),
        ("medusa_num_layers", serde_json::json!("one"), "which is not a number"),
        ("medusa_num_layers", serde_json::json!(3), "0.2.linear.weight is missing"),
    ] {
        let (_copy, folder) = with_config("medusa", |config| config[name] = value.clone());
        let fault = refused(&folder, &target());
        assert!(fault.contains(expected), "{fault}");
    }
    let (copy, folder) = with_config("medusa", |_| ());
    std::fs::remove_file(copy.path().join("medusa_lm_head.safetensors")).unwrap();
    assert!(refused(&folder, &target()).contains("it has no model.safetensors"));
    std::fs::write(copy.path().join("medusa_lm_head.pt"), "pickle").unwrap();
    let fault = refused(&folder, &target());
    assert!(fault.contains("a pickle") && fault.contains("s.save_file(torch.load('medusa_lm_head.pt'"), "{fault}");
    std::fs::write(copy.path().join("medusa_lm_head.safetensors"), "damaged").unwrap();
    refused(&folder, &target());
}

#[test]
fn heads_of_eagle_3_that_cannot_be_used_are_refused() {
    let json = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
    let layers = "eagle_aux_hidden_state_layer_ids";
    for (head, name, value, expected) in [
        ("eagle3", "vocab_size", json("4095"), "vocab_size 4095, but this model has 128 and 4096"),
        ("eagle3", "hidden_size", json("64"), "hidden_size 64 and vocab_size 4096, but this model has 128"),
        ("eagle3", "target_hidden_size", json("256"), "hidden_size 256"),
        ("eagle3", "num_hidden_layers", json("2"), "it has 2 layers"),
        ("eagle3", "num_attention_heads", json("0"), "heads"),
        ("eagle3", "intermediate_size", json("97"), "midlayer.mlp.gate_proj.weight"),
        ("eagle3", "model_type", json("\"qwen3\""), "its layer is one of \"qwen3\""),
        ("eagle3", "draft_vocab_size", json("63"), "d2t has 64 tokens, but draft_vocab_size is 63"),
        ("eagle3", "eagle_config", json("null"), "a model of 7 layers or more; this one has 4"),
        ("eagle3", "eagle_config", json("3"), "which is not a JSON object"),
        ("eagle3", "eagle_config", json(r#"{"use_aux_hidden_state": false}"#), "use_aux_hidden_state"),
        ("eagle3", "fc_norm", json("true"), "fc_norm"),
        ("eagle3", "parallel_drafting", json("true"), "parallel_drafting"),
        ("eagle3", layers, json("[1, 2, 4]"), "[1, 2, 4], but must be ascending layers of the model, which has 4"),
        ("eagle3", layers, json("[1, 3]"), "fc.weight reads 384 numbers, but the states after 2 layers"),
        ("eagle3", layers, json("[1, -3]"), "is not a list of layers"),
        ("speculators", layers, json("[2, 3, 5]"), "which has 4"),
        ("speculators", "norm_before_residual", json("1"), "which is not a truth value"),
        ("speculators", "transformer_layer_config", json("{}"), "missing"),
        ("speculators", "speculators_model_type", json("\"dflash\""), "speculators' type dflash is not supported"),
    ] {
        let (_copy, folder) = with_config(head, |config| config[name] = value.clone());
        let fault = refused(&folder, &target());
        assert!(fault.contains(expected), "{fault}");
    }
    let other = ModelFolder::at(fixtures().join("models/tale"));
    let published = ModelFolder::at(fixtures().join("golden/published_heads/eagle3"));
    assert!(refused(&published, &other).contains("take the model that it was trained for"));
    // Weights that are not there, or damaged.
    let renamed = |head: &str, from: &str, to: &str| {
        let (copy, folder) = with_config(head, |_| ());
        let weights = copy.path().join("model.safetensors");
        let bytes = std::fs::read(&weights).unwrap();
        let at = bytes.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
        std::fs::write(&weights, [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat()).unwrap();
        DraftHead::load(&folder, &target())
    };
    let fault = renamed("speculators", "\"embed_tokens.weight\"", "\"embed_tokxxx.weight\"").unwrap_err().to_string();
    assert!(fault.contains("embed_tokens.weight is missing, and the model's has 128 columns, not 64"), "{fault}");
    for (from, to, expected) in [
        ("\"d2t\"", "\"x2t\"", "d2t is missing"),
        ("\"t2d\"", "\"x2d\"", ""),
        ("\"lm_head.weight\"", "\"xx_head.weight\"", ""),
        ("\"norm.weight\"", "\"nxrm.weight\"", "norm.weight is missing"),
        ("\"fc.weight\"", "\"xx.weight\"", "fc.weight is missing"),
        ("midlayer.hidden_norm", "midlayer.hidden_nxrm", "midlayer.hidden_norm.weight is missing"),
    ] {
        match renamed("eagle3", from, to) {
            Ok(_) => assert_eq!(expected, "", "{from}"),
            Err(fault) => assert!(!expected.is_empty() && fault.to_string().contains(expected), "{fault}"),
        }
    }
    let (copy, folder) = with_config("eagle3", |_| ());
    std::fs::remove_file(copy.path().join("model.safetensors")).unwrap();
    std::fs::write(copy.path().join("pytorch_model.bin"), "pickle").unwrap();
    let fault = refused(&folder, &target());
    assert!(fault.contains("pytorch_model.bin, a pickle") && fault.contains("'model.safetensors')"), "{fault}");
}

#[test]
fn heads_of_other_kinds_are_refused_by_name() {
    for (json, name) in [
        (r#"{"architectures": ["DFlash2DraftModel"], "model_type": "qwen3"}"#, "the draft head DFlash2DraftModel"),
        (r#"{"architectures": ["Gemma4DSparkModel"], "model_type": "gemma4"}"#, "the draft head Gemma4DSparkModel"),
        (r#"{"architectures": ["EagleModel"], "model_type": "eagle"}"#, "the draft head EagleModel"),
        (r#"{"speculators_model_type": "eagle"}"#, "speculators' type eagle"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.json"), json).unwrap();
        let fault = refused(&ModelFolder::at(folder.path()), &target());
        assert!(fault.contains(name) && fault.contains("not supported"), "{fault}");
    }
}

/// A head fits its model in whatever format that is stored, and no other model.
#[test]
fn a_head_belongs_to_one_model() {
    let folder = tempfile::tempdir().unwrap();
    let feature = ModelFolder::at(fixtures().join("golden/draft_heads/feature"));
    for format in [Format::Q8_0, Format::Q4K, Format::Bf16] {
        let file = folder.path().join(format!("{format:?}.gguf"));
        target().convert(&file, format, false, |_, _| ()).unwrap();
        assert!(DraftHead::load(&feature, &ModelFolder::at(file)).is_ok(), "{format:?}");
    }
    let fault = |head: &ModelFolder, target: &ModelFolder| match DraftHead::load(head, target) {
        Err(error @ ModelError::DraftHead { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let other = ModelFolder::at(fixtures().join("models/tale-expert"));
    assert!(fault(&feature, &other).contains("it was trained for tale-small"));
    assert!(fault(&other, &target()).contains("model_type is \"llama\""));
    assert!(DraftHead::is_in(&feature) && !DraftHead::is_in(&other));
}

/// Assistants of Gemma 4, in folders and in files of llama.cpp, one with all logits and one with those of some groups:
/// the rows of four drafts after beginnings of a text, around the length of its window.
#[test]
fn assistants_do_what_transformers_does() {
    let root = fixtures().join("golden");
    let both = ["gemma4", "gemma4_unified"].into_iter().flat_map(|name| [(name, false), (name, true)]);
    for (name, is_gguf) in both {
        let golden = crate::golden::load(root.join("assistants").join(name).join("expected.safetensors"));
        let (ids, lengths, expected) = (golden["ids"].integers(), golden["lengths"].integers(), golden["rows"].rows());
        let target = ModelFolder::at(root.join("architectures").join(name)).cached_as(Format::F32);
        let head = if is_gguf { gguf_file(name) } else { root.join("assistants").join(name) };
        let head = DraftHead::load(&ModelFolder::at(head), &target).unwrap();
        let DraftHead::Assistant(assistant) = &head else { panic!("an assistant") };
        let model = target.model(&Device::Cpu).unwrap();
        let width = model.hidden_size().unwrap();
        assert_eq!((head.hidden_size(), head.tokens().len()), (width, 61));
        assert_eq!(head.layers().last(), Some(&model.layers()), "{name}");
        let a_token = head.layers().len() * width;
        let (mut text, mut rows) = (model.clone().begin(ids.len()).unwrap(), Rows::with_layers(head.layers()));
        text.forward(&Batch::chain(&ids, Wanted::Last), &mut rows).unwrap();
        let of_target = states(&rows, ids.len());
        let (mut got, mut logits, mut next) = (Vec::new(), Vec::new(), Vec::new());
        for &length in &lengths {
            let length = length as usize;
            let mut sequence = assistant.begin(ids.len()).unwrap();
            // In two parts.
            let (first, rest) = of_target[..length * a_token].split_at(length / 2 * a_token);
            sequence.read(first).unwrap();
            sequence.read(rest).unwrap();
            assert_eq!(sequence.len(), length);
            let mut state = sequence.last_state().to_vec();
            for &id in &ids[length..length + 4] {
                sequence.guess(&[id], &state, &mut logits, &mut next).unwrap();
                got.push(logits.clone());
                // In company.
                let tokens = [[3, id].repeat(9), vec![id]].concat();
                let (mut of_all, mut after_all) = (Vec::new(), Vec::new());
                sequence.guess(&tokens, &state.repeat(tokens.len()), &mut of_all, &mut after_all).unwrap();
                assert_eq!(of_all[18 * 61..], logits, "{name}");
                assert_eq!(after_all[width..2 * width], next, "{name}");
                state.clone_from(&next);
            }
            assert_eq!(sequence.len(), length);
        }
        if is_gguf && name == "gemma4_unified" {
            // A file has no groups of tokens, so that all have their logits.
            for (got, expected) in got.iter_mut().zip(&expected) {
                let least = expected.iter().copied().fold(f32::INFINITY, f32::min);
                let in_groups = got.iter_mut().zip(expected).filter(|(_, expected)| **expected == least);
                in_groups.for_each(|(got, &expected)| *got = expected);
            }
        }
        let worst = crate::golden::distance(&got, &expected);
        println!("{name}: {worst}");
        assert!(worst < 5e-5, "{name}: {worst}");
        let mut full = assistant.begin(2).unwrap();
        full.read(&of_target[..2 * a_token]).unwrap();
        let state = full.last_state().to_vec();
        assert!(full.guess(&[1], &state, &mut logits, &mut next).is_err());
        assert!(full.read(&of_target[..a_token]).is_err());
    }
}

#[test]
fn assistants_that_cannot_be_used_are_refused() {
    use serde_json::json;
    type Edit = dyn Fn(&mut serde_json::Value);
    let root = fixtures().join("golden");
    let edits: [(&str, &str, &Edit, &str); 9] = [
        ("gemma4", "gemma4", &|config| config["backbone_hidden_size"] = json!(64), "a model with hidden_size 64"),
        ("gemma4", "gemma4", &|config| config["text_config"]["head_dim"] = json!(8), "with a window read other keys"),
        ("gemma4", "gemma4_unified", &|_| (), "with a window read other keys and values than layer 2"),
        (
            "gemma4",
            "gemma4",
            &|config| config["text_config"]["rope_parameters"]["full_attention"]["rope_theta"] = json!(10.0),
            "full attention read other keys and values than layer 2",
        ),
        ("gemma4", "gemma4", &|config| config["text_config"]["model_type"] = json!("llama"), "those of \"llama\""),
        ("gemma4", "gemma4", &|config| config["text_config"]["enable_moe_block"] = json!(true), "enable_moe_block"),
        (
            "gemma4",
            "gemma4",
            &|config| config["text_config"]["hidden_size_per_layer_input"] = json!(8),
            "hidden_size_per_layer_input",
        ),
        ("gemma4_unified", "gemma4_unified", &|config| config["num_centroids"] = json!(60), "9 of 60 groups of 61"),
        (
            "gemma4_unified",
            "gemma4_unified",
            &|config| config["centroid_intermediate_top_k"] = json!(62),
            "62 of 61 groups of 61 tokens",
        ),
    ];
    for (name, target, edit, said) in edits {
        let (_folder, head) = with_config(&format!("../assistants/{name}"), edit);
        let fault = refused(&head, &ModelFolder::at(root.join("architectures").join(target)));
        assert!(fault.contains(said), "{fault:?} should say {said:?}");
    }
    let (_folder, head) = with_config("../assistants/gemma4", |_| ());
    let other = ModelFolder::at(root.join("architectures/llama-long"));
    assert!(!refused(&head, &other).is_empty());
}
