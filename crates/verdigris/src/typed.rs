//! Generation of values of Rust types.

use std::ops::ControlFlow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::request::{Request, Written};

impl Request<'_> {
    /// Writes a value of a type: JSON that satisfies the type's schema, which is then deserialized.
    ///
    /// The schema is derived by [`schemars`]. Objects have only the properties of the type. If [`Request::max_tokens`]
    /// are too few for any value, the error is [`Error::NoRoom`]. If that was not certain, or a stop string came first,
    /// or the tokens ran out inside a value ([`Written::closed`]), it is [`Error::CutShort`].
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
        if written.closed { Err(Error::CutShort { tokens: written.tokens.len() }) } else { Ok(value) }
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
        let schema: Schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
        let written = self.closed_json_schema(schema.into()).stream(each)?;
        match serde_json::from_str(&written.text) {
            Ok(value) => Ok((value, written)),
            Err(_) if written.complete == Some(false) => Err(Error::CutShort { tokens: written.tokens.len() }),
            Err(source) => Err(Error::Value { json: written.text, source }),
        }
    }
}
