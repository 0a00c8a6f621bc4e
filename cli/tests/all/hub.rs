//! Models from a hub, which is a server of this test.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::{Folder, Run, TALE_SMALL};

const FILES: [&str; 4] = ["config.json", "tokenizer.json", "model.safetensors", "tokenizer_config.json"];

/// A fault of the hub.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Requests for this file fail.
    Fails(&'static str),
    /// One byte of this file is wrong.
    Breaks(&'static str),
}

struct Hub {
    address: String,
    fault: Arc<Mutex<Fault>>,
    folder: Folder,
}

impl Hub {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let fault = Arc::new(Mutex::new(Fault::None));
        let faults = fault.clone();
        thread::spawn(move || listener.incoming().for_each(|stream| answer(stream.unwrap(), *faults.lock().unwrap())));
        Self { address, fault, folder: Folder::new() }
    }

    fn has(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    /// Runs the program with a cache in the folder.
    fn run(&self, arguments: &[&str], offline: bool) -> Run {
        let mut command = self.folder.command(arguments);
        command.env("HF_ENDPOINT", &self.address).env("HF_HOME", self.folder.path("home")).env_remove("HF_TOKEN");
        command.env("HF_HUB_OFFLINE", if offline { "1" } else { "0" });
        Folder::finish(command)
    }

    fn chat(&self, offline: bool) -> Run {
        self.run(&["generate", "--chat", "Hi", "--model", "o/n", "--max-tokens", "3", "--seed", "1"], offline)
    }
}

fn bytes_of(name: &str) -> Vec<u8> {
    match name {
        "tokenizer_config.json" => br#"{"chat_template": "{{ messages[0].content }}"}"#.to_vec(),
        _ => fs::read(Path::new(TALE_SMALL).join(name)).unwrap(),
    }
}

fn answer(mut stream: TcpStream, fault: Fault) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(path) = lines.next().and_then(|line| line.split(' ').nth(1).map(str::to_owned)) else { return };
    let range = lines.take_while(|line| !line.is_empty()).find_map(|line| {
        let line = line.to_ascii_lowercase();
        let (from, to) = line.strip_prefix("range: bytes=")?.split_once('-')?;
        Some((from.parse::<usize>().ok()?, to.parse::<usize>().ok()))
    });
    let name = FILES.into_iter().find(|name| path == format!("/o/n/resolve/c0ffee/{name}"));
    let (status, head, body) = match (name, range) {
        _ if path == "/api/models/o/n/revision/main" => {
            let siblings = FILES.map(|name| serde_json::json!({"rfilename": name}));
            let info = serde_json::json!({"sha": "c0ffee", "siblings": siblings});
            ("200 OK", String::new(), info.to_string().into_bytes())
        }
        (Some(name), Some((from, to))) if fault != Fault::Fails(name) => {
            let mut bytes = bytes_of(name);
            if fault == Fault::Breaks(name) {
                bytes[0] ^= 1;
            }
            let to = to.unwrap_or(bytes.len() - 1);
            let tag = match name {
                "model.safetensors" => "9a79c21cbe985898173459718af40272b2b50f89220588a1b6a8007ff235e772",
                "config.json" => "26785acbc1026d453ffd5b3c8f752eb616c30cc6",
                _ => name.trim_end_matches(".json"),
            };
            let of = bytes.len();
            let head = format!("x-repo-commit: c0ffee\r\netag: \"{tag}\"\r\ncontent-range: bytes {from}-{to}/{of}\r\n");
            ("206 Partial Content", head, bytes[from..=to].to_vec())
        }
        _ => ("500 Internal Server Error", String::new(), Vec::new()),
    };
    write!(stream, "HTTP/1.1 {status}\r\n{head}content-length: {}\r\nconnection: close\r\n\r\n", body.len()).unwrap();
    stream.write_all(&body).unwrap();
}

#[test]
fn a_file_that_failed_once_comes_later() {
    let hub = Hub::new();
    hub.has(Fault::Fails("tokenizer_config.json"));
    let run = hub.chat(false);
    assert!(run.status == 2 && run.err.contains("500"), "{run:?}");
    // The files fetched are enough to work offline.
    hub.has(Fault::None);
    let run = hub.chat(false).done();
    let again = hub.chat(true);
    assert_eq!((again.status, again.out), (0, run.out));
}

#[test]
fn a_file_that_comes_broken_is_an_error() {
    for (name, kind) in [("model.safetensors", "SHA-256"), ("config.json", "git's SHA-1")] {
        let hub = Hub::new();
        hub.has(Fault::Breaks(name));
        let run = hub.chat(false);
        let said = format!("{name} came broken: its {kind} is ");
        assert!(run.status == 2 && run.err.contains(&said), "{run:?}");
        hub.has(Fault::None);
        hub.chat(false).done();
    }
}

#[test]
fn a_cache_that_another_program_began_is_completed() {
    let hub = Hub::new();
    let model = hub.folder.path("home/hub/models--o--n");
    let snapshot = model.join("snapshots/c0ffee");
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(model.join("refs")).unwrap();
    fs::write(model.join("refs/main"), "c0ffee").unwrap();
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        fs::write(snapshot.join(name), bytes_of(name)).unwrap();
    }
    hub.chat(false).done();
    assert!(snapshot.join("tokenizer_config.json").is_file());
}

#[test]
fn models_are_listed_fetched_and_removed() {
    let hub = Hub::new();
    let listed = |offline| {
        let models = hub.run(&["models", "--json"], offline).done().lines();
        assert!(models.iter().all(|model| model["format"] == "verdigris-models-1"), "{models:?}");
        models
    };
    let built_in = listed(true);
    let names: Vec<&str> = built_in.iter().map(|model| model["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["tale", "tale-small", "tale-expert"]);
    assert!(built_in.iter().all(|model| model["weights"] == "built-in" && model["path"].is_null()));

    let fetched = hub.run(&["models", "fetch", "o/n"], false).done();
    let snapshot = hub.folder.path("home/hub/models--o--n/snapshots/c0ffee");
    assert_eq!(fetched.out, format!("{}\n", snapshot.display()));
    // What is there is not fetched again, and is what --model uses.
    assert_eq!(hub.run(&["models", "fetch", "o/n"], true).done().out, fetched.out);
    hub.chat(true).done();
    let cached = &listed(true)[3];
    assert_eq!((&cached["name"], &cached["weights"]), (&"o/n".into(), &"safetensors".into()));
    assert_eq!(cached["path"], snapshot.to_str().unwrap());
    let least: usize = FILES.iter().map(|name| bytes_of(name).len()).sum();
    assert!((least..least + 100).contains(&(cached["bytes"].as_u64().unwrap() as usize)), "{cached}");
    let table = hub.run(&["models"], true).done().out;
    assert_eq!(table.lines().count(), 5, "{table}");
    assert!(table.lines().last().is_some_and(|row| row.starts_with("o/n ") && row.contains("safetensors")), "{table}");
    assert_eq!(hub.run(&["models", "names"], true).done().out, "tale\ntale-small\ntale-expert\no/n\n");

    hub.run(&["models", "remove", "o/n"], true).fails("give --yes");
    assert!(snapshot.exists());
    let removed = hub.run(&["models", "remove", "o/n", "--yes"], true).done().out;
    let folder = hub.folder.path("home/hub/models--o--n");
    assert!(removed.starts_with(&format!("removed {} (", folder.display())), "{removed}");
    assert!(!folder.exists() && listed(true).len() == 3);
    for (arguments, said) in [
        (&["models", "remove", "o/n", "--yes"][..], "is not in the cache"),
        (&["models", "remove", "o/n@v1", "--yes"], "give the name o/n"),
        (&["models", "remove", "../../n", "--yes"], "is not a name on the hub"),
        (&["models", "remove", "tale", "--yes"], "is built in"),
        (&["models", "fetch", "tale"], "is built in"),
        (&["models", "fetch", "nothing"], "is not a name on the hub"),
        (&["models", "fetch", "o/n"], "HF_HUB_OFFLINE"),
    ] {
        hub.run(arguments, true).fails(said);
    }
    fs::create_dir(hub.folder.path("o")).unwrap();
    hub.run(&["models", "fetch", "o/n"], false).fails("o is a path here, so o/n is one too");
}

/// The scripts ask the program for the names of models, where an option takes one.
#[test]
fn shells_complete_the_names_of_models() {
    let hub = Hub::new();
    for (shell, said, of) in [
        ("bash", "$(verdigris models names 2>/dev/null)", 8),
        ("fish", "(verdigris models names 2>/dev/null)", 8),
        ("zsh", "$(verdigris models names 2>/dev/null)", 8),
    ] {
        let script = hub.run(&["completions", shell], true).done().out;
        assert!(script.matches(said).count() >= of, "{shell}: {}", script.matches(said).count());
    }
    // bash itself, if it is there.
    let script = hub.run(&["completions", "bash"], true).done().out;
    let ask = "COMP_WORDS=(verdigris generate -m tale-s); COMP_CWORD=3\n_verdigris verdigris tale-s -m\n\
        printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    hub.folder.write("try.bash", &format!("{script}\n{ask}"));
    let program = Path::new(env!("CARGO_BIN_EXE_verdigris")).parent().unwrap();
    let path = std::env::join_paths([program, Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    let mut bash = std::process::Command::new("bash");
    bash.arg("try.bash").current_dir(hub.folder.path(".")).env("PATH", path).env("HF_HOME", hub.folder.path("home"));
    if let Ok(output) = bash.output() {
        assert_eq!(String::from_utf8_lossy(&output.stdout), "tale-small\n", "{output:?}");
    }
}
