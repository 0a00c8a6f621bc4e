//! Keys and what is found with them, through the program.

mod support;

use std::fs;
use std::ops::Range;

use support::Folder;

/// Prose that no key marked: our own documents.
const PROSE: [&str; 6] = [
    include_str!("../../docs/watermark.md"),
    include_str!("../../docs/constraints.md"),
    include_str!("../../docs/models.md"),
    include_str!("../../docs/performance.md"),
    include_str!("../../docs/ARCHITECTURE.md"),
    include_str!("../../docs/security.md"),
];

/// A folder with a ring of so many keys, `ring/0.key` and on, whose ids are `key-0` and on.
fn with_ring(keys: usize) -> Folder {
    let folder = Folder::new();
    fs::create_dir(folder.path("ring")).unwrap();
    for i in 0..keys {
        folder.write_private(&format!("ring/{i}.key"), &support::KEY.replace("vg-c0ffee00", &format!("key-{i}")));
    }
    folder
}

/// Texts of 200 tokens marked with a key.
fn marked(folder: &Folder, key: &str, texts: usize) -> Vec<String> {
    let texts = texts.to_string();
    let run = folder.run(&[
        "generate",
        "The captain",
        "--seed",
        "5",
        "--max-tokens",
        "200",
        "--json",
        "--texts",
        &texts,
        "--key",
        key,
    ]);
    assert_eq!(run.status, 0, "{run:?}");
    let json = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
    run.out.lines().map(|line| json(line)["text"].as_str().unwrap().to_owned()).collect()
}

/// What `detect --json` found in one text: the key's id and the place of each passage.
fn passages(line: &str) -> Vec<(String, Range<usize>)> {
    let found: serde_json::Value = serde_json::from_str(line).unwrap();
    let passages = found["passages"].as_array().unwrap_or_else(|| panic!("{line}"));
    let number = |passage: &serde_json::Value, name: &str| passage[name].as_u64().unwrap() as usize;
    let read = |passage: &serde_json::Value| {
        let id = passage["key_id"].as_str().unwrap().to_owned();
        (id, number(passage, "start")..number(passage, "end"))
    };
    passages.iter().map(read).collect()
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> usize {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}

/// In a long text the mark of a passage does not show in the whole, so no key is the best one before passages are
/// looked for.
#[test]
fn a_marked_passage_is_found_with_every_key_of_a_ring() {
    let folder = with_ring(10);
    fs::create_dir(folder.path("texts")).unwrap();
    let prose = PROSE.concat();
    let texts = marked(&folder, "ring/7.key", 10);
    let mut places = Vec::new();
    for (i, text) in texts.iter().enumerate() {
        let at = prose.char_indices().map(|(at, _)| at).find(|&at| at >= (i + 1) * prose.len() / 12).unwrap();
        places.push(at..at + text.len());
        folder.write(&format!("texts/{i}.txt"), &format!("{}{text}{}", &prose[..at], &prose[at..]));
    }
    let run = folder.run(&["detect", "texts", "--ring", "ring", "--windows", "--json"]);
    assert_eq!((run.status, run.out.lines().count()), (0, 10), "{run:?}");
    for (line, place) in run.out.lines().zip(&places) {
        let found = passages(line);
        assert!(line.contains(r#""verdict":"marked""#), "{line}");
        let [(id, range)] = &found[..] else { panic!("{found:?} should be one, at {place:?}") };
        assert!(id == "key-7" && 2 * overlap(range, place) > place.len(), "{found:?} should be at {place:?}");
    }
}

#[test]
fn passages_of_two_keys_are_both_reported() {
    let folder = with_ring(4);
    let [first, second] = ["ring/1.key", "ring/2.key"].map(|key| marked(&folder, key, 1).remove(0));
    folder.write("text.txt", &[PROSE[1], &first, PROSE[2], &second, PROSE[3]].concat());
    let first = PROSE[1].len()..PROSE[1].len() + first.len();
    let at = first.end + PROSE[2].len();
    let second = at..at + second.len();
    let detect = ["detect", "text.txt", "--ring", "ring", "--windows"];
    let run = folder.run(&[&detect[..], &["--json"]].concat());
    let found = passages(&run.out);
    let ids: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["key-1", "key-2"], "{run:?}");
    for ((_, range), place) in found.iter().zip([&first, &second]) {
        assert!(2 * overlap(range, place) > place.len(), "{range:?} should be at {place:?}");
    }
    let words = folder.run(&detect).out;
    assert!(words.contains("verdict   marked in part (key-1, key-2"), "{words}");
    assert_eq!(folder.run(&[&detect[..4], &["--html", "report.html"]].concat()).status, 0);
    let html = fs::read_to_string(folder.path("report.html")).unwrap();
    assert!(html.contains("carry the mark of the keys key-1, key-2"), "both in the report");
}
