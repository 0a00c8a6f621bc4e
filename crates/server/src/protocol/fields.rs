//! The fields of a body: each is taken by its name, and the remaining ones are unknown ([`Unknown`]).

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::protocol::refusal::Refusal;
use crate::protocol::unknown::Unknown;

/// The fields of a JSON object that have not been taken yet. A field that is `null` counts as absent, as with OpenAI.
pub(crate) struct Fields {
    /// The path of the object in the body; empty for the body itself.
    path: String,
    fields: Map<String, Value>,
    /// The policy for fields that nothing takes.
    unknown: Unknown,
}

impl Fields {
    /// The fields of a body whose unknown fields are treated by this policy.
    pub(crate) fn body(value: Value, unknown: &Unknown) -> Result<Self, Refusal> {
        Self::new(value, String::new(), unknown.clone())
    }

    /// The fields of the object at `path`, whose unknown fields are refused.
    pub(crate) fn of(value: Value, path: impl Into<String>) -> Result<Self, Refusal> {
        Self::new(value, path.into(), Unknown::refused())
    }

    /// The fields of an object within this one, at `path` in the body.
    pub(crate) fn within(&self, value: Value, path: String) -> Result<Self, Refusal> {
        Self::new(value, path, self.unknown.clone())
    }

    fn new(value: Value, path: String, unknown: Unknown) -> Result<Self, Refusal> {
        match value {
            Value::Object(fields) => Ok(Self { path, fields, unknown }),
            other => {
                let what = if path.is_empty() { "the body" } else { &path };
                let message = format!("{what} is {}, but must be an object", kind_of(&other));
                Err(Refusal { param: Some(path).filter(|path| !path.is_empty()), ..wrong_type(message) })
            }
        }
    }

    /// The path of a field in the body.
    pub(crate) fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.into() } else { format!("{}.{name}", self.path) }
    }

    /// Whether there is a field that is not `null`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields.get(name).is_some_and(|value| !value.is_null())
    }

    /// A field that is a text. It is not taken.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.as_str()
    }

    /// Takes a field as JSON.
    pub(crate) fn value(&mut self, name: &str) -> Option<Value> {
        #[cfg(test)]
        self.note(name);
        self.fields.remove(name).filter(|value| !value.is_null())
    }

    /// Takes a field of some type.
    pub(crate) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, Refusal> {
        self.value(name).map(|value| read(value, self.path(name))).transpose()
    }

    /// Takes a required field.
    pub(crate) fn need<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, Refusal> {
        self.take(name)?.ok_or_else(|| self.missing(name))
    }

    /// The refusal for a missing field.
    pub(crate) fn missing(&self, name: &str) -> Refusal {
        let path = self.path(name);
        Refusal::field(&path, "missing_field", format!("{path} is missing: the request needs it"))
    }

    /// Takes a number from `least` to `most`.
    pub(crate) fn number(&mut self, name: &str, least: f64, most: f64) -> Result<Option<f64>, Refusal> {
        let fits = |value: &Value| value.as_f64().filter(|number| (least..=most).contains(number));
        self.fitting(name, fits, || format!("a number from {least} to {most}"))
    }

    /// Takes a whole number from `least` to `most`.
    pub(crate) fn count(&mut self, name: &str, least: usize, most: usize) -> Result<Option<usize>, Refusal> {
        let whole = |value: &Value| value.as_u64().and_then(|count| usize::try_from(count).ok());
        let fits = |value: &Value| whole(value).filter(|count| (least..=most).contains(count));
        self.fitting(name, fits, || match most {
            usize::MAX => format!("a whole number of {least} or more"),
            most => format!("a whole number from {least} to {most}"),
        })
    }

    fn fitting<T>(
        &mut self,
        name: &str,
        fits: impl FnOnce(&Value) -> Option<T>,
        what: impl FnOnce() -> String,
    ) -> Result<Option<T>, Refusal> {
        let Some(value) = self.value(name) else { return Ok(None) };
        fits(&value).map(Some).ok_or_else(|| {
            let (path, shown) = (self.path(name), shown(&value));
            Refusal::field(&path, "invalid_value", format!("{path} is {shown}, but must be {}", what()))
        })
    }

    /// Takes a number if it is one of some; otherwise the field stays.
    pub(crate) fn number_if(&mut self, name: &str, is_one: impl FnOnce(f64) -> bool) -> Option<f64> {
        let number = self.fields.get(name)?.as_f64().filter(|&number| is_one(number))?;
        self.fields.remove(name);
        Some(number)
    }

    /// Takes an object with fields of its own.
    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Self>, Refusal> {
        let path = self.path(name);
        self.value(name).map(|value| self.within(value, path)).transpose()
    }

    /// Takes an object whose unknown fields are always refused: ignoring one could change the answer.
    pub(crate) fn strict_object(&mut self, name: &str) -> Result<Option<Self>, Refusal> {
        let path = self.path(name);
        self.value(name).map(|value| Self::of(value, path)).transpose()
    }

    /// Takes the items of an array, each with its path.
    pub(crate) fn items(&mut self, name: &str) -> Result<Option<Vec<(String, Value)>>, Refusal> {
        let path = self.path(name);
        let Some(items) = self.take::<Vec<Value>>(name)? else { return Ok(None) };
        Ok(Some(items.into_iter().enumerate().map(|(at, item)| (format!("{path}[{at}]"), item)).collect()))
    }

    /// Takes fields that have no effect, such as a name for the user.
    pub(crate) fn ignore(&mut self, names: &[&str]) {
        #[cfg(test)]
        names.iter().for_each(|name| self.note(name));
        names.iter().for_each(|name| drop(self.fields.remove(*name)));
    }

    /// Records the name of a top-level field that is taken.
    #[cfg(test)]
    fn note(&self, name: &str) {
        if self.path.is_empty() {
            TAKEN.with_borrow_mut(|taken| taken.push(name.into()));
        }
    }

    /// Takes a field that is only supported with a value that changes nothing, and refuses any other value.
    pub(crate) fn unsupported(
        &mut self,
        name: &str,
        is_neutral: impl FnOnce(&Value) -> bool,
        remedy: &str,
    ) -> Result<(), Refusal> {
        let Some(value) = self.fields.remove(name).filter(|value| !value.is_null() && !is_neutral(value)) else {
            return Ok(());
        };
        let (path, shown) = (self.path(name), shown(&value));
        let message = format!("{path} is {shown}, which this server does not support: {remedy}");
        Err(Refusal::field(path, "unsupported_field", message))
    }

    /// Refuses or notes the fields that were not taken.
    pub(crate) fn end(self) -> Result<(), Refusal> {
        let mut unknown = self.fields.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name);
        match unknown.find(|name| !self.unknown.accepts(&self.path(name))) {
            None => Ok(()),
            Some(name) => {
                let path = self.path(name);
                let message = format!("unknown field {path}: remove it");
                Err(Refusal::field(path, "unknown_field", message))
            }
        }
    }
}

/// Reads the value at `path` as some type.
pub(crate) fn read<T: DeserializeOwned>(value: Value, path: String) -> Result<T, Refusal> {
    T::deserialize(value)
        .map_err(|error| Refusal { param: Some(path.clone()), ..wrong_type(format!("{path}: {error}")) })
}

#[cfg(test)]
thread_local! {
    static TAKEN: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// The names of the top-level fields that `meanwhile` takes, whether they are present or not.
#[cfg(test)]
pub(crate) fn taken(meanwhile: impl FnOnce()) -> Vec<String> {
    TAKEN.take();
    meanwhile();
    TAKEN.take()
}

fn wrong_type(message: String) -> Refusal {
    Refusal::new(400, "invalid_type", message)
}

/// A value in a message: a number or a truth value itself, of all others the type.
fn shown(value: &Value) -> String {
    match value {
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        other => kind_of(other).into(),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields() -> Fields {
        Fields::of(json!({"a": 3, "b": null, "c": {"d": "x"}, "e": [1, "y"]}), "").unwrap()
    }

    #[test]
    fn what_is_taken_has_its_type_and_what_is_left_is_refused() {
        let mut body = fields();
        assert_eq!(body.count("a", 1, 3), Ok(Some(3)));
        assert_eq!(body.take::<f64>("b"), Ok(None));
        let mut c = body.object("c").unwrap().unwrap();
        assert_eq!(c.need::<String>("d").as_deref(), Ok("x"));
        assert_eq!(c.need::<String>("f").unwrap_err().param.as_deref(), Some("c.f"));
        c.end().unwrap();
        let refusal = body.end().unwrap_err();
        assert_eq!((refusal.param.as_deref(), refusal.code), (Some("e"), Some("unknown_field")));
    }

    #[test]
    fn what_does_not_fit_is_named_by_its_path() {
        let refusal = fields().count("a", 4, 9).unwrap_err();
        assert_eq!(refusal.message, "a is 3, but must be a whole number from 4 to 9");
        let items = fields().items("e").unwrap().unwrap();
        let (path, item) = items.into_iter().nth(1).unwrap();
        assert_eq!(read::<u32>(item, path).unwrap_err().param.as_deref(), Some("e[1]"));
        assert_eq!(fields().object("a").err().unwrap().message, "a is a number, but must be an object");
        for bad in [json!(-1), json!(1e300), json!(1.5), json!("3"), json!([3])] {
            let refusal = Fields::of(json!({"n": bad}), "").unwrap().count("n", 0, 10).unwrap_err();
            assert_eq!((refusal.status, refusal.param.as_deref()), (400, Some("n")), "{bad}");
        }
    }
}
