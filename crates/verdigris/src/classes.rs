//! Language models that distinguish classes of texts.

use crate::engine::Engine;
use crate::prompt::Prompt;

/// Classes of texts, each with a language model and the prompt that it reads before each text: models tuned on texts of
/// each class, or one model after the names of the classes. The first is the desired class
/// ([`Request::guide_by_classes`](crate::Request::guide_by_classes), which is GeDi).
///
/// ```no_run
/// use verdigris::{Classes, Engine};
///
/// let (engine, small) = (Engine::load("fixtures/models/tale")?, Engine::load("fixtures/models/tale-small")?);
/// let classes = Classes::new().class(&small, "It was a merry day.").class(&small, "It was a sad day.");
/// let written = engine.request("The captain").guide_by_classes(&classes, 30.0, 200).text()?;
/// # Ok::<(), verdigris::Error>(())
/// ```
#[derive(Clone, Default)]
#[doc(alias = "gedi")]
#[must_use = "classes do nothing until a request is guided by them"]
pub struct Classes<'e>(pub(crate) Vec<(&'e Engine, Prompt)>);

impl<'e> Classes<'e> {
    /// No classes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a class: a language model, and the prompt that it reads before each text. If the prompt is empty, it is the
    /// token that begins texts.
    pub fn class(mut self, model: &'e Engine, prompt: impl Into<Prompt>) -> Self {
        self.0.push((model, prompt.into()));
        self
    }
}
