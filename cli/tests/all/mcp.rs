//! The server of the Model Context Protocol: JSON-RPC by hand, over standard input and output and over HTTP. `cargo
//! test --release --locked --features verdigris-cli/mcp --test all mcp::`
#![cfg(feature = "mcp")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::server::Server;
use crate::support::{Folder, KEY};

/// A process that serves one client, and the lines that it writes.
struct Session {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    next: u64,
}

impl Session {
    fn start(folder: &Folder, options: &[&str]) -> Self {
        let mut command = folder.command(&[&["mcp"], options].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).for_each(|line| drop(send.send(line))));
        Self { input: child.stdin.take(), child, lines, next: 0 }
    }

    /// A session whose client has introduced itself.
    fn begun(folder: &Folder, options: &[&str]) -> Self {
        let mut session = Self::start(folder, options);
        let begun = session.request("initialize", initialize());
        assert_eq!(begun["result"]["serverInfo"]["name"], "verdigris", "{begun}");
        assert_eq!(begun["result"]["protocolVersion"], "2025-06-18");
        assert!(begun["result"]["capabilities"]["tools"].is_object());
        session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        session
    }

    fn send(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    #[track_caller]
    fn line(&self) -> Value {
        let line = self.lines.recv_timeout(Duration::from_secs(60)).expect("an answer");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    #[track_caller]
    fn request(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        let answer = self.line();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(id)), "{answer}");
        answer
    }

    #[track_caller]
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The result of a tool.
    #[track_caller]
    fn found(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.call(tool, arguments);
        let result = &answer["result"];
        assert_eq!(result["isError"], false, "{answer}");
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, result["structuredContent"]);
        text
    }

    /// The message of a tool that fails.
    #[track_caller]
    fn fault(&mut self, tool: &str, arguments: Value) -> String {
        let answer = self.call(tool, arguments);
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Ends the input. Returns the status of the process, and what it said on standard error.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        let output = self.child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

fn initialize() -> Value {
    json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}})
}

fn marked(folder: &Folder) -> String {
    let options = ["--key", "my.key", "--seed", "3", "--max-tokens", "250", "--quiet"];
    folder.run(&[&["generate", "The captain"], &options[..]].concat()).succeeds().out
}

const SECRET: &str = "f1e2d3c4b5a69788";

#[test]
fn tools_find_what_the_commands_find() {
    let folder = Folder::with_key();
    std::fs::create_dir(folder.path("ring")).unwrap();
    folder.write_private("ring/a.key", KEY);
    folder.run(&["key", "new", "ring/b.key", "--id", "second"]).done();
    let text = marked(&folder);
    folder.write("tale.txt", &text);
    let mut session = Session::begun(&folder, &["--ring", "ring"]);

    let listed = session.request("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["detect", "identify", "mark_status"]);
    for tool in tools {
        assert_eq!(
            (&tool["inputSchema"]["required"], &tool["annotations"]["readOnlyHint"]),
            (&json!(["text"]), &json!(true))
        );
        assert!(
            tool["description"].as_str().unwrap().len() > 40 && tool["inputSchema"]["additionalProperties"] == false
        );
    }

    let without_name = |mut found: Value| {
        found["name"].take();
        found
    };
    for (text, options) in
        [(&*text, &[][..]), ("A text that somebody else has written, about the sea.", &["--windows"])]
    {
        folder.write("text.txt", text);
        let run = folder.run(&[&["detect", "text.txt", "--ring", "ring", "--json"], options].concat());
        let found = session.found("detect", json!({"text": text, "passages": !options.is_empty()}));
        assert_eq!(without_name(found), without_name(run.json()), "{run:?}");
    }
    let one = session.found("detect", json!({"text": text, "key_id": "second"}));
    assert_eq!((&one["verdict"], &one["key_id"]), (&json!("not marked"), &json!("second")), "{one}");

    let run = folder.run(&["identify", "tale.txt", "--ring", "ring", "--json"]);
    let found = session.found("identify", json!({"text": text}));
    assert_eq!(found["found"]["key_id"], "vg-c0ffee00");
    assert_eq!(without_name(found), without_name(run.json()));

    let status = session.found("mark_status", json!({"text": text}));
    assert_eq!((&status["status"], &status["reason"]), (&json!("watermarked"), &Value::Null), "{status}");
    assert_eq!((&status["key_id"], &status["scheme"]), (&json!("vg-c0ffee00"), &json!("native")));
    let weak = session.found("mark_status", json!({"text": &text[..60], "key_id": "vg-c0ffee00"}));
    assert_eq!(weak["status"], "too_weak", "{weak}");
    assert_eq!(session.found("mark_status", json!({"text": "No."}))["status"], "skipped");

    let (status, said) = session.end();
    assert_eq!((status, &*said), (Some(0), ""));
}

/// Faults are messages for the client, and the session continues.
#[test]
fn bad_requests_are_answered() {
    let folder = Folder::with_key();
    let mut session = Session::begun(&folder, &["--key", "my.key", "--max-text", "2000"]);
    for (tool, arguments, said) in [
        ("detect", json!({}), "missing field `text`"),
        ("detect", json!({"text": 3}), "invalid type"),
        ("detect", json!({"text": "x", "key": SECRET}), "unknown field `key`"),
        ("detect", json!({"text": "x", "key_id": "other"}), "does not have the key \"other\""),
        ("identify", json!({"text": "x".repeat(2001)}), "the text has 2001 bytes, but may have up to 2000"),
        ("detect", json!({"text": "x".repeat(300_000)}), "the text has 300000 bytes, but may have up to 2000"),
        ("mark_status", json!({"text": "x", "ring": "/"}), "unknown field `ring`"),
    ] {
        let fault = session.fault(tool, arguments.clone());
        assert!(fault.contains(said), "{arguments}: {fault}");
        assert!(!fault.contains("/tmp") && fault.lines().count() == 1, "{fault}");
    }
    let unknown = session.call("read_key", json!({}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    let method = session.request("resources/read", json!({"uri": "file:///etc/passwd"}));
    assert!(method["error"]["code"].is_i64(), "{method}");
    // Lines that are not JSON, or longer than any request, are skipped or answered, and nothing is lost.
    session.send("{\"jsonrpc\": \"2.0\", \"id\"");
    session.send(&"x".repeat(2000 * 6 + (128 << 10)));
    session.next += 1;
    let id = session.next;
    session.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string());
    let answers = std::iter::repeat_with(|| session.line()).take(5);
    assert!(answers.take_while(|answer| answer["id"] != id).all(|answer| answer["error"].is_object()));
    let (_, said) = session.end();
    assert!(!said.contains(SECRET), "{said}");

    folder.run(&["mcp"]).fails("--key");
    folder.run(&["mcp", "--key", "missing.key"]).fails("missing.key");
    folder.run(&["mcp", "--key", "my.key", "--max-text", "17000000"]).fails("give fewer bytes");
    folder.run(&["mcp", "--key", "my.key", "--http", "0.0.0.0:0"]).fails("give --allow-anyone");
    let (status, _) = Session::start(&folder, &["--key", "my.key"]).end();
    assert_eq!(status, Some(0), "a client that leaves at once");
}

#[test]
fn http_has_the_same_tools() {
    let folder = Folder::with_key();
    let text = marked(&folder);
    let mut command = folder.command(&["mcp", "--key", "my.key", "--http", "127.0.0.1:0", "--max-text", "20000"]);
    let server = Server::started(command.stderr(Stdio::piped()).stdout(Stdio::null()));
    let post = |headers: &str, body: &Value| {
        let kinds = "Content-Type: application/json\r\nAccept: application/json, text/event-stream";
        let body = body.to_string();
        let length = body.len();
        let host = if headers.contains("Host:") { "" } else { "Host: localhost\r\n" };
        let head = format!("POST /mcp HTTP/1.0\r\n{host}{kinds}\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
        server.raw(head.as_bytes()).expect("an answer")
    };
    let request = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let begun = post("", &request("initialize", initialize()));
    assert_eq!((begun.status, &begun.json()["result"]["serverInfo"]["name"]), (200, &json!("verdigris")), "{begun:?}");
    let version = "MCP-Protocol-Version: 2025-06-18\r\n";
    let call = request("tools/call", json!({"name": "detect", "arguments": {"text": text}}));
    let found = post(version, &call);
    assert_eq!(found.json()["result"]["structuredContent"]["verdict"], "marked", "{found:?}");
    // Pages of other sites, and names that lead here from elsewhere.
    assert_eq!(post(&format!("{version}Origin: https://example.com\r\n"), &call).status, 403);
    assert_eq!(post(&format!("{version}Host: example.com\r\n"), &call).status, 403);
    let long = request("tools/call", json!({"name": "detect", "arguments": {"text": "x".repeat(400_000)}}));
    assert_eq!(post(version, &long).status, 413);
    assert_eq!(server.get("/other").status, 404);
    assert!(server.log().iter().all(|line| !line.contains(SECRET)));
}
