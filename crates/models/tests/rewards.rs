//! Reward models compared with `transformers`: tiny random models that it saved, and the scores that it computed in f32
//! (`fixtures/golden/rewards.py`).

use std::path::{Path, PathBuf};

use verdigris_models::{Device, Format, ModelError, ModelFolder};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/rewards").join(name)
}

fn found(name: &str) -> ModelFolder {
    ModelFolder::find(folder(name), |_| ()).unwrap()
}

#[test]
fn scores_are_those_of_transformers() {
    for name in ["gemma2", "gpt2", "llama", "qwen3", "tale-small"] {
        let golden = crate::golden::load(folder(name).join("scores.safetensors"));
        let (ids, lengths, expected) =
            (golden["ids"].integers(), golden["lengths"].integers(), golden["scores"].numbers());
        // The base of the adapter is in half precision, and so its keys and values would be by default.
        let model = found(name).cached_as(Format::F32).reward().unwrap();
        let mut worst = 0f32;
        let texts: Vec<&[u32]> = ids.chunks(12).collect();
        assert_eq!((texts.len(), expected.len()), (40, 40));
        for ((text, &length), expected) in texts.iter().zip(&lengths).zip(&expected) {
            // The base of the adapter has no padding token.
            let padded = if name == "tale-small" { &text[..length as usize] } else { text };
            worst = worst.max((model.score(padded).unwrap() - expected).abs());
        }
        println!("{name}: largest difference {worst:e}");
        assert!(worst <= 1e-3, "{name}: {worst}");
        // After a common beginning, all in one call, bit for bit.
        let beginning = [9, 3, 30];
        let alone = texts.iter().map(|text| model.score(&[&beginning[..], text].concat()).unwrap());
        assert_eq!(model.scores(&beginning, &texts).unwrap(), alone.collect::<Vec<f32>>(), "{name}");
        assert_eq!(model.scores(&beginning, &[&[]]).unwrap()[0], model.score(&beginning).unwrap(), "{name}");
    }
}

#[test]
fn a_model_that_is_no_reward_model_is_refused() {
    let fault = |result: Result<(), ModelError>| match result {
        Err(error @ ModelError::Reward { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let said = fault(found("two-labels").reward().map(drop));
    assert!(said.contains("its head has 2 labels; a reward model has one"), "{said}");
    let plain = ModelFolder::at(folder("../../models/tale-small"));
    let said = fault(plain.reward().map(drop));
    assert!(said.contains("it gives no score (score.weight)"), "{said}");
    for name in ["llama", "tale-small"] {
        let said = fault(found(name).model(&Device::Cpu).map(drop));
        assert!(said.contains("it is a reward model, which writes no text"), "{said}");
    }
}
