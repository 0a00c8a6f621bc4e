//! Runs the built program in its own folder.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod checkpoint;
pub mod detection;
pub mod reports;
pub mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

pub const TALE_SMALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale-small");

/// A key file as the program writes it. This format stays readable for ever.
pub const KEY: &str = r#"{
  "format": "verdigris-key-1",
  "id": "vg-c0ffee00",
  "scheme": {
    "name": "native",
    "gamma": 0.25,
    "context": {
      "function": "min",
      "width": 4
    }
  },
  "strength": {
    "soft": 2.0
  },
  "vocabulary": {
    "size": 4096,
    "fingerprint": "e106f5b2af1d8f602ff85a4ace3e36b1"
  },
  "secret": "f1e2d3c4b5a697887968574635241302f1e2d3c4b5a697887968574635241302"
}
"#;

/// Copies the program into a folder, where it looks for others. Another process does so: a file that this one writes
/// could be open in a child of another test, and then it cannot be run.
#[cfg(unix)]
pub fn install(to: &Path) {
    let done = Command::new("cp").arg(env!("CARGO_BIN_EXE_verdigris")).arg(to).status().unwrap();
    assert!(done.success());
}

/// Writes a script that can be run, likewise.
#[cfg(unix)]
pub fn write_script(path: &Path, text: &str) {
    use std::io::Write;
    let path = path.to_str().unwrap();
    let line = "cat > \"$1\" && chmod 755 \"$1\"";
    let mut child = Command::new("sh").args(["-c", line, "sh", path]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Waits until something holds, for two minutes at most.
#[track_caller]
pub fn until(mut holds: impl FnMut() -> bool, fault: impl Fn() -> String) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{}", fault());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A body with further fields.
pub fn with(mut body: Value, more: &Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

pub struct Folder(TempDir);

#[derive(Debug)]
pub struct Run {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Run {
    pub fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the program prints UTF-8");
        let status = output.status.code().expect("the program is not killed");
        Self { status, out: text(output.stdout), err: text(output.stderr) }
    }

    /// Asserts status 0 and an empty standard error.
    #[track_caller]
    pub fn succeeds(self) -> Self {
        assert_eq!((self.status, self.err.as_str()), (0, ""), "{self:?}");
        self
    }

    /// Asserts status 0, whatever is on standard error.
    #[track_caller]
    pub fn done(self) -> Self {
        assert_eq!(self.status, 0, "{self:?}");
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// The JSON lines of standard output.
    #[track_caller]
    pub fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{self:?}"))).collect()
    }

    /// Asserts status 2, a one-line error that contains `said`, and an empty standard output.
    #[track_caller]
    pub fn fails(&self, said: &str) {
        assert_eq!(self.status, 2, "{self:?}");
        assert_eq!(self.out, "", "no half-written output");
        assert_eq!(self.err.trim_end().lines().count(), 1, "one line: {}", self.err);
        assert!(self.err.starts_with("error: ") && self.err.contains(said), "{:?} should say {said:?}", self.err);
    }
}

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder with `my.key`, always the same key, so that tests do not depend on chance.
    pub fn with_key() -> Self {
        let folder = Self::new();
        folder.write_private("my.key", KEY);
        folder
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    pub fn write(&self, file: &str, text: &str) {
        fs::write(self.path(file), text).unwrap();
    }

    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap()
    }

    pub fn write_private(&self, file: &str, text: &str) {
        self.write(file, text);
        #[cfg(unix)]
        fs::set_permissions(self.path(file), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }

    pub fn copy_model(&self, from: &str, to: &str) {
        fs::create_dir(self.path(to)).unwrap();
        for file in ["config.json", "tokenizer.json", "model.safetensors"] {
            fs::copy(Path::new(from).join(file), self.path(to).join(file)).unwrap();
        }
    }

    /// Like [`Folder::with_key`], with a small model as `teller` that has this chat template.
    pub fn with_chat(template: &str) -> Self {
        let folder = Self::with_key();
        folder.copy_model(TALE_SMALL, "teller");
        folder.write("teller/chat_template.jinja", template);
        folder
    }

    /// Makes the last tokens of a model's tokenizer control tokens with these names.
    pub fn add_control_tokens(&self, model: &str, names: &[&str]) {
        let path = format!("{model}/tokenizer.json");
        let mut file: Value = serde_json::from_str(&self.read(&path)).unwrap();
        let merges = file["model"]["merges"].as_array_mut().unwrap();
        merges.truncate(merges.len() - names.len());
        let vocabulary = file["model"]["vocab"].as_object_mut().unwrap();
        let first = vocabulary.len() - names.len();
        vocabulary.retain(|_, id| id.as_u64().unwrap() < first as u64);
        for (name, id) in names.iter().zip(first..) {
            file["model"]["vocab"][name] = json!(id);
            file["added_tokens"].as_array_mut().unwrap().push(json!({
                "id": id, "content": name, "special": true, "normalized": false, "single_word": false, "lstrip": false,
                "rstrip": false,
            }));
        }
        self.write(&path, &file.to_string());
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_verdigris"));
        command
            .args(arguments)
            .current_dir(self.0.path())
            .env_remove("NO_COLOR")
            .env_remove("RUST_LOG")
            .env_remove("COLUMNS");
        command.stdin(Stdio::null());
        command
    }

    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> Run {
        Self::finish(self.command(arguments))
    }

    /// Like [`Folder::run`], with a file as standard input.
    #[track_caller]
    pub fn run_with(&self, arguments: &[&str], input: &str) -> Run {
        let mut command = self.command(arguments);
        command.stdin(fs::File::open(self.path(input)).unwrap());
        Self::finish(command)
    }

    /// The peak memory of a run, in MiB, until it prints a line, ends or exceeds 1000 MiB. The run is then killed.
    #[cfg(target_os = "linux")]
    pub fn peak(&self, arguments: &[&str]) -> u64 {
        use std::sync::mpsc::{TryRecvError, channel};
        let mut child = self.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let (out, status) = (child.stdout.take().unwrap(), format!("/proc/{}/status", child.id()));
        let (send, printed) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line);
            let _ = send.send(line);
        });
        let mut peak = 0;
        loop {
            let status = fs::read_to_string(&status).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            if let Some(kib) = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()) {
                peak = peak.max(kib / 1024);
            }
            match printed.try_recv() {
                Err(TryRecvError::Empty) if peak < 1000 => std::thread::sleep(Duration::from_millis(5)),
                Ok(line) => {
                    assert!(line.starts_with('{'), "{line}");
                    break;
                }
                _ => break,
            }
        }
        let _ = child.kill();
        child.wait().unwrap();
        peak
    }

    /// Like [`Folder::run`], with a full disk as standard output.
    #[cfg(target_os = "linux")]
    #[track_caller]
    pub fn run_full(&self, arguments: &[&str]) -> Run {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        Run::of(self.command(arguments).stdout(full).output().unwrap())
    }

    #[track_caller]
    pub fn finish(mut command: Command) -> Run {
        Run::of(command.output().unwrap())
    }
}
