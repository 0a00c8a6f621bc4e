//! Compares steered rows of real models with those of other programs.

use std::sync::Arc;

use serde_json::Value;
use verdigris::decoding::{OwnPrompts, Steered};
use verdigris::models::{Batch, Device, Format, LanguageModel, Rows, Wanted};

/// The logits of `tale` under `guidance_scale` of Hugging Face `transformers`: `fixtures/golden/guidance.json`, made by
/// `guidance.py`.
#[test]
fn guided_rows_are_those_of_transformers() {
    let golden: Value = serde_json::from_str(include_str!("../../fixtures/golden/guidance.json")).unwrap();
    let base = verdigris_tests::harness::model("tale").cached_as(Format::F32).load(&Device::Cpu).unwrap().model;
    let ids = |value: &Value| -> Option<Vec<u32>> {
        value.as_array().map(|ids| ids.iter().map(|id| id.as_u64().unwrap() as u32).collect())
    };
    let at = ids(&golden["at"]).unwrap();
    let mut compared = 0;
    for case in golden["cases"].as_array().unwrap() {
        let (prompt, text) = (ids(&case["prompt_ids"]).unwrap(), ids(&case["tokens"]).unwrap());
        let own = OwnPrompts { negative: ids(&case["negative_ids"]), ..OwnPrompts::default() };
        let steered = Steered::new(base.clone(), Vec::new());
        let steered = Arc::new(steered.guided(case["scale"].as_f64().unwrap()).unwrap().after(&prompt, &own));
        let (all, mut rows) = ([&prompt[..], &text].concat(), Rows::default());
        steered.begin(all.len()).unwrap().forward(&Batch::chain(&all, Wanted::All), &mut rows).unwrap();
        for step in case["scores"].as_array().unwrap() {
            let row = rows.row(prompt.len() - 1 + step["step"].as_u64().unwrap() as usize);
            for (&id, score) in at.iter().zip(step["scores"].as_array().unwrap()) {
                let (ours, theirs) = (f64::from(row[id as usize]), score.as_f64().unwrap());
                assert!((ours - theirs).abs() < 2e-4, "token {id}: {ours} and not {theirs} in {case}");
                compared += 1;
            }
        }
    }
    assert!(compared > 400, "{compared}");
}
