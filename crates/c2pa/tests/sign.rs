//! Signed texts are valid at all locations of the manifest, and the manifest has the given claims.

mod common;

use common::certificates::{Pair, chain};
use common::{Desk, PLAIN, c2pa, shared};

const MARK: [&str; 4] = ["--scheme", "native", "--key-id", "my"];

/// Every format with its own location or notation, and the beginning of its first line when signed.
const FORMATS: [(&str, &str, &str); 14] = [
    ("plain.txt", PLAIN, ""),
    ("heading.md", "# A tale\n\nThe captain.\n", "<!-- -----BEGIN"),
    ("matter.md", "---\ntitle: A tale\n---\nThe captain.\n", "---"),
    ("toml-matter.md", "+++\ntitle = \"A tale\"\n+++\nThe captain.\n", "+++"),
    ("script.py", "#!/usr/bin/env python3\nprint('captain')\n", "#!/usr"),
    ("module.py", "print('captain')\n", "# -----BEGIN"),
    ("main.rs", "fn main() {}\n", "// -----BEGIN"),
    ("data.jsonc", "{\"captain\": true} // he is\n", "// -----BEGIN"),
    ("style.css", "body {}", "/* -----BEGIN"),
    ("feed.xml", "<?xml version=\"1.0\"?>\n<feed/>\n", "<?xml"),
    ("query.sql", "SELECT 1;\n", "-- -----BEGIN"),
    ("paper.tex", "\\section{A}\n", "% -----BEGIN"),
    ("lines.yaml", "a: 1\r\nb: 2\r\n", "# -----BEGIN"),
    ("form.ini", "[a]\nb=1\n", "; -----BEGIN"),
];

#[test]
fn what_is_signed_is_valid_in_every_format() {
    let desk = Desk::new();
    for (name, text, first) in FORMATS {
        let file = desk.write(name, text);
        let signed = desk.sign(&[&[&*file], &MARK[..]].concat()).ok();
        assert!(signed.starts_with(first), "{name}: {}", &signed[..60]);
        desk.write(name, &signed);
        let found = desk.verify(name, &[]);
        let manifest = &found["manifest"];
        assert_eq!(manifest["verdict"], "valid", "{name}: {found}");
        assert_eq!(manifest["binding"], "match", "{name}");
        assert_eq!(manifest["place"], if first.is_empty() { "text" } else { "structured" }, "{name}");
        // Every line of the text is kept.
        let lines: Vec<&str> = signed.lines().filter(|line| !line.contains("C2PA MANIFEST")).collect();
        for line in text.lines() {
            assert!(lines.iter().any(|signed| signed.starts_with(line)), "{name}: {line}");
        }
    }
}

#[test]
fn a_sidecar_lies_beside_a_file_that_stays_what_it_was() {
    let desk = Desk::new();
    for (name, text) in [("data.json", "{\"a\": 1}\n"), ("a.csv", "a,b\n1,2\n"), ("page.html", "<p>The captain.</p>")] {
        let file = desk.write(name, text);
        assert_eq!(desk.sign(&[&file]).ok(), "");
        assert_eq!(desk.read(name), text);
        let found = desk.verify(name, &[]);
        assert_eq!(found["manifest"]["verdict"], "valid", "{found}");
        assert_eq!(found["manifest"]["place"], "sidecar");
        let again = desk.sign(&[&file]).error();
        assert!(again.contains("exists already; --force replaces it"), "{again}");
        desk.sign(&[&file, "--force"]).ok();
    }
    // A sidecar under another name.
    let file = desk.write("tale.txt", PLAIN);
    desk.sign(&[&file, "--manifest", "sidecar", "-o", &desk.at("other.c2pa")]).ok();
    assert_eq!(desk.verify("tale.txt", &[])["manifest"]["verdict"], "absent");
    assert_eq!(desk.verify("tale.txt", &["--manifest", &desk.at("other.c2pa")])["manifest"]["verdict"], "valid");
}

/// Other programs keep the manifest, which the signed text has too.
#[test]
fn a_manifest_is_also_written_by_itself() {
    let desk = Desk::new();
    let file = desk.write("tale.txt", PLAIN);
    for (place, store) in [("text", "text.c2pa"), ("md", "md.c2pa")] {
        let signed = desk.sign(&[&file, "--manifest", place, "--store", &desk.at(store), "-o", "-"]).ok();
        assert_eq!(std::fs::read(desk.path(store)).unwrap(), verdigris_c2pa::locate(&signed).unwrap().store);
    }
    desk.sign(&[&file, "--manifest", "sidecar", "--store", &desk.at("store"), "-o", &desk.at("side")]).ok();
    assert_eq!(std::fs::read(desk.path("store")).unwrap(), std::fs::read(desk.path("side")).unwrap());
    let again = desk.sign(&[&file, "--manifest", "text", "--store", &desk.at("store"), "-o", &desk.at("new.txt")]);
    assert!(again.error().contains("exists already; --force replaces it") && !desk.has("new.txt"));
}

#[test]
fn a_manifest_says_who_signed_and_what_marked_the_text() {
    let desk = Desk::new();
    let file = desk.write("tale.txt", PLAIN);
    desk.write("signed.txt", desk.sign(&[&[&*file, "--model", "tale"], &MARK[..]].concat()).ok());
    let found = desk.verify("signed.txt", &[]);
    let manifest = &found["manifest"];
    assert_eq!(found["format"], "verdigris-verify-1");
    assert_eq!(manifest["signer"], "Ada");
    assert_eq!(manifest["algorithm"], "Es256".to_lowercase());
    assert_eq!(manifest["trusted"], false);
    assert_eq!(manifest["generator"], format!("Verdigris {}", env!("CARGO_PKG_VERSION")));
    assert_eq!(manifest["actions"], serde_json::json!(["c2pa.created", "c2pa.watermarked.unbound"]));
    assert_eq!(manifest["watermark"], "c2pa.watermarked.unbound");
    let named = serde_json::json!([{ "algorithm": "verdigris.watermark.1", "scheme": "native", "key_id": "my" }]);
    assert_eq!(manifest["soft_bindings"], named);
    assert!(manifest.get("trusted_time").is_none() && manifest.get("codes").is_none());
    assert_eq!(found["mark"], serde_json::json!({ "verdict": "not asked" }));

    // A number that identifies the manifest makes it a bound one.
    let numbered = [&[&*file, "--payload", "48879"], &MARK[..]].concat();
    desk.write("signed.txt", desk.sign(&numbered).ok());
    let found = desk.verify("signed.txt", &[]);
    assert_eq!(found["manifest"]["watermark"], "c2pa.watermarked.bound");
    assert_eq!(found["manifest"]["soft_bindings"][0]["payload"], 48879);
    assert_eq!(found["manifest"]["soft_bindings"][0]["key_id"], "my");
    let words = c2pa(&["verify", &desk.at("signed.txt")], "").ok();
    assert!(words.contains("claims a watermark: scheme native, key my, number 0xbeef"), "{words}");

    // Without a mark none is claimed.
    desk.write("signed.txt", desk.sign(&[&file]).ok());
    let found = desk.verify("signed.txt", &[]);
    assert_eq!(found["manifest"]["actions"], serde_json::json!(["c2pa.created"]));
    assert!(found["manifest"].get("watermark").is_none() && found["manifest"].get("soft_bindings").is_none());
}

#[test]
fn people_read_two_blocks() {
    let desk = Desk::new();
    let file = desk.write("tale.txt", PLAIN);
    desk.write("signed.txt", desk.sign(&[&[&*file, "--model", "tale"], &MARK[..]].concat()).ok());
    let told = c2pa(&["verify", &desk.at("signed.txt")], "").ok();
    let lines: Vec<&str> = told.lines().skip(1).map(str::trim).collect();
    assert!(lines[0].starts_with("manifest  valid, in invisible characters ("), "{told}");
    assert_eq!(lines[1], "signed by Ada (es256), who is not trusted: no anchors were given with --trust");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(lines[2], format!("made by Verdigris {version}: c2pa.created, c2pa.watermarked.unbound"));
    assert_eq!(lines[3], "claims a watermark: scheme native, key my");
    assert_eq!(lines[4], "no time stamp: when it was signed is not proved");
    assert_eq!(lines[5], "mark      not asked: give --key or --ring");
    assert_eq!(lines.len(), 6);
}

#[test]
fn trust_is_asked_for_by_itself() {
    let desk = Desk::new();
    let file = desk.write("tale.txt", PLAIN);
    desk.write("signed.txt", desk.sign(&[&file]).ok());
    let status = |root: &str| c2pa(&["verify", &desk.at("signed.txt"), "--trust", root], "").status;
    let trusted = desk.verify("signed.txt", &["--trust", &desk.at("ada.root.pem")]);
    assert_eq!(trusted["manifest"]["trusted"], true, "{trusted}");
    assert_eq!(status(&desk.at("ada.root.pem")), 0);
    // With another root it is still valid, but not trusted.
    c2pa(&["certificate", &desk.at("eve")], "").ok();
    let other = desk.verify("signed.txt", &["--trust", &desk.at("eve.root.pem")]);
    assert_eq!((&other["manifest"]["trusted"], &other["manifest"]["verdict"]), (&false.into(), &"valid".into()));
    assert_eq!(status(&desk.at("eve.root.pem")), 4);
}

#[test]
fn keys_of_other_kinds_sign_too() {
    let desk = shared();
    let keys = [("p384", Pair::p384(7)), ("ed25519", Pair::ed25519(7)), ("p256", Pair::p256(7)), ("rsa", Pair::rsa())];
    for (name, key) in keys {
        // Shown if the test fails.
        println!("{name}");
        let (certificates, root) = chain(&key, |_| ());
        let certificate = desk.write(&format!("{name}.pem"), certificates);
        let root = desk.write(&format!("{name}.root"), root);
        let private_key = desk.write(&format!("{name}.key.pem"), &key.pem);
        let options = ["sign", "--certificate", &certificate, "--private-key", &private_key, "-"];
        let signed = format!("{name}.txt");
        desk.write(&signed, c2pa(&options, PLAIN).ok());
        let found = desk.verify(&signed, &["--trust", &root]);
        assert_eq!(found["manifest"]["verdict"], "valid", "{found}");
        assert_eq!(found["manifest"]["trusted"], true, "{found}");
        assert_eq!(found["manifest"]["signer"], "Grace");
    }
}

/// Bounds the size that a manifest adds to a text.
#[test]
fn a_manifest_is_small() {
    let desk = shared();
    let signed = c2pa(
        &[
            &["sign", "--certificate", &desk.at("ada.cert.pem"), "--private-key", &desk.at("ada.key.pem")],
            &MARK[..],
            &["--model", "tale"],
        ]
        .concat(),
        PLAIN,
    );
    let (text, wrapped) = (PLAIN.len(), signed.ok().len());
    assert!(wrapped - text < 22_000, "{}", wrapped - text);
}
