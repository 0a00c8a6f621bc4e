//! Whether to mark an answer (vLLM's `watermarking`, SGLang's `watermark`), and the status of the mark in the answer.

use serde::Serialize;

use crate::protocol::fields::Fields;
use crate::protocol::refusal::Refusal;

/// Takes whether to mark an answer, with the field that says so; `None` if the request does not say.
pub(crate) fn take(body: &mut Fields) -> Result<Option<(bool, &'static str)>, Refusal> {
    let plain = body.take::<bool>("watermarking")?;
    let object = match body.strict_object("watermark")? {
        None => None,
        Some(mut watermark) => {
            let enabled = watermark.take("enabled")?;
            watermark.end()?;
            enabled
        }
    };
    match (plain, object) {
        (Some(a), Some(b)) if a != b => {
            let message =
                format!("watermarking is {a} and watermark.enabled is {b}: give only one, or the same value in both");
            Err(Refusal::field("watermark.enabled", "contradiction", message))
        }
        (plain, object) => {
            let plain = plain.map(|wanted| (wanted, "watermarking"));
            Ok(plain.or(object.map(|wanted| (wanted, "watermark.enabled"))))
        }
    }
}

/// The field `watermark` of an answer: the status of the mark of its text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct MarkField {
    /// The name of a [`MarkStatus`](verdigris::MarkStatus), or `not_watermarked` if no mark was requested or the server
    /// has no key.
    pub(crate) status: &'static str,
    /// The reason why the text is not watermarked; `None` if it is.
    pub(crate) reason: Option<&'static str>,
    /// The id of the key.
    pub(crate) key_id: Option<String>,
    /// The key's dialect, if any tokens are scored.
    pub(crate) scheme: Option<&'static str>,
    /// The number of tokens that a detector scores.
    pub(crate) scored_tokens: usize,
}

impl MarkField {
    /// The field for a text that was written without a key.
    pub(crate) fn not_watermarked(reason: &'static str) -> Self {
        Self { status: "not_watermarked", reason: Some(reason), key_id: None, scheme: None, scored_tokens: 0 }
    }

    /// The reason why a text that should be marked is not known to be; `None` if it is, or if no mark was requested.
    pub(crate) fn unmarkable(&self) -> Option<&'static str> {
        self.reason.filter(|_| self.key_id.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn taken(body: Value) -> Result<Option<(bool, &'static str)>, Refusal> {
        let mut fields = Fields::of(body, "").unwrap();
        let wanted = take(&mut fields)?;
        fields.end()?;
        Ok(wanted)
    }

    #[test]
    fn both_fields_are_read_and_must_agree() {
        assert_eq!(taken(json!({})), Ok(None));
        assert_eq!(taken(json!({"watermarking": false})), Ok(Some((false, "watermarking"))));
        assert_eq!(taken(json!({"watermark": {"enabled": true}})), Ok(Some((true, "watermark.enabled"))));
        assert_eq!(taken(json!({"watermark": {}, "watermarking": null})), Ok(None));
        assert_eq!(
            taken(json!({"watermark": {"enabled": true}, "watermarking": true})),
            Ok(Some((true, "watermarking")))
        );
        for body in [
            json!({"watermark": {"enabled": true}, "watermarking": false}),
            json!({"watermark": {"key": "00"}}),
            json!({"watermark": true}),
            json!({"watermarking": "yes"}),
        ] {
            assert_eq!(taken(body.clone()).unwrap_err().status, 400, "{body}");
        }
    }
}
