//! Changed texts and manifests are not valid.

mod common;

use common::{Desk, PLAIN, c2pa, shared};
use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;

/// A folder with a signed text for each of the three locations.
struct Signed {
    desk: Desk,
}

impl Signed {
    fn new() -> Self {
        let desk = Desk::new();
        let plain = desk.write("plain.txt", PLAIN);
        desk.write("text.txt", desk.sign(&[&plain]).ok());
        desk.write("structured.md", desk.sign(&[&plain, "--manifest", "md"]).ok());
        desk.write("beside.txt", PLAIN);
        desk.sign(&[&desk.at("beside.txt"), "--manifest", "sidecar"]).ok();
        Self { desk }
    }

    /// The verdict on a file after a change, whose exit status must fit it.
    fn changed(&self, name: &str, change: impl FnOnce(&str) -> String) -> Value {
        let was = self.desk.read(name);
        let other = change(&was);
        assert_ne!(was, other, "{name}");
        self.desk.write(name, other);
        let status = c2pa(&["verify", &self.desk.at(name)], "").status;
        let found = self.desk.verify(name, &[]);
        self.desk.write(name, was);
        assert_eq!(status, if found["manifest"]["verdict"] == "valid" { 0 } else { 4 });
        found["manifest"].clone()
    }
}

fn codes(manifest: &Value) -> Vec<&str> {
    manifest["codes"].as_array().map_or(Vec::new(), |codes| codes.iter().filter_map(Value::as_str).collect())
}

#[test]
fn a_changed_letter_is_seen_wherever_the_manifest_stands() {
    let signed = Signed::new();
    for name in ["text.txt", "structured.md", "beside.txt"] {
        for change in [
            |text: &str| text.replace("captain", "Captain"),
            |text: &str| text.replace("sea.\n", "sea. \n"),
            |text: &str| text.replace("sea.\n", "sea.\r\n"),
            |text: &str| text.replace("red sail", "sail"),
            |text: &str| format!("{text} More."),
            |text: &str| format!("More. {text}"),
        ] {
            let found = signed.changed(name, change);
            assert_eq!((&found["verdict"], &found["binding"]), (&"invalid".into(), &"mismatch".into()), "{name}");
            assert!(codes(&found).iter().any(|code| code.starts_with("assertion.dataHash.")), "{name}: {found}");
            // The signer is still reported.
            assert_eq!(found["signer"], "Ada");
        }
    }
}

/// The lines of a manifest are not hashed, and may have nothing else.
#[test]
fn words_of_the_same_length_next_to_a_manifest_are_seen() {
    let signed = Signed::new();
    for (signs, words) in [("<!-- ", "FAKE "), (" -->\n", " no.\n")] {
        let found = signed.changed("structured.md", |text| text.replacen(signs, words, 1));
        assert_eq!(found["verdict"], "invalid", "{words}: {found}");
        assert_eq!(codes(&found), ["assertion.dataHash.malformed"], "{words}");
    }
}

/// Decomposing characters, as some programs do with pasted text, does not change unstructured text; of other texts the
/// bytes are signed.
#[test]
fn decomposed_characters_are_the_same_text_only_where_it_is_unstructured() {
    let signed = Signed::new();
    let decomposed = |text: &str| text.nfd().collect::<String>();
    assert_eq!(signed.changed("text.txt", decomposed)["verdict"], "valid");
    assert_eq!(signed.changed("structured.md", decomposed)["verdict"], "invalid");
    assert_eq!(signed.changed("beside.txt", decomposed)["verdict"], "invalid");
    let other = |text: &str| text.nfd().filter(|&c| c != '\u{301}').collect::<String>();
    assert_eq!(codes(&signed.changed("text.txt", other)), ["assertion.dataHash.mismatch"]);
}

#[test]
fn a_manifest_that_was_taken_out_is_absent() {
    let signed = Signed::new();
    let cut = |text: &str| text.split('\u{FEFF}').next().unwrap().to_owned();
    assert_eq!(signed.changed("text.txt", cut)["verdict"], "absent");
    let lines = |text: &str| text.lines().filter(|line| !line.contains("MANIFEST")).collect::<String>();
    assert_eq!(signed.changed("structured.md", lines)["verdict"], "absent");
    std::fs::remove_file(signed.desk.path("beside.txt.c2pa")).unwrap();
    assert_eq!(signed.desk.verify("beside.txt", &[])["manifest"]["verdict"], "absent");
}

#[test]
fn two_manifests_are_none() {
    let signed = Signed::new();
    let wrapper = |text: &str| text[text.find('\u{FEFF}').unwrap()..].to_owned();
    let twice = signed.changed("text.txt", |text| format!("{text}{}", wrapper(text)));
    assert_eq!(codes(&twice), ["manifest.text.multipleWrappers"]);
    let twice = signed.changed("text.txt", |text| format!("{text}{text}"));
    assert_eq!(codes(&twice), ["manifest.text.multipleWrappers"]);
    let twice = signed.changed("structured.md", |text| format!("{text}{text}"));
    assert_eq!(codes(&twice), ["verdigris.structured.multiple"]);
    let text = signed.desk.read("text.txt");
    let both = signed.changed("structured.md", |other| format!("{other}{}", wrapper(&text)));
    assert_eq!(codes(&both), ["manifest.text.multipleWrappers"]);
    // A signed text cannot be signed again.
    for name in ["text.txt", "structured.md"] {
        let error = signed.desk.sign(&[&signed.desk.at(name)]).error();
        assert!(error.contains("has a manifest already: sign the text without it"), "{error}");
    }
}

/// The manifest of one text, undamaged, on another text.
#[test]
fn a_manifest_that_was_moved_to_another_text_is_not_of_it() {
    let signed = Signed::new();
    let other = |text: &str| format!("Another text.\n{}", &text[text.find('\u{FEFF}').unwrap()..]);
    assert_eq!(signed.changed("text.txt", other)["binding"], "mismatch");
    // A text of the same length, so that the manifest is at the signed position.
    let other = |text: &str| {
        let at = text.find('\u{FEFF}').unwrap();
        format!("{}{}", "a".repeat(at), &text[at..])
    };
    assert_eq!(codes(&signed.changed("text.txt", other)), ["assertion.dataHash.mismatch"]);
    let moved = |text: &str| {
        let (words, wrapper) = text.split_at(text.find('\u{FEFF}').unwrap());
        format!("{}{wrapper}{}", &words[..4], &words[4..])
    };
    assert_eq!(codes(&signed.changed("text.txt", moved)), ["assertion.dataHash.malformed"]);
}

#[test]
fn a_damaged_wrapper_is_named() {
    let signed = Signed::new();
    // Some of the invisible characters are missing; those at the end are padding, so more than that.
    let cut = |text: &str| text.chars().take(text.chars().count() - 2500).collect::<String>();
    assert_eq!(codes(&signed.changed("text.txt", cut)), ["manifest.text.corruptedWrapper"]);
    let armour = |text: &str| text.replace("base64,", "base64,!");
    assert_eq!(codes(&signed.changed("structured.md", armour)), ["verdigris.structured.malformed"]);
    let empty = |text: &str| {
        let (begin, rest) = text.split_once("-----BEGIN C2PA MANIFEST-----").unwrap();
        let (_, end) = rest.split_once("-----END").unwrap();
        format!("{begin}-----BEGIN C2PA MANIFEST----- -----END{end}")
    };
    assert_eq!(codes(&signed.changed("structured.md", empty)), ["verdigris.structured.malformed"]);
    let elsewhere = |text: &str| {
        let (begin, rest) = text.split_once("data:application").unwrap();
        let (_, end) = rest.split_once(" -----END").unwrap();
        format!("{begin}https://example.com/a.c2pa -----END{end}")
    };
    let found = signed.changed("structured.md", elsewhere);
    assert_eq!((&found["verdict"], &found["url"]), (&"elsewhere".into(), &"https://example.com/a.c2pa".into()));
}

/// Every byte of a store is either checked or padding: no change alters the contents of a valid manifest.
#[test]
fn a_changed_byte_of_a_manifest_is_seen_or_says_nothing() {
    let signed = Signed::new();
    let desk = &signed.desk;
    let path = desk.path("beside.txt.c2pa");
    let whole = std::fs::read(&path).unwrap();
    let before = desk.verify("beside.txt", &[])["manifest"].clone();
    let mut unseen = 0;
    // Reading takes a while, so only every eleventh byte is changed; which ones depends on the length.
    for at in (0..whole.len()).step_by(11) {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        std::fs::write(&path, changed).unwrap();
        let found = desk.verify("beside.txt", &[])["manifest"].clone();
        if found["verdict"] == "valid" {
            unseen += 1;
            assert_eq!(found, before, "byte {at}");
        }
    }
    assert!(unseen * 11 < whole.len() / 4, "{unseen} of {} changes were not noticed", whole.len() / 11);
}

#[test]
fn a_cut_sidecar_is_no_manifest() {
    let signed = Signed::new();
    let path = signed.desk.path("beside.txt.c2pa");
    let whole = std::fs::read(&path).unwrap();
    for length in [0, 1, 7, 8, 20, 200, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let found = signed.desk.verify("beside.txt", &[])["manifest"].clone();
        assert_eq!(found["verdict"], "invalid", "{length}: {found}");
        assert!(!codes(&found).is_empty() && found["error"].is_string(), "{found}");
    }
    let noise: Vec<u8> = (0..4000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(&path, noise).unwrap();
    assert_eq!(signed.desk.verify("beside.txt", &[])["manifest"]["verdict"], "invalid");
}

#[test]
fn a_manifest_that_is_too_long_is_not_read() {
    let desk = shared();
    desk.write("long.txt", PLAIN);
    let path = desk.write("long.txt.c2pa", vec![0u8; (4 << 20) + 1]);
    let error = c2pa(&["verify", &desk.at("long.txt")], "").error();
    assert!(error.contains("is longer than 4194304 bytes"), "{error}");
    std::fs::remove_file(path).unwrap();
}
