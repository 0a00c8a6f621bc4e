//! `verdigris-c2pa certificate`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use verdigris_c2pa::Development;

use crate::error::Failure;
use crate::files;

/// Make a certificate to try it out with, which nobody trusts
#[derive(Args)]
#[command(after_help = "\
Writes NAME.cert.pem (the certificate and its root), NAME.key.pem (its private key, for your eyes only) and \
NAME.root.pem (the root, for --trust). It holds for a year. Nobody else trusts it: a certificate that others \
trust comes from an authority on the C2PA's list.")]
pub(crate) struct Certificate {
    /// What the files' names begin with
    #[arg(value_name = "NAME")]
    prefix: PathBuf,
    /// The name in the certificate [default: that of the files]
    #[arg(long, value_name = "NAME")]
    signer: Option<String>,
    /// Replace files that are there
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
        eprintln!("{} and {}: for trying it out, nobody trusts it", chain.display(), key.display());
        Ok(ExitCode::SUCCESS)
    }
}
