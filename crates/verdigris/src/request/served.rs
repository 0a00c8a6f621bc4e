//! A text that a service writes beside those of others.

use std::ops::ControlFlow;
use std::sync::Arc;

use verdigris_constrain::Constraint;
use verdigris_decoding::Stop;
use verdigris_schedule::{Account, Handle, Told};

use crate::error::Error;
use crate::request::begun::{AtEnd, Plan};
use crate::request::{Request, Written};
use crate::service::Service;

/// What comes of a text that a [`Service`] writes.
pub enum Piece {
    /// It has waited for its turn and for memory, and its prompt is read from now on. Told once, before all else.
    Begun,
    /// What comes next of it: never empty, and always whole characters.
    Text(String),
    /// Its end. Nothing comes after it.
    End(Ending),
    /// It cannot go on. Nothing comes after it.
    Failed(Error),
}

/// The end of a text that a [`Service`] has written.
#[must_use = "it becomes the text by Ending::written"]
pub struct Ending {
    text: Box<AtEnd>,
    form: Option<Constraint>,
}

impl Request<'_> {
    /// Has the text written by a service beside those that others ask for; it is the one that [`Request::stream`] gives
    /// alone, but that how many drafts pay may turn out otherwise. What comes of it is told on the thread of the
    /// service, where nobody may wait; on [`ControlFlow::Break`] the text ends. It ends too when what is returned is
    /// dropped.
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
    /// As [`Request::text`], for what is known before anything is written; [`Error::TooLong`] for a prompt that the
    /// service has no memory for, and [`Error::Gone`] where its model has failed.
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
                    let text = begun.as_mut().expect("a text has no token behind its end");
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

    /// Whom the text is written for: where not all have their turn at once, a [`Service`] shares out what it has evenly
    /// between tenants, and what a tenant has between its requests.
    pub fn account(mut self, account: Account) -> Self {
        self.account = account;
        self
    }

    /// Lets the text share what a [`Service`] keeps of prompts with texts of the same salt alone; all have the same
    /// unless told otherwise. A text that begins as another one did comes sooner, which tells its client how the other
    /// one began: give each tenant a salt of its own.
    pub fn cache_salt(mut self, salt: impl Into<Arc<str>>) -> Self {
        self.cache_salt = salt.into();
        self
    }

    /// The constraint of the form that is asked for, worked out: [`Request::constraint`] of other requests takes it.
    ///
    /// # Errors
    /// Where there is no such form.
    pub fn compiled_form(&self) -> Result<Option<Constraint>, Error> {
        self.constraint_asked_for()
    }
}

impl Ending {
    /// The text, with what its request asks about it: log-probabilities take another reading of it by the model.
    ///
    /// # Errors
    /// Where the model fails.
    pub fn written(self, request: &Request<'_>) -> Result<Written, Error> {
        self.text.told(request, self.form.as_ref())
    }

    /// The text without what takes another reading of it by the model: how far steering has moved it, and what
    /// [explains](Request::explain) its tokens. Log-probabilities that were asked for were read before its end.
    pub fn at_once(self) -> Written {
        self.text.into_written(self.form.as_ref())
    }
}
