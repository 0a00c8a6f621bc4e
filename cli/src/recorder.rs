//! Records the texts that a command writes in a ledger.

use std::path::{Path, PathBuf};

use clap::Args;
use verdigris::Key;

use crate::error::Failure;

#[derive(Args)]
pub(crate) struct LedgerOption {
    /// Record each text in this ledger, which is created if it does not exist: a fingerprint, the key and the time,
    /// never the text. `verdigris ledger find` looks texts up
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
}

impl LedgerOption {
    /// The file of the ledger.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.ledger.as_deref()
    }

    /// Opens the ledger, if one is given.
    pub(crate) fn recorder(&self) -> Result<Option<Recorder>, Failure> {
        self.ledger.as_deref().map(Recorder::open).transpose()
    }
}

/// A text that was written.
#[cfg_attr(not(feature = "ledger"), allow(dead_code, reason = "without the feature, nothing is recorded"))]
pub(crate) struct Delivered<'a> {
    /// The id of the answer, and the number of the text in it.
    pub(crate) id: &'a str,
    pub(crate) part: usize,
    pub(crate) text: &'a str,
    /// The key that marks it.
    pub(crate) key: Option<&'a Key>,
    /// The number that its mark carries.
    pub(crate) payload: Option<u32>,
    /// Its C2PA manifest store.
    pub(crate) manifest: Option<&'a [u8]>,
}

/// The number of random payloads that are tried.
#[cfg(feature = "ledger")]
const TRIES: usize = 1000;

/// An open ledger.
#[cfg(feature = "ledger")]
pub(crate) struct Recorder(std::cell::RefCell<verdigris_ledger::Ledger>);

#[cfg(feature = "ledger")]
impl Recorder {
    fn open(path: &Path) -> Result<Self, Failure> {
        Ok(Self(verdigris_ledger::Ledger::create(path)?.into()))
    }

    /// Records a text. If it is recorded already, its manifest is added.
    pub(crate) fn record(&self, delivered: &Delivered<'_>) -> Result<(), Failure> {
        let Delivered { id, part, text, key, payload, manifest } = *delivered;
        let fingerprint = verdigris_ledger::Fingerprint::of(text);
        let entry = verdigris_ledger::NewEntry {
            part: u32::try_from(part).unwrap_or(u32::MAX),
            tenant: key.map_or("", Key::tenant),
            key_id: key.map(Key::id),
            payload,
            manifest,
            ..verdigris_ledger::NewEntry::new(id, &fingerprint)
        };
        Ok(self.0.borrow_mut().add(&entry)?)
    }

    /// A number that no entry of a key has.
    pub(crate) fn new_payload(&self, key: &Key) -> Result<u32, Failure> {
        let Some(bits) = key.payload_bits() else {
            return Err(verdigris::watermark::KeyError::Payload { id: key.id().into(), carries: false }.into());
        };
        for _ in 0..TRIES {
            let mut random = [0; 4];
            getrandom::fill(&mut random)
                .map_err(|error| Failure::Usage(format!("the operating system gives no random bytes: {error}")))?;
            let payload = u32::from_le_bytes(random) >> (32 - u32::from(bits));
            if self.0.borrow().carrying(key.id(), payload, None)?.is_empty() {
                return Ok(payload);
            }
        }
        Err(Failure::Usage(format!(
            "nearly all numbers of {bits} bits are taken in the ledger: make a key with more --payload-bits"
        )))
    }
}

/// This program cannot open ledgers.
#[cfg(not(feature = "ledger"))]
pub(crate) enum Recorder {}

#[cfg(not(feature = "ledger"))]
impl Recorder {
    fn open(_: &Path) -> Result<Self, Failure> {
        let message = "--ledger is not part of this program: build it with `--features ledger`";
        Err(Failure::Usage(message.into()))
    }

    pub(crate) fn record(&self, _: &Delivered<'_>) -> Result<(), Failure> {
        match *self {}
    }

    pub(crate) fn new_payload(&self, _: &Key) -> Result<u32, Failure> {
        match *self {}
    }
}
