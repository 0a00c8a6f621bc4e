//! The public key that verifies the server's signed reports.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::Value;
use verdigris::detector::report::PublicKeys;

use crate::protocol::Refusal;
use crate::service::Service;

/// The address, which requires no API key: anyone who has a report may check it.
pub(super) const PATH: &str = "/.well-known/jwks.json";

/// The public key as a JWK set.
pub(super) async fn jwks(State(service): State<Arc<Service>>) -> Result<Json<Value>, Refusal> {
    match &service.options.reporter {
        Some(reporter) => Ok(Json(PublicKeys::from(reporter.public_key()).jwks())),
        None => Err(Refusal::new(404, "no_report_key", "this server signs no reports: start it with --report-key")),
    }
}
