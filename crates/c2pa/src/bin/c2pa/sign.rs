//! `verdigris-c2pa sign`.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use verdigris_c2pa::{C2paError, Claim, Credentials, MAX_TEXT, Mark, Placement, beside, sign};

use crate::error::Failure;
use crate::files;

/// Sign a text: state who vouches for it, that a model wrote it, and which key marked it
#[derive(Args)]
#[command(after_help = "\
The manifest goes where the format of the text has room for it: into a comment of Markdown or code, into \
invisible characters at the end of other texts, and into FILE.c2pa next to JSON, CSV and HTML. --manifest \
chooses another location: text, sidecar, or a format by its file extension, such as md or py.

The text is signed byte for byte, including the last line end, and is written to standard output or to \
--output. Its words do not change, nor does a watermark in them. No time authority is contacted: the manifest \
has no trusted timestamp.

Exit status: 0 if the text is signed, 2 on an error.")]
pub(crate) struct Sign {
    /// The text; - reads it from standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// The signer's certificate and its chain up to the root, in PEM
    #[arg(long, value_name = "FILE")]
    certificate: PathBuf,
    /// The certificate's private key, as PKCS#8 in PEM
    #[arg(long, value_name = "FILE")]
    private_key: PathBuf,
    /// Where the manifest goes [default: by the name of FILE or --output]
    #[arg(long, value_name = "PLACE")]
    manifest: Option<String>,
    /// The id of the key that the text is marked with
    #[arg(long, value_name = "ID", requires = "scheme")]
    key_id: Option<String>,
    /// The dialect of that key, such as native
    #[arg(long, value_name = "NAME", requires = "key_id")]
    scheme: Option<String>,
    /// The model that wrote the text
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The later name of the text, if it is not FILE: it decides where the manifest goes
    #[arg(long, value_name = "NAME", conflicts_with = "manifest")]
    named: Option<PathBuf>,
    /// Write to this file, or to standard output for -; with a sidecar only the manifest [default: standard output, and
    /// FILE.c2pa]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Only check whether a text could be signed, and print where its manifest would go
    #[arg(long)]
    check: bool,
}

impl Sign {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let placement = match &self.manifest {
            Some(name) => Placement::from_name(name)?,
            None => self.placement(),
        };
        let output = self.output.as_deref().filter(|path| !files::is_stdin(path)).map(Path::to_owned);
        let output = match (placement, output) {
            (Placement::Sidecar, None) if self.output.is_none() => {
                if files::is_stdin(&self.file) && !self.check {
                    return Err(Failure::Usage(
                        "a sidecar of standard input has no name: give --output FILE.c2pa, or the text as a file"
                            .into(),
                    ));
                }
                Some(beside(&self.file))
            }
            (_, output) => output,
        };
        if let Some(output) = output.as_deref().filter(|_| !self.check) {
            // Reported before anything is read.
            files::check(output, self.force)?;
        } else if !self.check && std::io::stdout().is_terminal() {
            return Err(Failure::Usage(
                "a terminal loses the invisible characters of a signed text: give --output, or a pipe".into(),
            ));
        }
        let chain = files::pem(&self.certificate)?;
        let private_key = files::pem(&self.private_key)?;
        let credentials = Credentials::new(&chain, &private_key)?;
        let mark = self.scheme.zip(self.key_id).map(|(scheme, key_id)| Mark { scheme, key_id });
        let claim = Claim { model: self.model, mark };
        let mut out = std::io::stdout().lock();
        if self.check {
            sign("", placement, &credentials, &claim)?;
            writeln!(out, "{}", placement.name())?;
            return Ok(ExitCode::SUCCESS);
        }
        let text = files::text(&self.file, MAX_TEXT as u64)?;
        let signed = sign(&text, placement, &credentials, &claim).map_err(|error| match error {
            C2paError::Signed | C2paError::BareReturn => Failure::in_file(Path::new(&files::name(&self.file)))(error),
            error => error.into(),
        })?;
        let bytes = if placement == Placement::Sidecar { &signed.manifest } else { signed.text.as_bytes() };
        match output {
            Some(output) => files::write(&output, bytes, self.force, false)?,
            None => {
                out.write_all(bytes)?;
                out.flush()?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Decides where the manifest goes by the name of the text, or of the output file.
    fn placement(&self) -> Placement {
        let output = self.output.as_deref().filter(|path| !files::is_stdin(path));
        Placement::of_file(self.named.as_deref().or(output).unwrap_or(&self.file))
    }
}
