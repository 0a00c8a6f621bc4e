//! Options of the server from flags, environment variables and a file; its log; and its limits.
#![cfg(feature = "serve")]

use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::server::Server;
use crate::support::{Folder, until};

/// Prints the effective options, with some environment variables set.
fn in_force(folder: &Folder, variables: &[(&str, &str)], more: &[&str]) -> crate::support::Run {
    let mut command = folder.command(&[&["serve", "--print-config"], more].concat());
    command.envs(variables.iter().copied());
    Folder::finish(command)
}

#[test]
fn a_flag_counts_more_than_a_variable_and_that_more_than_the_file() {
    let folder = Folder::with_key();
    folder.write("serve.toml", "port = 1111\nmax-body = 1000\nmax-tokens = 10\nenforce-all = true\nkey = \"my.key\"\n");
    let config = ["--config", "serve.toml"];
    let variables = [("VERDIGRIS_SERVE_MAX_BODY", "2000"), ("VERDIGRIS_SERVE_MAX_TOKENS", "20")];
    let run = in_force(&folder, &variables, &[&config[..], &["--max-tokens", "30"]].concat()).done();
    for line in ["port = 1111", "max-body = 2000", "max-tokens = 30", "enforce-all = true", "key = \"my.key\""] {
        assert!(run.out.lines().any(|shown| shown == line), "{line} in {}", run.out);
    }
    // The output can be read as a configuration file.
    folder.write("again.toml", &run.out);
    assert_eq!(in_force(&folder, &[], &["--config", "again.toml"]).out, run.out);
    // A variable can name the file, and another one override it.
    let variables = [("VERDIGRIS_SERVE_CONFIG", "serve.toml"), ("VERDIGRIS_SERVE_ENFORCE_ALL", "false")];
    let run = in_force(&folder, &variables, &["-p", "5"]);
    assert!(run.out.contains("port = 5\n") && run.out.contains("enforce-all = false\n"), "{run:?}");
    assert_eq!(folder.run(&["serve", "--print-config"]).out.lines().next(), Some("enforce-all = false"));
    let named = folder.run(&["serve", "--print-config", "--served-model-name", "007"]).done().out;
    assert!(named.contains("\"007\""), "{named}");
}

#[test]
fn a_probe_shows_whether_a_server_is_healthy() {
    let folder = Folder::with_key();
    folder.write("keys.txt", "ann 0123456789abcdef0123\n");
    let server = Server::start(&folder, &["--key", "my.key", "--api-key-file", "keys.txt"]);
    let port = server.port().to_owned();
    let probe = |more: &[&str]| folder.run(&[&["serve", "--probe", "--port", &port], more].concat());
    probe(&[]).succeeds();
    // Without an API key no body is waited for.
    let head = format!("POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", 4 << 20);
    assert_eq!(server.raw(head.as_bytes()).map(|answer| answer.status), Some(405));
    // All addresses of this machine are reached at its loopback address, and other options change nothing.
    probe(&["--host", "0.0.0.0", "--key", "none.key"]).succeeds();
    drop(server);
    let run = probe(&[]);
    assert_eq!(run.status, 1, "{run:?}");
    assert!(run.err.contains(&format!("http://127.0.0.1:{port} is not healthy: ")), "{run:?}");
    // A service that does not speak HTTP.
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        stream.write_all(b"220 mail.example ready\r\n").unwrap();
        let _ = stream.read(&mut [0; 1024]);
    });
    let run = folder.run(&["serve", "--probe", "--port", &port]);
    assert!(run.status == 1 && run.err.contains("its answer is not HTTP"), "{run:?}");
}

#[test]
fn what_is_no_option_is_refused_with_the_one_that_was_meant() {
    let folder = Folder::with_key();
    for (file, said) in [
        ("max_tokens = 5", "serve.toml: max_tokens is not an option of verdigris serve: did you mean max-tokens?"),
        ("maxbody = 5", "did you mean max-body?"),
        ("frobnicate = 1", "serve.toml: frobnicate is not an option of verdigris serve: see verdigris serve --help"),
        ("config = \"other.toml\"", "config is not an option"),
        ("port = \"ssh\"", "serve.toml: port: invalid value 'ssh' for '--port <PORT>'"),
        ("port = 99999", "serve.toml: port: invalid value '99999'"),
        ("port = [1, 2]", "serve.toml: port: it must be one value, not 2"),
        ("enforce-all = \"yes\"", "serve.toml: enforce-all: it must be true or false"),
        ("port = 1\nport = 2", "serve.toml, line 2"),
        ("[serve]\nport = 1", "serve.toml: serve is not an option"),
        ("port = {a = 1}", "serve.toml: port is a table"),
        ("key", "serve.toml, line 1"),
    ] {
        folder.write("serve.toml", file);
        folder.run(&["serve", "--config", "serve.toml"]).fails(said);
    }
    folder.run(&["serve", "--config", "none.toml"]).fails("none.toml");
    for (variable, value, said) in [
        ("VERDIGRIS_SERVE_MAX_TOKEN", "5", "did you mean VERDIGRIS_SERVE_MAX_TOKENS?"),
        ("VERDIGRIS_SERVE_PORT", "tcp://10.0.0.1:80", "the variable VERDIGRIS_SERVE_PORT: invalid value"),
        (
            "VERDIGRIS_SERVE_ALLOW_ANYONE",
            "maybe",
            "the variable VERDIGRIS_SERVE_ALLOW_ANYONE: it must be true or false",
        ),
    ] {
        let mut command = folder.command(&["serve"]);
        command.env(variable, value);
        Folder::finish(command).fails(said);
    }
    // Other commands ignore these variables.
    let mut command = folder.command(&["key", "show", "my.key"]);
    command.env("VERDIGRIS_SERVE_FROBNICATE", "1");
    assert_eq!(Folder::finish(command).status, 0);
}

#[test]
fn each_request_is_a_line_of_the_log_and_has_a_name() {
    let folder = Folder::with_key();
    folder.write("keys.txt", "ann 0123456789abcdef\n");
    #[cfg(unix)]
    std::fs::set_permissions(folder.path("keys.txt"), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let server = Server::start(&folder, &["--key", "my.key", "--api-key-file", "keys.txt", "--log-format", "json"]);
    let body = json!({"prompt": "The captain", "max_tokens": 6, "ignore_eos": true}).to_string();
    let ask_for = |body: &str, name: &str, key: &str, more: &str| {
        let head = format!("POST /v1/completions HTTP/1.0\r\n{name}Authorization: Bearer {key}\r\n{more}");
        server.raw(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap()
    };
    let ask = |name: &str, key: &str, more: &str| ask_for(&body, name, key, more);
    assert!(ask("X-Request-Id: mine-1\r\n", "0123456789abcdef", "").head.contains("x-request-id: mine-1"));
    let made = ask("X-Request-Id: my own\r\n", "0123456789abcdef", "").head;
    assert!(made.contains("x-request-id: req-") && !made.contains("my own"));
    ask("X-Request-Id: mine-2\r\n", "wrong-wrong-wrong-wrong", "");
    let line = |name: &str| -> Value {
        let parsed = |line: &String| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{line}"));
        let found = || server.log().iter().map(parsed).find(|line| line["request_id"] == name);
        until(|| found().is_some(), || format!("{:?}", server.log()));
        found().unwrap()
    };
    let answered = line("mine-1");
    #[cfg(unix)]
    {
        let readable = |line: &String| line.contains("keys.txt can be read by others (mode 0644)");
        assert!(server.log().iter().any(readable), "{:?}", server.log());
    }
    for (field, value) in [
        ("level", json!("INFO")),
        ("tenant", json!("ann")),
        ("method", json!("POST")),
        ("route", json!("/v1/completions")),
        ("status", json!(200)),
        ("whole", json!(true)),
        ("completion_tokens", json!(6)),
        ("key_id", json!("vg-c0ffee00")),
        ("outcome", json!("whole")),
    ] {
        assert_eq!(answered[field], value, "{field} of {answered}");
    }
    assert!(answered["seconds"].is_number() && answered["watermark"].is_string());
    let refused = line("mine-2");
    assert_eq!((&refused["status"], &refused["code"]), (&json!(401), &json!("invalid_api_key")));
    assert!(refused["tenant"].is_null(), "{refused}");
    // An answer that never began has no outcome.
    let long = json!({"prompt": "The captain ".repeat(2000)}).to_string();
    ask_for(&long, "X-Request-Id: mine-3\r\n", "0123456789abcdef", "");
    let refused = line("mine-3");
    assert_eq!((&refused["code"], &refused["outcome"]), (&json!("context_length_exceeded"), &Value::Null), "{refused}");
    let all = server.log().concat();
    assert!(!all.contains("captain") && !all.contains("0123456789abcdef") && !all.contains("wrong-wrong"), "{all}");
}

#[test]
fn the_log_is_for_people_unless_told_otherwise() {
    let folder = Folder::new();
    let mut command = folder.command(&["serve", "--port", "0", "--log-format", "text"]);
    let server = Server::started(command.stderr(Stdio::piped()).stdout(Stdio::null()));
    server.get("/health");
    server.get("/version");
    let is_logged = || server.log().iter().any(|line| line.contains("route=\"/version\""));
    until(is_logged, || format!("{:?}", server.log()));
    assert!(!server.log().iter().any(|line| line.contains("/health")), "probes are not logged: {:?}", server.log());
}

#[test]
fn what_takes_too_long_or_is_too_much_is_refused() {
    let folder = Folder::with_key();
    let sizes = ["--max-request-seconds", "1", "--max-prompt-tokens", "50", "--max-schema", "500"];
    let counts = ["--key", "my.key", "--max-requests", "2", "--max-num-seqs", "2"];
    let server = Server::start(&folder, &[sizes, counts].concat());
    let post = |body: &Value| server.post("/v1/completions", body);
    let code = |answer: &crate::support::server::Answer| {
        answer.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    };

    let long = post(&json!({"prompt": "word ".repeat(60), "max_tokens": 2}));
    assert_eq!((long.status, code(&long)), (400, "context_length_exceeded".into()));
    assert_eq!(post(&json!({"prompt": "word ".repeat(20), "max_tokens": 2})).status, 200);
    let names: Vec<String> = (0..200).map(|number| format!("name-{number}")).collect();
    let large = post(&json!({"prompt": "a", "structured_outputs": {"choice": names}}));
    assert_eq!((large.status, code(&large)), (400, "constraint_too_large".into()));

    // Many texts at once take longer than a second.
    let endless = json!({"prompt": "The captain", "n": 100, "max_tokens": 1900, "ignore_eos": true});
    let late = post(&endless);
    assert_eq!((late.status, code(&late)), (504, "request_timeout".into()));
    let mut streamed = endless.clone();
    streamed["stream"] = json!(true);
    let events = server.post("/v1/completions", &streamed).events();
    assert_eq!(events.last().unwrap()["error"]["code"], "request_timeout");

    // Two requests are answered at a time; the third is told to retry.
    let mut running: Vec<_> = (0..4).map(|_| server.ask("/v1/completions", &streamed)).collect();
    // Once an answer has begun, its request was either accepted or refused.
    running.iter_mut().for_each(|answer| answer.read_exact(&mut [0; 12]).unwrap());
    let begun = Instant::now();
    let refused = loop {
        let answer = post(&json!({"prompt": "a", "max_tokens": 1}));
        if answer.status == 429 {
            break answer;
        }
        assert!(begun.elapsed() < Duration::from_secs(1), "two are running");
    };
    assert_eq!(code(&refused), "overloaded");
    assert!(refused.head.contains("retry-after: "), "{refused:?}");
    let metrics = server.get("/metrics").text;
    assert!(metrics.contains("verdigris_admission_rejections_total{reason=\"overloaded\"}"), "{metrics}");
    assert!(metrics.contains("verdigris_request_success_total{finished_reason=\"length\"}"), "{metrics}");
    drop(running);
}

#[test]
fn who_waits_too_long_for_the_first_token_is_told_to_come_again() {
    let folder = Folder::new();
    let server = Server::start(&folder, &["--max-queue-seconds", "1", "--max-num-seqs", "1"]);
    let endless = json!({"prompt": "The", "n": 64, "max_tokens": 2000, "ignore_eos": true, "stream": true});
    let mut running = server.ask("/v1/completions", &endless);
    running.read_exact(&mut [0; 300]).unwrap();
    let answer = server.post("/v1/completions", &json!({"prompt": "a", "max_tokens": 1}));
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (503, &json!("queue_timeout")));
    assert!(answer.head.contains("retry-after: 1"), "{answer:?}");
    // The error of a stream, whose status was sent before, is counted too.
    let stream = server.post("/v1/completions", &json!({"prompt": "a", "max_tokens": 1, "stream": true}));
    assert!(stream.status == 200 && stream.text.contains("queue_timeout"), "{stream:?}");
    let metrics = server.get("/metrics").text;
    assert!(metrics.contains("admission_rejections_total{reason=\"queue_timeout\"} 2"), "{metrics}");
    assert!(metrics.contains("stream_errors_total{code=\"queue_timeout\"} 1"), "{metrics}");
}

/// A log that is no longer read stops no request, and the server still ends.
#[cfg(unix)]
#[test]
fn a_log_that_is_not_read_stops_nothing() {
    use std::io::{BufRead, BufReader};
    use std::net::TcpStream;

    let folder = Folder::new();
    let mut child = folder.command(&["serve", "--port", "0"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    let listens = |line: &String| line.contains("listening at http://");
    let line = log.by_ref().map(Result::unwrap).find(listens).unwrap();
    let address = line.split("http://").nth(1).unwrap();
    // More than a pipe holds.
    for _ in 0..600 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(child.wait().unwrap().success());
    drop(log);
}

/// A client that leaves before there is an answer is counted.
#[test]
fn a_client_that_leaves_is_counted() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let endless = json!({"prompt": "The", "n": 64, "max_tokens": 2000, "ignore_eos": true});
    let running = server.ask("/v1/completions", &endless);
    let metrics = || server.get("/metrics").text;
    until(|| metrics().contains("verdigris_num_requests_running 64"), metrics);
    drop(running);
    until(|| metrics().contains(r#"requests_total{route="/v1/completions",status="499"} 1"#), metrics);
}

/// Without API keys every client is the same tenant.
#[test]
fn a_server_without_a_key_for_today_says_so() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("ring")).unwrap();
    folder.run(&["key", "new", "ring/late.key", "--valid-from", "2999-01-01"]).done();
    let server = Server::start(&folder, &["--ring", "ring"]);
    let said = || server.log().iter().any(|line| line.contains("no key is valid today: all requests are refused"));
    until(said, || format!("{:?}", server.log()));
    let answer = server.post("/v1/completions", &json!({"prompt": "a", "max_tokens": 1}));
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (503, &json!("no_key_today")));
}

/// A client that reads nothing is disconnected, and its pending output is dropped.
#[test]
fn who_reads_nothing_is_cut_off() {
    let folder = Folder::new();
    let server = Server::start(&folder, &["--max-stall-seconds", "1", "--log-format", "json"]);
    let much = json!({
        "prompt": "The", "n": 128, "max_tokens": 200, "ignore_eos": true, "stream": true, "logprobs": 20,
    });
    let mut running = server.ask("/v1/completions", &much);
    running.read_exact(&mut [0; 100]).unwrap();
    let found = || server.log().into_iter().find(|line| line.contains("/v1/completions"));
    until(|| found().is_some(), || format!("{:?}", server.log()));
    let line = found().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["whole"], false, "{line}");
    let mut rest = Vec::new();
    let _ = running.read_to_end(&mut rest);
    assert!(!String::from_utf8_lossy(&rest).contains("[DONE]"), "it was cut off");
}
