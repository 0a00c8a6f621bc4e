//! Shared code of the tests: the programs, certificates made for each test, and a marked text.
#![allow(dead_code, unreachable_pub, reason = "each test is a separate crate, and none needs all of it")]

pub mod authority;
pub mod certificates;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

/// The result of running a program.
pub struct Done {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Done {
    /// The output of a successful run.
    pub fn ok(self) -> String {
        assert_eq!(self.status, 0, "{}{}", self.out, self.err);
        self.out
    }

    /// The one line of error of a failed run.
    pub fn error(self) -> String {
        assert_eq!(self.status, 2, "{}{}", self.out, self.err);
        assert_eq!(self.out, "");
        assert_eq!(self.err.trim_end().lines().count(), 1, "{}", self.err);
        self.err
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{}{}", self.out, self.err))
    }
}

pub fn run(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str], input: &[u8]) -> Done {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let feeding = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let done = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    Done {
        status: done.status.code().expect("the program was not killed by a signal"),
        out: String::from_utf8(done.stdout).unwrap(),
        err: String::from_utf8(done.stderr).unwrap(),
    }
}

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_verdigris-c2pa");

pub fn c2pa(arguments: &[&str], input: &str) -> Done {
    run(PROGRAM, arguments, input.as_bytes())
}

/// The main program, which writes and judges marks. `tests/scripts/c2pa` sets the variable.
pub fn main_program() -> String {
    std::env::var("VERDIGRIS_PROGRAM").expect("VERDIGRIS_PROGRAM names the main program: run tests/scripts/c2pa")
}

pub fn verdigris(arguments: &[&str], input: &str) -> Done {
    run(main_program(), arguments, input.as_bytes())
}

/// A folder with a certificate and its key.
pub struct Desk {
    pub folder: TempDir,
}

impl Desk {
    pub fn new() -> Self {
        let desk = Self { folder: tempfile::tempdir().unwrap() };
        c2pa(&["certificate", &desk.at("ada"), "--signer", "Ada"], "").ok();
        desk
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn at(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.at(name)
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn has(&self, name: &str) -> bool {
        Path::new(&self.at(name)).exists()
    }

    /// Signs a file with these options.
    pub fn sign(&self, options: &[&str]) -> Done {
        let (certificate, key) = (self.at("ada.cert.pem"), self.at("ada.key.pem"));
        c2pa(&[&["sign", "--certificate", &certificate, "--private-key", &key], options].concat(), "")
    }

    /// The verdicts on a file, as JSON.
    pub fn verify(&self, name: &str, options: &[&str]) -> Value {
        c2pa(&[&["verify", &self.at(name), "--json"], options].concat(), "").json()
    }

    /// The path of a watermark key with the id `my`, made on first use.
    pub fn key(&self) -> String {
        let key = self.at("my.key");
        if !self.has("my.key") {
            verdigris(&["key", "new", &key, "--id", "my"], "").ok();
        }
        key
    }
}

/// Copies a program. Another process does so: a file that this one writes could be open in a child of another test, and
/// then it cannot be run.
pub fn install(program: &str, to: &Path) {
    match cfg!(unix) {
        true => assert!(Command::new("cp").arg(program).arg(to).status().unwrap().success()),
        false => drop(std::fs::copy(program, to).unwrap()),
    }
}

/// The main program with the signing program next to it, as installed.
pub struct Installed {
    pub desk: Desk,
    pub program: PathBuf,
}

impl Installed {
    pub fn new() -> Self {
        let desk = Desk::new();
        let program = desk.path("verdigris");
        install(&main_program(), &program);
        install(PROGRAM, &desk.path("verdigris-c2pa"));
        Self { desk, program }
    }

    pub fn run(&self, arguments: &[&str]) -> Done {
        run(&self.program, arguments, b"")
    }

    pub fn generate(&self, options: &[&str]) -> Done {
        let fixed = ["generate", "The captain", "--key", &self.desk.key(), "-n", "120", "--seed", "1"];
        self.run(&[&fixed[..], &self.signer().each_ref().map(String::as_str), options].concat())
    }

    /// The options of the signer.
    pub fn signer(&self) -> [String; 4] {
        let (certificate, key) = (self.desk.at("ada.cert.pem"), self.desk.at("ada.key.pem"));
        ["--c2pa-cert".into(), certificate, "--c2pa-key".into(), key]
    }

    pub fn verify(&self, name: &str) -> Value {
        self.run(&["verify", &self.desk.at(name), "--key", &self.desk.key(), "--json"]).json()
    }
}

/// A text marked with a key.
pub fn marked(key: &str) -> String {
    verdigris(&["generate", "The captain", "--key", key, "--max-tokens", "120", "--seed", "1"], "").ok()
}

/// An unmarked text with composed characters.
pub const PLAIN: &str = "The na\u{ef}ve captain went to the caf\u{e9} by the quiet sea.\nHe left a red sail there.\n";

/// A folder shared by tests that use different files; made once.
pub fn shared() -> &'static Desk {
    static DESK: OnceLock<Desk> = OnceLock::new();
    DESK.get_or_init(Desk::new)
}
