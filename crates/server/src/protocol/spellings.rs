//! Constraints in the fields of other servers: vLLM's earlier `guided_json`, `guided_regex` and `guided_choice`, the
//! `json_schema` of llama.cpp and SGLang, SGLang's `regex`, and the `grammar` of Text Generation Inference and
//! mistral.rs.

use serde_json::Value;

use crate::protocol::constraint::{ConstraintField, parsed, valued};
use crate::protocol::fields::{Fields, read};
use crate::protocol::refusal::Refusal;

/// The names of the fields.
pub(crate) const NAMES: [&str; 6] = ["guided_json", "guided_regex", "guided_choice", "json_schema", "regex", "grammar"];

/// Takes the constraint of a request, in `response_format`, `structured_outputs`, or any of these fields.
///
/// # Errors
/// If there are two, or one is not supported.
pub(super) fn take(body: &mut Fields) -> Result<Option<ConstraintField>, Refusal> {
    let mut known = ConstraintField::take(body)?;
    for name in NAMES {
        let path = body.path(name);
        let Some(value) = body.value(name) else { continue };
        let constraint = match name {
            "guided_json" | "json_schema" => ConstraintField::json_schema(parsed(value, &path)?, path),
            "guided_choice" => ConstraintField::choice(read(value, path.clone())?, path),
            "guided_regex" | "regex" => ConstraintField::regex(read(value, path.clone())?, path),
            _ => grammar(value, path)?,
        };
        if let Some(other) = &known {
            let message =
                format!("{} and {} both constrain the text: use one of them", other.path(), constraint.path());
            return Err(Refusal::field(constraint.path(), "two_constraints", message));
        }
        known = Some(constraint);
    }
    Ok(known)
}

/// A `grammar` with a type and a value.
fn grammar(value: Value, path: String) -> Result<ConstraintField, Refusal> {
    if value.is_string() {
        let message =
            format!("{path} is a text, which this server does not support: use a JSON Schema, regex or choices");
        return Err(Refusal::field(path, "unsupported_field", message));
    }
    let mut fields = Fields::of(value, path)?;
    let kind: String = fields.need("type")?;
    let path = fields.path("type");
    let constraint = valued(&mut fields, &kind)?.ok_or_else(|| {
        Refusal::field(&path, "invalid_value", format!("{path} is {kind:?}, but must be json, json_schema or regex"))
    })?;
    fields.end()?;
    Ok(constraint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn taken(body: Value) -> Result<Option<ConstraintField>, Refusal> {
        let mut fields = Fields::of(body, "").unwrap();
        let constraint = take(&mut fields)?;
        fields.end()?;
        Ok(constraint)
    }

    #[test]
    fn every_spelling_says_the_same() {
        let schema = json!({"type": "integer"});
        let choice = |path: &str| ConstraintField::choice(vec!["a".into(), "b".into()], path);
        let regex = |path: &str| ConstraintField::regex("a+".into(), path);
        let of_schema = |path: &str| ConstraintField::json_schema(schema.clone(), path);
        for (body, expected) in [
            (
                json!({"response_format": {"type": "json_object", "schema": schema}}),
                of_schema("response_format.schema"),
            ),
            (
                json!({"response_format": {"type": "json_schema", "schema": schema}}),
                of_schema("response_format.schema"),
            ),
            (json!({"response_format": {"type": "json", "value": schema}}), of_schema("response_format.value")),
            (json!({"response_format": {"type": "regex", "value": "a+"}}), regex("response_format.value")),
            (json!({"guided_json": schema}), of_schema("guided_json")),
            (json!({"guided_json": schema.to_string()}), of_schema("guided_json")),
            (json!({"json_schema": schema}), of_schema("json_schema")),
            (json!({"json_schema": schema.to_string()}), of_schema("json_schema")),
            (json!({"grammar": {"type": "json", "value": schema}}), of_schema("grammar.value")),
            (json!({"grammar": {"type": "json_schema", "value": schema}}), of_schema("grammar.value")),
            (json!({"grammar": {"type": "regex", "value": "a+"}}), regex("grammar.value")),
            (json!({"guided_regex": "a+"}), regex("guided_regex")),
            (json!({"regex": "a+"}), regex("regex")),
            (json!({"guided_choice": ["a", "b"]}), choice("guided_choice")),
        ] {
            assert_eq!(taken(body.clone()), Ok(Some(expected)), "{body}");
        }
        assert_eq!(taken(json!({})), Ok(None));
    }

    #[test]
    fn two_constraints_and_unknown_grammars_are_refused() {
        for (body, param) in [
            (json!({"grammar": "root ::= x"}), "grammar"),
            (json!({"grammar": {"type": "lark", "value": "start: X"}}), "grammar.type"),
            (json!({"grammar": {"type": "regex", "value": "a", "flags": "i"}}), "grammar.flags"),
            (json!({"guided_choice": ["a"], "guided_regex": "b"}), "guided_choice"),
            (json!({"guided_choice": ["a"], "response_format": {"type": "json_object"}}), "guided_choice"),
            (json!({"json_schema": "{"}), "json_schema"),
            (json!({"regex": 3}), "regex"),
        ] {
            assert_eq!(taken(body.clone()).unwrap_err().param.as_deref(), Some(param), "{body}");
        }
    }
}
