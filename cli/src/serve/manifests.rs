//! Options for the C2PA manifests of answers.

use std::ffi::OsStr;

use clap::Args;

use crate::error::Failure;
use crate::signer::{Signer, SignerOptions};

/// The location of manifests: answers return them next to their texts.
const PLACE: &str = "sidecar";

#[derive(Args)]
pub(crate) struct ServeManifestOptions {
    #[command(flatten)]
    pub(crate) signer: SignerOptions,
    /// Refuse texts that could not be signed, and requests that do not want them signed
    #[arg(long, requires = "c2pa_cert")]
    pub(super) c2pa_require: bool,
}

impl ServeManifestOptions {
    /// The signer, if answers are to be signed. It has been checked.
    pub(super) fn signer(&self) -> Result<Option<Signer>, Failure> {
        // Each text comes with the name of its model.
        let Some(mut signer) = self.signer.signer(String::new())? else { return Ok(None) };
        signer.check(&[OsStr::new("--manifest"), OsStr::new(PLACE)])?;
        signer.set_place(PLACE.into());
        Ok(Some(signer))
    }
}

impl verdigris_server::Signer for Signer {
    fn sign(&self, model: &str, text: &str, mark: Option<(&str, &str)>) -> Result<Vec<u8>, String> {
        self.sign_marked(model, text, mark).map(|signed| signed.output).map_err(|failure| failure.to_string())
    }
}
