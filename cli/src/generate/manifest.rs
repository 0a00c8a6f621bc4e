//! The C2PA manifests of the output.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::Path;

use clap::Args;
use verdigris::Key;

use crate::error::Failure;
use crate::output::OutputFile;
use crate::signer::{Signer, SignerOptions};

/// The signer, and the location of the manifest.
#[derive(Args)]
pub(super) struct ManifestOptions {
    #[command(flatten)]
    signer: SignerOptions,
    /// The location of the manifest: text (invisible characters at the end), sidecar (FILE.c2pa next to --output), or
    /// the comments of a format, such as md or py [default: by the name of --output, or else text]
    #[arg(long, value_name = "LOCATION", requires = "c2pa_cert")]
    c2pa_manifest: Option<String>,
}

/// A signer that has been checked.
pub(super) struct Manifests {
    signer: Signer,
    /// The file of a manifest that is not part of the text.
    sidecar: Option<OutputFile>,
    is_sidecar: bool,
    /// The contents of that file.
    beside: Cell<Vec<u8>>,
    /// Whether a text could not be signed.
    failed: Cell<bool>,
    /// The manifest of the last text, if it is kept.
    store: Cell<Option<Vec<u8>>>,
}

impl ManifestOptions {
    /// Checks that texts can be signed before one is written. `inputs` are files that must not be written to.
    pub(super) fn manifests(
        &self,
        output: Option<&Path>,
        force: bool,
        json: bool,
        texts: Option<u16>,
        model: String,
        inputs: &[&Path],
    ) -> Result<Option<Manifests>, Failure> {
        let Some(mut signer) = self.signer.signer(model)? else { return Ok(None) };
        if texts.is_some_and(|texts| texts > 1) && !json {
            return Err(Failure::Usage(
                "a manifest covers one text: with --texts give --json, which signs each of them".into(),
            ));
        }
        let [manifest, named] = ["--manifest", "--named"].map(OsStr::new);
        let found = signer.check(&match (&self.c2pa_manifest, output) {
            (Some(place), _) => [manifest, place.as_ref()],
            (None, Some(output)) if !json => [named, output.as_ref()],
            (None, _) => [manifest, "text".as_ref()],
        })?;
        let is_sidecar = found == "sidecar";
        signer.set_place(match &self.c2pa_manifest {
            Some(place) => place.clone(),
            // The extension is the format.
            None if found == "structured" => {
                output.and_then(Path::extension).map(|end| end.to_string_lossy().into_owned()).unwrap_or_default()
            }
            None => found,
        });
        let mut sidecar = None;
        match output {
            Some(output) if is_sidecar && !json => {
                let mut name = output.as_os_str().to_owned();
                name.push(".c2pa");
                sidecar = Some(OutputFile::new(Path::new(&name), force, inputs)?);
            }
            _ if is_sidecar => {
                return Err(Failure::Usage("a sidecar needs a file next to it: give --output, and no --json".into()));
            }
            None if !json && std::io::stdout().is_terminal() => {
                return Err(Failure::Usage(
                    "a terminal loses the invisible characters of a signed text: give --output, or a pipe".into(),
                ));
            }
            _ => {}
        }
        Ok(Some(Manifests {
            signer,
            sidecar,
            is_sidecar,
            beside: Cell::default(),
            failed: Cell::default(),
            store: Cell::default(),
        }))
    }
}

impl Manifests {
    /// Sets the key that texts are marked with, and the number that their marks carry if it identifies the manifest.
    pub(super) fn marked(self, key: Option<&Key>, payload: Option<u32>) -> Self {
        Self { signer: self.signer.marked(key, payload), ..self }
    }

    /// Warns if the signatures lack something that they should have.
    pub(super) fn warn(&self) {
        self.signer.warning().into_iter().for_each(|said| crate::terminal::headed("warning", said));
    }

    /// Keeps the manifest of each text for [`Self::store`].
    pub(super) fn keeping_stores(self, keeps_stores: bool) -> Self {
        Self { signer: self.signer.keeping_stores(keeps_stores), ..self }
    }

    /// The manifest of the text that was signed last.
    pub(super) fn store(&self) -> Option<Vec<u8>> {
        self.store.take()
    }

    /// Signs a text, and returns what to print instead.
    pub(super) fn sign(&self, text: &str) -> Result<String, Failure> {
        let signed = self.signer.sign(text).and_then(|signed| {
            let (text, store) = match self.is_sidecar {
                true => {
                    self.beside.set(signed.output);
                    (text.to_owned(), signed.store)
                }
                false => signed.into_text()?,
            };
            self.store.set(store);
            Ok(text)
        });
        self.failed.set(self.failed.get() || signed.is_err());
        signed
    }

    /// Writes the sidecar after the text. Fails if a text could not be signed.
    pub(super) fn finish(self) -> Result<(), Failure> {
        if let Some(sidecar) = self.sidecar {
            let manifest = self.beside.take();
            sidecar.write(|out| out.write_all(&manifest))?;
        }
        match self.failed.get() {
            true => Err(Failure::Usage("not all texts could be signed: c2pa_error says why".into())),
            false => Ok(()),
        }
    }
}
