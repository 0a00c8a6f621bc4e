//! `serve --prefix-store`: prompts that begin alike are read once, also by the next process, and by no other tenant's.
#![cfg(all(feature = "serve", unix))]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::server::Server;
use crate::support::{Folder, TALE_SMALL, until};

const ACME: &str = "0123456789abcdef-acme";
const RIVAL: &str = "0123456789abcdef-rival";
const OPERATOR: &str = "0123456789abcdef-operator";

/// A folder with a model that has a chat template, and the keys of two tenants and an operator.
fn folder() -> Folder {
    let folder = Folder::with_key();
    folder.copy_model(TALE_SMALL, "teller");
    let template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: ";
    folder.write("teller/chat_template.jinja", template);
    folder.write("keys.txt", &format!("acme {ACME}\nrival {RIVAL}\noperator {OPERATOR} metrics\n"));
    folder
}

/// A server of these tenants, all marked.
fn server(folder: &Folder, more: &[&str]) -> Server {
    let fixed = ["--model", "teller", "--key", "my.key", "--api-key-file", "keys.txt"];
    Server::start(folder, &[&fixed, more].concat())
}

/// The number of tokens that the server took from its store.
#[track_caller]
fn restored(server: &Server) -> f64 {
    let text = server.get_as("/metrics", &format!("Bearer {OPERATOR}")).text;
    let line = text.lines().find_map(|line| line.strip_prefix("verdigris_prefix_store_restored_total "));
    line.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

fn stored(folder: &Folder) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder.path("store")) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "prefix"));
    paths.sort();
    paths
}

/// A chat with instructions of some hundred tokens.
fn chat(question: &str) -> Value {
    let system =
        "You are the captain of a ship that left the harbour three days before. Answer in one line. ".repeat(12);
    let messages = json!([{"role": "system", "content": system}, {"role": "user", "content": question}]);
    json!({"messages": messages, "seed": 5, "max_tokens": 20, "return_token_ids": true})
}

/// The text of an answer with its tokens and its mark.
#[track_caller]
fn said(server: &Server, key: &str, body: &Value) -> Value {
    let path = if body["messages"].is_array() { "/v1/chat/completions" } else { "/v1/completions" };
    let answer = server.post_as(path, key, body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let choice = &answer.json()["choices"][0];
    json!([choice["message"], choice["text"], choice["token_ids"], choice["watermark"]])
}

/// Waits until nothing has been stored for a moment, and returns the number of files.
fn settled(folder: &Folder) -> usize {
    let mut before = usize::MAX;
    until(
        || {
            std::thread::sleep(std::time::Duration::from_millis(300));
            std::mem::replace(&mut before, stored(folder).len()) == stored(folder).len()
        },
        || "files keep coming".into(),
    );
    stored(folder).len()
}

#[test]
fn instructions_are_read_once_and_texts_are_the_same() {
    let folder = folder();
    let questions = ["Where is the key?", "1 is the first number. Which is the second?", "?", "Are you well?"];
    let plain = server(&folder, &[]);
    let expected: Vec<Value> = questions.iter().map(|question| said(&plain, ACME, &chat(question))).collect();
    drop(plain);
    let options = ["--prefix-store", "store"];
    let first = server(&folder, &options);
    assert_eq!(said(&first, ACME, &chat(questions[0])), expected[0]);
    assert_eq!(restored(&first), 0.0);
    assert_eq!(first.stop(|_| ()), Some(0));
    let files = stored(&folder).len();
    assert!(files >= 4, "{files} files of 64 tokens");
    // The question itself is not stored.
    let second = server(&folder, &options);
    for (question, expected) in questions.iter().zip(&expected) {
        assert_eq!(&said(&second, ACME, &chat(question)), expected, "{question}");
    }
    assert_eq!(restored(&second), (64 * files) as f64, "the instructions, once for this process");
    assert_eq!(settled(&folder), files);
    // A second process with the same folder.
    let third = server(&folder, &options);
    assert_eq!(said(&third, ACME, &chat(questions[3])), expected[3]);
    assert_eq!(restored(&third), (64 * files) as f64);
}

/// A model with gated delta nets: the states after the last whole block of the instructions are stored with it.
#[test]
fn instructions_are_read_once_by_models_with_states() {
    let folder = Folder::new();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/golden/architectures/qwen3_5_text");
    fs::create_dir(folder.path("hybrid")).unwrap();
    for name in ["config.json", "model.safetensors"] {
        fs::copy(format!("{golden}/{name}"), folder.path("hybrid").join(name)).unwrap();
    }
    // A token for each letter.
    let letters = ('A'..='Z').chain('a'..='z').chain("\u{120}\u{10a}.,!?'1".chars()).map(String::from);
    let vocabulary: serde_json::Map<_, _> = letters.chain(["<|end|>".into()]).zip((0..).map(Value::from)).collect();
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    let model = json!({"type": "BPE", "vocab": vocabulary, "merges": []});
    let tokenizer =
        json!({"version": "1.0", "added_tokens": [], "model": model, "pre_tokenizer": bytes, "decoder": bytes});
    folder.write("hybrid/tokenizer.json", &tokenizer.to_string());
    folder.write("hybrid/chat_template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
    let server = |more: &[&str]| Server::start(&folder, &[&["--model", "hybrid"], more].concat());
    let chat = |question: &str| {
        let system = "Hello, World. ThisIsASystem! ".repeat(5);
        let messages = json!([{"role": "system", "content": system}, {"role": "user", "content": question}]);
        json!({"messages": messages, "seed": 5, "max_tokens": 10, "return_token_ids": true})
    };
    let said = |server: &Server, question: &str| {
        let answer = server.post("/v1/chat/completions", &chat(question));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["choices"][0]["token_ids"].clone()
    };
    let restored = |server: &Server| {
        let text = server.get("/metrics").text;
        let line = text.lines().find_map(|line| line.strip_prefix("verdigris_prefix_store_restored_total "));
        line.unwrap_or_else(|| panic!("{text}")).parse::<f64>().unwrap()
    };
    let plain = server(&[]);
    // More tokens than a sequence can go back without reading them again.
    let long = "Yes, and again, and again, and again, and again. ";
    let expected = [long, "What, now?"].map(|question| said(&plain, question));
    drop(plain);
    // A pass could read the whole prompt.
    let options = ["--prefix-store", "store", "--max-num-batched-tokens", "250"];
    let first = server(&options);
    assert_eq!(said(&first, long), expected[0]);
    assert_eq!(first.stop(|_| ()), Some(0));
    let files = stored(&folder).len();
    assert!(files >= 2, "{files} files of 64 tokens");
    let second = server(&options);
    assert_eq!(said(&second, "What, now?"), expected[1]);
    assert_eq!(said(&second, long), expected[0]);
    assert_eq!(restored(&second), (64 * files) as f64, "the instructions, once for this process");
}

/// Completions have no instructions: what a prompt shares with an earlier one is stored.
#[test]
fn what_prompts_have_in_common_is_stored() {
    let folder = folder();
    let begin = "It was a dark night, and the captain slept at the wheel of the ship. ".repeat(15);
    let prompts = ["The captain", "Later", "In the morning"]
        .map(|end| json!({"prompt": format!("{begin}{end}"), "seed": 2, "max_tokens": 20, "return_token_ids": true}));
    let plain = server(&folder, &[]);
    let expected = prompts.each_ref().map(|prompt| said(&plain, ACME, prompt));
    drop(plain);
    let first = server(&folder, &["--prefix-store", "store"]);
    assert_eq!(said(&first, ACME, &prompts[0]), expected[0]);
    assert_eq!(settled(&folder), 0, "a prompt alone is not stored");
    assert_eq!(said(&first, ACME, &prompts[1]), expected[1]);
    assert_eq!(first.stop(|_| ()), Some(0));
    let files = stored(&folder).len();
    assert!(files >= 2, "{files}");
    let second = server(&folder, &["--prefix-store", "store"]);
    assert_eq!(said(&second, ACME, &prompts[2]), expected[2]);
    assert_eq!(restored(&second), (64 * files) as f64);
}

/// Tenants do not share files, unless they share caches. Names say nothing, and files are for their owner only.
#[test]
fn no_tenant_uses_the_files_of_another() {
    for (more, shares) in
        [(&["--prefix-store", "store"][..], false), (&["--prefix-store", "store", "--share-caches"], true)]
    {
        let folder = folder();
        let first = server(&folder, more);
        said(&first, ACME, &chat("Where?"));
        assert_eq!(first.stop(|_| ()), Some(0));
        let files = stored(&folder);
        let second = server(&folder, more);
        said(&second, RIVAL, &chat("Where?"));
        assert_eq!(restored(&second) > 0.0, shares);
        assert_eq!(settled(&folder), if shares { files.len() } else { 2 * files.len() });
        said(&second, ACME, &chat("Where?"));
        assert!(restored(&second) > 0.0);
        for path in stored(&folder) {
            let name = path.file_stem().unwrap().to_str().unwrap();
            assert!(name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            assert!(!String::from_utf8_lossy(&fs::read(&path).unwrap()).contains("captain"));
        }
        assert_eq!(fs::metadata(folder.path("store")).unwrap().permissions().mode() & 0o777, 0o700);
    }
}

/// Damaged files are removed and written again, files of other models are not found, and no text changes.
#[test]
fn damaged_files_are_written_again() {
    let folder = folder();
    let first = server(&folder, &["--prefix-store", "store"]);
    let expected = said(&first, ACME, &chat("Where?"));
    assert_eq!(first.stop(|_| ()), Some(0));
    let files = stored(&folder);
    let whole: Vec<_> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    for (number, path) in files.iter().enumerate() {
        let mut bytes = whole[number].clone();
        match number % 4 {
            0 => bytes.truncate(bytes.len() / 2),
            1 => bytes.clear(),
            2 => bytes[1000] ^= 4,
            // Another file under this name.
            _ => bytes.clone_from(&whole[0]),
        }
        fs::write(path, bytes).unwrap();
    }
    // One file after the other is found to be damaged, and all are written again in the end.
    for _ in 0..=files.len() {
        let server = server(&folder, &["--prefix-store", "store"]);
        assert_eq!(said(&server, ACME, &chat("Where?")), expected);
        settled(&folder);
        let log = server.log().join("\n");
        assert!(log.is_empty() || !log.contains("panic"), "{log}");
        assert_eq!(server.stop(|_| ()), Some(0));
    }
    assert_eq!(stored(&folder), files);
    assert!(files.iter().zip(&whole).all(|(path, whole)| fs::read(path).unwrap() == *whole));
}

/// The folder is bounded, and what was not used for longest goes first.
#[test]
fn the_folder_is_bounded() {
    let folder = folder();
    let first = server(&folder, &["--prefix-store", "store"]);
    said(&first, ACME, &chat("Where?"));
    assert_eq!(first.stop(|_| ()), Some(0));
    let bytes = || stored(&folder).iter().map(|path| fs::metadata(path).unwrap().len()).sum::<u64>();
    let (all, files) = (bytes(), stored(&folder));
    let most = all / 2;
    let bounded = server(&folder, &["--prefix-store", "store", "--prefix-store-bytes", &most.to_string()]);
    until(|| bytes() <= most, || format!("{} bytes", bytes()));
    // The beginning is left, since the rest is useless without it.
    let left = stored(&folder).len();
    assert!(0 < left && left < files.len());
    said(&bounded, ACME, &chat("Where?"));
    assert_eq!(restored(&bounded), (64 * left) as f64);
    // Another tenant's are newer.
    said(&bounded, RIVAL, &chat("Where?"));
    settled(&folder);
    assert!(bytes() <= most);
    assert_eq!(bounded.stop(|_| ()), Some(0));
}

/// A path that cannot be a folder is refused when the server starts; a fault that comes later costs no answer.
#[test]
fn bad_folders_are_refused() {
    let folder = folder();
    folder.write("file", "A letter.");
    for path in ["file", "file/store"] {
        folder.run(&["serve", "--port", "0", "--model", "teller", "--prefix-store", path]).fails(&format!("{path}: "));
    }
    let expert = ["--expert", "tale-expert", "--anti", "tale-small", "--prefix-store", "store"];
    folder.run(&[&["serve", "--port", "0"][..], &expert].concat()).fails("leave out the cache, or the other device");
    let server = server(&folder, &["--prefix-store", "store"]);
    fs::remove_dir_all(folder.path("store")).unwrap();
    said(&server, ACME, &chat("Where?"));
    until(|| server.log().iter().any(|line| line.contains("cannot write to store")), || format!("{:?}", server.log()));
    assert_eq!(server.stop(|_| ()), Some(0));
}
