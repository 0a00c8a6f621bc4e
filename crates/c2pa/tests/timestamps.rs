//! Time stamps of signatures, by a local authority.

mod common;

use std::ops::Range;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::authority::{Authority, Manner, ROOT, has_openssl, token};
use common::certificates::{Pair, chain, chain_under};
use common::{Desk, PLAIN, c2pa};
use rcgen::{ExtendedKeyUsagePurpose, SanType};
use serde_json::{Value, json};
use time::OffsetDateTime;

/// The verdict on the time stamp of a file, and the status.
fn stamp(desk: &Desk, name: &str, options: &[&str]) -> (Value, i32) {
    let done = c2pa(&[&["verify", &desk.at(name), "--json"], options].concat(), "");
    let manifest = done.json()["manifest"].clone();
    assert_eq!(manifest["verdict"], "valid", "{manifest}");
    (manifest, done.status)
}

#[test]
fn a_stamp_says_when_and_by_whom_and_is_trusted_for_its_root_alone() {
    if !has_openssl() {
        return;
    }
    let desk = Desk::new();
    let authority = Authority::start(&desk, "a", Manner::Honest);
    let file = desk.write("tale.txt", PLAIN);
    let before = OffsetDateTime::now_utc();
    for (name, options) in [
        ("signed.txt", &["--manifest", "text"][..]),
        ("signed.md", &["--manifest", "md"]),
        ("signed.json", &["--manifest", "text", "--timestamp-size", "10"]),
    ] {
        let asked = authority.requests();
        let signed = desk.sign(&[&[&*file, "--timestamp-url", &authority.url], options].concat());
        assert_eq!(signed.err, "");
        // One request for the size and one for the signature; with a size that is too small one in vain.
        assert_eq!(authority.requests() - asked, 2, "{name}");
        desk.write(name, signed.ok());

        let (manifest, status) = stamp(&desk, name, &[]);
        assert_eq!((manifest["timestamp"]["verdict"].as_str(), status), (Some("untrusted"), 0), "{manifest}");
        assert_eq!(manifest["timestamp"]["authority"], "Clock a");
        assert_eq!(manifest["timestamp"]["codes"], json!(["timeStamp.untrusted"]));
        assert!(manifest.get("trusted_time").is_none());
        let year = manifest["timestamp"]["time"].as_str().unwrap()[..4].parse::<i32>().unwrap();
        assert!((before.year()..=OffsetDateTime::now_utc().year()).contains(&year), "{manifest}");

        for option in ["--trust", "--trust-timestamps"] {
            let (manifest, status) = stamp(&desk, name, &[option, &authority.root]);
            assert_eq!(manifest["timestamp"]["verdict"], "trusted", "{option}: {manifest}");
            assert_eq!(manifest["timestamp"]["time"], manifest["trusted_time"]);
            assert!(manifest["timestamp"].get("codes").is_none());
            assert_eq!(manifest["trusted"], false);
            assert_eq!(status, if option == "--trust" { 4 } else { 0 });
        }
        let both = ["--trust", &desk.at("ada.root.pem"), "--trust-timestamps", &authority.root];
        let (manifest, status) = stamp(&desk, name, &both);
        assert_eq!((&manifest["trusted"], &manifest["timestamp"]["verdict"]), (&true.into(), &"trusted".into()));
        assert_eq!(status, 0);
        // Trusted time stamps are required if their roots are given.
        let (manifest, status) = stamp(&desk, name, &["--trust-timestamps", &desk.at("ada.root.pem")]);
        assert_eq!((manifest["timestamp"]["verdict"].as_str(), status), (Some("untrusted"), 4));
    }
    // The stamp does not cover the words, but the signature does.
    let edited = desk.read("signed.txt").replacen("captain", "Captain", 1);
    let found = c2pa(&["verify", &desk.write("edited.txt", edited), "--json"], "");
    assert_eq!((found.status, &found.json()["manifest"]["verdict"]), (4, &"invalid".into()));
}

#[test]
fn people_read_who_stamped_it() {
    if !has_openssl() {
        return;
    }
    let desk = Desk::new();
    let authority = Authority::start(&desk, "a", Manner::Honest);
    let file = desk.write("tale.txt", PLAIN);
    let signed = desk.sign(&[&file, "--timestamp-url", &authority.url, "-o", &desk.at("signed.txt")]);
    assert_eq!((signed.status, &*signed.err), (0, ""));
    let lines = |options: &[&str]| {
        let read = c2pa(&[&["verify", &desk.at("signed.txt")], options].concat(), "").out;
        read.lines().find(|line| line.contains("stamped by")).map(str::to_owned).unwrap_or_else(|| panic!("{read}"))
    };
    let ending = |line: &str| line.split(" or before, ").nth(1).unwrap().to_owned();
    assert_eq!(
        ending(&lines(&[])),
        "as stamped by Clock a, which is not trusted: no anchors were given with --trust or --trust-timestamps"
    );
    assert_eq!(
        ending(&lines(&["--trust", &desk.at("ada.root.pem")])),
        "as stamped by Clock a, which is not trusted: no anchor vouches for its certificate"
    );
    assert_eq!(ending(&lines(&["--trust-timestamps", &authority.root])), "as stamped by Clock a, which is trusted");
    assert!(lines(&[]).trim().starts_with(&format!("signed at {}", OffsetDateTime::now_utc().year())));
}

/// Roots of authorities are not roots of signers.
#[test]
fn an_authority_does_not_vouch_for_signers() {
    if !has_openssl() {
        return;
    }
    let desk = Desk::new();
    let authority = Authority::start(&desk, "a", Manner::Honest);
    let key = Pair::p256(8);
    let (certificates, root) = chain_under(ROOT, &key, |_| ());
    let (certificate, private_key) = (desk.write("b.pem", certificates), desk.write("b.key.pem", &key.pem));
    let root = desk.write("b.root.pem", root);
    let options = ["sign", "--certificate", &certificate, "--private-key", &private_key];
    let signed = c2pa(&[&options[..], &["--timestamp-url", &authority.url]].concat(), PLAIN);
    desk.write("signed.txt", signed.ok());
    assert_eq!(stamp(&desk, "signed.txt", &["--trust", &root]).0["trusted"], true);
    let (manifest, _) = stamp(&desk, "signed.txt", &["--trust-timestamps", &root]);
    assert_eq!((&manifest["trusted"], &manifest["timestamp"]["verdict"]), (&false.into(), &"trusted".into()));
    let other = ["--trust", &desk.at("ada.root.pem"), "--trust-timestamps", &root];
    let (manifest, status) = stamp(&desk, "signed.txt", &other);
    assert_eq!((&manifest["trusted"], status), (&false.into(), 4));
}

/// A signature outlives its certificate if a trusted authority stamped it in time.
#[test]
fn a_stamped_signature_outlives_its_certificate() {
    if !has_openssl() {
        return;
    }
    let desk = Desk::new();
    let authority = Authority::start(&desk, "a", Manner::Honest);
    let key = Pair::p256(8);
    let until = OffsetDateTime::now_utc() + time::Duration::seconds(6);
    let (certificates, root) = chain(&key, |params| params.not_after = until);
    let (certificate, private_key) = (desk.write("b.pem", certificates), desk.write("b.key.pem", &key.pem));
    let root = desk.write("b.root.pem", root);
    let options = ["sign", "--certificate", &certificate, "--private-key", &private_key];
    desk.write("stamped.txt", c2pa(&[&options[..], &["--timestamp-url", &authority.url]].concat(), PLAIN).ok());
    desk.write("plain.txt", c2pa(&options, PLAIN).ok());
    std::thread::sleep(Duration::from_secs(8));
    let found = |name: &str, options: &[&str]| desk.verify(name, options)["manifest"].clone();
    let trust = ["--trust", &root, "--trust-timestamps", &authority.root];
    let manifest = found("stamped.txt", &trust);
    assert_eq!((&manifest["verdict"], &manifest["trusted"]), (&"valid".into(), &true.into()), "{manifest}");
    // An authority that is not trusted proves nothing.
    for manifest in [found("stamped.txt", &["--trust", &root]), found("plain.txt", &trust)] {
        assert_eq!(manifest["verdict"], "invalid", "{manifest}");
        assert_eq!(manifest["codes"], json!(["signingCredential.expired"]), "{manifest}");
    }
}

/// The value of a byte string of CBOR, and the rest.
fn byte_string(cbor: &[u8]) -> (&[u8], &[u8]) {
    assert_eq!(cbor[0] >> 5, 2, "a byte string");
    let (length, head) = match cbor[0] & 31 {
        short @ 0..24 => (usize::from(short), 1),
        24 => (usize::from(cbor[1]), 2),
        25 => (usize::from(u16::from_be_bytes([cbor[1], cbor[2]])), 3),
        other => panic!("a length of kind {other}"),
    };
    (&cbor[head..head + length], &cbor[head + length..])
}

/// A byte string as CBOR.
fn encoded(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    let head = match length {
        0..24 => vec![0x40 | length as u8],
        24..256 => vec![0x58, length as u8],
        _ => [&[0x59], &length.to_be_bytes()[..]].concat(),
    };
    [&head[..], bytes].concat()
}

/// The position after a pattern.
fn after(store: &[u8], pattern: &[u8]) -> usize {
    store.windows(pattern.len()).position(|window| window == pattern).expect("it is there") + pattern.len()
}

/// The parts of a store: its time stamp, and the data that this must be for as the specification (C2PA 2.2, 10.3.2.5)
/// names it: COSE's structure for a countersignature over the signature.
struct Parts {
    token: Range<usize>,
    signature: Vec<u8>,
    countersigned: Vec<u8>,
}

impl Parts {
    fn of(store: &[u8]) -> Self {
        // COSE_Sign1: a tagged list of the protected header, the unprotected one, a null, and the signature.
        let start = after(store, b"\xd2\x84");
        let (protected, _) = byte_string(&store[start..]);
        let (token, rest) = byte_string(&store[after(store, b"sigTst2\xa1itstTokens\x81\xa1cval")..]);
        let end = store.len() - rest.len();
        let signature = store.windows(3).rposition(|window| window == b"\xf6\x58\x40").unwrap() + 1;
        let (signature, rest) = byte_string(&store[signature..]);
        assert_eq!((signature.len(), rest.len()), (64, 0), "the signature is the last part of the store");
        let payload = encoded(signature);
        let parts = [&b"\x84\x70CounterSignature"[..], &encoded(protected), &encoded(b""), &encoded(&payload)];
        Self { token: end - token.len()..end, signature: signature.into(), countersigned: parts.concat() }
    }
}

/// The fault that OpenSSL finds in a token for these data.
fn fault(desk: &Desk, token: &[u8], data: &[u8], root: &str) -> Option<String> {
    let (token, data) = (desk.write("token.der", token), desk.write("data", data));
    let options = ["ts", "-verify", "-data", &data, "-in", &token, "-token_in", "-CAfile", root];
    let done = Command::new("openssl").args(options).output().unwrap();
    (!done.status.success()).then(|| String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn openssl_accepts_the_token_for_the_signature() {
    if !has_openssl() {
        return;
    }
    let desk = Desk::new();
    let authority = Authority::start(&desk, "a", Manner::Honest);
    let file = desk.write("tale.txt", PLAIN);
    let store = desk.at("tale.c2pa");
    desk.sign(&[&file, "--timestamp-url", &authority.url, "--manifest", "sidecar", "-o", &store]).ok();
    let store = std::fs::read(store).unwrap();
    let Parts { token, signature, countersigned } = Parts::of(&store);
    let token = &store[token];
    assert_eq!(fault(&desk, token, &countersigned, &authority.root), None);
    // Nothing else, such as the signature without its structure.
    assert!(fault(&desk, token, &signature, &authority.root).unwrap().contains("imprint"));
    assert!(fault(&desk, token, &countersigned, &desk.at("ada.root.pem")).is_some());
}

#[test]
fn a_changed_stamp_is_not_one() {
    if !has_openssl() {
        return;
    }
    let desk = Desk::new();
    let authority = Authority::start(&desk, "a", Manner::Honest);
    let file = desk.write("tale.txt", PLAIN);
    let signed = |name: &str| {
        let path = desk.at(name);
        let options = ["--timestamp-url", &authority.url, "--manifest", "sidecar", "--timestamp-size", "4000", "-o"];
        desk.sign(&[&[&*file], &options[..], &[&path]].concat()).ok();
        std::fs::read(path).unwrap()
    };
    let (first, second) = (signed("first.c2pa"), signed("second.c2pa"));
    let judged = |store: &[u8]| {
        let path = desk.write("judged.c2pa", store);
        let options = ["verify", &file, "--json", "--manifest", &path, "--trust-timestamps", &authority.root];
        let done = c2pa(&options, "");
        (done.json()["manifest"]["timestamp"].clone(), done.status)
    };
    assert_eq!(judged(&first).0["verdict"], "trusted");

    // That of another signature, in a store of the same lengths.
    let (to, from) = (Parts::of(&first), Parts::of(&second));
    if to.token.len() == from.token.len() {
        let mut moved = first.clone();
        moved[to.token.clone()].copy_from_slice(&second[from.token]);
        let (stamp, status) = judged(&moved);
        assert_eq!((stamp["verdict"].as_str(), status), (Some("invalid"), 4), "{stamp}");
        assert_eq!(stamp["codes"], json!(["timeStamp.mismatch"]));
        assert!(stamp.get("time").is_none(), "{stamp}");
    }
    // Every byte of the statement, and of the signature at the end, counts.
    let statement = after(&first, b"\x06\x0b\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x01\x04");
    let length = usize::from(first[statement + 5]);
    assert_eq!((first[statement], first[statement + 2], first[statement + 4]), (0xa0, 0x04, 0x30), "its headers");
    let time = after(&first, b"\x18\x0f20");
    assert!((statement..statement + length).contains(&time), "the time is part of it");
    for at in (statement + 6..statement + 6 + length).step_by(3).chain([time]).chain(to.token.end - 20..to.token.end) {
        let mut changed = first.clone();
        changed[at] ^= 1;
        let (stamp, status) = judged(&changed);
        assert_eq!((stamp["verdict"].as_str(), status), (Some("invalid"), 4), "byte {}", at - to.token.start);
    }
}

/// The store with another token, and less padding.
fn with_token(store: &[u8], token: &[u8]) -> Vec<u8> {
    let Parts { token: old, .. } = Parts::of(store);
    let (value, padding) = (old.start - 3, old.end + after(&store[old.end..], b"cpad"));
    assert_eq!((store[value], store[padding]), (0x59, 0x59), "lengths of two bytes");
    let length = |at: usize| usize::from(u16::from_be_bytes([store[at + 1], store[at + 2]]));
    let rest = length(padding) + old.len() - token.len();
    let end = padding + 3 + length(padding);
    let rest = u16::try_from(rest).unwrap();
    let between = &store[old.end..padding];
    let all = [&store[..value], &encoded(token), between, &encoded(&vec![0; rest.into()]), &store[end..]].concat();
    assert_eq!(all.len(), store.len());
    all
}

/// Otherwise anyone with a certificate for mail could state any time.
#[test]
fn certificates_for_other_purposes_prove_no_time() {
    if !has_openssl() {
        return;
    }
    let desk = Desk::new();
    let authority = Authority::start(&desk, "a", Manner::Honest);
    let key = Pair::p256(8);
    let until = OffsetDateTime::now_utc() + time::Duration::seconds(6);
    let (certificates, root) = chain_under(ROOT, &key, |params| params.not_after = until);
    let signer = desk.write("mail.pem", format!("{certificates}{}", key.pem));
    let (certificate, private_key) = (desk.write("b.pem", certificates), desk.write("b.key.pem", &key.pem));
    let root = desk.write("b.root.pem", root);
    let (file, store) = (desk.write("tale.txt", PLAIN), desk.at("tale.c2pa"));
    let options =
        ["sign", &file, "--certificate", &certificate, "--private-key", &private_key, "--manifest", "sidecar"];
    let stamp = ["--timestamp-url", &authority.url, "--timestamp-size", "9000", "-o", &store];
    c2pa(&[&options[..], &stamp].concat(), "").ok();
    let store = std::fs::read(store).unwrap();
    let data = Parts::of(&store).countersigned;
    let proper = desk.write("proper.c2pa", with_token(&store, &token(&desk, "a", &data, None)));
    let improper = desk.write("improper.c2pa", with_token(&store, &token(&desk, "a", &data, Some(&signer))));
    let found = |store: &str| desk.verify("tale.txt", &["--manifest", store, "--trust", &root])["manifest"].clone();
    assert_eq!(found(&proper)["timestamp"]["verdict"], "trusted");
    let manifest = found(&improper);
    assert_eq!((&manifest["verdict"], &manifest["trusted"]), (&"valid".into(), &true.into()), "{manifest}");
    assert_eq!(manifest["timestamp"]["verdict"], "untrusted", "{manifest}");
    assert_eq!(manifest["timestamp"]["codes"], json!(["verdigris.timeStamp.purpose"]));
    std::thread::sleep(Duration::from_secs(8));
    let manifest = found(&proper);
    assert_eq!((&manifest["verdict"], &manifest["trusted"]), (&"valid".into(), &true.into()), "{manifest}");
    let manifest = found(&improper);
    assert_eq!(manifest["verdict"], "invalid", "{manifest}");
    assert_eq!(manifest["codes"], json!(["signingCredential.expired"]));
}

/// The error of signing with an authority.
fn refused(desk: &Desk, authority: &str) -> String {
    let file = desk.write("tale.txt", PLAIN);
    let out = desk.at("out.txt");
    let error = desk.sign(&[&file, "--timestamp-url", authority, "-o", &out]).error();
    assert!(!desk.has("out.txt"), "{error}");
    // `--check` finds it before a text is written.
    let check = desk.sign(&["-", "--timestamp-url", authority, "--manifest", "text", "--check"]).error();
    assert!(check.contains("no time stamp from"), "{check}");
    error
}

#[test]
fn an_authority_without_an_answer_is_named() {
    let desk = Desk::new();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = refused(&desk, &format!("http://{closed}/tsr"));
    assert!(error.contains("refused") && error.contains("try again later, or use another authority"), "{error}");
    let error = refused(&desk, "http://authority.invalid/");
    assert!(error.contains("no time stamp from http://authority.invalid/: "), "{error}");
    let silent = Authority::start(&desk, "silent", Manner::Silent);
    let file = desk.write("tale.txt", PLAIN);
    let begun = std::time::Instant::now();
    let error = desk.sign(&[&file, "--timestamp-url", &silent.url]).error();
    assert!(error.contains("timeout") && begun.elapsed() < Duration::from_secs(25), "{error}");
    for url in ["tsa.example.com", "ftp://example.com", "http://", "", "not a url", "http://a b/", "file:///etc/passwd"]
    {
        let error = desk.sign(&[&file, "--timestamp-url", url]).error();
        assert!(error.contains("give the address of a time-stamping authority"), "{url}: {error}");
    }
    let error = desk.sign(&[&file, "--timestamp-url", "http://ada:secret@example.com/"]).error();
    assert!(error.contains("has a user name or a password") && !error.contains("secret"), "{error}");
}

#[test]
fn answers_that_are_no_stamps_are_refused() {
    if !has_openssl() {
        return;
    }
    let desk = Desk::new();
    let page = |status: &str, kind: &str, body: &str| {
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n");
        Manner::Saying(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes())
    };
    let reply = "application/timestamp-reply";
    // A length for which memory cannot be reserved.
    let long = format!("HTTP/1.1 200 OK\r\ncontent-type: {reply}\r\ncontent-length: {}\r\n\r\n0", u64::MAX / 4);
    let moved = "HTTP/1.1 301 Moved\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
    for (name, manner, said) in [
        ("down", page("503 Unavailable", "text/plain", "later"), "it answered with HTTP status 503"),
        ("moved", Manner::Saying(moved.into()), "it answered with HTTP status 301"),
        ("page", page("200 OK", "text/html", "<p>Sign in</p>"), "its answer is \"text/html\" and not a time stamp"),
        ("noise", page("200 OK", reply, "garbage"), "its answer cannot be read as a time stamp"),
        ("empty", page("200 OK", reply, ""), "its answer cannot be read as a time stamp"),
        ("bare", Manner::Saying(b"no HTTP at all".to_vec()), "no time stamp from"),
        ("long", Manner::Saying(long.into_bytes()), "no time stamp from"),
        ("endless", Manner::Endless, "limit"),
        ("refusing", Manner::Refusing, "it refused the request (status 2): "),
        ("mistaken", Manner::Mistaken, "its time stamp is one for something else"),
    ] {
        let authority = Authority::start(&desk, name, manner);
        let error = refused(&desk, &authority.url);
        assert!(error.contains(said) && error.contains(&authority.url), "{name}: {error}");
    }
    // The first answer is right, and is repeated for the next request.
    let repeating = Authority::start(&desk, "repeating", Manner::Repeating);
    let error = desk.sign(&[&desk.at("tale.txt"), "--timestamp-url", &repeating.url]).error();
    assert!(error.contains("its answer is to another request"), "{error}");
}

/// HTTPS is spoken, and its certificates are checked.
#[test]
fn a_server_with_an_unknown_certificate_gets_no_request() {
    if !has_openssl() {
        return;
    }
    let desk = Desk::new();
    let key = Pair::p256(6);
    let (certificates, _) = chain(&key, |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
    });
    let (certificate, private_key) = (desk.write("tls.pem", certificates), desk.write("tls.key.pem", &key.pem));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let options = ["s_server", "-accept", &address, "-cert", &certificate, "-key", &private_key, "-quiet"];
    let mut server = Command::new("openssl").args(options).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let begun = std::time::Instant::now();
    while std::net::TcpStream::connect(&address).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it listens");
        std::thread::sleep(Duration::from_millis(20));
    }
    let error = refused(&desk, &format!("https://{address}/tsr"));
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(error.contains("invalid peer certificate: UnknownIssuer"), "{error}");
}

#[test]
fn certificates_that_may_not_stamp_are_refused() {
    if !has_openssl() {
        return;
    }
    let desk = Desk::new();
    let past = OffsetDateTime::now_utc() - time::Duration::hours(1);
    let expired = Authority::with(&desk, "expired", Manner::Honest, |params| params.not_after = past);
    let error = refused(&desk, &expired.url);
    assert!(error.contains("its certificate has expired, or is not valid yet"), "{error}");
    let key = Pair::p256(9);
    let (certificates, _) = chain_under(ROOT, &key, |_| ());
    let signer = desk.write("mail.pem", format!("{certificates}{}", key.pem));
    let improper = Authority::start(&desk, "improper", Manner::Improper(signer));
    let error = refused(&desk, &improper.url);
    assert!(error.contains("its certificate is not one for time stamps"), "{error}");
}

#[test]
fn a_signature_without_a_stamp_is_warned_of_or_refused() {
    let desk = Desk::new();
    let file = desk.write("tale.txt", PLAIN);
    let done = desk.sign(&[&file]);
    assert_eq!(
        done.err,
        "warning: the signature has no time stamp, which the EU's code of practice (measure 1.1.1) asks for: give \
         --timestamp-url\n"
    );
    desk.write("signed.txt", done.ok());
    let manifest = desk.verify("signed.txt", &[])["manifest"].clone();
    assert!(manifest.get("timestamp").is_none() && manifest.get("trusted_time").is_none(), "{manifest}");
    let status = c2pa(&["verify", &desk.at("signed.txt"), "--trust-timestamps", &desk.at("ada.root.pem")], "").status;
    assert_eq!(status, 4);
    let error = desk.sign(&[&file, "--require-timestamp"]).error();
    assert!(error.contains("give --timestamp-url"), "{error}");
    let error = desk.sign(&["-", "--require-timestamp", "--manifest", "text", "--check"]).error();
    assert!(error.contains("give --timestamp-url"), "{error}");
}
