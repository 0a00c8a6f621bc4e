//! Requests for embeddings: OpenAI's `/v1/embeddings`, and Ollama's `/api/embed` and `/api/embeddings`.

use serde_json::Value;
use verdigris::Prompt;
use verdigris::logits::TokenId;

use crate::protocol::fields::{Fields, read};
use crate::protocol::refusal::Refusal;
use crate::protocol::{foreign, ollama};

/// The maximum number of texts of a request, the same as OpenAI's.
const TEXTS: usize = 2048;

/// A request for embeddings.
#[derive(Debug)]
pub(crate) struct EmbeddingsAsk {
    pub(crate) model: Option<String>,
    /// The texts, each a text or tokens.
    pub(crate) inputs: Vec<Prompt>,
    /// The name of the field with the texts.
    pub(crate) field: &'static str,
    /// The number of first elements to return; `None` for all.
    pub(crate) dimensions: Option<usize>,
    /// Whether the vectors are returned as the base64 of their bytes, not as numbers.
    pub(crate) is_base64: bool,
}

/// Reads a request to `/v1/embeddings`.
pub(crate) fn openai(mut body: Fields) -> Result<EmbeddingsAsk, Refusal> {
    let is_base64 = match body.take::<String>("encoding_format")?.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => {
            let message = format!("encoding_format is {other:?}, but must be \"float\" or \"base64\"");
            return Err(Refusal::field("encoding_format", "invalid_value", message));
        }
    };
    let inputs = inputs(&mut body)?;
    foreign::take(&mut body)?;
    end(body, inputs, "input", is_base64)
}

/// Reads a request to `/api/embed`.
pub(crate) fn ollama(mut body: Fields) -> Result<EmbeddingsAsk, Refusal> {
    let inputs = inputs(&mut body)?;
    ollama_end(body, inputs, "input")
}

/// Reads a request to `/api/embeddings`, which has one text.
pub(crate) fn ollama_older(mut body: Fields) -> Result<EmbeddingsAsk, Refusal> {
    let text = body.need::<String>("prompt")?;
    ollama_end(body, vec![Prompt::Text(text)], "prompt")
}

fn ollama_end(mut body: Fields, inputs: Vec<Prompt>, field: &'static str) -> Result<EmbeddingsAsk, Refusal> {
    body.ignore(&["options"]);
    body.ignore(ollama::NO_EFFECT);
    foreign::take(&mut body)?;
    end(body, inputs, field, false)
}

fn end(mut body: Fields, inputs: Vec<Prompt>, field: &'static str, is_base64: bool) -> Result<EmbeddingsAsk, Refusal> {
    let dimensions = body.count("dimensions", 1, usize::MAX)?;
    let model = body.take("model")?;
    body.end()?;
    Ok(EmbeddingsAsk { model, inputs, field, dimensions, is_base64 })
}

/// Takes `input`: a text, texts, the tokens of a text, or those of several.
fn inputs(body: &mut Fields) -> Result<Vec<Prompt>, Refusal> {
    let input = body.value("input").ok_or_else(|| body.missing("input"))?;
    let tokens = |value: Value, path: String| read::<Vec<TokenId>>(value, path).map(|ids| Prompt::Tokens(ids.into()));
    let items = match input {
        Value::String(text) => return Ok(vec![Prompt::Text(text)]),
        Value::Array(items) if items.first().is_some_and(Value::is_number) => {
            return Ok(vec![tokens(Value::Array(items), "input".into())?]);
        }
        other => read::<Vec<Value>>(other, "input".into())?,
    };
    if !(1..=TEXTS).contains(&items.len()) {
        let message = format!("input has {} texts, but must have 1 to {TEXTS}", items.len());
        return Err(Refusal::field("input", "invalid_value", message));
    }
    let each = items.into_iter().enumerate().map(|(at, item)| match item {
        Value::String(text) => Ok(Prompt::Text(text)),
        other => tokens(other, format!("input[{at}]")),
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_inputs(input: Value) -> Result<Vec<Prompt>, Refusal> {
        openai(Fields::of(json!({"input": input}), "").unwrap()).map(|ask| ask.inputs)
    }

    #[test]
    fn texts_and_tokens_are_read_alone_and_in_lists() {
        let is_tokens = |prompt: &Prompt| matches!(prompt, Prompt::Tokens(_));
        for (input, count, of_tokens) in [
            (json!("x"), 1, false),
            (json!(["x", "y"]), 2, false),
            (json!([1, 2, 3]), 1, true),
            (json!([[1], [2, 3]]), 2, true),
        ] {
            let inputs = read_inputs(input.clone()).unwrap();
            assert_eq!((inputs.len(), inputs.iter().all(is_tokens)), (count, of_tokens), "{input}");
        }
        for (bad, param) in [
            (json!([]), "input"),
            (json!(null), "input"),
            (json!(3), "input"),
            (json!([1, "x"]), "input"),
            (json!(["x", 1]), "input[1]"),
            (json!(["x", [-1]]), "input[1]"),
            (json!(vec!["x"; 2049]), "input"),
        ] {
            assert_eq!(read_inputs(bad.clone()).unwrap_err().param.as_deref(), Some(param), "{bad}");
        }
    }
}
