//! Whether to mark an answer (vLLM's `watermarking`, SGLang's `watermark`), and the status of the mark in the answer.

use serde_json::{Value, json};

use crate::protocol::fields::Fields;
use crate::protocol::refusal::Refusal;

/// Takes whether to mark an answer; `None` if the request does not say.
pub(crate) fn take(body: &mut Fields) -> Result<Option<bool>, Refusal> {
    let plain = body.take::<bool>("watermarking")?;
    let object = match body.object("watermark")? {
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
        (plain, object) => Ok(plain.or(object)),
    }
}

/// The status of the mark in an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MarkStatus {
    /// The text carries a mark.
    Watermarked {
        /// The id of the key.
        key_id: String,
        /// The key's dialect.
        scheme: &'static str,
        /// The number of tokens that a detector scores.
        scored_tokens: usize,
    },
    /// The text should carry a mark, but a detector could not verify it.
    TooWeak {
        /// The id of the key.
        key_id: String,
        /// The key's dialect.
        scheme: &'static str,
        /// The number of tokens that a detector scores.
        scored_tokens: usize,
        /// The reason.
        reason: &'static str,
    },
    /// The text should carry a mark, but has no tokens that could.
    Skipped {
        /// The id of the key.
        key_id: String,
        /// The reason.
        reason: &'static str,
    },
    /// No mark was requested, or the server has no key.
    NotWatermarked {
        /// The reason.
        reason: &'static str,
    },
}

impl MarkStatus {
    /// The name in answers and metrics.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Watermarked { .. } => "watermarked",
            Self::TooWeak { .. } => "too_weak",
            Self::Skipped { .. } => "skipped",
            Self::NotWatermarked { .. } => "not_watermarked",
        }
    }

    /// The reason why a text that should be marked is not known to be; `None` if it is, or if no mark was requested.
    pub(crate) fn unmarkable(&self) -> Option<&'static str> {
        match self {
            Self::TooWeak { reason, .. } | Self::Skipped { reason, .. } => Some(reason),
            Self::Watermarked { .. } | Self::NotWatermarked { .. } => None,
        }
    }

    /// The field `watermark` of an answer.
    pub(crate) fn body(&self) -> Value {
        let status = self.name();
        match self {
            Self::Watermarked { key_id, scheme, scored_tokens } => json!({
                "status": status, "reason": null, "key_id": key_id, "scheme": scheme, "scored_tokens": scored_tokens,
            }),
            Self::TooWeak { key_id, scheme, scored_tokens, reason } => json!({
                "status": status, "reason": reason, "key_id": key_id, "scheme": scheme,
                "scored_tokens": scored_tokens,
            }),
            Self::Skipped { key_id, reason } => json!({
                "status": status, "reason": reason, "key_id": key_id, "scheme": null, "scored_tokens": 0,
            }),
            Self::NotWatermarked { reason } => json!({
                "status": status, "reason": reason, "key_id": null, "scheme": null, "scored_tokens": 0,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(body: Value) -> Result<Option<bool>, Refusal> {
        let mut fields = Fields::of(body, "").unwrap();
        let wanted = take(&mut fields)?;
        fields.end()?;
        Ok(wanted)
    }

    #[test]
    fn both_fields_are_read_and_must_agree() {
        assert_eq!(taken(json!({})), Ok(None));
        assert_eq!(taken(json!({"watermarking": false})), Ok(Some(false)));
        assert_eq!(taken(json!({"watermark": {"enabled": true}})), Ok(Some(true)));
        assert_eq!(taken(json!({"watermark": {}, "watermarking": null})), Ok(None));
        assert_eq!(taken(json!({"watermark": {"enabled": true}, "watermarking": true})), Ok(Some(true)));
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
