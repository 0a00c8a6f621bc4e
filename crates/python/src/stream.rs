//! Streaming.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use verdigris::{Engine as Model, Error, Event, Prompt};

use crate::engine::in_its_process;
use crate::error;
use crate::options::Options;
use crate::written::Written;

/// The number of pieces that are buffered before the model waits for the reader.
const PIECES: usize = 64;

/// The interval at which a waiting reader checks for signals, such as Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(50);

/// An event of a text.
type Piece = Event<String, Box<Written>, Error>;

/// An iterator over the pieces of a text, each of whole characters.
#[pyclass(frozen, module = "verdigris")]
pub(crate) struct Stream {
    /// `None` after the end.
    pieces: Mutex<Option<Receiver<Piece>>>,
    written: Mutex<Option<Written>>,
}

impl Stream {
    /// Begins to write on a separate thread, which ends when the stream is dropped.
    pub(crate) fn start(model: Arc<Model>, prompt: Prompt, options: Options) -> PyResult<Self> {
        let (sender, pieces) = sync_channel(PIECES);
        let work = move || {
            let request = options.of(model.request("").prompt(prompt));
            let written = request.stream(|piece| match sender.send(Piece::Text(piece.to_owned())) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            });
            let written = written.and_then(|written| Written::new(written, &model, options.key()));
            let _ = sender.send(match written {
                Ok(written) => Piece::End(Box::new(written)),
                Err(error) => Piece::Failed(error),
            });
        };
        thread::Builder::new().name("verdigris-stream".into()).spawn(work)?;
        Ok(Self { pieces: Mutex::new(Some(pieces)), written: Mutex::default() })
    }
}

#[pymethods]
impl Stream {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<String>> {
        in_its_process()?;
        loop {
            let piece = py.detach(|| {
                let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
                pieces.as_ref().map(|pieces| pieces.recv_timeout(SIGNALS))
            });
            match piece {
                None => return Ok(None),
                Some(Ok(Piece::Text(text))) => return Ok(Some(text)),
                Some(Err(RecvTimeoutError::Timeout)) => py.check_signals()?,
                Some(ended) => {
                    *self.pieces.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    return match ended {
                        Ok(Piece::End(written)) => {
                            *self.written.lock().unwrap_or_else(PoisonError::into_inner) = Some(*written);
                            Ok(None)
                        }
                        Ok(Piece::Failed(error)) => Err(error::engine(error)),
                        _ => Err(error::argument("the model failed while writing")),
                    };
                }
            }
        }
    }

    /// The whole text with information about it; `None` until it has ended.
    #[getter]
    fn written(&self) -> Option<Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
