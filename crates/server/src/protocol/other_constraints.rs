//! Constraints in the fields of other servers: vLLM's earlier `guided_json`, `guided_regex`, `guided_choice` and
//! `guided_grammar`, the `json_schema` of llama.cpp and SGLang, SGLang's `regex`, `ebnf` and `structural_tag`, and the
//! `grammar` of llama.cpp, which is a text, and of Text Generation Inference and mistral.rs, which has a type.

use serde_json::Value;
use verdigris::constrain::Language;

use crate::protocol::constraint::{ConstraintField, parsed, valued};
use crate::protocol::fields::{Fields, read};
use crate::protocol::refusal::Refusal;

/// The names of the fields.
pub(crate) const NAMES: [&str; 9] = [
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "json_schema",
    "regex",
    "ebnf",
    "structural_tag",
    "grammar",
];

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
            "guided_grammar" => {
                let text: String = read(value, path.clone())?;
                ConstraintField::grammar(Language::guess(&text), text, path)
            }
            "ebnf" => ConstraintField::grammar(Language::Ebnf, read(value, path.clone())?, path),
            "structural_tag" => ConstraintField::structural_tag(value, path)?,
            _ => grammar(value, path)?,
        };
        known = ConstraintField::one_of(known, Some(constraint))?;
    }
    Ok(known)
}

/// A `grammar` in GBNF, or with a type and a value.
fn grammar(value: Value, path: String) -> Result<ConstraintField, Refusal> {
    if let Value::String(text) = value {
        let language = match Language::guess(&text) {
            Language::Lark => Language::Lark,
            _ => Language::Gbnf,
        };
        return Ok(ConstraintField::grammar(language, text, path));
    }
    let mut fields = Fields::of(value, path)?;
    let kind: String = fields.need("type")?;
    let path = fields.path("type");
    let constraint = valued(&mut fields, &kind)?.ok_or_else(|| {
        Refusal::field(
            &path,
            "invalid_value",
            format!("{path} is {kind:?}, but must be json, json_schema, regex or lark"),
        )
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
        let grammar =
            |language, text: &str, path: &str| ConstraintField::grammar(language, text.to_owned(), path.to_owned());
        let tag = |path: &str| ConstraintField::structural_tag(schema.clone(), path.into()).unwrap();
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
            (json!({"ebnf": "r"}), grammar(Language::Ebnf, "r", "ebnf")),
            (json!({"grammar": "r ::= \"a\""}), grammar(Language::Gbnf, "r ::= \"a\"", "grammar")),
            (json!({"grammar": "start: A"}), grammar(Language::Lark, "start: A", "grammar")),
            (json!({"grammar": {"type": "lark", "value": "s"}}), grammar(Language::Lark, "s", "grammar.value")),
            (json!({"guided_grammar": "s"}), grammar(Language::Lark, "s", "guided_grammar")),
            (json!({"guided_grammar": "r ::= a"}), grammar(Language::Ebnf, "r ::= a", "guided_grammar")),
            (json!({"structural_tag": schema}), tag("structural_tag")),
            (json!({"structural_tag": schema.to_string()}), tag("structural_tag")),
        ] {
            assert_eq!(taken(body.clone()), Ok(Some(expected)), "{body}");
        }
        assert_eq!(taken(json!({})), Ok(None));
    }

    #[test]
    fn two_constraints_and_unknown_grammars_are_refused() {
        for (body, param) in [
            (json!({"grammar": 3}), "grammar"),
            (json!({"grammar": {"type": "cfg", "value": "start: X"}}), "grammar.type"),
            (json!({"ebnf": 3}), "ebnf"),
            (json!({"structural_tag": "{"}), "structural_tag"),
            (json!({"ebnf": "root ::= x", "guided_regex": "b"}), "ebnf"),
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
