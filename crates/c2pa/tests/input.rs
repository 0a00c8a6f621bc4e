//! Bad input: one line with the cause and the remedy, and no file is lost.

mod common;

use common::certificates::{Pair, chain};
use common::{Desk, PLAIN, c2pa, run, shared};
use rcgen::{DnType, ExtendedKeyUsagePurpose};
use time::{Duration, OffsetDateTime};

/// The error when signing with these.
fn refused(desk: &Desk, certificate: &str, private_key: &str) -> String {
    let (certificate, private_key) = (desk.write("a.pem", certificate), desk.write("a.key.pem", private_key));
    let options = ["sign", "-", "--certificate", &certificate, "--private-key", &private_key];
    let error = c2pa(&options, PLAIN).error();
    // `--check` reports the same error before anything is written.
    assert_eq!(c2pa(&[&options[..], &["--check"]].concat(), "").error(), error);
    error
}

#[test]
fn certificates_and_keys_that_do_not_go_together_are_named() {
    let desk = Desk::new();
    let (own, own_key) = (desk.read("ada.cert.pem"), desk.read("ada.key.pem"));
    let key = Pair::p256(7);
    let (other, _) = chain(&key, |_| ());
    for (certificate, private_key, said) in [
        (&*own, &*key.pem, "the private key is not the certificate's"),
        (&own, &Pair::p384(7).pem, "the private key is not for es256"),
        (&own, &Pair::ed25519(7).pem, "the private key is not for es256"),
        (&other, &own_key, "the private key is not the certificate's"),
        ("", &own_key, "the certificate is empty or not PEM"),
        ("Nothing in PEM.", &own_key, "the certificate is empty or not PEM"),
        (&own_key, &own_key, "the certificate is a PRIVATE KEY"),
        (&own, &own, "is not PEM that begins with BEGIN PRIVATE KEY"),
        (&own, "", "openssl pkcs8 -topk8 -nocrypt"),
        (&own, "-----BEGIN PRIVATE KEY-----\nbm90IGEga2V5\n-----END PRIVATE KEY-----\n", "the private key is not for"),
        ("-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydA==\n-----END CERTIFICATE-----\n", &own_key, "cannot be read"),
    ] {
        let error = refused(&desk, certificate, private_key);
        assert!(error.contains(said), "{said}: {error}");
    }
}

/// The specification allows only some certificates to sign.
#[test]
fn certificates_that_may_not_sign_are_refused() {
    let desk = Desk::new();
    let key = Pair::p256(7);
    let past = OffsetDateTime::now_utc() - Duration::days(1);
    let (nameless, _) =
        chain(&key, |params| params.distinguished_name.remove(DnType::OrganizationName).then_some(()).unwrap());
    assert!(refused(&desk, &nameless, &key.pem).contains("names no organisation"));
    for (certificate, _) in [
        chain(&key, |params| params.not_after = past),
        chain(&key, |params| params.extended_key_usages.clear()),
        chain(&key, |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]),
        chain(&key, |params| params.key_usages.clear()),
    ] {
        let error = refused(&desk, &certificate, &key.pem);
        assert!(error.contains("the certificate may not sign C2PA claims ("), "{error}");
    }
}

#[test]
fn texts_that_cannot_be_signed_are_named_and_left_alone() {
    let desk = Desk::new();
    let latin = desk.write("latin.txt", b"caf\xe9");
    assert!(desk.sign(&[&latin]).error().contains("is not UTF-8 at byte 3: convert it to UTF-8"));
    assert!(c2pa(&["verify", &latin], "").error().contains("is not UTF-8 at byte 3"));
    let missing = desk.at("missing.txt");
    assert!(desk.sign(&[&missing]).error().contains("cannot read"));
    assert!(c2pa(&["verify", &missing], "").error().contains("cannot read"));
    let bare = desk.write("bare.py", "a = 1\rb = 2\n");
    assert!(desk.sign(&[&bare]).error().contains("bare carriage returns"));
    let long = desk.write("long.txt", "a".repeat((16 << 20) + 1));
    assert!(desk.sign(&[&long]).error().contains("is longer than 16777216 bytes"));
    let file = desk.write("tale.txt", PLAIN);
    for place in ["json", "html", "nowhere"] {
        let error = desk.sign(&[&file, "--manifest", place]).error();
        assert!(error.contains("is not a location for a manifest") && error.contains("sidecar"), "{error}");
    }
    // An existing file is not replaced without --force, and no unfinished file remains.
    let there = desk.write("there.txt", "precious");
    assert!(desk.sign(&[&file, "-o", &there]).error().contains("exists already; --force replaces it"));
    assert!(desk.sign(&[&file, "-o", &desk.at("none/a.txt")]).error().contains("cannot write"));
    assert!(desk.sign(&[&file, "-o", &desk.at("")]).error().contains("folder"));
    assert_eq!(desk.read("there.txt"), "precious");
    assert!(std::fs::read_dir(&desk.folder).unwrap().all(|file| !file.unwrap().path().ends_with(".part")));
    desk.sign(&[&file, "-o", &there, "--force"]).ok();
    assert_eq!(desk.verify("there.txt", &[])["manifest"]["verdict"], "valid");
}

#[test]
fn a_text_of_no_letters_and_one_of_many_are_signed() {
    let desk = shared();
    for (name, text) in [("empty.txt", String::new()), ("many.txt", "The captain. ".repeat(80_000))] {
        let file = desk.write(name, &text);
        let signed = desk.sign(&[&file]).ok();
        desk.write(name, &signed);
        assert_eq!(desk.verify(name, &[])["manifest"]["verdict"], "valid", "{name}");
    }
}

#[test]
fn one_bad_text_does_not_hide_the_others() {
    let desk = Desk::new();
    let good = desk.write("good.txt", desk.sign(&[&desk.write("plain.txt", PLAIN)]).ok());
    let bad = desk.write("bad.txt", b"\xff");
    let done = c2pa(&["verify", &bad, &good, "--json"], "");
    assert_eq!(done.status, 2);
    assert!(done.err.contains("bad.txt is not UTF-8"), "{}", done.err);
    assert_eq!(done.json()["manifest"]["verdict"], "valid");
}

#[test]
fn anchors_and_keys_that_are_none_are_named() {
    let desk = Desk::new();
    let file = desk.write("tale.txt", PLAIN);
    for anchors in ["", "No PEM.", "-----BEGIN CERTIFICATE-----\nbm90\n-----END CERTIFICATE-----\n"] {
        let anchors = desk.write("anchors.pem", anchors);
        let error = c2pa(&["verify", &file, "--trust", &anchors], "").error();
        assert!(error.contains("the trust anchors have no certificate"), "{error}");
    }
    let key = desk.write("no.key", "no key");
    c2pa(&["verify", &file, "--key", &key], "").error();
    let refused = c2pa(&["verify", &file, "--level", "2"], "");
    assert!(refused.status == 2 && refused.err.contains("must be a number above 0 and below 1"), "{}", refused.err);
    let error = c2pa(&["verify", &file, &file, "--manifest", &file], "").error();
    assert!(error.contains("--manifest belongs to one text"), "{error}");
}

#[test]
fn a_private_key_is_for_its_owner_alone_and_stands_in_no_output() {
    let desk = Desk::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(desk.path("ada.key.pem")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let error = c2pa(&["certificate", &desk.at("ada")], "").error();
    assert!(error.contains("exists already; --force replaces it"), "{error}");
    for name in ["\u{7}", &"a".repeat(65), " "] {
        let error = c2pa(&["certificate", &desk.at("eve"), "--signer", name], "").error();
        assert!(error.contains("cannot be the name in a certificate"), "{error}");
    }
    assert!(!desk.has("eve.key.pem"));
    let secret = desk.read("ada.key.pem").lines().nth(1).unwrap().to_owned();
    let file = desk.write("tale.txt", PLAIN);
    for done in [desk.sign(&[&file]), desk.sign(&[&file, "--check"])] {
        assert!(!done.out.contains(&secret) && !done.err.contains(&secret));
    }
}

/// Anyone can obtain a certificate with any name.
#[test]
fn a_name_of_a_signer_cannot_disturb_a_terminal() {
    let desk = Desk::new();
    c2pa(&["certificate", &desk.at("odd"), "--signer", "Ada\u{202e}adA"], "").ok();
    let (certificate, key) = (desk.at("odd.cert.pem"), desk.at("odd.key.pem"));
    let signed = run(common::PROGRAM, &["sign", "-", "--certificate", &certificate, "--private-key", &key], b"A tale.");
    let file = desk.write("tale.txt", signed.ok());
    let told = c2pa(&["verify", &file], "").ok();
    assert!(told.contains("signed by Ada\u{fffd}adA"), "{told}");
}
