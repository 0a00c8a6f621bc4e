//! Log-probabilities in answers.

use serde_json::{Value, json};
use verdigris::{Logprob, TokenLogprobs};

/// OpenAI's number for the logarithm of 0, which JSON cannot represent.
const IMPOSSIBLE: f64 = -9999.0;

fn number(logprob: f64) -> f64 {
    if logprob.is_finite() { logprob } else { IMPOSSIBLE }
}

fn of_one(logprob: &Logprob) -> Value {
    json!({"token": logprob.text, "logprob": number(logprob.logprob), "bytes": logprob.text.as_bytes()})
}

/// The format of chats and responses: an object for each token.
pub(super) fn objects(all: &[TokenLogprobs]) -> Vec<Value> {
    let of_token = |logprobs: &TokenLogprobs| {
        let mut body = of_one(&logprobs.chosen);
        body["top_logprobs"] = logprobs.top.iter().map(of_one).collect();
        body
    };
    all.iter().map(of_token).collect()
}

/// The format of completions: parallel arrays. `before` is the number of characters before the first token.
pub(super) fn columns(all: &[TokenLogprobs], before: usize) -> Value {
    let tops = all.iter().map(|token| -> Value {
        token.top.iter().map(|top| (top.text.clone(), Value::from(number(top.logprob)))).collect()
    });
    let offsets = all.iter().scan(before, |at, token| {
        let offset = *at;
        *at += token.chosen.text.chars().count();
        Some(offset)
    });
    json!({
        "tokens": all.iter().map(|token| token.chosen.text.as_str()).collect::<Vec<_>>(),
        "token_logprobs": all.iter().map(|token| number(token.chosen.logprob)).collect::<Vec<_>>(),
        "top_logprobs": tops.collect::<Vec<_>>(),
        "text_offset": offsets.collect::<Vec<_>>(),
    })
}
