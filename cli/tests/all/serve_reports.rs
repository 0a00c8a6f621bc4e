//! Signed reports of `POST /detect`.
#![cfg(feature = "serve")]

use serde_json::{Value, json};

use crate::support::Folder;
use crate::support::detection::{PLAIN, marked};
use crate::support::reports::{openssl_verifies, part, report_key};
use crate::support::server::Server;

const ANN: &str = "0123456789abcdef-ann";
const EVE: &str = "0123456789abcdef-eve";
const URL: &str = "https://example.com/detect";

/// A server that signs reports, and the thumbprint of its key.
fn world(more: &[&str]) -> (Folder, Server, String) {
    let folder = Folder::with_key();
    let kid = report_key(&folder);
    let options = ["--key", "my.key", "--report-key", "report.pem", "--report-url", URL];
    folder.write("keys.txt", &format!("ann {ANN} detect\neve {EVE}\n"));
    let server = Server::start(&folder, &[&options[..], more].concat());
    (folder, server, kid)
}

/// The report of a signed one, which `verify-report` has checked with the server's own public key.
#[track_caller]
fn verified(folder: &Folder, server: &Server, signed: &Value, text: &str) -> Value {
    folder.write("jwks.json", &server.get("/.well-known/jwks.json").text);
    folder.write("signed.json", &signed.to_string());
    folder.write("text.txt", text);
    let arguments = ["verify-report", "signed.json", "--public-key", "jwks.json", "--text", "text.txt", "--json"];
    folder.run(&arguments).succeeds().json()["report"].clone()
}

#[test]
fn an_answer_has_its_report() {
    let (folder, server, kid) = world(&[]);
    let text = marked(&folder);
    let body = json!({"text": text, "windows": true, "tokens": true, "course": true, "report": true});
    let answer = server.post("/detect", &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = answer.json();
    let report = verified(&folder, &server, &answer["report"], &text);
    assert_eq!(part(&answer["report"], "protected")["kid"], kid.as_str());
    assert_eq!(part(&answer["report"], "payload"), report);
    assert_ne!(openssl_verifies(&folder, &answer["report"], "report.pub.pem"), Some(false));
    assert_eq!((&report["detector"]["url"], &report["tested"]["windows"]), (&json!(URL), &json!(true)));
    assert_eq!(report["verdict"]["verdict"], "marked");
    for (name, value) in report["verdict"].as_object().unwrap() {
        assert_eq!(&answer[name], value, "{name}");
    }
    // The marks of tokens contain the text.
    assert!(answer["token_marks"].is_array() && report["verdict"].get("token_marks").is_none());
    assert!(!report.to_string().contains(&text[20..50]), "{report}");
    assert!(server.post("/detect", &json!({"text": text})).json().get("report").is_none());

    let several = json!({"texts": [text, "no", "yes"], "report": true});
    let several = server.post("/detect", &several).json();
    for (at, text) in [&*text, "no", "yes"].into_iter().enumerate() {
        let result = &several["results"][at];
        assert_eq!(verified(&folder, &server, &result["report"], text)["verdict"]["verdict"], result["verdict"]);
    }
    let faulty = server.post("/detect", &json!({"texts": [PLAIN, "yes"], "regex": "yes|no", "report": true})).json();
    assert_eq!((&faulty["results"][0]["verdict"], faulty["results"][0].get("report")), (&json!("error"), None));
    let report = verified(&folder, &server, &faulty["results"][1]["report"], "yes");
    assert_eq!((&report["tested"]["constraint"], &report["verdict"]["forced"]), (&json!(true), &json!(0)));
}

/// A report has no number that the answer does not have.
#[test]
fn a_report_shows_no_more_than_its_answer() {
    let (folder, server, kid) = world(&["--api-key-file", "keys.txt"]);
    let text = marked(&folder);
    let body = json!({"text": text, "report": true});
    let all = server.post_as("/detect", ANN, &body).json();
    assert!(part(&all["report"], "payload")["verdict"]["p"].is_number());
    for text in [&*text, PLAIN, "Short."] {
        let answer = server.post_as("/detect", EVE, &json!({"text": text, "report": true})).json();
        let report = verified(&folder, &server, &answer["report"], text);
        let verdict = report["verdict"].as_object().unwrap();
        assert!(!verdict.is_empty());
        for (name, value) in verdict {
            assert_eq!(&answer[name], value, "{name}");
        }
        let tested = report["tested"].as_object().unwrap();
        assert!(tested.keys().eq(["keys", "readings", "windows", "constraint"]), "{tested:?}");
        for number in ["\"p\"", "\"log10_p\"", "\"z\"", "\"score\"", "\"scored\"", "\"looks\""] {
            assert!(!report.to_string().contains(number), "{number}: {report}");
        }
    }
    // Anyone may check a report.
    let jwks = server.get("/.well-known/jwks.json");
    assert_eq!((jwks.status, &jwks.json()["keys"][0]["kid"]), (200, &json!(kid)));
    assert_eq!(server.get("/.well-known/other.json").status, 401);
    assert_eq!(server.post("/.well-known/jwks.json", &json!({})).status, 405);
    let secret = folder.read("report.pem");
    let secret = secret.lines().nth(1).unwrap();
    assert!(!jwks.text.contains(secret) && !server.log().concat().contains(secret));
    assert_eq!(server.get_as("/about", &format!("Bearer {EVE}")).json()["reports"], true);
}

#[test]
fn reports_that_cannot_be_signed_are_refused() {
    let (_folder, server, _) = world(&[]);
    let refused = server.post("/detect", &json!({"token_ids": [1, 2], "report": true}));
    let error = &refused.json()["error"];
    assert_eq!((refused.status, &error["code"], &error["param"]), (400, &json!("contradiction"), &json!("report")));
    let (folder, keyless) = Server::marking(&[]);
    let refused = keyless.post("/detect", &json!({"text": "a", "report": true}));
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!("no_report_key")));
    assert_eq!(keyless.post("/detect", &json!({"text": "a", "report": false})).status, 200);
    let jwks = keyless.get("/.well-known/jwks.json");
    assert_eq!((jwks.status, &jwks.json()["error"]["code"]), (404, &json!("no_report_key")));
    assert_eq!(keyless.get("/about").json()["reports"], false);
    let serve = |more: &[&str]| folder.run(&[&["serve", "--key", "my.key"], more].concat());
    serve(&["--report-key", "my.key"]).fails("not an Ed25519 private key");
    serve(&["--report-key", "none.pem"]).fails("cannot read the report key none.pem");
    serve(&["--report-url", URL]).fails("--report-key");
    serve(&["--report-key", "my.key", "--report-url", "me"]).fails("begins with https:// or http://");
}
