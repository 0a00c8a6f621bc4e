//! One model on several processes: `rank` and `generate --ranks`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Folder, Run, TALE_SMALL};

/// A running `verdigris rank`, which waits for rank 0.
struct Rank {
    child: Child,
    /// Kept open, since a program ends if nothing reads its output.
    _out: BufReader<ChildStdout>,
    address: String,
}

impl Rank {
    fn start(folder: &Folder, options: &[&str]) -> Self {
        let model = ["rank", "--model", TALE_SMALL, "--threads", "1"];
        Self::with(folder, &[&model[..], options].concat())
    }

    fn with(folder: &Folder, arguments: &[&str]) -> Self {
        let mut command = folder.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        assert!(address.starts_with("127.0.0.1:") && !address.ends_with(":0"), "{address}");
        Self { child, _out: out, address }
    }

    /// Waits for the end. Returns the status and standard error.
    fn end(mut self) -> (i32, String) {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let status = self.child.wait().unwrap().code().expect("it is not killed");
        (status, said)
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        // Fails if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn alone<'a>(options: &[&'a str]) -> Vec<&'a str> {
    [&["generate", "--model", TALE_SMALL, "--seed", "3", "--threads", "1"], options].concat()
}

/// Runs `generate` on `world` ranks, which must all succeed.
fn on_ranks(folder: &Folder, split: &str, world: usize, options: &[&str]) -> Run {
    let ranks: Vec<Rank> = (1..world).map(|_| Rank::start(folder, &["--split", split])).collect();
    let addresses: Vec<&str> = ranks.iter().map(|rank| rank.address.as_str()).collect();
    let addresses = addresses.join(",");
    let run = folder.run(&[&alone(options)[..], &["--ranks", &addresses, "--split", split]].concat());
    for (i, rank) in ranks.into_iter().enumerate() {
        let (status, said) = rank.end();
        assert!(status == 0 && said.ends_with(&format!("\nrank {} of {world}\n", i + 1)), "{run:?}: {said}");
        assert!(said.starts_with("warning: connections are neither encrypted nor authenticated"), "{said}");
    }
    run
}

/// All processing of logits is done on rank 0, so the text is that of a single process with any options.
#[test]
fn texts_are_those_of_one_process() {
    let folder = Folder::with_key();
    let schema = r#"{"type": "object", "required": ["name", "age"], "additionalProperties": false,
        "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}}}"#;
    let cases: [&[&str]; 8] = [
        &["The captain", "--max-tokens", "60"],
        &["The captain", "--max-tokens", "60", "--key", "my.key", "--temperature", "0"],
        &["She was born in", "--regex", " 1[0-9]{3}", "--key", "my.key"],
        &["The captain: ", "--json-schema", schema, "--key", "my.key", "--max-tokens", "120"],
        &["The captain", "--texts", "3", "--max-tokens", "30", "--key", "my.key"],
        &["The captain", "--draft", "tale-expert", "--max-tokens", "40", "--draft-tokens", "4"],
        &["The captain", "--lookup", "--max-tokens", "40"],
        &["The captain", "--expert", "tale-expert", "--anti", "tale-small", "--max-tokens", "40", "--key", "my.key"],
    ];
    for options in cases {
        let expected = folder.run(&alone(options)).done();
        for (split, world) in [("tensor", 2), ("layers", 2), ("tensor", 4), ("layers", 3)] {
            let run = on_ranks(&folder, split, world, options);
            assert_eq!((run.status, &run.out), (0, &expected.out), "{split} {world} {options:?}: {}", run.err);
        }
    }
}

/// Only rank 0 reads the chat template of a conversation.
#[test]
fn conversations_are_those_of_one_process() {
    let folder = Folder::new();
    folder.copy_model(TALE_SMALL, "talker");
    let template = "{% for message in messages %}{{ message.content }}: {% endfor %}";
    std::fs::write(folder.path("talker/chat_template.jinja"), template).unwrap();
    let chat = ["generate", "--model", "talker", "--chat", "The captain", "--seed", "3", "--max-tokens", "30"];
    let expected = folder.run(&chat).done();
    let rank = Rank::start(&folder, &["--split", "layers"]);
    let run = folder.run(&[&chat[..], &["--ranks", &rank.address, "--split", "layers"]].concat());
    assert_eq!((run.status, run.out), (0, expected.out), "{}", run.err);
    assert_eq!(rank.end().0, 0);
}

/// Starts a long text and waits for its first bytes. Returns the process and its output.
fn under_way(folder: &Folder, address: &str, options: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let long = alone(&["The captain", "--max-tokens", "900", "--ranks", address]);
    let mut command = folder.command(&[&long[..], options].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_exact(&mut [0; 8]).unwrap();
    (child, out)
}

/// Asserts that a process ends with a one-line error in time. Returns the error.
#[track_caller]
fn fails(mut child: Child, within: Duration) -> String {
    let started = Instant::now();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(started.elapsed() < within, "{:?}: {said}", started.elapsed());
    assert!(said.starts_with("error: ") && said.lines().count() == 1, "{said}");
    said
}

#[cfg(unix)]
#[test]
fn a_rank_that_is_killed_in_the_midst_of_a_text_is_one_line() {
    let folder = Folder::new();
    for split in ["tensor", "layers"] {
        let rank = Rank::start(&folder, &["--split", split]);
        let (child, _out) = under_way(&folder, &rank.address, &["--split", split]);
        rank.signal("-KILL");
        let said = fails(child, Duration::from_secs(20));
        assert!(said.contains(&format!("rank 1 ({}) is gone", rank.address)), "{said}");
    }
}

#[cfg(unix)]
#[test]
fn a_rank_that_hangs_is_an_error_at_the_deadline() {
    let folder = Folder::new();
    let rank = Rank::start(&folder, &[]);
    let (child, _out) = under_way(&folder, &rank.address, &["--rank-timeout", "0.5"]);
    rank.signal("-STOP");
    let said = fails(child, Duration::from_secs(20));
    assert!(said.contains("has said nothing for 0.5 s"), "{said}");
    rank.signal("-CONT");
    let (status, said) = rank.end();
    assert!(status == 2 && said.contains("error: rank 0 ("), "{said}");
}

#[cfg(unix)]
#[test]
fn a_rank_ends_when_rank_0_is_killed() {
    let folder = Folder::new();
    let rank = Rank::start(&folder, &["--quiet"]);
    let (mut child, _out) = under_way(&folder, &rank.address, &[]);
    child.kill().unwrap();
    child.wait().unwrap();
    let (status, said) = rank.end();
    assert_eq!((status, said.lines().count()), (2, 1), "{said}");
    assert!(said.starts_with("error: rank 0 (127.0.0.1:") && said.contains("is gone"), "{said}");
}

/// Ranks with another model, world or split: one line on both sides, status 2 on rank 0, and the other keeps waiting.
#[test]
fn ranks_that_do_not_fit() {
    let folder = Folder::new();
    let model = |name| vec!["rank", "--model", name, "--quiet"];
    let small = || model(TALE_SMALL);
    let cases: [(Vec<&str>, &str); 3] = [
        (model("tale"), "the model of rank 0 is"),
        ([&small()[..], &["--world", "3"]].concat(), "rank 0 wants a world of 2 ranks, not 3"),
        ([&small()[..], &["--split", "layers"]].concat(), "the split of rank 0 is tensor, not layers"),
    ];
    for (arguments, expected) in cases {
        let mut rank = Rank::with(&folder, &arguments);
        // Neither a client that is not a rank nor a rank of another version ends it.
        for stranger in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"VR\x01\0\x13\0\0\0verdigris ranks\x09\0\0\0"] {
            TcpStream::connect(&rank.address).unwrap().write_all(stranger).unwrap();
        }
        let run = folder.run(&alone(&["The captain", "--ranks", &rank.address]));
        run.fails(expected);
        assert!(run.err.contains("rank 1 (127.0.0.1:"), "{run:?}");
        let mut said = BufReader::new(rank.child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut next = || said.next().unwrap();
        let first = next();
        assert!(first.starts_with("warning: 127.0.0.1:") && first.contains("it speaks version 9"), "{first}");
        let second = next();
        assert!(second.starts_with("warning: rank 0 (127.0.0.1:") && second.contains(expected), "{second}");
        assert!(second.ends_with("; waiting for another"), "{second}");
        assert_eq!(rank.child.try_wait().unwrap(), None, "it keeps waiting");
    }
}

/// Errors that need no answer from another rank.
#[test]
fn ranks_that_cannot_be() {
    let folder = Folder::new();
    let run = |options: &[&str]| folder.run(&alone(options));
    let free = Rank::start(&folder, &[]).address.clone();
    run(&["The captain", "--ranks", &free]).fails("no rank can be reached at");
    run(&["The captain", "--ranks", "nowhere"]).fails("no rank can be reached at nowhere");
    run(&["The captain", "--ranks", "a:1,b:2"]).fails("cannot be shared out evenly to 3 ranks");
    let many = vec!["a:1"; 40].join(",");
    run(&["The captain", "--ranks", &many, "--split", "layers"]).fails("layers cannot be shared out to 41 ranks");
    run(&["The captain", "--ranks", &free, "--device", "cuda"]).fails("leave out --device");
    folder.run(&["rank", "--model", TALE_SMALL, "--listen", "nowhere"]).fails("cannot wait for other ranks at nowhere");
    folder.run(&["rank", "--model", "missing-model", "--listen", "nowhere"]).fails("missing-model");
}
