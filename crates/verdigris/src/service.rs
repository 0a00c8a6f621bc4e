//! Concurrent texts of one engine, requested from any thread.

use std::ops::ControlFlow;
use std::sync::Arc;

use verdigris_decoding::Stop;
use verdigris_models::LanguageModel;
use verdigris_schedule as schedule;
use verdigris_schedule::{Capacity, NotTaken, Reader, Statistics};

use crate::engine::Engine;
use crate::error::Error;
use crate::stored::folder::PrefixFolder;

/// An engine that writes many texts concurrently: a loop on its own thread, each pass of which continues all texts that
/// are being written ([`verdigris_schedule`]). Texts are submitted by [`Request::submit`](crate::Request::submit).
#[doc(alias = "AsyncLLMEngine")]
pub struct Service {
    model: Arc<dyn LanguageModel>,
    texts: schedule::Service,
}

impl Service {
    /// Starts the loop for the texts of an engine.
    ///
    /// # Panics
    /// If the capacity allows no texts or no rows, or if the system cannot start a thread.
    pub fn start(engine: &Engine, capacity: Capacity) -> Self {
        let model = engine.model().clone();
        Self { texts: schedule::Service::start(model.clone(), capacity), model }
    }

    /// Like [`Service::start`], with a folder that keeps the states of beginnings of prompts: see
    /// [`Request::storing`](crate::Request::storing).
    ///
    /// # Errors
    /// [`Error::Apart`] if the folder was opened for another engine.
    ///
    /// # Panics
    /// Those of [`Service::start`].
    pub fn start_with_folder(engine: &Engine, capacity: Capacity, folder: PrefixFolder) -> Result<Self, Error> {
        if !folder.is_of(engine) {
            let (what, with) = ("a folder of one engine".into(), "the service of another");
            return Err(Error::Apart { what, with, why: "it was opened for that engine; open one for this engine" });
        }
        let model = engine.model().clone();
        let texts = schedule::Service::start_with_store(model.clone(), capacity, Arc::new(folder));
        Ok(Self { texts, model })
    }

    /// The statistics after the last pass.
    pub fn statistics(&self) -> Statistics {
        self.texts.statistics()
    }

    /// Whether texts are being served, which is the case until the model fails.
    pub fn is_alive(&self) -> bool {
        self.texts.is_alive()
    }

    /// The number of tokens of a text, prompt included, that fit into memory.
    pub(crate) fn memory(&self) -> usize {
        self.texts.memory()
    }

    /// Submits a text of an engine to the loop.
    pub(crate) fn submit(
        &self,
        engine: &Engine,
        ask: schedule::Ask,
        reader: impl FnMut(schedule::TokenEvent) -> ControlFlow<Stop> + Send + 'static,
    ) -> Result<schedule::Handle, Error> {
        if !Arc::ptr_eq(engine.model(), &self.model) {
            let why = "a service writes with the engine that it was started for; start one for this engine";
            return Err(Error::Apart { what: "a request of one engine".into(), with: "the service of another", why });
        }
        let reader: Reader = Box::new(reader);
        self.texts.submit(ask, reader).map_err(|not_taken| match not_taken {
            NotTaken::Refused(schedule::Refused::Prompt(error)) => error.into(),
            NotTaken::Refused(schedule::Refused::TooLong(error)) => error.into(),
            NotTaken::Gone(error) => error.into(),
            _ => unreachable!("these are all reasons"),
        })
    }
}
