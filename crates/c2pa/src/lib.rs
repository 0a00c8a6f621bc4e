//! C2PA manifests in addition to the mark: signs texts with claims about their watermark, and judges manifests.
//!
//! A mark is in the words but does not say who wrote them. A manifest is attached to the text and says who signed it,
//! but is lost in the first program that does not support it. Neither replaces the other, so there are two verdicts and
//! no combined score.
//!
//! | module | contents |
//! |---|---|
//! | `placement` | where a manifest goes: invisible characters (A.8), a comment or front matter (A.9), or a sidecar |
//! | `limits` | the maximum sizes of texts and manifests |
//! | `claim` | the claims of a manifest about a text and its watermark |
//! | `credentials` | a certificate, the key or command that signs for it, and its time authority |
//! | `command` | a command that signs, for keys that never leave their device |
//! | `authority` | time-stamping authorities (RFC 3161) |
//! | `certificate` | an untrusted certificate for trying it out |
//! | `sign` | signing a text |
//! | `locate` | finding the manifest of a text |
//! | `binding` | checking that a manifest belongs to this text: the hard binding |
//! | `timestamp` | judging the time stamp of a signature |
//! | `trust` | the roots that a reader trusts |
//! | `judge` | judging a manifest |
//!
//! The crate `c2pa` handles the manifest store, its signature and its rules, and `c2pa-unstructured-text` and
//! `c2pa-structured-text` the two ways to put it into a text. Only `authority` reads from a
//! network.
#![forbid(unsafe_code)]

mod authority;
mod binding;
mod certificate;
mod claim;
mod command;
mod credentials;
mod error;
mod judge;
mod limits;
mod locate;
mod placement;
mod sign;
mod timestamp;
mod trust;

pub use authority::TimeAuthority;
pub use certificate::Development;
pub use claim::{Claim, Mark, NamedMark};
pub use command::SignCommand;
pub use credentials::Credentials;
pub use error::C2paError;
pub use judge::{ManifestVerdict, Validity, judge};
pub use limits::{MAX_MANIFEST, MAX_TEXT};
pub use locate::{Located, ManifestLocation, Unlocated, beside, locate};
pub use placement::{Comments, Placement};
pub use sign::{Signed, sign};
pub use timestamp::{TimestampValidity, TimestampVerdict};
pub use trust::{Anchors, Trust};
