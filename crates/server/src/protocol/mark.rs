//! Whether an answer is marked: vLLM's `watermarking` and SGLang's `watermark`, and what the answer says of it.

use serde_json::{Value, json};

use crate::protocol::fields::Fields;
use crate::protocol::refusal::Refusal;

/// What a request says about its mark: to have one, to have none, or nothing.
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
                format!("watermarking is {a} and watermark.enabled {b}: say one of them, or the same in both");
            Err(Refusal::field("watermark.enabled", "contradiction", message))
        }
        (plain, object) => Ok(plain.or(object)),
    }
}

/// What an answer says about its mark.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MarkStatus {
    /// It carries one.
    Watermarked {
        /// The id of the key.
        key_id: String,
        /// The key's dialect.
        scheme: &'static str,
        /// The tokens whose colours or numbers a detector counts.
        scored_tokens: usize,
    },
    /// It was to carry one, and a detector could not verify it.
    TooWeak {
        /// The id of the key.
        key_id: String,
        /// The key's dialect.
        scheme: &'static str,
        /// The tokens whose colours or numbers a detector counts.
        scored_tokens: usize,
        /// Why.
        reason: &'static str,
    },
    /// It was to carry one and has nothing that could.
    Skipped {
        /// The id of the key.
        key_id: String,
        /// Why.
        reason: &'static str,
    },
    /// None was asked for, or there is no key.
    NotWatermarked {
        /// Why.
        reason: &'static str,
    },
}

impl MarkStatus {
    /// Its name, in answers and metrics.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Watermarked { .. } => "watermarked",
            Self::TooWeak { .. } => "too_weak",
            Self::Skipped { .. } => "skipped",
            Self::NotWatermarked { .. } => "not_watermarked",
        }
    }

    /// Why a text that was to be marked is not known to be; `None` where it is, and where none was asked for.
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
