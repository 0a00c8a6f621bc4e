//! Requests to a server over a connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{LazyLock, mpsc};
use std::time::Duration;

use verdigris::schedule::Capacity;
use verdigris::{Device, Engine, Key, Level, Marking, ModelFolder};
use verdigris_server::{ApiKeys, Limits, LoadedModel, Options, ServedModels};

/// Embedded in the program, since the fuzzer's crate is in another folder than the suite's.
const MODEL: [&[u8]; 3] = [
    include_bytes!("../../../fixtures/models/tale-small/config.json"),
    include_bytes!("../../../fixtures/models/tale-small/tokenizer.json"),
    include_bytes!("../../../fixtures/models/tale-small/model.safetensors"),
];

/// Longer than any request may take here.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with small limits that runs as long as the process.
static SERVER: LazyLock<SocketAddr> = LazyLock::new(|| {
    let [config, tokenizer, weights] = MODEL;
    let folder = ModelFolder::embedded("tale-small", config, tokenizer, weights);
    let engine = Engine::from_folder(&folder, &Device::default()).expect("the fixture");
    let key = Key::from_secret([7; 32], "fuzz", Marking::lists(), engine.reader().vocabulary()).expect("a key");
    let options = Options {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        api_keys: ApiKeys::default(),
        ring: None,
        audit_log: None,
        ledger: None,
        allowed_hosts: Vec::new(),
        cors: Vec::new(),
        strict: false,
        allow_anyone: false,
        max_alpha: None,
        enforce_all: false,
        refuses_unmarkable: false,
        mark_level: Level::DEFAULT,
        reports_input_marks: true,
        reporter: None,
        signer: None,
        requires_manifests: false,
        max_tokens: 8,
        capacity: Capacity { texts: 4, tokens: 2048, kept: 512, rows: 128 },
        share_caches: false,
        prefix_store: None,
        max_requests: 8,
        max_body: 64 << 10,
        limits: Limits {
            texts: 4,
            prompt_tokens: 256,
            constraint: 4 << 10,
            answer: 1 << 20,
            pending: 8 << 20,
            queue: Duration::from_secs(20),
            request: Duration::from_secs(20),
            ..Limits::default()
        },
        drain: Duration::ZERO,
    };
    let (ready, address) = mpsc::channel();
    let models = ServedModels::one("tale-small", LoadedModel { engine, drafts: Box::new(()), rows: None });
    let serve = move || verdigris_server::serve(models, Some(key), options, |at| _ = ready.send(at));
    std::thread::spawn(move || serve().expect("a server"));
    address.recv().expect("it listens")
});

/// Sends a request: the lines of its head, the first without a version, an empty line, and its body. Whatever it is,
/// the server must answer it, and without an internal error.
///
/// # Panics
/// If a promise is broken.
pub fn server(data: &[u8]) {
    let end = data.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = end.map_or((data, &[][..]), |end| (&data[..end], &data[end + 2..]));
    let mut lines = head.split(|&byte| byte == b'\n');
    let mut request = [lines.next().unwrap_or_default(), b" HTTP/1.1\r\n"].concat();
    let mut has_host = false;
    for line in lines {
        has_host |= line.to_ascii_lowercase().starts_with(b"host:");
        request.extend_from_slice(line);
        request.extend_from_slice(b"\r\n");
    }
    if !has_host {
        request.extend_from_slice(b"Host: localhost\r\n");
    }
    request.extend_from_slice(format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len()).as_bytes());
    request.extend_from_slice(body);
    let mut stream = TcpStream::connect(*SERVER).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    // The server may refuse early, before the whole request is written.
    let _ = stream.write_all(&request);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => (),
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => (),
        Err(error) => panic!("{error} after {} bytes of an answer", answer.len()),
    }
    let status = answer.strip_prefix(b"HTTP/1.1 ").or(answer.strip_prefix(b"HTTP/1.0 ")).and_then(|rest| rest.get(..3));
    let status = status.map(String::from_utf8_lossy);
    let is_answer = status.as_ref().is_none_or(|status| status.starts_with(['2', '4']) || &**status == "503");
    assert!(is_answer, "{}", String::from_utf8_lossy(&answer));
}
