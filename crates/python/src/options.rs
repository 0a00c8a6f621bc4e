//! The options of a request, as keyword arguments.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use serde_json::Value;
use verdigris::{Constraint as Form, Engine as Model, Key as Secret, Request, Sampling, Style};
use verdigris_logits::TokenId;

use crate::constraint::{Constraint, schema};
use crate::engine::Engine;
use crate::error;
use crate::key::Key;

/// Declares options that pass their value to the method of Rust's `Request` with the same name.
macro_rules! options {
    ($($name:ident: $type:ty),* $(,)?) => {
        /// The options of a request.
        #[derive(Clone, Default)]
        pub(crate) struct Options {
            $($name: Option<$type>,)*
            sampling: Sampling,
            watermark: Option<Arc<Secret>>,
            json_schema: Option<Value>,
            /// Whether objects have only properties that the schema names.
            closed: bool,
            constraint: Option<Form>,
            stop: Vec<String>,
            bad_words: Vec<String>,
            logit_bias: BTreeMap<TokenId, f64>,
            draft: Option<Arc<Model>>,
            lookup: bool,
            token_healing: bool,
        }

        impl Options {
            /// Reads keyword arguments.
            pub(crate) fn read(given: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
                let mut options = Self::default();
                for (name, value) in given.into_iter().flatten() {
                    let name: String = name.extract()?;
                    if value.is_none() {
                        continue;
                    }
                    options.set(&name, &value).map_err(|fault| match fault.is_instance_of::<PyTypeError>(value.py()) {
                        true => error::wrong_type(value.py(), format!("{name}: {}", fault.value(value.py()))),
                        false => fault,
                    })?;
                }
                if options.forms() > 1 {
                    return Err(error::argument("use only one of regex, choice, json_schema and constraint"));
                }
                Ok(options)
            }

            fn set(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
                match name {
                    $(stringify!($name) => self.$name = Some(value.extract()?),)*
                    _ if Sampling::field(name).is_some() => {
                        if value.is_instance_of::<PyBool>() {
                            return Err(error::wrong_type(value.py(), format!("{name}: 'bool' object is not a number")));
                        }
                        self.sampling.set(name, value.extract()?).map_err(|fault| error::argument(fault.to_string()))?;
                    }
                    _ => self.set_other(name, value)?,
                }
                Ok(())
            }

            /// Adds these options to a request.
            fn with_values<'a>(&self, request: Request<'a>) -> Request<'a> {
                let mut request = request.sampling(self.sampling.clone());
                $(if let Some(value) = &self.$name {
                    request = request.$name(value.clone());
                })*
                request
            }
        }
    };
}

options! {
    max_tokens: usize,
    seed: u64,
    penalty_alpha: f64,
    suppress_tokens: Vec<TokenId>,
    entropy_threshold: f64,
    mark_after: f64,
    payload: u32,
    regex: String,
    choice: Vec<String>,
    draft_tokens: usize,
    logprobs: usize,
}

/// One text or several.
fn texts(value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    value.extract().map(|text| vec![text]).or_else(|_| value.extract())
}

impl Options {
    fn set_other(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        match name {
            "watermark" => self.watermark = Some(value.cast::<Key>()?.get().0.clone()),
            "json_schema" => self.json_schema = Some(schema(value)?),
            "constraint" => self.constraint = Some(value.cast::<Constraint>()?.get().inner().clone()),
            "stop" => self.stop = texts(value)?,
            "bad_words" => self.bad_words = texts(value)?,
            "logit_bias" => self.logit_bias = value.extract()?,
            "draft" => self.draft = Some(value.cast::<Engine>()?.get().model()?.clone()),
            "lookup" => self.lookup = value.extract()?,
            "token_healing" => self.token_healing = value.extract()?,
            _ => {
                let unknown = "there is no such option; help(verdigris.Engine.request) lists them";
                return Err(error::wrong_type(value.py(), unknown));
            }
        }
        Ok(())
    }

    /// The number of constraints.
    fn forms(&self) -> usize {
        let forms =
            [self.regex.is_some(), self.choice.is_some(), self.json_schema.is_some(), self.constraint.is_some()];
        forms.into_iter().filter(|&is_asked_for| is_asked_for).count()
    }

    /// The same options for values of a type with this schema.
    pub(crate) fn typed(&self, schema: Value) -> PyResult<Self> {
        if self.forms() > 0 {
            return Err(error::argument("the type is the constraint: omit regex, choice, json_schema and constraint"));
        }
        Ok(Self { json_schema: Some(schema), closed: true, ..self.clone() })
    }

    /// The key that marks the text.
    pub(crate) fn key(&self) -> Option<&Secret> {
        self.watermark.as_deref()
    }

    /// Adds all options to a request.
    pub(crate) fn of<'a>(&'a self, request: Request<'a>) -> Request<'a> {
        let mut request = self.with_values(request);
        if let Some(key) = &self.watermark {
            request = request.watermark(key);
        }
        if let Some(schema) = &self.json_schema {
            request = request.json_schema(schema.clone());
        }
        if self.closed {
            request = request.style(Style::default().closed());
        }
        if let Some(constraint) = &self.constraint {
            request = request.constraint(constraint);
        }
        request = self.stop.iter().fold(request, Request::stop);
        request = self.bad_words.iter().fold(request, Request::bad_words);
        request = self.logit_bias.iter().fold(request, |request, (&token, &bias)| request.logit_bias(token, bias));
        if let Some(draft) = &self.draft {
            request = request.draft(draft);
        }
        let request = if self.token_healing { request.heal() } else { request };
        if self.lookup { request.lookup() } else { request }
    }
}
