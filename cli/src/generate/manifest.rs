//! Options for C2PA manifests of the output, which a separate program signs.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use clap::Args;
use verdigris::Key;

use crate::error::Failure;
use crate::output::OutputFile;
use crate::verify::PROGRAM;

/// The signer, and the location of the manifest.
#[derive(Args)]
pub(super) struct ManifestOptions {
    /// Sign the output with this C2PA certificate: a chain in PEM, the signer's own first. Needs verdigris-c2pa, which
    /// `cargo build --release -p verdigris-c2pa` builds
    #[arg(long, value_name = "FILE", requires = "c2pa_key")]
    c2pa_cert: Option<PathBuf>,
    /// The private key of the certificate, as PKCS#8 in PEM; only its path is passed on
    #[arg(long, value_name = "FILE", requires = "c2pa_cert")]
    c2pa_key: Option<PathBuf>,
    /// The location of the manifest: text (invisible characters at the end), sidecar (FILE.c2pa next to --output), or
    /// the comments of a format, such as md or py [default: by the name of --output, or else text]
    #[arg(long, value_name = "LOCATION", requires = "c2pa_cert")]
    c2pa_manifest: Option<String>,
}

/// A signer that has been checked.
#[derive(Default)]
pub(super) struct Manifests {
    certificate: PathBuf,
    private_key: PathBuf,
    place: String,
    /// The file of a manifest that is not part of the text.
    sidecar: Option<OutputFile>,
    is_sidecar: bool,
    /// The contents of that file.
    beside: Cell<Vec<u8>>,
    model: String,
    /// The scheme and the id of the key.
    mark: Option<(String, String)>,
    /// Whether a text could not be signed.
    failed: Cell<bool>,
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
        let Some((certificate, private_key)) = self.c2pa_cert.clone().zip(self.c2pa_key.clone()) else {
            return Ok(None);
        };
        if texts.is_some_and(|texts| texts > 1) && !json {
            return Err(Failure::Usage(
                "a manifest covers one text: with --texts give --json, which signs each of them".into(),
            ));
        }
        let mut manifests = Manifests { certificate, private_key, model, ..Manifests::default() };
        let mut command = manifests.command();
        command.arg("--check");
        match (&self.c2pa_manifest, output) {
            (Some(place), _) => command.arg("--manifest").arg(place),
            (None, Some(output)) if !json => command.arg("--named").arg(output),
            (None, _) => command.args(["--manifest", "text"]),
        };
        let found = said(run(command, b"")?)?;
        manifests.is_sidecar = found.trim() == "sidecar";
        manifests.place = match &self.c2pa_manifest {
            Some(place) => place.clone(),
            None => match found.trim() {
                // The extension is the format.
                "structured" => {
                    output.and_then(Path::extension).map(|end| end.to_string_lossy().into_owned()).unwrap_or_default()
                }
                place => place.to_owned(),
            },
        };
        match output {
            Some(output) if manifests.is_sidecar && !json => {
                let mut name = output.as_os_str().to_owned();
                name.push(".c2pa");
                manifests.sidecar = Some(OutputFile::new(Path::new(&name), force, inputs)?);
            }
            _ if manifests.is_sidecar => {
                return Err(Failure::Usage("a sidecar needs a file next to it: give --output, and no --json".into()));
            }
            None if !json && std::io::stdout().is_terminal() => {
                return Err(Failure::Usage(
                    "a terminal loses the invisible characters of a signed text: give --output, or a pipe".into(),
                ));
            }
            _ => {}
        }
        Ok(Some(manifests))
    }
}

impl Manifests {
    /// Sets the key that texts are marked with.
    pub(super) fn marked(self, key: Option<&Key>) -> Self {
        Self { mark: key.map(|key| (key.dialect().name().to_owned(), key.id().to_owned())), ..self }
    }

    /// Signs a text, and returns what to print instead.
    pub(super) fn sign(&self, text: &str) -> Result<String, Failure> {
        let mut command = self.command();
        command.args(["--manifest", &self.place, "--model", &self.model, "--output", "-"]);
        if let Some((scheme, id)) = &self.mark {
            command.args(["--scheme", scheme, "--key-id", id]);
        }
        let signed = run(command, text.as_bytes()).and_then(|output| match self.is_sidecar {
            true => {
                self.beside.set(checked(output)?);
                Ok(text.to_owned())
            }
            false => said(output),
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

    fn command(&self) -> Command {
        let mut command = PROGRAM.command();
        command.args(["sign", "-", "--certificate"]).arg(&self.certificate);
        command.arg("--private-key").arg(&self.private_key);
        command
    }
}

/// Runs a command with `input` on its standard input.
fn run(mut command: Command, input: &[u8]) -> Result<Output, Failure> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|source| PROGRAM.not_started(&command, &source))?;
    let mut stdin = child.stdin.take().expect("it is piped");
    std::thread::scope(|scope| {
        // The program may end without reading all of it, and reports the reason itself.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().map_err(|source| PROGRAM.not_started(&command, &source))
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

fn said(output: Output) -> Result<String, Failure> {
    String::from_utf8(checked(output)?).map_err(|_| Failure::Usage(format!("{} did not write text", PROGRAM.name)))
}
