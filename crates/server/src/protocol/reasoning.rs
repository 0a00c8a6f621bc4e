//! Fields about reasoning before the answer, in the names of all servers. No text of this server has a separate part
//! for it, so requests may only switch it off.

use serde_json::Value;

use crate::protocol::fields::Fields;
use crate::protocol::refusal::Refusal;

/// Fields that say how an answer shows reasoning, which has no effect without any.
pub(crate) const NO_EFFECT: &[&str] =
    &["include_reasoning", "separate_reasoning", "stream_reasoning", "reasoning_format", "reasoning_summary"];

/// The names of reasoning in messages of earlier answers: DeepSeek's, SGLang's and llama.cpp's, and vLLM's.
pub(crate) const IN_MESSAGES: [&str; 2] = ["reasoning_content", "reasoning"];

const REMEDY: &str = "leave it out, or switch reasoning off: no answer has a separate part for it";

/// Takes the fields of a request.
///
/// # Errors
/// If one asks for reasoning.
pub(crate) fn take(body: &mut Fields) -> Result<(), Refusal> {
    body.ignore(NO_EFFECT);
    for name in ["reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_token_budget"] {
        body.unsupported(name, is_off, REMEDY)?;
    }
    Ok(())
}

/// Takes Ollama's `think`.
///
/// # Errors
/// If it asks for reasoning.
pub(crate) fn take_think(body: &mut Fields) -> Result<(), Refusal> {
    body.unsupported("think", is_off, REMEDY)
}

/// Whether a value switches reasoning off, or leaves it to the model.
fn is_off(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(effort) => effort == "none",
        // OpenAI's `reasoning`: {"effort": ..., "summary": ...}; Anthropic's `thinking`: {"type": ...}.
        Value::Object(fields) => match fields.get("type").and_then(Value::as_str) {
            Some(kind) => matches!(kind, "disabled" | "adaptive" | "between-tools"),
            None => ["effort", "enabled"].iter().all(|name| fields.get(*name).is_none_or(is_off)),
        },
        Value::Bool(true) | Value::Array(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn taken(body: Value) -> Result<(), Refusal> {
        let mut fields = Fields::of(body, "").unwrap();
        take(&mut fields)?;
        take_think(&mut fields)?;
        fields.end()
    }

    #[test]
    fn reasoning_may_be_switched_off() {
        for body in [
            json!({"reasoning_effort": "none", "include_reasoning": true}),
            json!({"reasoning": {"effort": null, "summary": "auto"}}),
            json!({"reasoning": {"effort": "none"}}),
            json!({"thinking": {"type": "disabled"}}),
            json!({"thinking": {"type": "adaptive"}}),
            json!({"thinking_token_budget": 0, "enable_thinking": false, "think": false}),
        ] {
            taken(body.clone()).unwrap_or_else(|refusal| panic!("{body}: {refusal}"));
        }
        for (body, param) in [
            (json!({"reasoning_effort": "high"}), "reasoning_effort"),
            (json!({"reasoning": {"effort": "low"}}), "reasoning"),
            (json!({"thinking": {"type": "enabled", "budget_tokens": 1024}}), "thinking"),
            (json!({"think": true}), "think"),
            (json!({"think": "high"}), "think"),
        ] {
            let refusal = taken(body.clone()).unwrap_err();
            assert_eq!((refusal.code, refusal.param.as_deref()), (Some("unsupported_field"), Some(param)), "{body}");
        }
    }
}
