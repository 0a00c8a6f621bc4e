//! Texts that a service writes.

use std::ops::ControlFlow;
use std::sync::Arc;

use verdigris_constrain::Constraint;
use verdigris_schedule::{Account, Event, Handle};

use crate::error::Error;
use crate::request::Request;
use crate::request::begun::{Ending, Plan};
use crate::request::piece::{Piece, Ready};
use crate::service::Service;

/// An event of a text that a [`Service`] writes: [`Event::Begun`] when it has had its turn and memory, pieces, and its
/// end or the error that prevents it.
pub type ServedEvent = Event<Piece, Ending, Error>;

impl Request<'_> {
    /// Submits the text to a service, which writes it concurrently with other texts. It is the text that
    /// [`Request::stream`] gives, except that the chosen number of drafts may differ. Its events are passed to `reader`
    /// on the thread of the service, so `reader` must not block. On [`ControlFlow::Break`], or when the returned handle
    /// is dropped, the text ends.
    ///
    /// ```no_run
    /// use std::ops::ControlFlow;
    /// use std::sync::mpsc;
    /// use verdigris::schedule::Capacity;
    /// use verdigris::{Engine, Event, Service};
    ///
    /// let engine = Engine::load("fixtures/models/tale")?;
    /// let service = Service::start(&engine, Capacity { texts: 64, tokens: 65536, kept: 8192, rows: 512 });
    /// let request = engine.request("The captain").max_tokens(100);
    /// let (sender, events) = mpsc::channel();
    /// let _text = request.submit(&service, move |event| match sender.send(event) {
    ///     Ok(()) => ControlFlow::Continue(()),
    ///     Err(_) => ControlFlow::Break(()),
    /// })?;
    /// for event in events {
    ///     match event {
    ///         Event::Begun | Event::Reasoning(_) => (),
    ///         Event::Text(piece) => print!("{}", piece.text),
    ///         Event::End(ending) => println!("\n{} tokens", ending.written(&request)?.tokens.len()),
    ///         Event::Failed(error) => return Err(error),
    ///     }
    /// }
    /// # Ok::<(), verdigris::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Request::text`] that are known before anything is written, [`Error::TooLong`] for a prompt that does
    /// not fit into the service's memory, and [`Error::Gone`] if its model has failed.
    pub fn submit(
        &self,
        service: &Service,
        mut reader: impl FnMut(ServedEvent) -> ControlFlow<()> + Send + 'static,
    ) -> Result<Handle, Error> {
        self.draws_texts()?;
        if self.caller.cache.is_some() {
            let (what, with) = ("a prompt cache".into(), "texts of a service");
            return Err(Error::Apart { what, with, why: "a service has one store for all; start it with a folder" });
        }
        let Plan { planned, guides } = self.plan_within(service.memory())?;
        let (ask, mut begun) = planned.begin(self, &guides, false)?;
        service
            .submit(self.engine, ask, move |event| begun.take(event, &mut |event| reader(event.map_text(Ready::piece))))
    }

    /// Sets the account that the text is written for. If resources are short, a [`Service`] divides them evenly between
    /// tenants, and the part of a tenant evenly between its requests.
    pub fn account(mut self, account: Account) -> Self {
        self.caller.account = account;
        self
    }

    /// Sets the salt: texts of a [`Service`] share cached prompts only with texts of the same salt. By default all have
    /// the same one. A text with the same beginning as an earlier one starts sooner, which reveals to its client how
    /// the other began, so give each tenant a separate salt.
    pub fn cache_salt(mut self, salt: impl Into<Arc<str>>) -> Self {
        self.caller.cache_salt = salt.into();
        self
    }

    /// The compiled constraint of this request, for [`Request::constraint`] of other requests.
    ///
    /// # Errors
    /// If the constraint is invalid.
    pub fn compiled_constraint(&self) -> Result<Option<Constraint>, Error> {
        self.constraint_asked_for()
    }
}
