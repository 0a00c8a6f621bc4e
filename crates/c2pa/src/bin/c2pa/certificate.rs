//! `verdigris-c2pa certificate`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use verdigris_c2pa::Development;

use crate::error::Failure;
use crate::files;

/// Make an untrusted certificate for trying it out
#[derive(Args)]
#[command(after_help = "\
Writes NAME.cert.pem (the certificate and its root), NAME.key.pem (its private key, keep it secret) and \
NAME.root.pem (the root, for --trust). The certificate is valid for a year. A certificate that others trust \
comes from an authority on the C2PA's trust list.")]
pub(crate) struct Certificate {
    /// Prefix of the files' names
    #[arg(value_name = "NAME")]
    prefix: PathBuf,
    /// The name in the certificate [default: that of the files]
    #[arg(long, value_name = "NAME")]
    signer: Option<String>,
    /// Replace existing files
    #[arg(long)]
    force: bool,
}

impl Certificate {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let of = |end: &str| {
            let mut name = self.prefix.clone().into_os_string();
            name.push(end);
            PathBuf::from(name)
        };
        let files = [".cert.pem", ".key.pem", ".root.pem"].map(of);
        files.iter().try_for_each(|file| files::check(file, self.force))?;
        let stem = self.prefix.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let made = Development::new(self.signer.as_deref().unwrap_or(&stem))?;
        let [chain, key, root] = &files;
        files::write(key, made.private_key.as_bytes(), self.force, true)?;
        files::write(chain, made.chain.as_bytes(), self.force, false)?;
        files::write(root, made.root.as_bytes(), self.force, false)?;
        eprintln!("{} and {}: for trying it out, not trusted by anyone", chain.display(), key.display());
        Ok(ExitCode::SUCCESS)
    }
}
