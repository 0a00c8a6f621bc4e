//! Signs answers on other threads, so that the model does not wait for a signature or a time-stamping authority.

use std::ffi::OsStr;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;

use clap::Args;
use verdigris::Written;
use verdigris::label::LabelMetadata;

use super::prompts::BatchPrompt;
use crate::error::Failure;
use crate::signer::{Signed, Signer, SignerOptions};

/// The number of answers that are signed at the same time.
const AT_A_TIME: usize = 4;
/// The number of answers that may wait for it. Answers that wait are lost if the program is killed.
const WAITING: usize = 16;

/// The signer of answers, and the location of their manifests.
#[derive(Args)]
pub(super) struct BatchManifestOptions {
    #[command(flatten)]
    signer: SignerOptions,
    /// The location of the manifest in a signed answer: text (invisible characters at the end), or the comments of a
    /// format, such as md or py
    #[arg(long, value_name = "LOCATION", requires = "c2pa_cert", default_value = "text")]
    c2pa_manifest: String,
}

impl BatchManifestOptions {
    /// The signer, if answers are to be signed. It has been checked.
    pub(super) fn signer(&self, model: String) -> Result<Option<Signer>, Failure> {
        let Some(mut signer) = self.signer.signer(model)? else { return Ok(None) };
        if signer.check(&[OsStr::new("--manifest"), self.c2pa_manifest.as_ref()])? == "sidecar" {
            let why =
                "answers are lines of one file, which has no sidecars: give another --c2pa-manifest, such as text";
            return Err(Failure::Usage(why.into()));
        }
        signer.set_place(self.c2pa_manifest.clone());
        Ok(Some(signer))
    }
}

/// A text with its manifest, and that by itself if it is kept; or the reason why it could not be signed.
pub(super) type Signature = Result<(String, Option<Vec<u8>>), String>;

/// An answer to a prompt.
pub(super) struct Answer {
    pub(super) asked: BatchPrompt,
    /// Its id outside the file.
    pub(super) id: String,
    /// The text as it is delivered, with its label.
    pub(super) written: Written,
    /// The metadata of the label.
    pub(super) label: Option<LabelMetadata>,
}

/// An answer whose text has been signed, or could not be.
pub(super) struct SignedAnswer {
    pub(super) answer: Answer,
    pub(super) signed: Signature,
}

/// Threads that sign.
pub(super) struct Signing {
    waiting: SyncSender<Answer>,
    signed: Receiver<SignedAnswer>,
}

impl Signing {
    /// Starts the threads, which end when this is dropped.
    pub(super) fn start<'scope>(signer: &'scope Signer, scope: &'scope Scope<'scope, '_>) -> Self {
        let (waiting, next) = sync_channel::<Answer>(WAITING);
        let (done, signed) = channel();
        let next = Arc::new(Mutex::new(next));
        for _ in 0..AT_A_TIME {
            let (next, done) = (next.clone(), done.clone());
            scope.spawn(move || {
                loop {
                    let answer = next.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(answer) = answer else { return };
                    let signed = signer
                        .sign(&answer.written.text)
                        .and_then(Signed::into_text)
                        .map_err(|failure| failure.to_string());
                    if done.send(SignedAnswer { answer, signed }).is_err() {
                        return;
                    }
                }
            });
        }
        Self { waiting, signed }
    }

    /// Has an answer signed, and passes on those that are.
    pub(super) fn sign(
        &mut self,
        answer: Answer,
        keep: impl FnMut(SignedAnswer) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.waiting.send(answer).expect("the threads run until this is dropped");
        self.signed.try_iter().try_for_each(keep)
    }

    /// Passes on all answers that have been given to it.
    pub(super) fn finish(self, keep: impl FnMut(SignedAnswer) -> Result<(), Failure>) -> Result<(), Failure> {
        drop(self.waiting);
        self.signed.into_iter().try_for_each(keep)
    }
}
