//! `verdigris-c2pa sign`.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use verdigris_c2pa::{
    C2paError, Claim, Credentials, MAX_TEXT, Mark, Placement, SignCommand, TimeAuthority, beside, sign,
};

use crate::error::Failure;
use crate::files;

/// The warning about signatures without a time stamp.
const NO_TIMESTAMP: &str = "the signature has no time stamp, which the EU's code of practice (measure 1.1.1) asks for";

/// The maximum size of a time stamp that may be expected, in bytes.
const MAX_TIMESTAMP: u32 = 1 << 20;

/// Sign a text: state who vouches for it, that a model wrote it, and which key marked it
#[derive(Args)]
#[command(after_help = "\
The manifest goes where the format of the text has room for it: into a comment of Markdown or code, into \
invisible characters at the end of other texts, and into FILE.c2pa next to JSON, CSV and HTML. --manifest \
chooses another location: text, sidecar, or a format by its file extension, such as md or py.

The text is signed byte for byte, including the last line end, and is written to standard output or to \
--output. Its words do not change, nor does a watermark in them. With --timestamp-url a time-stamping \
authority (RFC 3161) gets a hash of the signature, and states the time; without a time stamp the signature \
is only proved while the certificate is valid.

A command signs for a key that never leaves its device, such as a PKCS#11 token: it gets the bytes to be \
signed on standard input, and writes their signature.
  --sign-command 'openssl dgst -sha256 -sign key.pem'

Exit status: 0 if the text is signed, 2 on an error.")]
pub(crate) struct Sign {
    /// The text; - reads it from standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// The signer's certificate and its chain up to the root, in PEM
    #[arg(long, value_name = "FILE")]
    certificate: PathBuf,
    /// The certificate's private key, as PKCS#8 in PEM
    #[arg(long, value_name = "FILE", required_unless_present = "sign_command")]
    private_key: Option<PathBuf>,
    /// Instead of --private-key: a command of the shell that signs its standard input
    #[arg(long, value_name = "COMMAND", conflicts_with = "private_key")]
    sign_command: Option<String>,
    /// The address of a time-stamping authority, which states the time of the signature
    #[arg(long, value_name = "URL")]
    timestamp_url: Option<String>,
    /// The expected size of its time stamps in bytes [default: that of one that is requested for it]
    #[arg(long, value_name = "BYTES", requires = "timestamp_url",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_TIMESTAMP)))]
    timestamp_size: Option<u32>,
    /// Refuse to sign without a time stamp
    #[arg(long)]
    require_timestamp: bool,
    /// Where the manifest goes [default: by the name of FILE or --output]
    #[arg(long, value_name = "PLACE")]
    manifest: Option<String>,
    /// The id of the key that the text is marked with
    #[arg(long, value_name = "ID", requires = "scheme")]
    key_id: Option<String>,
    /// The dialect of that key, such as native
    #[arg(long, value_name = "NAME", requires = "key_id")]
    scheme: Option<String>,
    /// The number that the mark carries, if it identifies this manifest
    #[arg(long, value_name = "N", requires = "key_id")]
    payload: Option<u32>,
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
    /// Also write the manifest by itself to this file
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Replace existing files
    #[arg(long)]
    force: bool,
    /// Only check whether a text could be signed, and print where its manifest would go and the size of a time stamp
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
        if let Some(store) = self.store.as_deref().filter(|_| !self.check) {
            files::check(store, self.force)?;
        }
        let credentials = self.credentials()?;
        let mark = self.scheme.zip(self.key_id).map(|(scheme, key_id)| Mark { scheme, key_id, payload: self.payload });
        let claim = Claim { model: self.model, mark };
        let mut out = std::io::stdout().lock();
        if self.check {
            sign("", placement, &credentials, &claim)?;
            match credentials.authority() {
                Some(authority) => writeln!(out, "{} {}", placement.name(), authority.token_size()?)?,
                None => writeln!(out, "{}", placement.name())?,
            }
            return Ok(ExitCode::SUCCESS);
        }
        let text = files::text(&self.file, MAX_TEXT as u64)?;
        let signed = sign(&text, placement, &credentials, &claim).map_err(|error| match error {
            C2paError::Signed | C2paError::BareReturn => Failure::in_file(Path::new(&files::name(&self.file)))(error),
            error => error.into(),
        })?;
        if let Some(store) = &self.store {
            files::write(store, &signed.manifest, self.force, false)?;
        }
        let bytes = if placement == Placement::Sidecar { &signed.manifest } else { signed.text.as_bytes() };
        match output {
            Some(output) => files::write(&output, bytes, self.force, false)?,
            None => {
                out.write_all(bytes)?;
                out.flush()?;
            }
        }
        if credentials.authority().is_none() {
            eprintln!("warning: {NO_TIMESTAMP}: give --timestamp-url");
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The signer, with the time-stamping authority if there is one.
    fn credentials(&self) -> Result<Credentials, Failure> {
        let size = self.timestamp_size.unwrap_or(0) as usize;
        let authority = self.timestamp_url.as_deref().map(|url| TimeAuthority::new(url, size));
        let authority = authority.transpose()?;
        if authority.is_none() && self.require_timestamp {
            let why = "--require-timestamp needs a time-stamping authority: give --timestamp-url";
            return Err(Failure::Usage(why.into()));
        }
        let chain = files::pem(&self.certificate)?;
        let credentials = match (&self.sign_command, &self.private_key) {
            (Some(command), _) => Credentials::with_command(&chain, SignCommand::new(command.as_str()))?,
            (None, Some(key)) => Credentials::new(&chain, &files::pem(key)?)?,
            (None, None) => {
                return Err(Failure::Usage("a signature needs a key: give --private-key or --sign-command".into()));
            }
        };
        Ok(match authority {
            Some(authority) => credentials.timestamped(authority),
            None => credentials,
        })
    }

    /// Decides where the manifest goes by the name of the text, or of the output file.
    fn placement(&self) -> Placement {
        let output = self.output.as_deref().filter(|path| !files::is_stdin(path));
        Placement::of_file(self.named.as_deref().or(output).unwrap_or(&self.file))
    }
}
