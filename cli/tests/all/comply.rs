//! Comparing a server's options with the Code of Practice.

use serde_json::Value;

use crate::support::{Folder, KEY};

/// The state of each check.
fn states(report: &Value) -> Vec<(String, String)> {
    let text = |check: &Value, field: &str| check[field].as_str().unwrap().to_owned();
    report["checks"].as_array().unwrap().iter().map(|check| (text(check, "subject"), text(check, "state"))).collect()
}

fn state(report: &Value, subject: &str) -> String {
    states(report).into_iter().find(|(of, _)| of == subject).expect("it is checked").1
}

#[test]
fn options_are_compared_with_the_measures() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("ring")).unwrap();
    folder.write("bare.toml", "port = 8001\n");
    let run = folder.run(&["comply", "--config", "bare.toml", "--json"]);
    assert_eq!(run.status, 1, "{run:?}");
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["missing"], true);
    assert_eq!(state(&report, "every answer is marked"), "missing");

    for (name, days) in [("a", ["2020-01-01", "2999-12-30"]), ("b", ["2999-12-31", "3999-12-31"])] {
        let file = format!("ring/{name}.key");
        folder.run(&["key", "new", &file, "--valid-from", days[0], "--valid-until", days[1]]).succeeds();
    }
    folder.run(&["key", "report", "report.pem"]).succeeds();
    let good = "ring = \"ring\"\nenforce-all = true\naudit-log = \"audit.jsonl\"\nreport-key = \"report.pem\"\n\
        report-url = \"https://marks.example/detect\"\ninput-marks = \"report\"\n";
    folder.write("good.toml", good);
    let run = folder.run(&["comply", "--config", "good.toml", "--json"]);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(state(&report, "signed metadata"), "advised");
    folder.write("signed.toml", &format!("{good}c2pa-cert = \"a.pem\"\nc2pa-key = \"b.pem\"\n"));
    let run = folder.run(&["comply", "--config", "signed.toml", "--json"]);
    assert_eq!(state(&serde_json::from_str(&run.out).unwrap(), "signed metadata"), "advised", "without a stamp");
    let stamped = format!("{}c2pa-timestamp = \"http://a.example\"\n", folder.read("signed.toml"));
    folder.write("signed.toml", &stamped);
    let run = folder.run(&["comply", "--config", "signed.toml", "--json"]);
    assert_eq!(state(&serde_json::from_str(&run.out).unwrap(), "signed metadata"), "met");
    for subject in [
        "every answer is marked",
        "answers are logged",
        "marks of inputs are noticed",
        "results are signed",
        "marks are hard to forge",
        "keys are rotated",
    ] {
        assert_eq!(state(&report, subject), "met", "{subject}: {report}");
    }

    // Each option that is taken away is noticed.
    for (line, subject, expected) in [
        ("enforce-all = true\n", "every answer is marked", "missing"),
        ("audit-log = \"audit.jsonl\"\n", "answers are logged", "advised"),
        ("input-marks = \"report\"\n", "marks of inputs are noticed", "advised"),
        ("report-url = \"https://marks.example/detect\"\n", "results are signed", "missing"),
    ] {
        folder.write("less.toml", &good.replace(line, ""));
        let run = folder.run(&["comply", "--config", "less.toml", "--json"]);
        assert_eq!(state(&serde_json::from_str(&run.out).unwrap(), subject), expected, "{line}");
    }
    // Each fault of a key.
    for (at, (options, subject, expected)) in [
        (&["--valid-until", "2020-01-01"][..], "keys are rotated", "missing"),
        (&["--valid-from", "2020-01-01"], "keys are rotated", "advised"),
        (&["--dialect", "native"], "marks are hard to forge", "advised"),
        (&["--dialect", "kgw"], "marks are hard to forge", "missing"),
    ]
    .into_iter()
    .enumerate()
    {
        let file = format!("{at}.key");
        folder.run(&[&["key", "new", &file][..], options].concat()).done();
        folder.write("one.toml", &format!("key = {file:?}\n"));
        let run = folder.run(&["comply", "--config", "one.toml", "--json"]);
        assert_eq!(state(&serde_json::from_str(&run.out).unwrap(), subject), expected, "{options:?}");
    }

    // A tenant without a key for today counts, whatever the other tenants have.
    std::fs::create_dir(folder.path("tenants")).unwrap();
    folder.run(&["key", "new", "tenants/all.key"]).succeeds();
    folder.run(&["key", "new", "tenants/ann.key", "--tenant", "ann", "--valid-until", "2020-01-01"]).succeeds();
    folder.write("tenants.toml", "ring = \"tenants\"\n");
    let run = folder.run(&["comply", "--config", "tenants.toml", "--json"]);
    assert_eq!(state(&serde_json::from_str(&run.out).unwrap(), "keys are rotated"), "missing");

    // Options that keep the server from starting, or from answering.
    folder.run(&["key", "new", "late.key", "--valid-from", "2999-01-01"]).done();
    std::fs::create_dir(folder.path("late")).unwrap();
    std::fs::rename(folder.path("late.key"), folder.path("late/late.key")).unwrap();
    folder.write_private("foreign.key", &KEY.replace("e106f5b2", "00000000"));
    // A server with these keys refuses the requests of clients whose names are not those of the tenant.
    std::fs::create_dir(folder.path("of-ann")).unwrap();
    folder.run(&["key", "new", "of-ann/ann.key", "--tenant", "ann"]).done();
    folder.run(&["key", "new", "both.key", "--public-part"]).done();
    std::fs::create_dir(folder.path("published")).unwrap();
    folder.run(&["key", "publish", "both.key", "published/public.key"]).done();
    folder.write("clients", "ann 0123456789abcdef\n");
    folder.write("more-clients", "ann 0123456789abcdef\nbob 123456789abcdef0\n");
    for (options, expected) in [
        ("ring = \"of-ann\"", "none of the keys is for today"),
        ("ring = \"of-ann\"\napi-key-file = \"more-clients\"", "for the API key bob"),
        ("ring = \"of-ann\"\napi-key-file = \"clients\"", "by native-gumbel, with 1 key"),
        ("ring = \"published\"", "all keys of the ring are published"),
    ] {
        folder.write("odd.toml", &format!("{options}\nenforce-all = true\n"));
        let report = folder.run(&["comply", "--config", "odd.toml", "--json"]).json();
        let checks = report["checks"].as_array().unwrap();
        let marked = checks.iter().find(|check| check["subject"] == "every answer is marked").unwrap();
        assert!(marked["value"].as_str().unwrap().contains(expected), "{options}: {marked}");
    }
    folder.write("odd.toml", "key = \"published/public.key\"\n");
    folder.run(&["comply", "--config", "odd.toml"]).fails("published");
    for (options, subject, expected) in [
        ("ring = \"late\"\nenforce-all = true\n", "every answer is marked", "missing"),
        ("key = \"foreign.key\"\nenforce-all = true\n", "every answer is marked", "missing"),
        ("ring = \"ring\"\nhost = \"0.0.0.0\"\n", "a detector for everyone", "missing"),
        ("ring = \"ring\"\nhost = \"0.0.0.0\"\nallow-anyone = true\n", "a detector for everyone", "met"),
    ] {
        folder.write("odd.toml", options);
        let run = folder.run(&["comply", "--config", "odd.toml", "--json"]);
        assert_eq!(state(&serde_json::from_str(&run.out).unwrap(), subject), expected, "{options}");
    }

    let run = folder.run(&["comply", "--config", "good.toml", "--markdown"]);
    assert!(run.out.contains("| 1.1.2 | every answer is marked | met | by native-gumbel, with 2 keys |"), "{run:?}");
    let run = folder.run(&["comply", "--config", "bare.toml"]);
    assert!(run.out.contains("  missing  1.1.2  every answer is marked: no key"), "{run:?}");
}

#[test]
fn options_and_keys_that_cannot_be_read_are_errors() {
    let folder = Folder::new();
    folder.run(&["comply", "--config", "no.toml"]).fails("no.toml");
    folder.write("unknown.toml", "rings = \"ring\"\n");
    folder.run(&["comply", "--config", "unknown.toml"]).fails("did you mean ring?");
    folder.write("needs.toml", "enforce-all = true\n");
    folder.run(&["comply", "--config", "needs.toml"]).fails("needs.toml: the following required arguments");
    folder.write("key.toml", "key = \"no.key\"\n");
    folder.run(&["comply", "--config", "key.toml"]).fails("no.key");
    folder.run(&["key", "new", "my.key"]).done();
    folder.write("report.toml", "report-key = \"my.key\"\n");
    folder.run(&["comply", "--config", "report.toml"]).fails("my.key");
    folder.write("audit.toml", "audit-log = \"nowhere/audit.jsonl\"\n");
    folder.run(&["comply", "--config", "audit.toml"]).fails("cannot write nowhere");
}
