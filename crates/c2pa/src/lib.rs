//! C2PA manifests beside the mark: what signs a text and says of its watermark, and what judges both, each for itself.
//!
//! A mark is in the words and says nothing of who wrote them; a manifest is beside them, says who signed, and is lost
//! with the first program that does not know it. Neither stands for the other, so there are two verdicts and no score
//! of both.
//!
//! | module | holds |
//! |---|---|
//! | `form` | where a manifest stands: in invisible characters (A.8), in a comment or front matter (A.9), or beside |
//! | `claim` | what a manifest says of a text and its watermark |
//! | `credentials` | a certificate and its key, which fit each other |
//! | `certificate` | a certificate for trying it out, which nobody trusts |
//! | `sign` | a text, a claim and credentials become a signed text |
//! | `locate` | where a text has its manifest |
//! | `binding` | whether a manifest is of this text: the hard binding |
//! | `judge` | what a manifest is worth |
//!
//! The manifest store, its signature and its rules are the crate `c2pa`'s, the two ways to put it into a text those of
//! `c2pa-unstructured-text` and `c2pa-structured-text`. Nothing here reads from a network.
#![forbid(unsafe_code)]

mod binding;
mod certificate;
mod claim;
mod credentials;
mod error;
mod form;
mod judge;
mod locate;
mod sign;

pub use certificate::Development;
pub use claim::{Claim, Mark, NamedMark};
pub use credentials::Credentials;
pub use error::C2paError;
pub use form::{Comments, Form, MAX_MANIFEST, MAX_TEXT};
pub use judge::{Anchors, ManifestVerdict, Validity, judge};
pub use locate::{Located, Place, Unlocated, beside, locate};
pub use sign::{Signed, sign};
