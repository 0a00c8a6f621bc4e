//! `verdigris key report`: makes a key that signs detection reports.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use verdigris::detector::report::{PublicKeys, ReportKey};

use crate::error::Failure;
use crate::report::print_json;

/// Make a key that signs detection reports, and print its public key
#[derive(Args)]
#[command(after_help = "\
The file gets the private key (Ed25519, PKCS#8 in PEM, mode 0600). Keep it secret: anyone who has it can sign reports in \
your name. Publish the public key: with it anyone can check a report (verify-report). A key made by `openssl genpkey \
-algorithm ed25519` can be used, too. This key has nothing to do with those that mark texts.

Examples:
  verdigris key report report.pem > report.pub.pem
  verdigris key report report.pem --public --jwks > jwks.json")]
pub(crate) struct Report {
    /// The file to create; it must not exist, except with --public
    file: PathBuf,
    /// Make no key: print the public key of the existing file
    #[arg(long)]
    public: bool,
    /// Print the public key as a JWK set, as GET /.well-known/jwks.json of a server does, instead of PEM
    #[arg(long)]
    jwks: bool,
}

impl Report {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        if self.file.as_os_str() == "-" {
            return Err(Failure::Usage("- is not a name for a key file: a private key is not printed".into()));
        }
        let key = if self.public {
            ReportKey::load(&self.file)?
        } else {
            let key = ReportKey::generate().map_err(|error| Failure::Usage(format!("no random bytes: {error}")))?;
            key.save(&self.file)?;
            key
        };
        if self.jwks {
            return print_json(&PublicKeys::from(key.public_key()).jwks());
        }
        write!(std::io::stdout(), "{}", key.public_key().pem())?;
        Ok(ExitCode::SUCCESS)
    }
}
