//! Values of Rust types.

use std::ops::ControlFlow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::request::{Request, Written};

impl Request<'_> {
    /// Writes a value of a type: JSON that obeys the type's schema, read by the type.
    ///
    /// The schema is what [`schemars`] derives. Objects have no properties but those of the type.
    /// If [`Request::max_tokens`] are too few for any value, this is [`Error::NoRoom`]; where that was not certain, or
    /// a stop string came first, or the tokens ran out inside a value ([`Written::closed`]), [`Error::CutShort`].
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
    /// [`Error::CutShort`] where there was no room for all of it, [`Error::Value`] where the type refuses what its
    /// schema allows, and those of [`Request::text`](crate::Request::text).
    pub fn json<T: DeserializeOwned + JsonSchema>(self) -> Result<T, Error> {
        let (value, written) = self.json_stream(|_| ControlFlow::Continue(()))?;
        // What was made up so that the JSON ends is no answer.
        if written.closed { Err(Error::CutShort { tokens: written.tokens.len() }) } else { Ok(value) }
    }

    /// As [`Request::json`], and hands over each part of the JSON as soon as it is there. A value that was closed
    /// because its tokens ran out is returned, and [`Written::closed`] says so.
    ///
    /// # Errors
    /// As [`Request::json`].
    pub fn json_stream<T: DeserializeOwned + JsonSchema>(
        self,
        each: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<(T, Written), Error> {
        let schema: Schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
        let written = self.closed_json_schema(schema.into()).stream(each)?;
        match serde_json::from_str(&written.text) {
            Ok(value) => Ok((value, written)),
            Err(_) if written.complete == Some(false) => Err(Error::CutShort { tokens: written.tokens.len() }),
            Err(source) => Err(Error::Value { json: written.text, source }),
        }
    }
}
