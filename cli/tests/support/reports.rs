//! Keys of reports, and signed reports as other programs take them apart.

use std::process::Command;

use data_encoding::BASE64URL_NOPAD;
use serde_json::Value;

use super::Folder;

/// Makes `report.pem` and `report.pub.pem`; returns the thumbprint of the key.
pub fn report_key(folder: &Folder) -> String {
    let public = folder.run(&["key", "report", "report.pem"]).succeeds().out;
    folder.write("report.pub.pem", &public);
    let jwks = folder.run(&["key", "report", "report.pem", "--public", "--jwks"]).succeeds().json();
    jwks["keys"][0]["kid"].as_str().unwrap().to_owned()
}

/// A part of a signed report as JSON: `protected` or `payload`.
#[track_caller]
pub fn part(signed: &Value, name: &str) -> Value {
    let bytes = BASE64URL_NOPAD.decode(signed[name].as_str().unwrap().as_bytes()).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// Whether OpenSSL, another implementation, finds the signature valid; `None` where it is not installed.
#[track_caller]
pub fn openssl_verifies(folder: &Folder, signed: &Value, public_key: &str) -> Option<bool> {
    let member = |name: &str| signed[name].as_str().unwrap();
    folder.write("message", &format!("{}.{}", member("protected"), member("payload")));
    let signature = BASE64URL_NOPAD.decode(member("signature").as_bytes()).unwrap();
    std::fs::write(folder.path("signature"), signature).unwrap();
    let arguments = ["pkeyutl", "-verify", "-pubin", "-rawin", "-in", "message", "-sigfile", "signature", "-inkey"];
    let output = Command::new("openssl").args(arguments).arg(public_key).current_dir(folder.path(".")).output().ok()?;
    Some(output.status.success())
}
