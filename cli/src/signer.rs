//! Signing texts with C2PA manifests, which a separate program does.

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use clap::{ArgGroup, Args};
use verdigris::Key;

use crate::error::Failure;
use crate::verify::PROGRAM;

/// The signer.
#[derive(Args)]
#[command(group = ArgGroup::new("c2pa_hand").args(["c2pa_key", "c2pa_sign_command"]))]
pub(crate) struct SignerOptions {
    /// Sign the output with this C2PA certificate: a chain in PEM, the signer's own first. Needs verdigris-c2pa, which
    /// `cargo build --release -p verdigris-c2pa` builds
    #[arg(long, value_name = "FILE", requires = "c2pa_hand")]
    c2pa_cert: Option<PathBuf>,
    /// The private key of the certificate, as PKCS#8 in PEM; only its path is passed on
    #[arg(long, value_name = "FILE", requires = "c2pa_cert")]
    c2pa_key: Option<PathBuf>,
    /// Instead of --c2pa-key: a command of the shell that writes the raw signature of its standard input, for keys that
    /// never leave their device
    #[arg(long, value_name = "COMMAND", requires = "c2pa_cert")]
    c2pa_sign_command: Option<String>,
    /// The address of a time-stamping authority (RFC 3161), which states the time of each signature
    #[arg(long, value_name = "URL", requires = "c2pa_cert")]
    c2pa_timestamp: Option<String>,
    /// Refuse to sign without a time stamp
    #[arg(long, requires = "c2pa_cert")]
    c2pa_require_timestamp: bool,
}

/// A signer, and the parts of manifests that all texts share.
#[derive(Clone, Debug)]
pub(crate) struct Signer {
    certificate: PathBuf,
    /// The private key, or a command that signs.
    private_key: Option<PathBuf>,
    sign_command: Option<String>,
    timestamp_url: Option<String>,
    /// The expected size of a time stamp in bytes.
    timestamp_size: Option<String>,
    model: String,
    /// The location of the manifest.
    place: String,
    /// The scheme and the id of the key.
    mark: Option<(String, String)>,
    /// The number of the mark, if it identifies the manifest.
    payload: Option<u32>,
    /// Whether signed texts come with their manifest by itself.
    keeps_stores: bool,
}

/// A signed text.
pub(crate) struct Signed {
    /// The text with its manifest; if that is a sidecar, the manifest alone.
    pub(crate) output: Vec<u8>,
    /// The manifest store by itself, if it is kept.
    pub(crate) store: Option<Vec<u8>>,
}

impl SignerOptions {
    /// Whether texts are to be signed.
    #[cfg(feature = "serve")]
    pub(crate) fn is_given(&self) -> bool {
        self.c2pa_cert.is_some()
    }

    /// Whether signatures get a time stamp.
    #[cfg(feature = "serve")]
    pub(crate) fn is_stamped(&self) -> bool {
        self.c2pa_timestamp.is_some()
    }

    /// Creates the signer, if texts are to be signed.
    pub(crate) fn signer(&self, model: String) -> Result<Option<Signer>, Failure> {
        let Some(certificate) = self.c2pa_cert.clone() else { return Ok(None) };
        if self.c2pa_require_timestamp && self.c2pa_timestamp.is_none() {
            let why = "--c2pa-require-timestamp needs a time-stamping authority: give --c2pa-timestamp";
            return Err(Failure::Usage(why.into()));
        }
        Ok(Some(Signer {
            certificate,
            private_key: self.c2pa_key.clone(),
            sign_command: self.c2pa_sign_command.clone(),
            timestamp_url: self.c2pa_timestamp.clone(),
            timestamp_size: None,
            model,
            place: String::new(),
            mark: None,
            payload: None,
            keeps_stores: false,
        }))
    }
}

impl Signed {
    /// The output as text, and the store.
    pub(crate) fn into_text(self) -> Result<(String, Option<Vec<u8>>), Failure> {
        let text = String::from_utf8(self.output);
        let text = text.map_err(|_| Failure::Usage(format!("{} did not write text", PROGRAM.name)))?;
        Ok((text, self.store))
    }
}

impl Signer {
    /// The warning about signatures without a time stamp, if they have none.
    pub(crate) fn warning(&self) -> Option<&'static str> {
        let said = "the signatures have no time stamp, which the EU's code of practice (measure 1.1.1) asks for: give \
                    --c2pa-timestamp";
        self.timestamp_url.is_none().then_some(said)
    }

    /// Checks that texts can be signed before one is written, and returns the kind of location of their manifests:
    /// `text`, `structured` or `sidecar`. `options` choose it.
    pub(crate) fn check(&mut self, options: &[&OsStr]) -> Result<String, Failure> {
        let mut command = self.command();
        command.arg("--check").args(options);
        let found = checked(run(&mut command, b"")?)?;
        let found = String::from_utf8_lossy(&found);
        let mut found = found.split_whitespace().map(str::to_owned);
        let kind = found.next().unwrap_or_default();
        // Its length is known then, and need not be found out for each text.
        self.timestamp_size = found.next();
        Ok(kind)
    }

    /// Sets the location of manifests, by the name that `check` accepted.
    pub(crate) fn set_place(&mut self, place: String) {
        self.place = place;
    }

    /// Sets the key that texts are marked with, and the number that their marks carry if it identifies the manifest.
    pub(crate) fn marked(self, key: Option<&Key>, payload: Option<u32>) -> Self {
        Self { mark: key.map(|key| (key.dialect().name().to_owned(), key.id().to_owned())), payload, ..self }
    }

    /// Keeps the manifest of each text by itself.
    pub(crate) fn keeping_stores(self, keeps_stores: bool) -> Self {
        Self { keeps_stores, ..self }
    }

    /// Signs a text.
    pub(crate) fn sign(&self, text: &str) -> Result<Signed, Failure> {
        let mark = self.mark.as_ref().map(|(scheme, id)| (&**scheme, &**id));
        self.sign_marked(&self.model, text, mark)
    }

    /// The same for a text of a model that is marked with the key of this scheme and id.
    pub(crate) fn sign_marked(&self, model: &str, text: &str, mark: Option<(&str, &str)>) -> Result<Signed, Failure> {
        let mut command = self.command();
        // Names are in one argument, since one may begin with a dash.
        command.args(["--manifest", &self.place]).arg(format!("--model={model}")).args(["--output", "-"]);
        if let Some((scheme, id)) = mark {
            command.args(["--scheme", scheme]).arg(format!("--key-id={id}"));
            command.args(self.payload.map(|payload| format!("--payload={payload}")));
        }
        if !self.keeps_stores {
            return Ok(Signed { output: checked(run(&mut command, text.as_bytes())?)?, store: None });
        }
        // The program may write only whole files, under names that are free.
        let folder = tempfile::tempdir()?;
        let store = folder.path().join("store");
        let output = checked(run(command.arg("--store").arg(&store), text.as_bytes())?)?;
        let read = std::fs::read(&store).map_err(|source| Failure::Open { path: store, source })?;
        Ok(Signed { output, store: Some(read) })
    }

    fn command(&self) -> Command {
        let mut command = PROGRAM.command();
        command.args(["sign", "-", "--certificate"]).arg(&self.certificate);
        if let Some(key) = &self.private_key {
            command.arg("--private-key").arg(key);
        }
        for (option, value) in [
            ("--sign-command", &self.sign_command),
            ("--timestamp-url", &self.timestamp_url),
            ("--timestamp-size", &self.timestamp_size),
        ] {
            // In one argument, since a value may begin with a dash.
            command.args(value.iter().map(|value| format!("{option}={value}")));
        }
        command
    }
}

/// Runs a command with `input` on its standard input.
fn run(command: &mut Command, input: &[u8]) -> Result<Output, Failure> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|source| PROGRAM.not_started(command, &source))?;
    let mut stdin = child.stdin.take().expect("it is piped");
    std::thread::scope(|scope| {
        // The program may end without reading all of it, and reports the reason itself.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().map_err(|source| PROGRAM.not_started(command, &source))
    })
}

/// The output of a command, or its error.
fn checked(output: Output) -> Result<Vec<u8>, Failure> {
    if output.status.success() {
        return Ok(output.stdout);
    }
    let why = String::from_utf8_lossy(&output.stderr);
    let why = why.trim().strip_prefix("error: ").unwrap_or(why.trim());
    Err(Failure::Usage(match why.is_empty() {
        true => format!("{} was stopped: {}", PROGRAM.name, output.status),
        false => crate::terminal::shown(why).into_owned(),
    }))
}
