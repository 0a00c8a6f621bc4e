//! Labels of China's GB 45438-2025: the words in a text, its metadata, and its mark.

use serde_json::Value;

use crate::support::Folder;

const WORDS: &str = "人工智能生成";
const WRITE: [&str; 9] = ["generate", "The captain", "--seed", "3", "-n", "200", "--key", "my.key", "-q"];
const LABEL: [&str; 4] = ["--label", "gb", "--label-producer", "example-producer-1"];

/// SHA-256 of a text without white space at its ends, by another program.
#[cfg(target_os = "linux")]
fn digest(folder: &Folder, text: &str) -> String {
    folder.write("digested", text.trim());
    let output = std::process::Command::new("sha256sum").arg(folder.path("digested")).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

/// Checks the metadata of a text, and returns its id.
#[track_caller]
fn described(folder: &Folder, metadata: &Value, text: &str) -> String {
    let fields: Vec<&str> = metadata.as_object().unwrap().keys().map(String::as_str).collect();
    let standard =
        ["Label", "ContentProducer", "ProduceID", "ReservedCode1", "ContentPropagator", "PropagateID", "ReservedCode2"];
    assert_eq!(fields, standard);
    assert_eq!((&metadata["Label"], &metadata["ReservedCode2"]), (&"1".into(), &"".into()));
    assert_eq!(metadata["ContentProducer"], "example-producer-1");
    assert_eq!(metadata["ContentPropagator"], metadata["ContentProducer"]);
    assert_eq!(metadata["PropagateID"], metadata["ProduceID"]);
    #[cfg(target_os = "linux")]
    assert_eq!(metadata["ReservedCode1"], digest(folder, text));
    metadata["ProduceID"].as_str().unwrap().to_owned()
}

/// The label is in the output, whatever way it goes, and neither changes the text nor hides its mark.
#[test]
fn a_labelled_text_is_the_same_text_and_marked() {
    let folder = Folder::with_key();
    let plain = folder.run(&WRITE).succeeds().out;
    for (more, expected) in [
        (&[][..], format!("{WORDS}\n\n{plain}")),
        (&["--label-at", "end"], format!("{}\n\n{WORDS}\n", plain.trim_end_matches('\n'))),
        (&["--label-text", "[AI生成]"], format!("[AI生成]\n\n{plain}")),
    ] {
        let write = [&WRITE[..], &LABEL, more].concat();
        let text = folder.run(&write).succeeds().out;
        assert_eq!(text, expected, "{more:?}");
        folder.write("tale.txt", &text);
        let found = folder.run(&["detect", "tale.txt", "--key", "my.key", "--json"]).succeeds().json();
        assert_eq!(found["verdict"], "marked", "{more:?}: {found}");
        // The status is what a detector finds in the text with its label.
        let json = folder.run(&[&write[..], &["--json"]].concat()).succeeds().json();
        assert_eq!(json["text"], text.trim_end_matches('\n'), "{more:?}");
        assert_eq!(json["mark"]["status"], "watermarked", "{json}");
        folder.write("tale.txt", json["text"].as_str().unwrap());
        let found = folder.run(&["detect", "tale.txt", "--key", "my.key", "--no-repair", "--json"]).json();
        for field in ["scored", "z", "log10_p"] {
            assert_eq!(json["mark"][field], found[field], "{more:?}: {field}");
        }
        described(&folder, &json["AIGC"], json["text"].as_str().unwrap());
    }
    // A text that is too short for a verdict does not become marked by its label.
    let short = [&WRITE[..], &LABEL, &["-n", "8", "--json"]].concat();
    let short: Vec<&str> =
        short.into_iter().enumerate().filter(|(i, _)| ![4, 5].contains(i)).map(|(_, one)| one).collect();
    let short = folder.run(&short).done().json();
    assert_eq!(short["mark"]["status"], "too_weak", "{short}");
}

#[test]
fn metadata_lies_next_to_the_text() {
    let folder = Folder::with_key();
    let write = [&WRITE[..], &LABEL, &["--output", "tale.md"]].concat();
    folder.run(&write).succeeds();
    let text = folder.read("tale.md");
    assert!(text.starts_with(&format!("{WORDS}\n\n")), "{text}");
    let kept = folder.read("tale.md.aigc.json");
    assert!(kept.starts_with(r#"{"AIGC":{"Label":"1","#) && kept.ends_with("}}\n"), "{kept}");
    let kept: Value = serde_json::from_str(&kept).unwrap();
    let first = described(&folder, &kept["AIGC"], &text);
    // Neither file is replaced unasked.
    folder.run(&write).fails("tale.md exists already");
    std::fs::remove_file(folder.path("tale.md")).unwrap();
    folder.run(&write).fails("tale.md.aigc.json exists already");
    assert!(!folder.path("tale.md").exists());
    folder.run(&[&write[..], &["--force"]].concat()).succeeds();
    let second: Value = serde_json::from_str(&folder.read("tale.md.aigc.json")).unwrap();
    assert_ne!(described(&folder, &second["AIGC"], &text), first, "each text has an id of its own");
    folder.run(&[&write[..], &["--force", "--texts", "2"]].concat()).fails("with --texts give --json");
}

#[test]
fn every_text_has_a_label_and_its_own_id() {
    let folder = Folder::with_key();
    for more in [&["--texts", "3"][..], &["--best-of", "2"], &["--beams", "3", "--texts", "3"]] {
        let write = [&["generate", "Then", "-n", "40", "-q", "--seed", "1"][..], &LABEL, more].concat();
        let text = folder.run(&write).done().out;
        let lines = folder.run(&[&write[..], &["--json"]].concat()).done().lines();
        assert_eq!(text.matches(WORDS).count(), lines.len(), "{more:?}: {text}");
        let mut ids: Vec<String> =
            lines.iter().map(|line| described(&folder, &line["AIGC"], line["text"].as_str().unwrap())).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), lines.len(), "{more:?}");
    }
    folder.write("in.jsonl", "{\"prompt\": \"The captain\"}\n{\"prompt\": \"The queen\"}\n");
    let batch = ["batch", "in.jsonl", "out.jsonl", "-n", "200", "--key", "my.key", "--seed", "3", "-q"];
    folder.run(&[&batch[..], &LABEL, &["--label-at", "end"]].concat()).done();
    let answers: Vec<Value> =
        folder.read("out.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 2);
    for answer in &answers {
        let text = answer["text"].as_str().unwrap();
        assert!(text.ends_with(&format!("\n\n{WORDS}")) && answer["mark"]["status"] == "watermarked", "{answer}");
        described(&folder, &answer["AIGC"], text);
    }
    assert_ne!(answers[0]["AIGC"]["ProduceID"], answers[1]["AIGC"]["ProduceID"]);
    // An answer without a label is another answer.
    folder.run(&batch).fails("other options");
}

#[test]
fn labels_that_do_not_meet_the_standard_are_refused() {
    let folder = Folder::new();
    let write = |more: &[&str]| folder.run(&[&["generate", "-n", "3"][..], more].concat());
    write(&["--label", "gb"]).fails("--label-producer");
    write(&["--label-producer", "p"]).fails("--label");
    write(&["--label", "iso", "--label-producer", "p"]).fails("iso");
    write(&["--label", "gb", "--label-producer", "some company"]).fails("ContentProducer is \"some company\"");
    write(&["--label", "gb", "--label-producer", "公司"]).fails("give a code");
    write(&[&LABEL[..], &["--label-text", "written by AI"]].concat())
        .fails("must have 人工智能 or AI, and 生成 or 合成");
    write(&[&LABEL[..], &["--label-text", "AI\n生成"]].concat()).fails("one line");
    for constraint in [["--regex", "[a-z]+"], ["--json-schema", "true"], ["--choice", "yes"]] {
        write(&[&LABEL[..], &constraint].concat()).fails("would not match its constraint");
    }
}
