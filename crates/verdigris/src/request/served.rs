//! Texts that a service writes.

use std::ops::ControlFlow;
use std::sync::Arc;

use verdigris_constrain::Constraint;
use verdigris_decoding::Stop;
use verdigris_schedule::{Account, Handle, Told};

use crate::error::Error;
use crate::request::begun::{AtEnd, Plan};
use crate::request::{Request, Written};
use crate::service::Service;

/// An event of a text that a [`Service`] writes.
pub enum Piece {
    /// The text has waited for its turn and for memory, and its prompt is read from now on. Sent once, before all other
    /// events.
    Begun,
    /// The next piece of the text: never empty, and always whole characters.
    Text(String),
    /// The end of the text. No events follow.
    End(Ending),
    /// The text cannot continue. No events follow.
    Failed(Error),
}

/// The end of a text that a [`Service`] has written.
#[must_use = "it becomes the text by Ending::written"]
pub struct Ending {
    text: Box<AtEnd>,
    form: Option<Constraint>,
}

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
    /// use verdigris::{Engine, Piece, Service};
    ///
    /// let engine = Engine::load("fixtures/models/tale")?;
    /// let service = Service::start(&engine, Capacity { texts: 64, tokens: 65536, kept: 8192, rows: 512 });
    /// let request = engine.request("The captain").max_tokens(100);
    /// let (sender, pieces) = mpsc::channel();
    /// let _text = request.submit(&service, move |piece| match sender.send(piece) {
    ///     Ok(()) => ControlFlow::Continue(()),
    ///     Err(_) => ControlFlow::Break(()),
    /// })?;
    /// for piece in pieces {
    ///     match piece {
    ///         Piece::Begun => (),
    ///         Piece::Text(text) => print!("{text}"),
    ///         Piece::End(ending) => println!("\n{} tokens", ending.written(&request)?.tokens.len()),
    ///         Piece::Failed(error) => return Err(error),
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
        mut reader: impl FnMut(Piece) -> ControlFlow<()> + Send + 'static,
    ) -> Result<Handle, Error> {
        self.draws_texts()?;
        let Plan { planned, form, guides } = self.plan_within(service.memory())?;
        let (ask, begun) = planned.begin(self)?;
        let (mut begun, mut is_over) = (Some(begun), false);
        service.submit(self.engine, ask, move |told| {
            let goes_on = match told {
                Told::Begun => {
                    is_over = reader(Piece::Begun).is_break();
                    ControlFlow::Continue(())
                }
                Told::Token(..) if is_over => ControlFlow::Break(()),
                Told::Token(token, provenance) => {
                    let text = begun.as_mut().expect("no token follows the end of a text");
                    let piece = text.push(token, provenance);
                    let is_read =
                        if piece.is_empty() { ControlFlow::Continue(()) } else { reader(Piece::Text(piece.into())) };
                    is_over = is_read.is_break();
                    if text.is_stopped() { ControlFlow::Break(()) } else { is_read }
                }
                Told::Ended(mut ended) => {
                    if is_over {
                        ended.stop = None;
                    }
                    let (text, rest) = begun.take().expect("a text ends once").end(ended);
                    if !rest.is_empty() {
                        let _ = reader(Piece::Text(rest));
                    }
                    reader(Piece::End(Ending { text: Box::new(text), form: form.clone() }))
                }
                Told::Failed(fault) => reader(Piece::Failed(Error::of_text(fault, form.as_ref(), &guides))),
            };
            goes_on.map_break(|()| Stop::StopString)
        })
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
    pub fn compiled_form(&self) -> Result<Option<Constraint>, Error> {
        self.constraint_asked_for()
    }
}

impl Ending {
    /// Returns the text with all information that its request asks for, some of which requires the model to read it
    /// again.
    ///
    /// # Errors
    /// If the model fails.
    pub fn written(self, request: &Request<'_>) -> Result<Written, Error> {
        self.text.told(request, self.form.as_ref())
    }

    /// Returns the text without the information that requires the model to read it again: the effect of steering, and
    /// the [explanation](Request::explain) of its tokens. Requested log-probabilities are included.
    pub fn at_once(self) -> Written {
        self.text.into_written(self.form.as_ref())
    }
}
