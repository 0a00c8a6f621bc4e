//! `verdigris verify-report`: checks signed detection reports.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use verdigris::detector::report::{Content, Hashing, PublicKeys, Report, ReportError, SignedReport, VerifiedReport};

use crate::detect::PUBLIC;
use crate::error::Failure;
use crate::report::{self, print_json};
use crate::terminal::{shown_line, width, wrap};
use crate::text::{self, Decoder};

/// The name and version of the output of `--json`; docs/json.md describes the fields.
const FORMAT: &str = "verdigris-verify-report-1";

/// The columns before the values.
const LABEL: usize = 10;

/// Check signed detection reports: the signature, and the text that they are about
#[derive(Args)]
#[command(after_help = "\
Exit status:
  0  the signature is valid, and with --text the report is about that text,
     whatever the verdict is
  1  it is not valid, or of another key, or the report is about another text
  2  an error: a file cannot be read, is damaged, or has an unknown version

A file may have several reports, one after the other. With --text, those about other texts are left out.

A valid report proves that the holder of the key signed this verdict on this text (docs/security.md). The report of an \
answer of POST /detect is its field \"report\".

Examples:
  verdigris verify-report signed.json --public-key report.pub.pem
  verdigris verify-report signed.json --public-key jwks.json --text tale.txt")]
pub(crate) struct VerifyReport {
    /// The signed report, or several; - or nothing for standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// The public key of the detector: PEM, a JWK, or a JWK set as GET /.well-known/jwks.json of a server returns it
    #[arg(long, value_name = "FILE")]
    public_key: PathBuf,
    /// The text that the report must be about
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Print one JSON object per report, also for errors
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct JsonLine<'a> {
    format: &'static str,
    name: &'a str,
    valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kid: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<&'a Report>,
}

impl VerifyReport {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let keys = PublicKeys::load(&self.public_key)?;
        let name = text::name(&self.file);
        if self.text.as_deref().is_some_and(|text| text::is_stdin(text) && text::is_stdin(&self.file)) {
            return Err(Failure::Usage("- is given twice, but standard input can only be read once".into()));
        }
        let content = self.text.as_deref().map(content).transpose()?;
        let file = text::open(&self.file).map_err(|source| Failure::Open { path: name.clone().into(), source })?;
        let (mut status, mut shown, mut other) = (0, 0, None);
        for read in SignedReport::read(file) {
            let verified = read.and_then(|signed| signed.verify(&keys));
            let found = verified.and_then(|verified| match &content {
                Some(content) => verified.is_about(content).map(|()| verified),
                None => Ok(verified),
            });
            match found {
                Err(error @ ReportError::OtherText { .. }) => other = Some(error),
                Err(error) => {
                    status = status.max(self.fault(&name, &error)?);
                    shown += 1;
                }
                Ok(verified) => {
                    self.print(&name, &verified, shown > 0)?;
                    shown += 1;
                }
            }
        }
        match other {
            _ if shown > 0 => Ok(ExitCode::from(status)),
            Some(error) => Ok(ExitCode::from(self.fault(&name, &error)?)),
            None => Err(Failure::Usage(format!("{name} has no report: it is empty"))),
        }
    }

    /// Prints that a report is not valid, and returns the status. Without `--json`, one that cannot be checked ends the
    /// program.
    fn fault(&self, name: &str, error: &ReportError) -> Result<u8, Failure> {
        let status = if error.is_refuted() { 1 } else { 2 };
        if self.json {
            print_json(&JsonLine { code: Some(error.code()), error: Some(error.to_string()), ..JsonLine::new(name) })?;
        } else if status == 2 {
            return Err(Failure::Usage(format!("{name}: {error}")));
        } else {
            let (name, error) = (shown_line(name), error.to_string());
            writeln!(anstream::stdout(), "{name}: not valid: {}", shown_line(&error))?;
        }
        Ok(status)
    }

    /// Prints a valid report, after an empty line if it is not the first.
    fn print(&self, name: &str, verified: &VerifiedReport, is_next: bool) -> Result<(), Failure> {
        let VerifiedReport { kid, report } = verified;
        if self.json {
            let text = if self.text.is_some() { "match" } else { "not compared" };
            let line =
                JsonLine { valid: true, kid: Some(kid), text: Some(text), report: Some(report), ..JsonLine::new(name) };
            return print_json(&line).map(drop);
        }
        let mut out = anstream::stdout();
        if is_next {
            writeln!(out)?;
        }
        let width = width();
        let mut row =
            |label: &str, what: &str| writeln!(out, "{label:<LABEL$}{}", wrap(&shown_line(what), width, LABEL));
        row("signed", &format!("by the key {kid}"))?;
        row("time", &report.time.to_string())?;
        let detector = &report.detector;
        let url = detector.url.as_ref().map_or(String::new(), |url| format!(", {url}"));
        row("detector", &format!("{} {}{url}", detector.name, detector.version))?;
        let Content { sha256, bytes } = &report.content;
        let compared = match &self.text {
            Some(text) => format!("that of {}", text::name(text)),
            None => "not compared: give --text".into(),
        };
        row("text", &format!("{bytes} bytes, SHA-256 {sha256}, {compared}"))?;
        row("keys", &report.tested.keys.iter().map(|key| &*key.id).collect::<Vec<_>>().join(", "))?;
        let verdict = &report.verdict;
        if let Some(log10_p) = verdict["log10_p"].as_f64() {
            row("p", &report::p_value(log10_p * std::f64::consts::LN_10))?;
        }
        let passages = verdict["passages"].as_array().map_or(&[][..], Vec::as_slice);
        for passage in passages {
            let number = |name: &str| passage[name].as_u64().unwrap_or_default();
            let p = passage["log10_p"].as_f64().unwrap_or(f64::NAN) * std::f64::consts::LN_10;
            let (key, p) = (passage["key_id"].as_str().unwrap_or("no key"), report::p_value(p));
            row("passage", &format!("bytes {} to {}: p {p} ({key})", number("start"), number("end")))?;
        }
        if let Some(payload) = verdict["payload"].as_u64() {
            let doubt = verdict["doubt"].as_f64().map(report::doubt);
            let doubt = doubt.map_or(String::new(), |doubt| format!(", which is wrong with a probability of {doubt}"));
            row("payload", &format!("{payload:#x}{doubt}"))?;
        }
        let level = verdict["level"].as_f64().map_or(String::new(), |level| format!(", level {level}"));
        let of_mark = std::slice::from_ref(verdict);
        let found = if verdict["verdict"] == "marked in part" { passages } else { of_mark };
        let mut keys: Vec<&str> = Vec::new();
        for key in found.iter().filter_map(|found| found["key_id"].as_str()) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let keys = if keys.is_empty() { "no key".into() } else { keys.join(", ") };
        row("verdict", &format!("{} ({keys}{level})", verdict["verdict"].as_str().unwrap_or("unknown")))?;
        if verdict["marked"] == true && verdict["public"] == true {
            row("note", PUBLIC)?;
        }
        Ok(())
    }
}

impl<'a> JsonLine<'a> {
    fn new(name: &'a str) -> Self {
        Self { format: FORMAT, name, valid: false, code: None, error: None, kid: None, text: None, report: None }
    }
}

/// The hash of the text in a file.
fn content(path: &Path) -> Result<Content, Failure> {
    let input = text::open(path).map_err(|source| Failure::Open { path: text::name(path).into(), source })?;
    let content = Hashing::new(Decoder::new(input)).content();
    content.map_err(|error| Failure::Usage(format!("{}: {error}", text::name(path))))
}
