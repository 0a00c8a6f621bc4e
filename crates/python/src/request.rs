//! Requests.

use std::ops::ControlFlow;
use std::sync::Arc;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use verdigris::{Engine as Model, Error, Prompt};

use crate::constraint::schema;
use crate::engine::in_its_process;
use crate::error;
use crate::options::Options;
use crate::prompt;
use crate::stream::Stream;
use crate::written::Written;

/// A request for texts. Nothing is computed before one of its methods is called, and each call generates again.
/// Meanwhile other Python threads continue, and Ctrl-C ends the call.
#[pyclass(frozen, module = "verdigris")]
pub(crate) struct Request {
    model: Arc<Model>,
    prompt: Prompt,
    options: Options,
}

impl Request {
    pub(crate) fn new(model: Arc<Model>, prompt: Prompt, options: Options) -> Self {
        Self { model, prompt, options }
    }

    /// Writes, and checks for signals regularly.
    fn write<T: Send>(
        &self,
        py: Python<'_>,
        options: &Options,
        write: impl FnOnce(verdigris::Request<'_>, &mut Interrupted) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        in_its_process()?;
        let mut interrupted = Interrupted(None);
        let request = options.of(self.model.request("").prompt(self.prompt.clone()));
        let written = py.detach(|| write(request, &mut interrupted));
        match interrupted.0 {
            Some(fault) => Err(fault),
            None => written.map_err(error::engine),
        }
    }

    fn written(&self, py: Python<'_>, written: verdigris::Written) -> PyResult<Written> {
        py.detach(|| Written::new(written, &self.model, self.options.key())).map_err(error::engine)
    }

    fn one(&self, py: Python<'_>, options: &Options) -> PyResult<Written> {
        let written = self.write(py, options, |request, interrupted| request.stream(|_| interrupted.asked()))?;
        self.written(py, written)
    }
}

/// The exception that a signal, such as Ctrl-C, has raised.
struct Interrupted(Option<PyErr>);

impl Interrupted {
    fn asked(&mut self) -> ControlFlow<()> {
        match Python::attach(|py| py.check_signals()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(fault) => {
                self.0 = Some(fault);
                ControlFlow::Break(())
            }
        }
    }
}

#[pymethods]
impl Request {
    /// Writes the text.
    fn text(&self, py: Python<'_>) -> PyResult<Written> {
        self.one(py, &self.options)
    }

    /// Writes `count` texts concurrently, with consecutive seeds.
    fn texts(&self, py: Python<'_>, count: usize) -> PyResult<Vec<Written>> {
        let written = self
            .write(py, &self.options, |request, interrupted| request.stream_texts(count, |_, _| interrupted.asked()))?;
        written.into_iter().map(|written| self.written(py, written)).collect()
    }

    /// Writes a text after each of these prompts, which replace the request's own, concurrently.
    fn prompts(&self, py: Python<'_>, prompts: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<Written>> {
        let read = match self.prompt {
            Prompt::Chat(_) => prompt::conversation,
            _ => prompt::text,
        };
        let prompts = prompts.iter().map(read).collect::<PyResult<Vec<_>>>()?;
        let written = self.write(py, &self.options, |request, interrupted| {
            request.stream_prompts(prompts, |_, _| interrupted.asked())
        })?;
        written.into_iter().map(|written| self.written(py, written)).collect()
    }

    /// Writes the text, and returns an iterator over its pieces. Its `written` is the whole text after the end. If the
    /// iterator is dropped, the text ends there.
    fn stream(&self) -> PyResult<Stream> {
        in_its_process()?;
        Stream::start(self.model.clone(), self.prompt.clone(), self.options.clone())
    }

    /// Writes a value of a type: a pydantic model, or any type that pydantic's `TypeAdapter` takes, such as a
    /// dataclass, a `TypedDict` or `list[int]`. The text is JSON that satisfies the type's schema, and is then parsed
    /// by the type.
    fn json(&self, py: Python<'_>, r#type: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let pydantic = py.import("pydantic").map_err(|fault| match fault.is_instance_of::<PyImportError>(py) {
            true => PyImportError::new_err("typed values need pydantic: pip install pydantic"),
            false => fault,
        })?;
        let adapter = pydantic.call_method1("TypeAdapter", (r#type,))?;
        let options = self.options.typed(schema(&adapter.call_method0("json_schema")?)?)?;
        let written = self.one(py, &options)?.into_whole()?;
        Ok(adapter.call_method1("validate_json", (written,))?.unbind())
    }

    fn __repr__(&self) -> &'static str {
        "Request()"
    }
}
