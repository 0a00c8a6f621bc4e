//! Generation of values of Rust types.

use std::ops::ControlFlow;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::request::{Request, Written};

impl Request<'_> {
    /// Writes a value of a type: JSON that satisfies the type's schema, which is then deserialized.
    ///
    /// The schema is derived by [`schemars`]. Objects have only the properties of the type. Integers that are keys of
    /// maps have at most nine digits. If [`Request::max_tokens`] are too few for any value, the error is
    /// [`Error::NoRoom`]. If that was not certain, or a stop string came first, or the tokens ran out inside a value
    /// ([`Written::closed`]), it is [`Error::CutShort`].
    ///
    /// A type may reject what its schema allows ([`Error::Value`]): the schema of a `char` or `bool` that is the key of
    /// a map allows any string, and with [`NumberForms::Full`](crate::constrain::NumberForms::Full) an integer may be
    /// written as `1.0`.
    ///
    /// ```no_run
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    /// use verdigris::Engine;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Person {
    ///     name: String,
    ///     #[schemars(range(min = 0, max = 120))]
    ///     age: u8,
    /// }
    ///
    /// let engine = Engine::load("fixtures/models/tale")?;
    /// let person: Person = engine.request("The captain was ").json()?;
    /// println!("{} is {} years old", person.name, person.age);
    /// # Ok::<(), verdigris::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::CutShort`] if the whole value did not fit, [`Error::Value`] if the type rejects JSON that its schema
    /// allows, and those of [`Request::text`](crate::Request::text).
    pub fn json<T: DeserializeOwned + JsonSchema>(self) -> Result<T, Error> {
        let (value, written) = self.json_stream(|_| ControlFlow::Continue(()))?;
        // Values made up to close the JSON are not an answer.
        if written.closed { Err(cut_short(&written)) } else { Ok(value) }
    }

    /// Like [`Request::json`], and passes each piece of the JSON to `each` as soon as it is ready. A value that was
    /// closed because its tokens ran out is returned, with [`Written::closed`] set.
    ///
    /// # Errors
    /// Those of [`Request::json`].
    pub fn json_stream<T: DeserializeOwned + JsonSchema>(
        self,
        each: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<(T, Written), Error> {
        let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(narrow));
        let schema: Schema = settings.into_generator().into_root_schema_for::<T>();
        let written = self.closed_json_schema(schema.into()).stream(each)?;
        match serde_json::from_str(&written.text) {
            Ok(value) => Ok((value, written)),
            Err(_) if written.complete == Some(false) => Err(cut_short(&written)),
            Err(source) => Err(Error::Value { json: written.text, source }),
        }
    }
}

fn cut_short(written: &Written) -> Error {
    Error::CutShort { tokens: written.tokens.len(), stop: written.stop }
}

/// Narrows a schema that `schemars` derives to what deserialization accepts.
fn narrow(schema: &mut Schema) {
    let Some(keywords) = schema.as_object_mut() else { return };
    close_variants(keywords);
    narrow_integer_keys(keywords);
    // A format of `schemars`, for both kinds of addresses.
    if keywords.get("format") == Some(&json!("ip")) {
        keywords.remove("format");
        keywords.insert("anyOf".into(), json!([{"format": "ipv4"}, {"format": "ipv6"}]));
    }
}

/// Closes the variants of an enum, such as [`Result`]: a map with two of them is none.
fn close_variants(keywords: &mut Map<String, Value>) {
    const OF_VARIANTS: [&str; 4] = ["type", "properties", "required", "description"];
    // A schema with other keywords may allow more properties than its variants do.
    let is_enum = keywords.keys().all(|name| ["oneOf", "title", "description", "$schema", "$defs"].contains(&&**name));
    let Some(Value::Array(variants)) = keywords.get_mut("oneOf").filter(|_| is_enum) else { return };
    for variant in variants.iter_mut().filter_map(Value::as_object_mut) {
        if variant.contains_key("properties") && variant.keys().all(|name| OF_VARIANTS.contains(&&**name)) {
            variant.insert("additionalProperties".into(), false.into());
        }
    }
}

/// Leaves out integers with leading zeros, and those that 32 bits may be too few for.
fn narrow_integer_keys(keywords: &mut Map<String, Value>) {
    let Some(Value::Object(patterns)) = keywords.get_mut("patternProperties") else { return };
    for (any, narrow) in [(r"^\d+$", r"^(0|[1-9]\d{0,8})$"), (r"^-?\d+$", r"^(0|-?[1-9]\d{0,8})$")] {
        if let Some(value) = patterns.remove(any) {
            patterns.insert(narrow.into(), value);
        }
    }
}
