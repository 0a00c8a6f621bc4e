//! Mirostat compared with llama.cpp's: `fixtures/golden/mirostat.json`, which `mirostat.py` generates.

use serde_json::Value;
use verdigris_logits::warp::Mirostat;
use verdigris_logits::{Row, TokenId, Transform};

/// Whole texts, token for token: the tokens left in each row, after the tokens that llama.cpp sampled from earlier
/// rows.
#[test]
fn what_is_left_is_what_llama_cpp_leaves() {
    let golden: Value = serde_json::from_str(include_str!("../../../fixtures/golden/mirostat.json")).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    let mut rows = 0;
    for case in cases {
        let step = Mirostat::new(case["tau"].as_f64().unwrap(), case["eta"].as_f64().unwrap()).unwrap();
        let mut state = step.start(&[]);
        for (at, seen) in case["steps"].as_array().unwrap().iter().enumerate() {
            let logits = seen["row"].as_array().unwrap().iter();
            let mut row: Row =
                logits.map(|z| z.as_f64().map_or(f32::NEG_INFINITY, |z| z as f32)).collect::<Vec<f32>>().into();
            step.apply(&state, &mut row);
            let left = row.logits().iter().map(|&z| z > f32::NEG_INFINITY);
            let ours: Vec<u64> = (0..).zip(left).filter(|&(_, left)| left).map(|(token, _)| token).collect();
            let theirs: Vec<u64> = seen["kept"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
            let (tau, eta) = (&case["tau"], &case["eta"]);
            let mut drawn = seen["drawn"].as_u64().unwrap();
            match (&ours[..], &theirs[..]) {
                // Among equals only the lowest id is kept here, and any one there.
                (&[one], &[other]) if seen["row"][one as usize] == seen["row"][other as usize] => drawn = one,
                _ => assert_eq!(ours, theirs, "tau {tau}, eta {eta}, row {at}, after a bound of {state}"),
            }
            step.advance_from(&mut state, &row, drawn as TokenId);
            rows += 1;
        }
    }
    assert_eq!((cases.len(), rows), (32, 768));
}
