//! The options of a server, and the drafting and signing of its texts.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use verdigris::detector::report::Reporter;
use verdigris::schedule::Capacity;
use verdigris::{KeyRing, Level, Request};

use crate::access::ApiKeys;
use crate::ledger::Ledger;
use crate::limits::Limits;
use crate::origin::Origin;

/// The options of a server.
#[derive(Debug)]
pub struct Options {
    /// The address to listen at.
    pub address: SocketAddr,
    /// The API keys; without any, anyone who can reach the address may use the server.
    pub api_keys: ApiKeys,
    /// Keys by tenant (the names of API keys) and period. The ring is read again on SIGHUP.
    pub ring: Option<KeyRing>,
    /// The audit log, with a line for every answer.
    pub audit_log: Option<PathBuf>,
    /// The record of texts, with an entry for every text.
    pub ledger: Option<Box<dyn Ledger>>,
    /// The host names that the server answers to, in addition to those of this machine. If there are none, it answers
    /// to all names, except at a loopback address.
    pub allowed_hosts: Vec<String>,
    /// The pages of other sites that may use the server from a browser.
    pub cors: Vec<Origin>,
    /// Whether fields of requests that are not known are refused, not ignored and reported.
    pub strict: bool,
    /// Whether API keys may be missing at an address that other machines can reach.
    pub allow_anyone: bool,
    /// The maximum weight that a request may give the experts; `None` if it may not set the weight.
    pub max_alpha: Option<f64>,
    /// Whether requests that do not want a mark are refused.
    pub enforce_all: bool,
    /// Whether texts are refused if they should be marked and a detector could not verify the mark.
    pub refuses_unmarkable: bool,
    /// The p-value at which a text of an answer is called watermarked.
    pub mark_level: Level,
    /// Whether marks in the messages and prompts of a request are looked for and reported.
    pub reports_input_marks: bool,
    /// Signs reports on detection; without it, requests for reports are refused.
    pub reporter: Option<Reporter>,
    /// The signer of texts.
    pub signer: Option<Arc<dyn Signer>>,
    /// Whether texts are refused if they could not be signed, and so are requests that do not want it.
    pub requires_manifests: bool,
    /// The maximum number of tokens of an answer.
    pub max_tokens: usize,
    /// The capacity for the texts of a model that are written at the same time.
    pub capacity: Capacity,
    /// Whether tenants share cached prompts and constraints. Then each can find out how the others' prompts begin, and
    /// whether they use a constraint.
    pub share_caches: bool,
    /// The folder for the states of common beginnings of prompts.
    pub prefix_store: Option<PrefixStoreOptions>,
    /// The maximum number of requests that run or wait at the same time; further ones are refused with status 429.
    pub max_requests: usize,
    /// The maximum number of bytes of a body.
    pub max_body: usize,
    /// Further limits of a request.
    pub limits: Limits,
    /// The time that running requests may take to end at shutdown.
    pub drain: Duration,
}

/// A folder for the states of instructions at the beginnings of chats, and of what prompts have in common.
#[derive(Clone, Debug)]
pub struct PrefixStoreOptions {
    /// The folder; it is created if it does not exist.
    pub folder: PathBuf,
    /// The maximum number of bytes of its files.
    pub bytes: u64,
}

/// The drafting of all texts, chosen by the operator: none with `()`, or by the options of a program.
pub trait Drafts: Send + Sync {
    /// Adds drafts to a request. A text with a given seed must be the same each time.
    fn onto<'r>(&'r self, request: Request<'r>, seed: Option<u64>) -> Request<'r>;
}

/// Signs texts with C2PA manifests, with the operator's certificate.
pub trait Signer: fmt::Debug + Send + Sync {
    /// Returns the manifest store of a text, which is bound to all of its bytes and is not part of it. `model` is the
    /// name of the model that wrote it, and `mark` the scheme and the id of the key that it is marked with.
    ///
    /// # Errors
    /// The reason why there is none, in one line for the log.
    fn sign(&self, model: &str, text: &str, mark: Option<(&str, &str)>) -> Result<Vec<u8>, String>;
}

impl Drafts for () {
    fn onto<'r>(&'r self, request: Request<'r>, _seed: Option<u64>) -> Request<'r> {
        request
    }
}
