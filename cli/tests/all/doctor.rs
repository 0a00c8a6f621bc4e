//! `doctor`: its findings, and the cures that it suggests.

use std::process::Command;

use crate::support::{Folder, KEY, Run};
use serde_json::Value;

/// The command `doctor`, which finds nothing outside the folder.
fn doctor(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = folder.command(&[&["doctor"], arguments].concat());
    command.env("HF_HOME", folder.path("home")).env_remove("HF_TOKEN").env_remove("HF_HUB_OFFLINE");
    // No hub listens at this address.
    command.env("HF_ENDPOINT", "http://127.0.0.1:9");
    command
}

fn found(folder: &Folder, arguments: &[&str]) -> (Run, Value) {
    let run = Folder::finish(doctor(folder, &[arguments, &["--json"]].concat()));
    let json = run.json();
    (run, json)
}

/// The state, value and cure of each finding with this name.
fn of<'j>(json: &'j Value, name: &str) -> Vec<(&'j str, &'j str, &'j str)> {
    let findings = json["findings"].as_array().unwrap().iter().filter(|finding| finding["name"] == name);
    let text = |finding: &'j Value, field: &str| finding[field].as_str().unwrap_or_default();
    findings.map(|finding| (text(finding, "state"), text(finding, "value"), text(finding, "cure"))).collect()
}

/// The JSON has exactly the fields that docs/json.md lists.
#[test]
fn the_fields_are_those_of_the_page() {
    let page = include_str!("../../../docs/json.md");
    let section =
        page.split("\n## doctor\n").nth(1).expect("docs/json.md has a section").split("\n## ").next().unwrap();
    let named: std::collections::BTreeSet<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .flat_map(|line| line.split(" | ").next().unwrap().split(", ").map(|field| field.trim_matches('`')))
        .collect();
    let (run, json) = found(&Folder::with_key(), &["--offline"]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    let there: std::collections::BTreeSet<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(there, named);
    assert_eq!(json["format"], "verdigris-doctor-1");
    assert_eq!(json["broken"], false);
    assert!(json["memory"]["bytes_per_second"].as_f64().unwrap() > 1e8, "{json}");
    assert!(json["tale"]["tokens_per_second"].as_f64().unwrap() > 1.0, "{json}");
    for expected in json["expected"].as_array().unwrap() {
        let at_most = json["memory"]["bytes_per_second"].as_f64().unwrap() / expected["bytes"].as_f64().unwrap();
        assert!((expected["tokens_per_second"].as_f64().unwrap() / at_most - 1.0).abs() < 1e-9, "{expected}");
    }
    // 7e9 weights of four bits, with a scale of 16 bits for each 32.
    assert_eq!(json["expected"][3]["bytes"], 7e9 * 18.0 / 32.0);
}

/// The readable output fits in 80 columns, has the same findings, and no colours in a pipe.
#[test]
fn the_page_fits() {
    let folder = Folder::with_key();
    let run = Folder::finish(doctor(&folder, &["--offline"])).succeeds();
    assert!(!run.out.contains('\x1b'), "{}", run.out);
    for line in run.out.lines() {
        assert!(line.chars().count() <= 80 || !line.trim().contains(' '), "{line:?} is wider than 80 columns");
    }
    for word in ["processor", "memory", "GB/s", "tale", "hub", "was not asked", "keys", "7 B", "tokens/s"] {
        assert!(run.out.contains(word), "{word} is not in\n{}", run.out);
    }
}

#[test]
fn the_hub_may_be_away_and_no_token_is_shown() {
    let folder = Folder::new();
    let mut command = doctor(&folder, &["--json"]);
    command.env("HF_TOKEN", "hf_secretsecret");
    let run = Folder::finish(command);
    let json = run.json();
    assert_eq!((run.status, &json["broken"]), (0, &Value::Bool(false)), "an unreachable hub is not a fault");
    assert_eq!((&json["hub"]["reachable"], &json["hub"]["token"]), (&Value::Bool(false), &Value::from("HF_TOKEN")));
    assert!(matches!(&of(&json, "hub")[..], [("better", value, _)] if value.contains("does not answer")), "{json}");
    assert!(!run.out.contains("secret") && !run.err.contains("secret"));
    // Offline, the hub is not asked, so it is unknown whether it answers.
    let (_, json) = found(&folder, &["--offline"]);
    assert!(json["hub"].get("reachable").is_none() && of(&json, "hub")[0].0 == "fine", "{json}");
}

#[cfg(unix)]
#[test]
fn what_is_wrong_with_keys_is_told_with_its_cure() {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    let folder = Folder::with_key();
    fs::create_dir(folder.path("keys")).unwrap();
    let with = |period: &str| KEY.replace("  \"secret\"", &format!("  \"period\": {period},\n  \"secret\""));
    folder.write_private("keys/it's.key", KEY);
    fs::set_permissions(folder.path("keys/it's.key"), Permissions::from_mode(0o644)).unwrap();
    folder.write_private("keys/half.key", &KEY[..KEY.len() / 2]);
    folder.write_private("keys/old.key", &with("{\"until\": \"2020-12-31\"}"));
    // These are not keys, so they are ignored.
    folder.write("keys/schema.json", "{\"type\": \"object\"}");
    folder.write("keys/notes.txt", "");
    let (run, json) = found(&folder, &["--offline"]);
    assert_eq!((run.status, &json["broken"]), (2, &Value::Bool(true)));
    assert_eq!(of(&json, "keys"), [("fine", "2 in this folder and keys/, which can be used", "")]);
    let [half, exposed, days] = of(&json, "key")[..] else { panic!("{json}") };
    assert!(half.0 == "fault" && half.1.starts_with("keys/half.key cannot be used"), "{half:?}");
    let cure = r"chmod 600 'keys/it'\''s.key'";
    assert_eq!(exposed, ("fault", "keys/it's.key can be read by others (mode 0644), so no command uses it", cure));
    assert!(days.0 == "better" && days.1 == "keys: there is no key to write with today", "{days:?}");
    assert!(days.2.starts_with("verdigris key new keys/2") && days.2.contains(" --valid-from 2"), "{days:?}");
    assert!(!run.out.contains("f1e2d3c4"), "no secret is shown");
    // The cures work when run literally.
    let path =
        format!("{}:/usr/bin:/bin", std::path::Path::new(env!("CARGO_BIN_EXE_verdigris")).parent().unwrap().display());
    for cure in [cure, days.2, "rm keys/half.key"] {
        let done =
            Command::new("sh").args(["-c", cure]).current_dir(folder.path(".")).env("PATH", &path).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    let (run, json) = found(&folder, &["--offline"]);
    assert_eq!((run.status, of(&json, "key")), (0, vec![]), "{json}");
    // `--ring` limits the check to one folder; a missing folder is an error.
    let (_, json) = found(&folder, &["--offline", "--ring", "keys"]);
    assert_eq!(json["keys"].as_array().unwrap().len(), 3);
    Folder::finish(doctor(&folder, &["--offline", "--ring", "none"])).fails("cannot open none");
}

#[cfg(unix)]
#[test]
fn a_cache_that_nothing_can_be_written_to_is_a_fault() {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    let folder = Folder::new();
    // A file instead of the folder: no user can write there, not even root.
    folder.write("home", "");
    let (run, json) = found(&folder, &["--offline"]);
    assert_eq!((run.status, of(&json, "cache")[0].0), (2, "fault"), "{json}");
    assert!(of(&json, "cache")[0].2.contains("HF_HOME="), "{json}");
    fs::remove_file(folder.path("home")).unwrap();
    fs::create_dir_all(folder.path("home/hub/models--o--n/blobs")).unwrap();
    fs::write(folder.path("home/hub/models--o--n/blobs/b"), vec![0; 2_000_000]).unwrap();
    let (_, json) = found(&folder, &["--offline"]);
    assert_eq!(
        (&json["cache"]["bytes"], &json["cache"]["models"]),
        (&Value::from(2_000_000), &Value::from(1)),
        "{json}"
    );
    fs::set_permissions(folder.path("home"), Permissions::from_mode(0o755)).unwrap();
}
