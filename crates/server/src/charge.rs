//! The memory that a request is charged for.

use crate::protocol::Refusal;
use crate::protocol::ask::Ask;

/// The bytes of an answer for each text, its manifest, each token, and each log-probability, of the token itself and of
/// the likeliest ones listed with it. An answer that is not streamed holds all log-probabilities as JSON at once.
const TEXT: usize = 2048;
const MANIFEST: usize = 32768;
const TOKEN: usize = 64;
const LOGPROB: usize = 640;
const STREAMED_LOGPROB: usize = 96;

/// The maximum number of bytes of an answer while it is written. A stream keeps nothing of a text that has ended, so at
/// most `at_a_time` texts count.
pub(crate) fn answer_bytes(ask: &Ask, max_tokens: usize, at_a_time: usize, is_signed: bool) -> usize {
    let (texts, each) = match ask.stream {
        Some(_) => (ask.texts().min(at_a_time), STREAMED_LOGPROB),
        None => (ask.texts(), LOGPROB),
    };
    let logprobs = ask.logprobs.map_or(0, |top| (1 + top) * each);
    let tokens = ask.max_tokens.map_or(max_tokens, |own| own.min(max_tokens));
    let text = if is_signed { TEXT + MANIFEST } else { TEXT };
    texts.saturating_mul(tokens.saturating_mul(TOKEN + logprobs).saturating_add(text))
}

/// Refuses a request of too many texts.
pub(crate) fn check_texts(ask: &Ask, most: usize) -> Result<(), Refusal> {
    let texts = ask.texts();
    if texts <= most {
        return Ok(());
    }
    let (prompts, n) = (ask.prompts.len(), ask.choices);
    let message = format!(
        "{prompts} prompts with {n} answers each are {texts} texts, but at most {most} are allowed: split the request"
    );
    Err(Refusal::field("n", "too_many_texts", message))
}

/// Refuses a request whose answer may take too many bytes.
pub(crate) fn check_answer(bytes: usize, most: usize) -> Result<(), Refusal> {
    if bytes <= most {
        return Ok(());
    }
    let message = format!(
        "with its texts, max_tokens and logprobs the answer may take {bytes} bytes, but at most {most} are allowed: \
         request less, or split the request"
    );
    Err(Refusal::new(400, "answer_too_large", message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protocol::fields::Fields;
    use crate::protocol::openai;

    fn ask(body: serde_json::Value) -> Ask {
        openai::completion(Fields::of(body, "").unwrap()).unwrap()
    }

    #[test]
    fn all_that_is_asked_for_is_charged() {
        let bytes = |more: serde_json::Value| {
            let mut body = json!({"prompt": ["a", "b"]});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            answer_bytes(&ask(body), 4096, 10, false)
        };
        let ask = ask(json!({"prompt": "a", "max_tokens": 10}));
        assert_eq!(answer_bytes(&ask, 4096, 10, true), TEXT + MANIFEST + 10 * TOKEN);
        assert_eq!(bytes(json!({"max_tokens": 10})), 2 * (TEXT + 10 * TOKEN));
        assert_eq!(bytes(json!({"max_tokens": 10, "n": 100})), 200 * (TEXT + 10 * TOKEN));
        assert_eq!(bytes(json!({"max_tokens": 10, "n": 100, "stream": true})), 10 * (TEXT + 10 * TOKEN));
        assert_eq!(bytes(json!({"max_tokens": 10, "logprobs": 4})), 2 * (TEXT + 10 * (TOKEN + 5 * LOGPROB)));
        let streamed = json!({"max_tokens": 10, "logprobs": 4, "stream": true});
        assert_eq!(bytes(streamed), 2 * (TEXT + 10 * (TOKEN + 5 * STREAMED_LOGPROB)));
        assert_eq!(bytes(json!({})), bytes(json!({"max_tokens": 1_000_000})));
    }
}
