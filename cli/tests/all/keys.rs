//! Keys, and detection with them, through the program.

use std::fs;
use std::ops::Range;

use crate::support::Folder;

/// Unmarked prose: our own documentation.
const PROSE: [&str; 6] = [
    include_str!("../../../docs/watermark.md"),
    include_str!("../../../docs/constraints.md"),
    include_str!("../../../docs/models.md"),
    include_str!("../../../docs/performance.md"),
    include_str!("../../../docs/ARCHITECTURE.md"),
    include_str!("../../../docs/security.md"),
];

/// A folder with a ring of `keys` keys, `ring/0.key` and so on, whose ids are `key-0` and so on.
fn with_ring(keys: usize) -> Folder {
    let folder = Folder::new();
    fs::create_dir(folder.path("ring")).unwrap();
    for i in 0..keys {
        folder
            .write_private(&format!("ring/{i}.key"), &crate::support::KEY.replace("vg-c0ffee00", &format!("key-{i}")));
    }
    folder
}

/// Texts of 200 tokens marked with a key.
fn marked(folder: &Folder, key: &str, texts: usize) -> Vec<String> {
    let generate = ["generate", "The captain", "--seed", "5", "--max-tokens", "200", "--json", "--key", key];
    let run = folder.run(&[&generate[..], &["--texts", &texts.to_string()]].concat()).done();
    run.lines().iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect()
}

/// The key id and the byte range of each passage that `detect --json` found in one text.
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

/// The mark of a passage is invisible in the whole of a long text, so the key cannot be chosen before passages are
/// searched for.
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
        assert!(line.contains(r#""verdict":"marked in part""#), "{line}");
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
    let html = folder.read("report.html");
    assert!(html.contains("carry the mark of the keys key-1, key-2"), "both in the report");
}

/// A field of a key file.
fn field(folder: &Folder, file: &str, name: &str) -> serde_json::Value {
    serde_json::from_str::<serde_json::Value>(&folder.read(file)).unwrap()[name].clone()
}

#[test]
fn a_key_that_could_not_be_read_again_is_not_made() {
    let folder = Folder::new();
    let long = "x".repeat(70_000);
    for (arguments, said) in [
        (&["--id", &long][..], "the id is 70000 bytes long"),
        (&["--tenant", &long], "the tenant is 70000 bytes long"),
        (&["--id", ""], "--id is empty"),
        (&["--id", "two\nlines"], "control characters"),
        (&["--vocabulary-size", "0"], "a vocabulary has 1 to"),
        (&["--dialect", "tgi", "--vocabulary-size", "99999999999"], "a vocabulary has 1 to"),
        (&["--valid-from", "2026-02-02", "--valid-until", "2026-02-01"], "would end"),
    ] {
        folder.run(&[&["key", "new", "a.key"], arguments].concat()).fails(said);
        assert!(!folder.path("a.key").exists(), "{said}");
    }
    folder.run(&["key", "new", "-"]).fails("is not a name for a key file");
    assert!(!folder.path("-").exists());
}

/// Secrets in the files of other systems have the meaning that they have there.
#[test]
fn keys_of_others_mean_what_they_mean_there() {
    let folder = Folder::new();
    let make = |name: &str, arguments: &[&str]| {
        folder.run(&[&["key", "new", name], arguments].concat()).done();
        (field(&folder, name, "secret"), field(&folder, name, "scheme"))
    };
    // SGLang reads hexadecimal digits, with or without 0x.
    for (i, (text, secret)) in [
        ("1234567890123456", "1234567890123456"),
        ("0x1234567890123456", "1234567890123456"),
        ("deadbeef", "00000000deadbeef"),
    ]
    .into_iter()
    .enumerate()
    {
        folder.write("key.txt", text);
        let arguments = ["--dialect", "sglang", "--import", "key.txt"];
        assert_eq!(make(&format!("sglang{i}.key"), &arguments).0, secret);
    }
    folder.write("key.txt", "1234567890123456");
    assert_eq!(make("vllm.key", &["--dialect", "vllm", "--import", "key.txt"]).0, "000462d53c8abac0");
    folder.write("key.txt", "secret words");
    folder.run(&["key", "new", "a.key", "--dialect", "sglang", "--import", "key.txt"]).fails("hexadecimal number");
    folder.run(&["key", "new", "a.key", "--dialect", "sglang", "--hash-key=-1"]).fails("hexadecimal number");

    // In SBW, names without gpu- select the reference's lists, and the default is one of them.
    let kgw = |seeding: &str| serde_json::json!({"name": "kgw", "seeding": seeding, "gamma": 0.5});
    assert_eq!(make("sbw0.key", &["--dialect", "sbw"]).1, kgw("simple_1"));
    assert_eq!(make("sbw1.key", &["--dialect", "sbw", "--seeding", "selfhash"]).1, kgw("selfhash"));
    let (_, scheme) = make("sbw2.key", &["--dialect", "sbw", "--seeding", "gpu-fused-selfhash"]);
    assert_eq!(scheme, serde_json::json!({"name": "sbw", "seeding": "gpu-fused-selfhash", "gamma": 0.5}));
    let run = folder.run(&["key", "new", "a.key", "--dialect", "sbw", "--seeding", "gpu-no"]);
    run.fails("gpu-simple_1, gpu-fused-simple_4");
    let wraps = ["key", "new", "a.key", "--dialect", "sbw", "--hash-key", "0x1234567890123456"];
    folder.run(&wraps).fails("wraps");

    // The reference's full scheme names include the key.
    let (secret, scheme) =
        make("kgw.key", &["--dialect", "kgw", "--seeding", "ff-anchored_minhash_prf-4-True-15485867"]);
    assert_eq!(scheme, serde_json::json!({"name": "kgw", "seeding": "selfhash", "gamma": 0.25}));
    assert_eq!(secret, format!("{:016x}", 15_485_867));
    let two = ["--seeding", "ff-minhash_prf-4-False-5", "--hash-key", "6"];
    folder.run(&[&["key", "new", "a.key", "--dialect", "kgw"][..], &two].concat()).fails("names another hash key");
}

#[test]
fn an_option_that_changes_nothing_is_refused() {
    let folder = Folder::new();
    for (arguments, said) in [
        (&["--dialect", "native-gumbel", "--delta", "3"][..], "--delta is for dialects with green lists"),
        (&["--dialect", "native-gumbel", "--gamma", "0.5"], "--gamma is for"),
        (&["--dialect", "vllm", "--hard", "--hash-key", "7"], "--hard is for"),
        (&["--dialect", "native", "--bits", "hash"], "--bits is for synthid"),
        (&["--ngram-len", "4"], "--ngram-len is for synthid"),
        (&["--score", "mean"], "--score is for synthid"),
        (&["--dialect", "vllm", "--alpha", "0.2", "--hash-key", "7"], "--alpha is for vllm-dual"),
        (&["--dialect", "sglang", "--mixing", "0.2", "--hash-key", "7"], "--mixing is for sglang-dual"),
        (&["--dialect", "kgw", "--width", "4"], "--width is for"),
        (&["--dialect", "kgw", "--context", "min"], "--context is for native"),
        (&["--dialect", "unigram", "--payload-bits", "8"], "--payload-bits is for native"),
        (&["--seeding", "simple_1"], "--seeding is for kgw"),
        (&["--import", "key.txt"], "our own make their secrets"),
        (&["--vocabulary-size", "300"], "--vocabulary-size is for dialects of other systems"),
        (&["--dialect", "native-gumbel", "--vocabulary-size", "5000"], "is for dialects of other systems"),
    ] {
        folder.run(&[&["key", "new", "a.key"], arguments].concat()).fails(said);
        assert!(!folder.path("a.key").exists(), "{said}");
    }
}

/// No file named as a source of keys is read beyond a size limit.
#[test]
fn files_of_keys_have_a_longest() {
    let folder = Folder::new();
    let new = |arguments: &[&str]| folder.run(&[&["key", "new", "a.key", "--dialect"], arguments].concat());
    #[cfg(unix)]
    {
        new(&["kgw", "--import", "/dev/zero"]).fails("/dev/zero is longer than 256 KiB");
        new(&["synthid", "--hash-key", "1,2", "--score", "/dev/zero"]).fails("/dev/zero is longer than 256 KiB");
    }
    folder.write("many.txt", &"7\n".repeat(1025));
    new(&["synthid", "--import", "many.txt"]).fails("many.txt: there are more than 1024 keys");
    fs::write(folder.path("bytes.txt"), b"\xff\xfe7").unwrap();
    new(&["kgw", "--import", "bytes.txt"]).fails("bytes.txt is not text");
    folder.write("empty.txt", " \n");
    new(&["kgw", "--import", "empty.txt"]).fails("empty.txt holds no key");
    assert!(!folder.path("a.key").exists());
}

/// Key files may be untrusted: control characters in their fields and names are escaped, even with colours.
#[test]
fn names_in_key_files_are_no_commands() {
    let folder = Folder::new();
    fs::create_dir(folder.path("ring")).unwrap();
    let (id, tenant, model) = (r"a\u001b]0;owned\u0007", r"t\u001b[2Jx", r"m\u009b31m\u202e");
    let key = crate::support::KEY.replace(r#""vg-c0ffee00""#, &format!(r#""{id}", "tenant": "{tenant}""#));
    let key = key.replace(r#""size": 4096"#, &format!(r#""size": 4096, "model": "{model}""#));
    let numbered = key.replace("\"gamma\"", "\"payload_bits\": 8, \"gamma\"");
    folder.write_private("ring/one.key", &key);
    folder.write_private("n.key", &numbered);
    folder.write_private("foreign.key", &key.replace("e106f5b2", r"e1\u001b]8;;"));
    folder.write("ring/\u{1b}]0;stray.key", "ssh-rsa no key");
    folder.write("text.txt", PROSE[1]);
    let shown = r"a\x1b]0;owned\x07";
    for (arguments, more) in [
        (&["key", "show", "ring/one.key"][..], &[r"t\x1b[2Jx", r"m\u{9b}31m\u{202e}"][..]),
        (&["key", "show", "foreign.key"], &[r"e1\x1b]8;;"]),
        (&["key", "list", "ring"], &[r"t\x1b[2Jx", r"m\u{9b}31m\u{202e}", r"\x1b]0;stray.key is skipped"]),
        (&["identify", "text.txt", "--ring", "ring"], &[r"tenant t\x1b[2Jx: native"]),
        (&["payload", "text.txt", "--key", "n.key"], &[]),
        (&["detect", "text.txt", "--key", "ring/one.key"], &[]),
    ] {
        let mut command = folder.command(arguments);
        command.env("CLICOLOR_FORCE", "1");
        let run = Folder::finish(command);
        for said in [&[shown], more].concat() {
            assert!(run.out.contains(said), "{said} of {arguments:?}: {run:?}");
        }
        for raw in ["\u{1b}]", "\u{1b}[2J", "\u{7}", "\u{9b}", "\u{202e}"] {
            assert!(!run.out.contains(raw) && !run.err.contains(raw), "{raw:?} of {arguments:?}: {run:?}");
        }
    }
}

#[test]
fn public_keys_are_told() {
    let folder = Folder::new();
    folder.write("examples.txt", "654,400,836,123,340,443,597,160,57");
    for (i, (arguments, public)) in [
        (&["--dialect", "three-bricks-maryland"][..], true),
        (&["--dialect", "three-bricks-openai"], true),
        (&["--dialect", "three-bricks-openai", "--hash-key", "77"], false),
        (&["--dialect", "synthid", "--import", "examples.txt"], true),
        (&["--dialect", "synthid", "--bits", "hash", "--hash-key", "654,400,837"], false),
        (&["--dialect", "kgw"], true),
        (&["--dialect", "unigram"], true),
        (&[], false),
    ]
    .into_iter()
    .enumerate()
    {
        let file = format!("{i}.key");
        let run = folder.run(&[&["key", "new", &file], arguments].concat());
        assert_eq!((run.status, run.err.contains("warning: this key is public")), (0, public), "{run:?}");
        assert_eq!(
            folder.run(&["key", "show", &file]).out.contains("its secret is publicly known"),
            public,
            "{arguments:?}"
        );
        let json = folder.run(&["key", "show", &file, "--json"]).out;
        assert!(json.contains(&format!(r#""public":{public}"#)), "{json}");
    }
    folder.write_private("zero.key", &crate::support::KEY.replace("f1e2d3c4b5a697887968574635241302", &"0".repeat(32)));
    assert!(folder.run(&["key", "show", "zero.key"]).out.contains("its secret is publicly known"));
}

/// A damaged key is reported, since it would find nothing, as in a text without a mark.
#[test]
fn a_damaged_key_is_told() {
    let folder = Folder::new();
    assert_eq!(folder.run(&["key", "new", "my.key"]).status, 0);
    let good = folder.read("my.key");
    let secret = field(&folder, "my.key", "secret").as_str().unwrap().to_owned();
    let flipped = format!("{}{}", if secret.starts_with('0') { "1" } else { "0" }, &secret[1..]);
    folder.write("text.txt", PROSE[1]);
    for bad in [good.replace(&secret, &flipped), good.replace("\"variants\": 8", "\"variants\": 9")] {
        folder.write_private("bad.key", &bad);
        folder.run(&["detect", "text.txt", "--key", "bad.key"]).fails("check value does not fit");
    }
    folder.write_private("old.key", crate::support::KEY);
    assert_eq!(folder.run(&["key", "show", "old.key"]).status, 0, "files without a check value are read");
}

/// A retired key is the same one, with which a ring no longer writes.
#[test]
fn a_key_can_be_retired() {
    let folder = Folder::new();
    fs::create_dir(folder.path("ring")).unwrap();
    folder.run(&["key", "new", "ring/old.key"]).done();
    let (before, write) = (folder.read("ring/old.key"), ["generate", "The captain", "--ring", "ring", "--seed", "1"]);
    folder.write("marked.txt", &folder.run(&write).done().out);
    folder.run(&["key", "retire", "ring/old.key", "--until", "9999-12-31"]).done();
    folder.run(&write).done();
    folder.run(&["key", "retire", "ring/old.key", "--until", "tomorrow"]).fails("such as 2026-08-02");
    folder.run(&["key", "retire", "ring/no.key"]).fails("ring/no.key");
    let retired = folder.run(&["key", "retire", "ring/old.key"]).done().out;
    assert!(retired.starts_with("ring/old.key retired: vg-"), "{retired}");
    folder.run(&["key", "retire", "ring/old.key", "--until", "2199-01-01"]).fails("cannot be made to last longer");
    folder.run(&write).fails("the key ring ring has no key to write with on");
    folder.run(&["detect", "marked.txt", "--ring", "ring"]).done();
    // Nothing else has changed, nor is anything left.
    let without = |text: &str| {
        let mut key: serde_json::Value = serde_json::from_str(text).unwrap();
        let fields = key.as_object_mut().unwrap();
        fields.remove("check").unwrap();
        let period = fields.remove("period");
        (key, period)
    };
    let (before, after) = (without(&before), without(&folder.read("ring/old.key")));
    assert_eq!((before.0, before.1), (after.0, None));
    assert!(after.1.unwrap()["until"].as_str().unwrap() >= "2026");
    assert_eq!(fs::read_dir(folder.path("ring")).unwrap().count(), 1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = || fs::metadata(folder.path("ring/old.key")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        // A file that a container reads by its group, which only root can make.
        if std::os::unix::fs::MetadataExt::uid(&fs::metadata(folder.path("ring/old.key")).unwrap()) == 0 {
            fs::set_permissions(folder.path("ring/old.key"), fs::Permissions::from_mode(0o440)).unwrap();
            folder.run(&["key", "retire", "ring/old.key", "--until", "2001-01-01"]).done();
            assert_eq!(mode(), 0o440);
        }
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_key_is_called_so() {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;
    let folder = Folder::with_key();
    folder.write("tale.txt", "Call me Ishmael.");
    let run = folder.run(&["key", "show", "tale.txt"]);
    run.fails("tale.txt is not a key file");
    assert!(!run.err.contains("chmod"), "{run:?}");
    folder.run(&["key", "show", "."]).fails("not a file");
    folder.run(&["key", "show", "/dev/null"]).fails("not a file");
    assert!(Command::new("mkfifo").arg(folder.path("pipe.key")).status().unwrap().success());
    folder.run(&["key", "show", "pipe.key"]).fails("named pipe");
    // An inherited pipe is read, such as the one that bash's <(command) names.
    let mut shown = folder.command(&["key", "show", "/dev/stdin"]);
    let mut cat = Command::new("cat").arg(folder.path("my.key")).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let shown = shown.stdin(cat.stdout.take().unwrap()).output().unwrap();
    assert!(cat.wait().unwrap().success());
    assert!(String::from_utf8_lossy(&shown.stdout).contains("vg-c0ffee00"), "{shown:?}");
    fs::set_permissions(folder.path("my.key"), fs::Permissions::from_mode(0o644)).unwrap();
    folder.run(&["key", "show", "my.key"]).fails("chmod 600");
}

/// A ring may have keys for several models, and files that are not keys.
#[test]
fn a_ring_uses_what_fits_and_names_the_rest() {
    let folder = with_ring(3);
    folder.write_private("ring/theirs.key", &crate::support::KEY.replace("e106f5b2", "00000000"));
    folder.write("ring/stray.key", "ssh-rsa AAAA");
    // The same key under another file name does not count as another look.
    folder.write_private("ring/copy.key", &crate::support::KEY.replace("vg-c0ffee00", "key-1"));
    folder.write("text.txt", &marked(&folder, "ring/1.key", 1)[0]);
    let run = folder.run(&["detect", "text.txt", "--ring", "ring", "--key", "ring/1.key", "--json"]);
    let found = run.json();
    assert_eq!((run.status, &found["key_id"], &found["looks"]), (0, &"key-1".into(), &3.0.into()), "{run:?}");
    assert_eq!(found["skipped_keys"], serde_json::json!(["ring/stray.key", "ring/theirs.key"]));
    let notes: Vec<&str> = run.err.lines().collect();
    assert!(notes.len() == 2 && notes[0].contains("stray.key is skipped: it is not a key file"), "{run:?}");
    assert!(notes[1].contains("theirs.key is skipped: it was made for another tokenizer"), "{run:?}");
    let run = folder.run(&["generate", "The", "--ring", "ring", "--max-tokens", "3"]);
    assert!(run.status == 0 && run.err.contains("theirs.key is skipped"), "{run:?}");
    let run = folder.run(&["detect", "text.txt", "--key", "ring/theirs.key"]);
    run.fails("ring/theirs.key: the key vg-c0ffee00 was made for a vocabulary of 4096 tokens");

    let list = folder.run(&["key", "list", "ring"]);
    assert!(list.status == 0 && list.out.lines().count() == 7, "{list:?}");
    for said in ["copy.key", "key-2", "stray.key is skipped", "native, gamma 0.25"] {
        assert!(list.out.contains(said), "{said}: {list:?}");
    }
    let json = folder.run(&["key", "list", "ring", "--json"]).out;
    assert!(json.lines().count() == 6 && !json.contains("f1e2d3c4"), "{json}");

    folder.write_private("ring/half.key", &crate::support::KEY[..200]);
    folder.run(&["detect", "text.txt", "--ring", "ring"]).fails("half.key cannot be used");
}

#[test]
fn a_key_names_its_model() {
    let folder = Folder::new();
    folder.copy_model(crate::support::TALE_SMALL, "small");
    assert_eq!(folder.run(&["key", "new", "a.key", "--model", "small"]).status, 0);
    assert_eq!(field(&folder, "a.key", "vocabulary")["model"], "small");
    assert!(folder.run(&["key", "show", "a.key"]).out.contains("model       small"));
    let tokenizer = folder.read("small/tokenizer.json");
    let mut other: serde_json::Value = serde_json::from_str(&tokenizer).unwrap();
    let vocabulary = other["model"]["vocab"].as_object_mut().unwrap();
    let (first, second) = (vocabulary["the"].clone(), vocabulary["and"].clone());
    (vocabulary["the"], vocabulary["and"]) = (second, first);
    folder.write("small/tokenizer.json", &other.to_string());
    folder.write("text.txt", PROSE[1]);
    folder.run(&["detect", "text.txt", "--key", "a.key", "--model", "small"]).fails(", that of small)");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_output_is_an_error_and_no_panic() {
    let folder = Folder::with_key();
    for arguments in [&["key", "show", "my.key"][..], &["key", "show", "my.key", "--json"], &["key", "new", "b.key"]] {
        let run = folder.run_full(arguments);
        assert!(run.status == 2 && run.err.contains("cannot write the output"), "{arguments:?}: {run:?}");
    }
}

/// The mark reported with a generated text is the one that detection finds, with a warning if it proves nothing.
#[test]
fn a_text_says_what_its_mark_proves() {
    let folder = Folder::new();
    folder.write_private("my.key", crate::support::KEY);
    let crew = r#"{"properties": {"name": {"type": "string", "minLength": 30}, "age": {"type": "integer"}},
                   "required": ["name", "age"], "additionalProperties": false}"#;
    folder.write("crew.json", crew);
    for (form, found) in [(vec![], true), (vec!["--json-schema", "crew.json"], false)] {
        let write = ["generate", "The captain", "--key", "my.key", "--seed", "5", "-n", "150"];
        let run = folder.run(&[&write[..], &["--json"], &form].concat());
        let written = run.json();
        folder.write("text.txt", written["text"].as_str().unwrap());
        let read = folder.run(&[&["detect", "text.txt", "--key", "my.key", "--json"], &form[..]].concat());
        let (mark, read) = (&written["mark"], read.json());
        for field in ["scored", "z", "log10_p"] {
            assert_eq!(mark[field], read[field], "{form:?}: {run:?}");
        }
        assert_eq!(mark["log10_p"].as_f64().unwrap() <= -5.0, found, "{run:?}");
        assert_eq!(run.err.contains("does not prove its mark"), !found, "{run:?}");
        assert_eq!(mark["expected_log10_p"].is_number(), !found, "{run:?}");
        let page = folder.run(&[&write[..], &form].concat());
        assert_eq!(page.err.contains("with the choices it had, about z "), !found, "{page:?}");
        let quiet = folder.run(&[&write[..], &["--quiet"], &form].concat());
        assert_eq!((quiet.status, quiet.err.as_str()), (0, ""), "{quiet:?}");
    }
    let plain = folder.run(&["generate", "--seed", "5", "-n", "5", "--json"]);
    assert!(plain.json().get("mark").is_none() && plain.err.is_empty(), "{plain:?}");
    let run = folder.run(&["generate", "The captain", "--key", "my.key", "-n", "3", "--seed", "5", "--texts", "4"]);
    assert!(run.err.contains("4 of 4 texts do not prove their mark"), "{run:?}");
    assert!(run.err.contains("with their choices, about z ") && run.err.contains("stronger keys"), "{run:?}");
    // No stronger key is suggested for a key without a strength.
    assert_eq!(folder.run(&["key", "new", "gumbel.key", "--dialect", "native-gumbel"]).status, 0);
    let run = folder.run(&["generate", "The captain", "--key", "gumbel.key", "-n", "6"]);
    assert!(run.err.contains("does not prove its mark") && !run.err.contains("stronger keys"), "{run:?}");
}

#[test]
fn strengths_have_names() {
    let folder = Folder::new();
    for (name, delta) in [("light", 1), ("normal", 2), ("strong", 4)] {
        let file = format!("{name}.key");
        folder.run(&["key", "new", &file, "--strength", name]).done();
        let shown = folder.run(&["key", "show", &file]).out;
        assert!(shown.contains(&format!("soft, delta {delta}\n")), "{shown}");
    }
    let noise = folder.run(&["key", "new", "noise.key", "--dialect", "native-gumbel", "--strength", "light"]);
    assert!(noise.status == 2 && noise.err.contains("--strength is for dialects with green lists"), "{noise:?}");
    assert_eq!(folder.run(&["key", "new", "both.key", "--delta", "3", "--strength", "light"]).status, 2);
}

#[test]
fn what_is_identified_is_said_in_words_and_in_fields() {
    let folder = with_ring(2);
    folder.write("text.txt", &marked(&folder, "ring/1.key", 1)[0]);
    let by_size = ["identify", "text.txt", "--ring", "ring", "--vocabulary-sizes", "4000", "--json"];
    folder.run(&by_size).fails("--vocabulary-sizes 4000 changes nothing for these keys");
    folder.run(&["key", "new", "noise.key"]).done();
    folder
        .run(&["identify", "text.txt", "--key", "noise.key", "--gammas", "0.5"])
        .fails("--gammas 0.5 changes nothing");
    folder.run(&["key", "new", "hf.key", "--dialect", "hugging-face", "--id", "hugging-face"]);
    let run = folder.run(&[&by_size[..], &["--key", "hf.key"]].concat());
    let found = run.json();
    let p = |at: usize| found["best"][at]["log10_p"].as_f64().unwrap();
    assert!(p(0) < p(1) && p(1) <= p(2) && p(2) <= p(3), "the best first: {found}");
    assert_eq!((run.status, &found["tried"]), (0, &4.into()), "{run:?}");
    let best = &found["best"][0];
    assert_eq!((&best["key_id"], &best["dialect"], &best["gamma"]), (&"key-1".into(), &"native".into(), &0.25.into()));
    // A key whose id is its dialect is not named twice.
    let run = folder.run(&["identify", "text.txt", "--key", "hf.key"]);
    assert!(run.status == 1 && !run.out.contains("hugging-face: hugging-face"), "{run:?}");
    // The mark of a published key is anyone's.
    folder.run(&["key", "new", "both.key", "--public-part"]).done();
    folder.run(&["key", "publish", "both.key", "public.key"]).done();
    let write = ["generate", "--key", "both.key", "--seed", "1", "-n", "300", "--temperature", "1"];
    folder.write("both.txt", &folder.run(&write).out);
    let run = folder.run(&["identify", "both.txt", "--key", "public.key"]);
    assert!(run.status == 0 && run.out.contains("note      this key is public"), "{run:?}");
    let found = folder.run(&["identify", "both.txt", "--key", "public.key", "--json"]).json();
    assert_eq!(found["found"]["public"], true, "{found}");
}

/// `identify` finds what `detect` finds, and refuses what it refuses.
#[test]
fn a_key_is_identified_where_its_mark_is_detected() {
    let folder = with_ring(2);
    folder.write("text.txt", &marked(&folder, "ring/1.key", 1)[0]);
    let identify = |rest: &[&str]| folder.run(&[&["identify"], rest].concat());
    // After repair.
    folder.write("zw.txt", &folder.run(&["attack", "zero-width", "text.txt", "--strength", "0.4"]).out);
    let run = identify(&["zw.txt", "--ring", "ring"]);
    assert!(run.status == 0 && run.out.contains("written with key-1: native"), "{run:?}");
    assert!(run.out.contains("\nrepaired  ") && run.out.contains("invisible characters"), "{run:?}");
    let [repaired, plain] = ["zw.txt", "text.txt"].map(|text| identify(&[text, "--ring", "ring", "--json"]).json());
    assert_eq!((&repaired["found"]["key_id"], &repaired["tried"]), (&"key-1".into(), &2.into()));
    assert_eq!(repaired["found"]["repairs"][0][0], "invisible");
    assert!(plain["found"].get("repairs").is_none() && plain["found"].get("tenant").is_none(), "{plain}");
    let log10_p = |found: &serde_json::Value| found["found"]["log10_p"].as_f64().unwrap();
    assert!((log10_p(&repaired) - log10_p(&plain) - 2f64.log10()).abs() < 1e-9, "the look is counted: {repaired}");
    // `--gammas` applies only to the other keys of the ring, since a key with payloads has a fixed green share.
    folder.write_private("n.key", &crate::support::KEY.replace("\"gamma\"", "\"payload_bits\": 8, \"gamma\""));
    let run = identify(&["text.txt", "--ring", "ring", "--key", "n.key", "--gammas", "0.25,0.5", "--json"]);
    assert_eq!((run.status, &run.json()["tried"]), (0, &5.into()), "{run:?}");
    // The key of another tokenizer is refused, since it would find nothing in any text.
    folder.write_private("theirs.key", &crate::support::KEY.replace("e106f5b2", "00000000"));
    identify(&["text.txt", "--key", "theirs.key"]).fails("theirs.key: the key vg-c0ffee00 was made for a vocabulary");
    folder.write_private("ring/theirs.key", &crate::support::KEY.replace("e106f5b2", "00000000"));
    let run = identify(&["text.txt", "--ring", "ring", "--json"]);
    assert_eq!((run.status, &run.json()["tried"]), (0, &2.into()), "{run:?}");
    assert!(run.err.contains("theirs.key is skipped"), "{run:?}");
}

#[test]
fn keys_of_several_tenants_are_told_apart() {
    let folder = Folder::new();
    for tenant in ["one", "two"] {
        folder.run(&["key", "new", &format!("{tenant}.key"), "--id", "k", "--tenant", tenant]).done();
    }
    folder.write("text.txt", &marked(&folder, "two.key", 1)[0]);
    let identify = ["identify", "text.txt", "--key", "one.key", "--key", "two.key"];
    let run = folder.run(&identify);
    assert!(run.status == 0 && run.out.contains("written with k, tenant two: native"), "{run:?}");
    assert!(run.out.contains("k, tenant one: native"), "{run:?}");
    let found = folder.run(&[&identify[..], &["--json"]].concat()).json();
    assert_eq!((&found["found"]["tenant"], &found["best"][1]["tenant"]), (&"two".into(), &"one".into()), "{found}");
}

/// The probability of a wrong payload is reported as below a bound, not as zero.
#[test]
fn the_doubt_of_a_payload_is_bounded() {
    let folder = Folder::new();
    folder.write_private("n.key", &crate::support::KEY.replace("\"gamma\"", "\"payload_bits\": 8, \"gamma\""));
    let generate = ["generate", "The captain", "--key", "n.key", "--payload", "77", "-n", "500", "--seed", "1"];
    folder.write("text.txt", &folder.run(&generate).out);
    let run = folder.run(&["payload", "text.txt", "--key", "n.key"]);
    assert!(run.status == 0 && run.out.contains("payload   0x4d"), "{run:?}");
    assert!(!run.out.contains("0.0e0") && run.out.contains("less than 1e-12"), "{run:?}");
    // A short text is marked without a doubt, and its number is in doubt wherever it is shown.
    let all = folder.read("text.txt");
    let doubt_of = |length: usize| {
        folder.write("part.txt", all.get(..length).unwrap_or_default());
        let verdict = folder.run(&["detect", "part.txt", "--key", "n.key", "--json"]).json();
        (verdict["marked"] == true).then(|| verdict["doubt"].as_f64().unwrap())
    };
    let doubt = (100..400).step_by(20).find_map(|length| doubt_of(length).filter(|&doubt| doubt > 1e-3)).unwrap();
    let payload = folder.run(&["payload", "part.txt", "--key", "n.key", "--json"]).json();
    assert_eq!(payload["doubt"].as_f64(), Some(doubt));
    folder.run(&["detect", "part.txt", "--key", "n.key", "--html", "part.html"]).done();
    assert!(folder.read("part.html").contains("which is wrong with a probability of"), "{}", folder.read("part.html"));
    // After repair, which counts as another look.
    folder.write("zw.txt", &folder.run(&["attack", "zero-width", "text.txt", "--strength", "0.4"]).out);
    let prose = "The ship went out of the harbour with the tide, and nobody on the shore saw it again before spring. \
                 His wife kept a lamp in the window all that winter, and the children asked her every evening \
                 whether it was a star or a sail that they could see so far away above the grey water.";
    folder.write("lines.jsonl", &format!("{}\n", serde_json::json!({"text": prose})));
    for command in [&["payload", "lines.jsonl", "--key", "n.key"], &["identify", "lines.jsonl", "--key", "n.key"]] {
        let run = folder.run(command);
        assert!(run.status == 1 && run.out.contains("hint      the text looks like JSON lines"), "{run:?}");
    }
    let run = folder.run(&["payload", "zw.txt", "--key", "n.key"]);
    assert!(run.status == 0 && run.out.contains("payload   0x4d"), "{run:?}");
    assert!(run.out.contains("\nrepaired  ") && run.out.contains("invisible characters"), "{run:?}");
    let [repaired, plain] =
        ["zw.txt", "text.txt"].map(|text| folder.run(&["payload", text, "--key", "n.key", "--json"]).json());
    assert_eq!((&repaired["repairs"][0][0], plain.get("repairs")), (&"invisible".into(), None), "{repaired} {plain}");
    let [with, without] = [&repaired, &plain].map(|found| found["log10_p"].as_f64().unwrap());
    assert!((with - without - 2f64.log10()).abs() < 1e-9, "{repaired} {plain}");
}
