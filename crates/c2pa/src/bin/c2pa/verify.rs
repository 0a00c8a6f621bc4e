//! `verdigris-c2pa verify`: two separate verdicts on a text.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use verdigris_c2pa::{Anchors, Located, MAX_MANIFEST, MAX_TEXT, Trust, beside, judge, locate};
use verdigris_detector::Outcome;

use crate::error::Failure;
use crate::files;
use crate::keys::{KeyOptions, Keys};
use crate::verdicts::Verdicts;
use crate::words;

/// The maximum size of a file in bytes: a text, and the longest manifest in invisible characters.
const MAX_FILE: usize = MAX_TEXT + 4 * MAX_MANIFEST + 1024;

/// Judge the manifest of a text and the mark in its words, separately
#[derive(Args)]
#[command(after_help = "\
A manifest is in the text, in FILE.c2pa next to it, or in the file that --manifest names. It is valid if its \
signature is intact, the text is the one that was signed, and no rule is broken. Whether its signer is trusted \
is a separate question, for --trust, and so is whether the authority of its time stamp is, for --trust and \
--trust-timestamps. The mark is judged with --key or --ring, as by `verdigris detect`.

Nothing is read from a network: certificates are not checked for revocation, and a manifest at an address is \
not fetched.

Exit status: 0 if every check passes; 1 the mark is not found; 4 the manifest is absent or invalid, or with \
--trust its signer is not trusted, or with --trust-timestamps it has no trusted time stamp; 5 both; 2 an \
error.")]
pub(crate) struct Verify {
    /// The texts; - reads one from standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The manifest, if it is not in FILE or next to it
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Trusted roots of the certificates of signers and time-stamping authorities, in PEM
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    /// Trusted roots of time-stamping authorities only, in PEM
    #[arg(long, value_name = "FILE")]
    trust_timestamps: Option<PathBuf>,
    #[command(flatten)]
    keys: KeyOptions,
    /// Print a JSON object for each text
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if self.manifest.is_some() && self.files.len() > 1 {
            return Err(Failure::Usage("--manifest belongs to one text: verify the others separately".into()));
        }
        let anchors = |path: &PathBuf| Anchors::new(&files::pem(path)?).map_err(Failure::in_file(path));
        let trust = Trust {
            anchors: self.trust.as_ref().map(anchors).transpose()?,
            timestamps: self.trust_timestamps.as_ref().map(anchors).transpose()?,
        };
        let keys = self.keys.load()?;
        for note in keys.iter().flat_map(|keys| &keys.notes) {
            eprintln!("note: {note}");
        }
        let mut status = 0;
        let mut out = std::io::stdout().lock();
        for file in &self.files {
            let verdicts = match self.verdicts(file, keys.as_ref(), &trust) {
                Ok(verdicts) => verdicts,
                Err(error) if self.files.len() == 1 => return Err(error),
                // The other texts are still judged.
                Err(error) => {
                    eprintln!("error: {error}");
                    status |= 2;
                    continue;
                }
            };
            status |= verdicts.status(&trust);
            match self.json {
                true => writeln!(out, "{}", verdicts.json())?,
                false => out.write_all(words::verdicts(&verdicts, &trust).as_bytes())?,
            }
            out.flush()?;
        }
        Ok(ExitCode::from(if status & 2 != 0 { 2 } else { status }))
    }

    fn verdicts<'k>(&self, file: &Path, keys: Option<&'k Keys>, trust: &Trust) -> Result<Verdicts<'k>, Failure> {
        let text = files::text(file, MAX_FILE as u64)?;
        let mut notes = Vec::new();
        let aside = match &self.manifest {
            Some(path) => Some(path.clone()),
            None => Some(beside(file)).filter(|path| !files::is_stdin(file) && path.is_file()),
        };
        let located = match (locate(&text), aside) {
            (Ok(located), Some(aside)) if self.manifest.is_none() => {
                notes.push(format!("{} is ignored: the text has a manifest in it", aside.display()));
                Ok(located)
            }
            (_, Some(aside)) => Located::sidecar(files::bytes(&aside, MAX_MANIFEST as u64)?),
            (located, None) => located,
        };
        let manifest = judge(&text, located, trust);
        let mark = keys.map(|keys| keys.judge(&text));
        let mut verdicts = Verdicts { name: files::name(file), manifest, mark, notes };
        verdicts.compare(keys);
        Ok(verdicts)
    }
}

impl Verdicts<'_> {
    /// Adds notes on contradictions between manifest and mark. They do not change the verdicts.
    fn compare(&mut self, keys: Option<&Keys>) {
        let Some(Keys { keys, .. }) = keys else { return };
        for named in &self.manifest.soft_bindings {
            let Some(id) = &named.key_id else { continue };
            if !keys.iter().any(|key| key.id() == id) {
                self.notes.push(format!(
                    "the manifest names the key {}, which is not among those that were looked for",
                    words::shown(id)
                ));
            }
        }
        let carried = match &self.mark {
            Some(Ok(judgement)) => {
                judgement.payload.map(|read| read.payload).filter(|_| judgement.outcome().is_marked())
            }
            _ => None,
        };
        let named = self.manifest.soft_bindings.iter().find_map(|named| named.payload);
        if let (Some(carried), Some(named)) = (carried, named)
            && carried != named
        {
            self.notes.push(format!("the manifest names the number {named:#x}, but the mark carries {carried:#x}"));
        }
        let is_found = self.outcome().is_some_and(Outcome::is_marked);
        match &self.manifest.watermark {
            Some(_) if !is_found => self.notes.push("the manifest claims a watermark, but none was found".into()),
            None if is_found && self.manifest.bytes.is_some() => {
                self.notes.push("the manifest claims no watermark, but one was found".into());
            }
            _ => {}
        }
    }
}
