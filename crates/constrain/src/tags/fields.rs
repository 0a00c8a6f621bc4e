//! The fields of a format. Fields that nothing has read are refused by name.

use serde_json::{Map, Value};

use super::fault::{BadTag, Result, bad};

/// The fields of an object at a path.
pub(super) struct Fields<'v> {
    all: &'v Map<String, Value>,
    read: Vec<&'static str>,
    path: String,
}

impl<'v> Fields<'v> {
    pub(super) fn of(value: &'v Value, path: &str) -> Result<Self> {
        match value {
            Value::Object(all) => Ok(Self { all, read: Vec::new(), path: path.to_owned() }),
            _ => bad(path, "it must be an object"),
        }
    }

    /// The path of a field.
    pub(super) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// A field, unless it is missing or null.
    pub(super) fn value(&mut self, name: &'static str) -> Option<&'v Value> {
        self.read.push(name);
        self.all.get(name).filter(|value| !value.is_null())
    }

    /// A field and its path.
    pub(super) fn need(&mut self, name: &'static str) -> Result<(&'v Value, String)> {
        let path = self.path(name);
        match self.value(name) {
            Some(value) => Ok((value, path)),
            None => bad(&self.path, format!("the field \"{name}\" is missing")),
        }
    }

    /// A text.
    pub(super) fn text(&mut self, name: &'static str) -> Result<&'v str> {
        let (value, path) = self.need(name)?;
        value.as_str().map_or_else(|| bad(&path, "it must be a string"), Ok)
    }

    /// A list of texts, empty if the field is missing.
    pub(super) fn texts(&mut self, name: &'static str) -> Result<Vec<&'v str>> {
        let path = self.path(name);
        let Some(value) = self.value(name) else { return Ok(Vec::new()) };
        let text =
            |(item, path): (&'v Value, String)| item.as_str().map_or_else(|| bad(&path, "it must be a string"), Ok);
        items(value, &path)?.map(text).collect()
    }

    /// A flag, false if the field is missing.
    pub(super) fn flag(&mut self, name: &'static str) -> Result<bool> {
        self.flag_or(name, false)
    }

    /// A flag with a value for a missing field.
    pub(super) fn flag_or(&mut self, name: &'static str, missing: bool) -> Result<bool> {
        let path = self.path(name);
        match self.value(name) {
            None => Ok(missing),
            Some(value) => value.as_bool().map_or_else(|| bad(&path, "it must be true or false"), Ok),
        }
    }

    /// A whole number.
    pub(super) fn number(&mut self, name: &'static str) -> Result<i64> {
        let (value, path) = self.need(name)?;
        value.as_i64().map_or_else(|| bad(&path, "it must be a whole number"), Ok)
    }

    /// Refuses fields that were not read.
    pub(super) fn end(self) -> Result<()> {
        match self.all.iter().find(|(name, value)| !self.read.contains(&name.as_str()) && !value.is_null()) {
            None => Ok(()),
            Some((name, _)) => bad(&self.path(name), "this field is not supported here"),
        }
    }
}

/// The items of an array, with their paths.
pub(super) fn items<'v>(value: &'v Value, path: &str) -> Result<impl Iterator<Item = (&'v Value, String)> + use<'v>> {
    let Value::Array(items) = value else {
        return Err(BadTag { path: path.into(), fault: "it must be an array".into() });
    };
    let path = path.to_owned();
    Ok(items.iter().enumerate().map(move |(at, item)| (item, format!("{path}/{at}"))))
}
