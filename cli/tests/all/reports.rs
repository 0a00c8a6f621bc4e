//! Signed detection reports: `key report`, `detect --report` and `verify-report`.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::detection::{PLAIN, detect, marked, verdicts};
use crate::support::reports::{openssl_verifies, part, report_key};
use crate::support::{Folder, Run};

const SIGNED: [&str; 4] = ["--report", "signed.json", "--report-key", "report.pem"];

/// A folder with a key of reports, and its thumbprint.
fn world() -> (Folder, String) {
    let folder = Folder::with_key();
    let kid = report_key(&folder);
    folder.write("marked.txt", &marked(&folder));
    folder.write("plain.txt", PLAIN);
    (folder, kid)
}

fn verify(folder: &Folder, more: &[&str]) -> Run {
    folder.run(&[&["verify-report", "signed.json", "--public-key", "report.pub.pem"], more].concat())
}

#[test]
fn a_report_has_the_verdict_and_its_text_and_neither_text_nor_secret() {
    let (folder, kid) = world();
    let options = [&["marked.txt", "--json", "--report-url", "https://example.com/detect"], &SIGNED[..]].concat();
    let printed = detect(&folder, &options).succeeds().json();
    assert_eq!(printed["verdict"], "marked");
    let signed: Value = serde_json::from_str(&folder.read("signed.json")).unwrap();
    assert_eq!(part(&signed, "protected"), json!({"alg": "EdDSA", "kid": kid, "typ": "verdigris-report+json"}));
    let report = part(&signed, "payload");
    for (name, value) in report["verdict"].as_object().unwrap() {
        assert_eq!(value, &printed[name], "{name}");
    }
    let of_text = ["format", "name"];
    let left_out = printed.as_object().unwrap().keys().filter(|name| report["verdict"].get(name.as_str()).is_none());
    assert_eq!(left_out.collect::<Vec<_>>(), of_text);
    assert_eq!(report["format"], "verdigris-report-1");
    let detector =
        json!({"name": "verdigris", "version": env!("CARGO_PKG_VERSION"), "url": "https://example.com/detect"});
    assert_eq!(report["detector"], detector);
    assert_eq!(report["content"]["bytes"], folder.read("marked.txt").len());
    assert_eq!(report["tested"]["keys"][0]["id"], "vg-c0ffee00");
    assert_eq!(report["tested"]["keys"][0]["dialect"], "native");
    assert_eq!(report["tested"]["readings"], json!([{"repairs": [], "skipped": 0}]));
    let time: jiff::Timestamp = report["time"].as_str().unwrap().parse().unwrap();
    assert!(time.duration_until(jiff::Timestamp::now()).as_secs() < 120, "{time}");
    let (text, secret) = (folder.read("marked.txt"), folder.read("my.key"));
    let secret: Value = serde_json::from_str(&secret).unwrap();
    let payload = report.to_string();
    assert!(!payload.contains(&text[20..50]), "{payload}");
    assert!(!payload.contains(secret["secret"].as_str().unwrap()));

    let checked = verify(&folder, &["--text", "marked.txt", "--json"]).succeeds().json();
    assert_eq!((&checked["valid"], &checked["kid"], &checked["text"]), (&json!(true), &json!(kid), &json!("match")));
    assert_eq!(checked["report"], report);
    let words = verify(&folder, &["--text", "marked.txt"]).succeeds().out;
    for said in ["marked (vg-c0ffee00, level 0.00001)", &kid, "that of marked.txt", "https://example.com/detect"] {
        assert!(words.contains(said), "{words}");
    }
    assert!(verify(&folder, &[]).succeeds().out.contains("not compared"));
}

/// The hash is that of `sha256sum`.
#[test]
fn other_programs_verify_a_report() {
    let (folder, _) = world();
    detect(&folder, &[&["marked.txt"], &SIGNED[..]].concat()).done();
    let mut signed: Value = serde_json::from_str(&folder.read("signed.json")).unwrap();
    let Some(is_valid) = openssl_verifies(&folder, &signed, "report.pub.pem") else { return };
    assert!(is_valid);
    let mut hash = Command::new("openssl");
    hash.args(["dgst", "-sha256", "-r", "marked.txt"]).current_dir(folder.path("."));
    let hash = String::from_utf8(hash.output().unwrap().stdout).unwrap();
    assert!(hash.starts_with(part(&signed, "payload")["content"]["sha256"].as_str().unwrap()), "{hash}");
    let payload = signed["payload"].as_str().unwrap();
    let changed = payload.replace(&payload[40..41], if &payload[40..41] == "a" { "b" } else { "a" });
    signed["payload"] = changed.into();
    assert_eq!(openssl_verifies(&folder, &signed, "report.pub.pem"), Some(false));
}

#[test]
fn keys_of_openssl_sign_and_its_tools_read_ours() {
    let folder = Folder::with_key();
    folder.write("plain.txt", PLAIN);
    let openssl = |arguments: &[&str]| {
        let output = Command::new("openssl").args(arguments).current_dir(folder.path(".")).output().ok()?;
        assert!(output.status.success(), "{output:?}");
        Some(String::from_utf8(output.stdout).unwrap())
    };
    let Some(_) = openssl(&["genpkey", "-algorithm", "ed25519", "-out", "report.pem"]) else { return };
    #[cfg(unix)]
    std::fs::set_permissions(folder.path("report.pem"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    folder.write("report.pub.pem", &openssl(&["pkey", "-in", "report.pem", "-pubout"]).unwrap());
    let public = folder.run(&["key", "report", "report.pem", "--public"]).succeeds().out;
    assert_eq!(public, folder.read("report.pub.pem"));
    detect(&folder, &[&["plain.txt"], &SIGNED[..]].concat());
    verify(&folder, &["--text", "plain.txt"]).succeeds();
    let ours = folder.run(&["key", "report", "own.pem"]).succeeds().out;
    assert_eq!(openssl(&["pkey", "-in", "own.pem", "-pubout"]).unwrap(), ours);
}

#[test]
fn what_does_not_hold_has_a_line_and_a_status() {
    let (folder, kid) = world();
    detect(&folder, &[&["marked.txt"], &SIGNED[..]].concat()).done();
    let refuted = |run: Run, said: &str| {
        assert_eq!((run.status, run.err.as_str(), run.out.lines().count()), (1, "", 1), "{run:?}");
        assert!(run.out.contains(said), "{:?} should say {said:?}", run.out);
    };
    refuted(verify(&folder, &["--text", "plain.txt"]), "about another text, of");
    folder.write("longer.txt", &format!("{}\n", folder.read("marked.txt")));
    refuted(verify(&folder, &["--text", "longer.txt"]), "about another text, of");
    let other = folder.run(&["key", "report", "other.pem"]).succeeds().out;
    folder.write("other.pub.pem", &other);
    let with_other = ["verify-report", "signed.json", "--public-key", "other.pub.pem"];
    refuted(folder.run(&with_other), &format!("names the key {kid:?}"));
    let json = folder.run(&[&with_other[..], &["--json"]].concat());
    assert_eq!((json.status, &json.json()["code"], &json.json()["valid"]), (1, &json!("other_key"), &json!(false)));

    let good = folder.read("signed.json");
    let mut signed: Value = serde_json::from_str(&good).unwrap();
    let mut payload = part(&signed, "payload");
    payload["verdict"]["verdict"] = json!("not marked");
    let encoded = data_encoding::BASE64URL_NOPAD.encode(payload.to_string().as_bytes());
    signed["payload"] = encoded.into();
    folder.write("signed.json", &signed.to_string());
    refuted(verify(&folder, &[]), "the signature is wrong");
    folder.write("signed.json", &good[..good.len() / 2]);
    verify(&folder, &[]).fails("signed.json: it is not a signed report, or it is damaged: it ends early");
    let json = verify(&folder, &["--json"]);
    assert_eq!((json.status, &json.json()["code"]), (2, &json!("damaged")));
    folder.write("signed.json", "");
    verify(&folder, &[]).fails("signed.json has no report");
    folder.write("signed.json", &good);
    verify(&folder, &["--text", "missing.txt"]).fails("cannot open missing.txt");
    folder.run(&["verify-report", "signed.json", "--public-key", "report.pem"]).fails("it is a private key");
    folder.run(&["verify-report", "signed.json", "--public-key", "marked.txt"]).fails("not an Ed25519 public key");
    folder.run(&["verify-report", "missing.json", "--public-key", "report.pub.pem"]).fails("cannot open missing.json");
    let twice = folder.run(&["verify-report", "--public-key", "report.pub.pem", "--text", "-"]);
    twice.fails("standard input can only be read once");
    let piped = folder.run_with(&["verify-report", "--public-key", "report.pub.pem"], "signed.json").succeeds();
    assert!(piped.out.contains("marked (vg-c0ffee00"), "{piped:?}");
}

/// Reports of many texts are lines; a text without a verdict has none.
#[test]
fn each_of_several_texts_has_a_report() {
    let (folder, _) = world();
    std::fs::write(folder.path("faulty.txt"), b"\xff\xfe\x00").unwrap();
    folder.write("plain.txt", "The end.");
    let texts = ["marked.txt", "faulty.txt", "plain.txt", "--json"];
    let run = detect(&folder, &[&texts[..], &SIGNED[..]].concat());
    assert_eq!((run.status, verdicts(&run)), (0, vec!["marked".into(), "error".into(), "too short".into()]));
    assert_eq!(folder.read("signed.json").lines().count(), 2);
    let all = verify(&folder, &["--json"]).succeeds().lines();
    let found: Vec<&Value> = all.iter().map(|line| &line["report"]["verdict"]["verdict"]).collect();
    assert_eq!(found, ["marked", "too short"]);
    let one = verify(&folder, &["--json", "--text", "plain.txt"]).succeeds().lines();
    assert_eq!((one.len(), &one[0]["report"]["verdict"]["verdict"]), (1, &json!("too short")));
    folder.write("other.txt", "A third text.");
    assert_eq!(verify(&folder, &["--text", "other.txt"]).status, 1);

    detect(&folder, &[&["marked.txt"], &SIGNED[..]].concat()).fails("signed.json exists already; --force replaces it");
    let run = detect(&folder, &[&["faulty.txt", "--force"], &SIGNED[..]].concat());
    assert_eq!(run.status, 2);
    assert_eq!(folder.read("signed.json").lines().count(), 2, "without a verdict nothing is replaced");
    detect(&folder, &[&["plain.txt", "--force"], &SIGNED[..]].concat());
    assert_eq!(folder.read("signed.json").lines().count(), 1);
}

/// The hash is that of the text as UTF-8, whatever the file's encoding, also of a text that is read as a stream.
#[test]
fn the_hash_is_that_of_the_text() {
    let (folder, _) = world();
    let utf16: Vec<u8> = "\u{feff}Grüße.".encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(folder.path("utf16.txt"), utf16).unwrap();
    folder.write("utf8.txt", "Grüße.");
    detect(&folder, &[&["utf16.txt"], &SIGNED[..]].concat());
    verify(&folder, &["--text", "utf8.txt"]).succeeds();
    verify(&folder, &["--text", "utf16.txt"]).succeeds();

    let long = "The captain of the ship. ".repeat((17 << 20) / 25);
    folder.write("long.txt", &long);
    detect(&folder, &[&["long.txt", "--force"], &SIGNED[..]].concat());
    let report = verify(&folder, &["--text", "long.txt", "--json"]).succeeds().json();
    assert_eq!(report["report"]["content"]["bytes"], long.len());

    // Readings after repairs are in the report.
    folder.write("repaired.txt", &folder.read("marked.txt").replace(' ', "\u{a0}"));
    detect(&folder, &[&["repaired.txt", "--force"], &SIGNED[..]].concat()).done();
    let report = verify(&folder, &["--json"]).succeeds().json();
    let readings = report["report"]["tested"]["readings"].as_array().unwrap();
    assert_eq!(readings.len(), report["report"]["verdict"]["looks"].as_f64().unwrap() as usize);
    assert_eq!(readings[1]["repairs"][0][0], "space", "{readings:?}");
}

#[test]
fn bad_options_and_keys_lose_nothing() {
    let (folder, _) = world();
    let pem = folder.read("report.pem");
    folder.run(&["key", "report", "report.pem"]).fails("choose another name, or print its public key with --public");
    folder.run(&["key", "report", "none/report.pem"]).fails("make the folder first");
    folder.run(&["key", "report", "-"]).fails("- is not a name for a key file");
    folder.run(&["key", "report", "none.pem", "--public"]).fails("cannot read the report key none.pem");
    assert_eq!(folder.read("report.pem"), pem);
    let one = |more: &[&str]| detect(&folder, &[&["plain.txt"], more].concat());
    one(&["--report", "signed.json"]).fails("--report-key");
    one(&["--report-key", "report.pem"]).fails("--report");
    one(&["--force"]).fails("--report <FILE>");
    one(&[&SIGNED[..], &["--report-url", "example.com"]].concat()).fails("begins with https:// or http://");
    one(&[&SIGNED[..], &["--color"]].concat()).fails("--report");
    one(&["--report", "signed.json", "--report-key", "my.key"]).fails("not an Ed25519 private key");
    one(&["--report", "signed.json", "--report-key", "report.pub.pem"]).fails("it is a public key");
    one(&["--report", "report.pem", "--report-key", "report.pem", "--force"]).fails("is a file that is read here");
    one(&["--html", "a", "--report", "a", "--report-key", "report.pem"]).fails("given for --html and --report");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(folder.path("report.pem").metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(folder.path("report.pem"), std::fs::Permissions::from_mode(0o644)).unwrap();
        one(&SIGNED).fails("run `chmod 600 report.pem`");
    }
    assert!(!folder.path("signed.json").exists());
    assert_eq!(folder.read("report.pem"), pem);
}
