//! Runs of the trainer on a small text.

use std::fs;
use std::path::{Path, PathBuf};

use verdigris_models::{Device, ModelFolder};
use verdigris_train::{Options, Steps, Summary, TrainError, train};

fn tale_small() -> ModelFolder {
    ModelFolder::at(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/tale-small"))
}

fn options(folder: &Path, out: &str) -> Options {
    let corpus = folder.join("corpus.txt");
    if !corpus.exists() {
        let verse = "The moon came up, and the sea lay still, and nobody spoke of the voyage home. ";
        fs::write(&corpus, verse.repeat(40)).unwrap();
    }
    Options {
        heldout: Some(corpus.clone()),
        corpus,
        out: folder.join(out),
        replace: false,
        init: Some(tale_small()),
        shape: tale_small(),
        batch: 2,
        window: 24,
        steps: Steps {
            count: 8,
            max_minutes: None,
            learning_rate: 1e-3,
            warm_up: 2,
            weight_decay: 0.1,
            max_norm: 1.0,
            seed: 1,
            checkpoint_minutes: 1e9,
            heldout_every: 1000,
        },
    }
}

fn run(options: &Options) -> Summary {
    train(options, |_| true).unwrap().unwrap()
}

fn weights(out: &Path) -> Vec<u8> {
    fs::read(out.join("model.safetensors")).unwrap()
}

fn files(out: &Path) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().file_name().into()).collect();
    names.sort();
    names
}

#[test]
fn training_lowers_the_loss_and_writes_a_model_that_loads() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path(), "out");
    let summary = run(&options);
    let (before, after) = (summary.heldout_loss_before.unwrap(), summary.heldout_loss.unwrap());
    assert!(after < before - 0.3, "{before} to {after}");
    assert_eq!((summary.steps, summary.tokens), (8, 8 * 48));
    let expected = ["config.json", "model.safetensors", "tokenizer.json", "training.json"];
    assert_eq!(files(&options.out), expected.map(PathBuf::from));
    ModelFolder::at(&options.out).load(&Device::Cpu).unwrap();
    let header = String::from_utf8_lossy(&weights(&options.out)[8..200]).into_owned();
    assert!(header.contains(r#""__metadata__":{"format":"pt"}"#), "transformers looks for this: {header}");
}

/// The same model as without the interruption, bit for bit, and no other files.
#[test]
fn an_interrupted_run_goes_on_as_if_nothing_had_been() {
    let folder = tempfile::tempdir().unwrap();
    let whole = options(folder.path(), "whole");
    run(&whole);
    let cut = options(folder.path(), "cut");
    for stop in [3, 5] {
        assert!(train(&cut, |progress| progress.step < stop).unwrap().is_none());
        assert!(!cut.out.join("model.safetensors").exists(), "no half-trained model");
    }
    let summary = run(&cut);
    assert_eq!(summary.resumed_at, Some(5));
    assert!(weights(&cut.out) == weights(&whole.out));
    assert_eq!(files(&cut.out), files(&whole.out));
}

#[test]
fn a_checkpoint_of_another_run_or_a_damaged_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path(), "out");
    train(&options, |progress| progress.step < 2).unwrap();
    options.steps.seed = 9;
    let error = train(&options, |_| true).unwrap_err();
    assert!(matches!(error, TrainError::ForeignCheckpoint { .. }), "{error}");
    options.steps.seed = 1;
    let given = options.clone();
    let refused = |options: &Options| {
        let error = train(options, |_| true).unwrap_err();
        assert!(matches!(error, TrainError::ForeignCheckpoint { .. }), "{error}");
    };
    options.init = None;
    refused(&options);
    options = given.clone();
    options.steps.weight_decay = 0.5;
    refused(&options);
    options = given.clone();
    // The same number of tokens in another order.
    let text = fs::read_to_string(&given.corpus).unwrap();
    let (first, second) = text.split_at(40);
    fs::write(&given.corpus, [second, first].concat()).unwrap();
    refused(&options);
    fs::write(&given.corpus, &text).unwrap();
    let tensors = options.out.join("checkpoint-2.safetensors");
    let bytes = fs::read(&tensors).unwrap();
    fs::write(&tensors, &bytes[..bytes.len() / 2]).unwrap();
    let error = train(&options, |_| true).unwrap_err();
    assert!(matches!(error, TrainError::DamagedCheckpoint { .. }), "{error}");
    // The tensors are removed at the end, so they cannot be a file of another folder.
    let (state, victim) = (options.out.join("checkpoint.json"), folder.path().join("victim.safetensors"));
    fs::write(&victim, bytes).unwrap();
    let text = fs::read_to_string(&state).unwrap();
    fs::write(&state, text.replace("checkpoint-2.safetensors", "../victim.safetensors")).unwrap();
    let error = train(&options, |_| true).unwrap_err();
    assert!(matches!(error, TrainError::DamagedCheckpoint { .. }) && victim.exists(), "{error}");
}

/// Weights that f16 cannot hold are written in f32.
#[test]
fn large_weights_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path(), "out");
    options.steps = Steps { count: 1, warm_up: 0, learning_rate: 1e6, ..options.steps };
    run(&options);
    let weights = candle_core::safetensors::load(options.out.join("model.safetensors"), &candle_core::Device::Cpu);
    let largest = |tensor: &candle_core::Tensor| tensor.abs().unwrap().max_all().unwrap().to_scalar::<f32>();
    let largest = weights.unwrap().values().map(|tensor| largest(tensor).unwrap()).fold(0.0, f32::max);
    assert!(largest > 65504.0 && largest.is_finite(), "{largest}");
    assert!(fs::read_to_string(options.out.join("config.json")).unwrap().contains("\"float32\""));
}

#[test]
fn fresh_weights_learn_and_depend_on_the_seed_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = options(folder.path(), "first");
    first.init = None;
    let summary = run(&first);
    assert!(summary.heldout_loss_before.unwrap() > 8.0, "ln 4096 is 8.3");
    assert!(summary.heldout_loss < summary.heldout_loss_before);
    let again = Options { out: folder.path().join("again"), ..first.clone() };
    run(&again);
    assert!(weights(&first.out) == weights(&again.out));
    let mut other = Options { out: folder.path().join("other"), ..first.clone() };
    other.steps.seed = 2;
    run(&other);
    assert!(weights(&first.out) != weights(&other.out));
}

#[test]
fn what_cannot_be_trained_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let good = options(folder.path(), "out");
    let says = |options: &Options, said: &str| {
        let error = train(options, |_| true).unwrap_err().to_string();
        assert!(error.contains(said) && !error.contains('\n'), "{error:?} should say {said:?}");
        assert!(!options.out.exists(), "nothing is written before everything is read");
    };
    says(&Options { corpus: folder.path().join("none.txt"), ..good.clone() }, "cannot read");
    says(&Options { window: 2000, ..good.clone() }, "one training window takes 2001");
    says(&Options { window: 4000, ..good.clone() }, "at most the model's context length");
    says(&Options { batch: 0, ..good.clone() }, "--batch is 0");
    let with = |steps: Steps| Options { steps, ..good.clone() };
    says(&with(Steps { learning_rate: f64::NAN, ..good.steps.clone() }), "--learning-rate is NaN");
    says(&with(Steps { max_minutes: Some(-1.0), ..good.steps.clone() }), "--max-minutes is -1");
    says(&Options { init: Some(ModelFolder::at("none")), ..good.clone() }, "nothing at that path");
}
