//! Signed reports on detection: which text a detector judged, when, by which keys, and the verdict.
//!
//! A report is a JSON Web Signature (RFC 7515) in the flattened JSON serialization, signed with Ed25519 (RFC 8037), so
//! any JOSE library verifies it. It contains a hash of the text but never the text, and no secret.
//!
//! | module | contents |
//! |---|---|
//! | `content` | the hash of a text |
//! | `payload` | the contents of a report |
//! | `detector_url` | the address of a detector |
//! | `report_key` | the private key that signs |
//! | `public_key` | public keys: PEM, JWK, thumbprints |
//! | `signed` | signing and verifying |
//! | `reporter` | a detector that signs reports |
//! | `error` | errors |

mod content;
mod detector_url;
mod error;
mod payload;
mod public_key;
mod report_key;
mod reporter;
mod signed;

pub use self::content::{Content, Hashing};
pub use self::detector_url::{BadDetectorUrl, DetectorUrl};
pub use self::error::{BadReportKey, ReportError, ReportKeyError};
pub use self::payload::{DetectorName, FORMAT, MAX_REPORT, Report, Tested, TestedKey, TestedReading};
pub use self::public_key::{PublicKey, PublicKeys};
pub use self::report_key::ReportKey;
pub use self::reporter::Reporter;
pub use self::signed::{SignedReport, VerifiedReport};
