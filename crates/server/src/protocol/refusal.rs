//! Refusals, in the format of errors of each protocol.

use serde_json::{Value, json};
use verdigris::{BadSampling, Error};

/// The reason why a request is refused or an answer ends early: a status, and an object `error` with a message for
/// people, a type for programs, the field at fault, and a code if one helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// One line that names the cause and the cure.
    pub message: String,
    /// The field, as a path from the body: `messages[0].role`.
    pub param: Option<String>,
    /// The name of the cause, for programs.
    pub code: Option<&'static str>,
    /// The number of seconds after which to try again.
    pub retry_after: Option<u64>,
}

/// The format of errors of a protocol. Those that have only a message are extended by the field and the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorShape {
    OpenAi,
    Anthropic,
    Ollama,
}

impl ErrorShape {
    /// The format for an address. Addresses of two protocols say which by a header.
    pub(crate) fn of(path: &str, has_anthropic_version: bool) -> Self {
        match path {
            "/v1/messages" | "/v1/messages/count_tokens" => Self::Anthropic,
            _ if has_anthropic_version => Self::Anthropic,
            _ if path.starts_with("/api/") => Self::Ollama,
            _ => Self::OpenAi,
        }
    }
}

impl Refusal {
    /// A refusal without a field.
    pub fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, code: Some(code), retry_after: None }
    }

    /// A refusal of a field of the body, with status 400.
    pub fn field(param: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::new(400, code, message) }
    }

    /// Sets the number of seconds after which to try again.
    pub fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// Anthropic's name for errors with this status.
    fn anthropic_kind(&self) -> &'static str {
        match self.status {
            413 => "request_too_large",
            503 | 529 => "overloaded_error",
            504 => "timeout_error",
            400..500 => self.kind(),
            _ => "api_error",
        }
    }

    /// OpenAI's name for errors with this status.
    fn kind(&self) -> &'static str {
        match self.status {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            400..500 => "invalid_request_error",
            _ => "server_error",
        }
    }

    /// The body of an answer, in OpenAI's format.
    pub fn body(&self) -> Value {
        self.body_in(ErrorShape::OpenAi)
    }

    /// The body of an answer in the format of a protocol.
    pub(crate) fn body_in(&self, shape: ErrorShape) -> Value {
        match shape {
            ErrorShape::OpenAi => json!({"error": {
                "message": self.message, "type": self.kind(), "param": self.param, "code": self.code,
            }}),
            ErrorShape::Anthropic => json!({"type": "error", "error": {
                "type": self.anthropic_kind(), "message": self.message, "param": self.param, "code": self.code,
            }}),
            ErrorShape::Ollama => json!({"error": self.message, "param": self.param, "code": self.code}),
        }
    }
}

/// A fault of the request has status 400, with the field if it is known; a fault of the server has status 500.
impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let message = match &error {
            // Requests cannot choose the markers.
            Error::NoReasoning => "this model does not think before it answers, or its chat template has none of the \
                                   known markers: leave the effort and the budget out"
                .into(),
            error => error.to_string(),
        };
        let (status, param, code) = match &error {
            Error::Schema(_) => (400, None, "invalid_json_schema"),
            Error::Regex(_) => (400, None, "invalid_regex"),
            Error::Tag(_) => (400, None, "invalid_structural_tag"),
            Error::Grammar(_) | Error::UnknownControl { .. } => (400, None, "invalid_grammar"),
            Error::Choice(_) => (400, None, "invalid_choice"),
            Error::OverBudget(_) => (400, None, "constraint_too_large"),
            Error::NoRoom(_) => (400, Some("max_tokens"), "no_room"),
            Error::PromptTooLong { .. } => (400, None, "context_length_exceeded"),
            Error::Chat(_) => (400, Some("messages"), "invalid_messages"),
            Error::NoChatTemplate => (400, Some("messages"), "no_chat_template"),
            Error::NoPrompt => (400, None, "no_prompt"),
            Error::NoReasoning => (400, Some("reasoning_effort"), "unsupported_field"),
            Error::Sampling(BadSampling::Range { name, .. }) => (400, Some(*name), "invalid_value"),
            Error::UnknownToken { .. } => (400, Some("logit_bias"), "invalid_value"),
            Error::StopString { .. } => (400, Some("stop"), "invalid_value"),
            Error::Parameter(_) | Error::Unused { .. } | Error::Apart { .. } | Error::EmptyWord => {
                (400, None, "invalid_value")
            }
            Error::TooShort(_) | Error::Read(_) => (400, Some("text"), "invalid_value"),
            error if error.is_of_request() => (400, None, "invalid_value"),
            _ => (500, None, "internal_error"),
        };
        Self { status, message, param: param.map(Into::into), code: Some(code), retry_after: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_those_that_clients_read() {
        let refusal = Refusal::field("stop[1]", "invalid_value", "a stop string is empty");
        let error = json!({
            "message": "a stop string is empty", "type": "invalid_request_error", "param": "stop[1]",
            "code": "invalid_value",
        });
        assert_eq!(refusal.body(), json!({"error": error}));
        let kinds = [(401, "authentication_error"), (404, "not_found_error"), (413, "invalid_request_error")];
        for (status, kind) in kinds.into_iter().chain([(429, "rate_limit_error"), (503, "server_error")]) {
            assert_eq!(Refusal::new(status, "x", "").body()["error"]["type"], kind);
        }
        for (status, kind) in [
            (400, "invalid_request_error"),
            (401, "authentication_error"),
            (403, "permission_error"),
            (404, "not_found_error"),
            (413, "request_too_large"),
            (422, "invalid_request_error"),
            (429, "rate_limit_error"),
            (500, "api_error"),
            (503, "overloaded_error"),
            (504, "timeout_error"),
        ] {
            let body = Refusal::new(status, "x", "y").body_in(ErrorShape::Anthropic);
            let error = json!({"type": kind, "message": "y", "param": null, "code": "x"});
            assert_eq!(body, json!({"type": "error", "error": error}));
        }
        assert_eq!(refusal.body_in(ErrorShape::Ollama)["error"], "a stop string is empty");
        for (path, version, shape) in [
            ("/v1/messages", false, ErrorShape::Anthropic),
            ("/v1/messages/count_tokens", false, ErrorShape::Anthropic),
            ("/v1/models", true, ErrorShape::Anthropic),
            ("/v1/models", false, ErrorShape::OpenAi),
            ("/api/chat", false, ErrorShape::Ollama),
            ("/api", false, ErrorShape::OpenAi),
        ] {
            assert_eq!(ErrorShape::of(path, version), shape, "{path}");
        }
    }

    #[test]
    fn the_fault_of_who_asks_is_no_fault_of_the_server() {
        let refusal = Refusal::from(Error::PromptTooLong { tokens: 9000, context: 8192 });
        assert_eq!((refusal.status, refusal.code), (400, Some("context_length_exceeded")));
        let contradiction = Error::Decode(verdigris::decoding::DecodeError::DeadEnd { position: 3 });
        for error in
            [contradiction, Error::EmptyClass("x".into()), Error::Nats { what: "entropy threshold", nats: -1.0 }]
        {
            let refusal = Refusal::from(error);
            assert_eq!((refusal.status, refusal.code), (400, Some("invalid_value")), "{}", refusal.message);
        }
        let broken = Error::Decode(verdigris::decoding::DecodeError::NotNumbers { position: 3 });
        for error in [broken, Error::NoHiddenStates] {
            assert_eq!(Refusal::from(error).status, 500);
        }
    }
}
