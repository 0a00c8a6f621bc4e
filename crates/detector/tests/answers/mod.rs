//! Comparing answers with those of `fixtures/spec/vectors.json`.

use serde_json::Value;

/// Whether two answers are equal, numbers up to 1e-9 of their size.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= (1e-9 * a.abs().max(b.abs())).max(1e-12)
        }
        _ => a == b,
    }
}
