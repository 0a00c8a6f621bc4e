//! A command signs, as one does for a key that never leaves its device.
#![cfg(unix)]

mod common;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::authority::{Authority, Manner, has_openssl};
use common::certificates::{Pair, chain};
use common::{Desk, Done, PLAIN, c2pa, shared};
use serde_json::json;

fn sign(certificate: &str, command: &str) -> Done {
    c2pa(&["sign", "--certificate", certificate, "--sign-command", command], PLAIN)
}

#[test]
fn commands_sign_with_keys_of_every_kind() {
    if !has_openssl() {
        return;
    }
    let desk = Desk::new();
    let pss = "-sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:digest";
    for (name, key, command) in [
        ("p256", Pair::p256(7), "openssl dgst -sha256 -sign KEY"),
        ("p384", Pair::p384(7), "openssl dgst -sha384 -sign KEY"),
        ("rsa", Pair::rsa(), &*format!("openssl dgst -sha256 {pss} -sign KEY")),
    ] {
        // Shown if the test fails.
        println!("{name}");
        let (certificates, root) = chain(&key, |_| ());
        let certificate = desk.write(&format!("{name}.pem"), certificates);
        let root = desk.write(&format!("{name}.root"), root);
        let private_key = desk.write(&format!("{name}.key.pem"), &key.pem);
        let signed = format!("{name}.txt");
        desk.write(&signed, sign(&certificate, &command.replace("KEY", &private_key)).ok());
        let found = desk.verify(&signed, &["--trust", &root]);
        assert_eq!(found["manifest"]["verdict"], "valid", "{found}");
        assert_eq!(found["manifest"]["trusted"], true, "{found}");
        assert_eq!(found["manifest"]["signer"], "Grace");
        // A device is asked once for each signature.
        let count = desk.at(&format!("{name}.count"));
        let counted = format!("echo >> {count}; {}", command.replace("KEY", &private_key));
        sign(&certificate, &counted).ok();
        assert_eq!(std::fs::read_to_string(&count).unwrap().lines().count(), 1, "{name}");
    }
}

/// A signature without ASN.1, as PKCS#11 returns it.
#[test]
fn raw_signatures_are_taken_too() {
    if !has_openssl() {
        return;
    }
    let desk = Desk::new();
    let key = desk.at("ada.key.pem");
    // The two numbers of the signature, each of 32 bytes.
    let raw = "perl -e 'undef $/; $_ = <>; $r = ord(substr($_, 3, 1)); $s = ord(substr($_, 5 + $r, 1)); \
               print substr((\"\\0\" x 32) . substr($_, 4, $r), -32) . substr((\"\\0\" x 32) . substr($_, 6 + $r, $s), -32)'";
    if !Command::new("perl").arg("-v").output().is_ok_and(|done| done.status.success()) {
        let _ = std::io::stderr().write_all(b"\nSKIPPED: perl is missing, so no raw signature has been tested\n");
        return;
    }
    let done = sign(&desk.at("ada.cert.pem"), &format!("openssl dgst -sha256 -sign {key} | {raw}"));
    desk.write("raw.txt", done.ok());
    assert_eq!(desk.verify("raw.txt", &[])["manifest"]["verdict"], "valid");
}

#[test]
fn a_stamp_is_for_the_signature_of_a_command() {
    if !has_openssl() {
        return;
    }
    let desk = Desk::new();
    let authority = Authority::start(&desk, "a", Manner::Honest);
    let command = format!("openssl dgst -sha256 -sign {}", desk.at("ada.key.pem"));
    let certificate = desk.at("ada.cert.pem");
    let options = ["sign", "--certificate", &certificate, "--sign-command", &command];
    desk.write("tale.txt", c2pa(&[&options[..], &["--timestamp-url", &authority.url]].concat(), PLAIN).ok());
    let manifest = desk.verify("tale.txt", &["--trust-timestamps", &authority.root])["manifest"].clone();
    assert_eq!((&manifest["verdict"], &manifest["timestamp"]["verdict"]), (&json!("valid"), &json!("trusted")));
}

#[test]
fn commands_that_do_not_sign_are_named() {
    let desk = shared();
    let certificate = desk.at("ada.cert.pem");
    let refused = |command: &str| {
        let error = sign(&certificate, command).error();
        let options = ["sign", "-", "--certificate", &certificate, "--sign-command", command, "--check"];
        assert_eq!(c2pa(&[&options[..], &["--manifest", "text"]].concat(), "").error(), error);
        error
    };
    for (command, said) in [
        ("exit 7", "the signing command failed (exit status: 7): it must write the raw signature"),
        ("echo 'no slot' >&2; echo 'Token\u{7} is locked' >&2; exit 1", "failed (exit status: 1): Token is locked"),
        ("true", "the signing command wrote nothing"),
        ("cat > /dev/null; echo signed", "wrote 7 bytes that are not a signature of its input"),
        ("head -c 64 /dev/zero", "wrote 64 bytes that are not a signature of its input"),
        ("cat /dev/zero", "failed"),
        ("head -c 20000 /dev/zero", "wrote more than 16384 bytes"),
        ("no-such-program-anywhere", "not found"),
        ("kill -9 $$", "failed (signal: 9"),
    ] {
        let error = refused(command);
        assert!(error.contains(said), "{command}: {error}");
    }
    // A key of another certificate.
    if has_openssl() {
        let other = desk.write("other.key.pem", Pair::p256(5).pem);
        let error = sign(&certificate, &format!("openssl dgst -sha256 -sign {other}")).error();
        assert!(error.contains("not a signature of its input with the certificate's key as es256"), "{error}");
    }
    let both = ["sign", "-", "--certificate", &certificate, "--sign-command", "true", "--private-key", "a"];
    assert!(c2pa(&both, PLAIN).err.contains("cannot be used with"));
    assert!(c2pa(&both[..4], PLAIN).err.contains("--private-key"));
}

/// The example of docs/c2pa.md: a key in a token of PKCS#11, which SoftHSM keeps in files.
#[test]
fn a_token_of_pkcs11_signs() {
    let module = ["/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/pkcs11/libsofthsm2.so"].map(Path::new);
    let module = module.into_iter().find(|module| module.exists());
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let Some(module) = module.filter(|_| has("softhsm2-util") && has("pkcs11-tool") && has_openssl()) else {
        let _ = std::io::stderr().write_all(b"\nSKIPPED: SoftHSM or OpenSC is missing, so no token has signed\n");
        return;
    };
    let desk = Desk::new();
    std::fs::create_dir(desk.path("tokens")).unwrap();
    let config = desk.write("softhsm2.conf", format!("directories.tokendir = {}\n", desk.at("tokens")));
    let token = |options: &[&str]| {
        let done = Command::new("softhsm2-util").args(options).env("SOFTHSM2_CONF", &config).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    token(&["--init-token", "--free", "--label", "ada", "--pin", "1234", "--so-pin", "4321"]);
    let key = desk.at("ada.key.pem");
    token(&["--import", &key, "--token", "ada", "--label", "ada", "--id", "A1", "--pin", "1234"]);
    std::fs::remove_file(key).unwrap();
    let command = format!(
        "openssl dgst -sha256 -binary | pkcs11-tool --module {} --token-label ada --login --pin env:PIN --sign \
         --mechanism ECDSA --id A1",
        module.display()
    );
    let certificate = desk.at("ada.cert.pem");
    let signed = |pin: &str| {
        let mut child = Command::new(common::PROGRAM)
            .args(["sign", "--certificate", &certificate, "--sign-command", &command, "-o", &desk.at("tale.txt")])
            .envs([("SOFTHSM2_CONF", &*config), ("PIN", pin)])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(PLAIN.as_bytes()).unwrap();
        let done = child.wait_with_output().unwrap();
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    let (status, said) = signed("1111");
    assert!(status == Some(2) && said.contains("the signing command failed"), "{said}");
    let (status, said) = signed("1234");
    assert_eq!(status, Some(0), "{said}");
    let found = desk.verify("tale.txt", &["--trust", &desk.at("ada.root.pem")]);
    assert_eq!((&found["manifest"]["verdict"], &found["manifest"]["trusted"]), (&json!("valid"), &json!(true)));
}

/// A command that waits for ever is killed, also if it has started others that keep its output open.
#[test]
fn a_command_that_does_not_end_is_killed() {
    let desk = shared();
    let begun = Instant::now();
    let error = sign(&desk.at("ada.cert.pem"), "sleep 300").error();
    assert!(error.contains("took more than 30 s"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(45));
}
