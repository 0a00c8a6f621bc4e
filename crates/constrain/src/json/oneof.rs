//! Whether the branches of a `oneOf` exclude each other.
//!
//! `oneOf` demands that exactly one branch holds. Where no value can obey two branches it is the same as `anyOf`,
//! which a grammar can write; where that cannot be shown it is refused.

use std::cell::Cell;

use serde_json::{Map, Value};

use crate::json::schema::{Objects, is_of_type, resolve, types};

/// How deep schemas are compared.
const DEPTH: u32 = 8;

/// How many comparisons are made before it counts as not shown.
const EFFORT: u32 = 1 << 20;

/// Two branches that may both hold for one value.
pub(crate) struct Overlap(pub(crate) usize, pub(crate) usize);

/// Shows that no value written for one branch obeys another.
pub(crate) fn exclusive(root: &Value, branches: &[Value], objects: Objects) -> Result<(), Overlap> {
    let compare = Compare { root, objects, effort: Cell::new(EFFORT) };
    for (i, a) in branches.iter().enumerate() {
        for (j, b) in branches.iter().enumerate().skip(i + 1) {
            if !(compare.never_obeys(a, b, DEPTH) && compare.never_obeys(b, a, DEPTH)) {
                return Err(Overlap(i, j));
            }
        }
    }
    Ok(())
}

struct Compare<'a> {
    root: &'a Value,
    objects: Objects,
    /// Comparisons left.
    effort: Cell<u32>,
}

impl<'a> Compare<'a> {
    /// Follows references; `None` where the schema is no object.
    fn keywords(&self, mut schema: &'a Value) -> Option<&'a Map<String, Value>> {
        for _ in 0..DEPTH {
            let keywords = schema.as_object()?;
            match keywords.get("$ref").and_then(Value::as_str) {
                Some(reference) => schema = resolve(self.root, reference).ok()?,
                None => return Some(keywords),
            }
        }
        None
    }

    /// Whether it is certain that nothing written for `a` obeys `b`.
    fn never_obeys(&self, a: &'a Value, b: &'a Value, depth: u32) -> bool {
        if depth == 0 || self.effort.get() == 0 {
            return false;
        }
        self.effort.set(self.effort.get() - 1);
        // A branch with branches of its own is each of them.
        for (schema, is_a) in [(a, true), (b, false)] {
            let Some(keywords) = self.keywords(schema) else { continue };
            for inner in ["anyOf", "oneOf"] {
                if let Some(Value::Array(branches)) = keywords.get(inner) {
                    return branches.iter().all(|branch| match is_a {
                        true => self.never_obeys(branch, b, depth - 1),
                        false => self.never_obeys(a, branch, depth - 1),
                    });
                }
            }
        }
        let (Some(a), Some(b)) = (self.keywords(a), self.keywords(b)) else { return false };
        match (values(a), values(b)) {
            (Some(a), Some(b)) => return !a.iter().any(|a| b.iter().any(|b| equal(a, b))),
            (Some(a), None) => return a.iter().all(|value| is_of_no_type(value, b)),
            (None, Some(b)) => return b.iter().all(|value| is_of_no_type(value, a)),
            (None, None) => {}
        }
        let (Ok(Some(types_a)), Ok(Some(types_b))) = (types(a, ""), types(b, "")) else { return false };
        let alike = |a: &str, b: &str| a == b || matches!((a, b), ("integer", "number") | ("number", "integer"));
        let mut shared = types_a.iter().filter(|a| types_b.iter().any(|b| alike(a, b)));
        shared.all(|&name| name == "object" && self.objects_differ(a, b, depth))
    }

    /// Whether no object written for `a` obeys `b`.
    fn objects_differ(&self, a: &'a Map<String, Value>, b: &'a Map<String, Value>, depth: u32) -> bool {
        let property =
            |schema: &'a Map<String, Value>, name: &str| schema.get("properties").and_then(|all| all.get(name));
        let forbids_others =
            |schema: &Map<String, Value>| schema.get("additionalProperties") == Some(&Value::Bool(false));
        // What is written for `a` may be closed though its schema is not.
        let closed = self.objects == Objects::Closed && !a.contains_key("additionalProperties");
        let lacks = |name: &str| (closed || forbids_others(a)) && property(a, name).is_none() && !requires(a, name);
        let refuses = |name: &str| forbids_others(b) && property(b, name).is_none();
        let differ = |name: &str| match (property(a, name), property(b, name)) {
            (Some(a), Some(b)) => self.never_obeys(a, b, depth - 1),
            _ => false,
        };
        required(b).any(|name| lacks(name) || requires(a, name) && differ(name)) || required(a).any(refuses)
    }
}

fn required(schema: &Map<String, Value>) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn requires(schema: &Map<String, Value>, name: &str) -> bool {
    required(schema).any(|required| required == name)
}

/// The values that a schema lists.
fn values(schema: &Map<String, Value>) -> Option<&[Value]> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(value), None) => Some(std::slice::from_ref(value)),
        (None, Some(Value::Array(values))) => Some(values),
        _ => None,
    }
}

fn is_of_no_type(value: &Value, schema: &Map<String, Value>) -> bool {
    matches!(types(schema, ""), Ok(Some(types)) if !types.iter().any(|name| is_of_type(value, name)))
}

/// Equality of JSON values: 1 and 1.0 are one number.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| equal(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| equal(x, y)))
        }
        _ => a == b,
    }
}
