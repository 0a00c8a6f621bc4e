//! JSON without duplicate names: of two different values, different readers would use different ones.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use verdigris::constrain::check_numbers;

use crate::protocol::other_constraints;
use crate::protocol::refusal::Refusal;

/// The fields of requests that have schemas in them, in addition to those of other servers.
const SCHEMAS: [&str; 6] = ["response_format", "structured_outputs", "tools", "functions", "text", "format"];

/// Parses a body. A number of a schema that cannot be kept exactly is refused.
pub(crate) fn json(body: &[u8]) -> Result<Value, Refusal> {
    let read: Result<Strict, _> = serde_json::from_slice(body);
    let read = read.map_err(|error| Refusal::new(400, "invalid_json", format!("the body is not JSON: {error}")))?;
    let has_schemas = |name: &str| SCHEMAS.contains(&name) || other_constraints::NAMES.contains(&name);
    check_numbers(str::from_utf8(body).unwrap_or_default(), has_schemas)
        .map_err(|fault| Refusal::new(400, "invalid_json_schema", format!("a schema: {fault}")))?;
    Ok(read.0)
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Strict)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some((name, Strict(value))) = fields.next_entry::<String, Strict>()? {
            if all.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the name {name:?} appears twice in one object")));
            }
            all.insert(name, value);
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_schemas_are_exact() {
        let read = |body: &str| json(body.as_bytes()).map_err(|refusal| refusal.code);
        let big = r#"{"const": 123456789012345678901}"#;
        for of_schema in ["response_format", "tools", "guided_json", "text"] {
            assert_eq!(read(&format!(r#"{{"{of_schema}": [{big}]}}"#)), Err(Some("invalid_json_schema")));
        }
        assert!(read(&format!(r#"{{"messages": [{big}], "temperature": 0.69999998807907104492}}"#)).is_ok());
    }

    #[test]
    fn what_is_read_is_what_serde_json_reads() {
        for text in [
            r#"{"a": [1, -2, 3.5, 1e300, 18446744073709551615, 18446744073709551616], "b": {"a": null}, "": true}"#,
            r#""\u00e4\ud83d\ude00""#,
            "[]",
            " 7 ",
        ] {
            assert_eq!(json(text.as_bytes()).unwrap(), serde_json::from_str::<Value>(text).unwrap(), "{text}");
        }
        let order = json(br#"{"z": 1, "a": 2}"#).unwrap();
        assert_eq!(order.to_string(), r#"{"z":1,"a":2}"#);
    }

    #[test]
    fn what_is_no_json_or_says_two_things_is_refused() {
        let deep = "[".repeat(500);
        for text in [
            "",
            "{",
            r#"{"a": 1} x"#,
            r#""\ud800""#,
            "NaN",
            r#"{"a": 1, "a": 1}"#,
            r#"[{"b": {"c": 1, "c": 2}}]"#,
            &deep,
        ] {
            let refusal = json(text.as_bytes()).unwrap_err();
            assert_eq!((refusal.status, refusal.code), (400, Some("invalid_json")), "{text}");
        }
        assert!(json(b"\"\xff\"").is_err());
        assert!(json(br#"{"a": 1, "\u0061": 2}"#).unwrap_err().message.contains("\"a\" appears twice"));
    }
}
