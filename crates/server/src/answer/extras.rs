//! The fields that this server adds to answers of protocols that know neither marks nor manifests.

use serde_json::{Map, Value, json};

use crate::answer::Choice;
use crate::input_marks::InputMark;

/// The fields of one answer: the status of the mark, and if they are wanted the marks in the inputs, the tokens and the
/// manifest. Clients ignore fields that they do not know.
#[derive(Debug)]
pub(super) struct Extras {
    return_token_ids: bool,
    input_marks: Option<Value>,
}

impl Extras {
    pub(super) fn new(return_token_ids: bool) -> Self {
        Self { return_token_ids, input_marks: None }
    }

    pub(super) fn set_input_marks(&mut self, marks: &[InputMark]) {
        self.input_marks = Some(json!(marks));
    }

    /// The fields for a text that has ended.
    pub(super) fn of(&self, choice: &Choice) -> Map<String, Value> {
        let mut fields = Map::from_iter([("watermark".to_owned(), json!(choice.mark))]);
        fields.extend(self.input_marks.clone().map(|marks| ("input_marks".to_owned(), marks)));
        fields.extend(self.return_token_ids.then(|| ("token_ids".to_owned(), json!(choice.tokens()))));
        choice.manifest.iter().for_each(|manifest| manifest.add_to(&mut fields));
        fields
    }
}
