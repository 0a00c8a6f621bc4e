//! Steps compared with the logits processors of Hugging Face `transformers`: `fixtures/golden/warpers.json`, which
//! `warpers.py` generates.

use serde_json::Value;
use verdigris_logits::warp::{EpsilonCutoff, EtaCutoff, MinP, Temperature, TopK, TopP, TypicalP};
use verdigris_logits::{
    Chain, Forbid, ForcedToken, MinTokens, NoRepeatNgram, RepetitionPenalty, Row, SequenceBias, TokenId, Transform,
};

const NO: f32 = f32::NEG_INFINITY;

fn tokens(value: &Value) -> Vec<TokenId> {
    value.as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as TokenId).collect()
}

fn logits(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|z| z.as_f64().map_or(NO, |z| z as f32)).collect()
}

/// A step by its name and its parameters, for rows of `size` logits.
fn push(chain: Chain, step: &[Value], size: usize) -> Chain {
    let number = |at: usize| step[at].as_f64().unwrap();
    let whole = |at: usize| step[at].as_u64().unwrap() as usize;
    match step[0].as_str().unwrap() {
        "temperature" => chain.then(Temperature::new(number(1)).unwrap()),
        "top-k" => chain.then(TopK::new(whole(1)).unwrap()),
        "top-p" => chain.then(TopP::new(number(1)).unwrap()),
        "min-p" => chain.then(MinP::new(number(1)).unwrap()),
        "typical-p" => chain.then(TypicalP::new(number(1)).unwrap()),
        "epsilon-cutoff" => chain.then(EpsilonCutoff::new(number(1)).unwrap()),
        "eta-cutoff" => chain.then(EtaCutoff::new(number(1)).unwrap()),
        "repetition-penalty" => chain.then(RepetitionPenalty::new(number(1)).unwrap()),
        "no-repeat-ngram" => chain.then(NoRepeatNgram::new(whole(1)).unwrap()),
        "sequence-bias" => {
            chain.then(step[1].as_array().unwrap().iter().fold(SequenceBias::new(), |bias, pair| {
                bias.bias(&tokens(&pair[0]), pair[1].as_f64().unwrap()).unwrap()
            }))
        }
        "bad-words" => chain.then(
            step[1].as_array().unwrap().iter().fold(SequenceBias::new(), |bias, word| bias.forbid(&tokens(word))),
        ),
        "suppress" => chain.then(Forbid::new(&tokens(&step[1]), size)),
        "min-tokens" => chain.then(MinTokens::new(&tokens(&step[1]), whole(2), size)),
        "forced" => chain.then(ForcedToken::new(whole(1) as TokenId, whole(2), size)),
        name => panic!("no step is called {name}"),
    }
}

/// Whether two rows are equal up to rounding in the last bits of an `f32`.
fn is_equal(ours: &[f32], theirs: &[f32]) -> bool {
    ours.iter().zip(theirs).all(|(a, b)| a == b || b.is_finite() && (a - b).abs() <= 1e-6 * b.abs())
}

#[test]
fn rows_are_those_of_transformers() {
    let golden: Value = serde_json::from_str(include_str!("../../../fixtures/golden/warpers.json")).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    for case in cases {
        let name = case["row"].as_str().unwrap();
        let before = logits(&golden["rows"][name]);
        let steps = case["steps"].as_array().unwrap();
        let chain = steps.iter().fold(Chain::new(), |chain, step| push(chain, step.as_array().unwrap(), before.len()));
        let mut state = chain.start(&tokens(&case["prompt"]));
        tokens(&case["output"]).into_iter().for_each(|token| chain.advance(&mut state, token));
        let mut row = Row::from(before.clone());
        chain.apply(&state, &mut row);
        let (mut ours, mut theirs) = (row.logits().to_vec(), logits(&case["logits"]));
        let has = |step: &str| steps.iter().any(|s| s[0] == step);
        if has("top-p") {
            // Of equal logits at the edge of the nucleus the lowest ids are kept here, and any there.
            ours.sort_unstable_by(f32::total_cmp);
            theirs.sort_unstable_by(f32::total_cmp);
        }
        if has("forced") && theirs.iter().filter(|&&z| z > NO).count() == 1 {
            // There the logit of the forced token becomes 0; here it is unchanged.
            for (theirs, before) in theirs.iter_mut().zip(&before) {
                *theirs = if *theirs > NO { *before } else { NO };
            }
        }
        assert!(is_equal(&ours, &theirs), "{case}\n{ours:?}\n{theirs:?}");
    }
    assert!(cases.len() > 700, "{}", cases.len());
}
