//! The program as a server, and a client for it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::Folder;

/// `verdigris serve` on a free local port, killed when this is dropped.
pub struct Server {
    child: Child,
    address: String,
    log: Arc<Mutex<Vec<String>>>,
}

/// An HTTP response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// In lower case.
    pub head: String,
    pub text: String,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The events of a stream, without the final `[DONE]`.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        assert!(self.head.contains("text/event-stream"), "{self:?}");
        let mut data: Vec<&str> = self.text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(data.pop(), Some("[DONE]"), "{self:?}");
        data.into_iter().map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

impl Answer {
    /// The objects of a stream of lines.
    #[track_caller]
    pub fn lines(&self) -> Vec<Value> {
        assert!(self.head.contains("application/x-ndjson"), "{self:?}");
        self.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let of_line = |line: &'_ str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(": "));
        self.head.lines().find(|line| of_line(line)).map(|line| &line[name.len() + 2..])
    }

    /// The events of a stream with named events, whose names must be the types in their data.
    #[track_caller]
    pub fn named_events(&self) -> Vec<Value> {
        assert!(self.head.contains("text/event-stream"), "{self:?}");
        let names = self.text.lines().filter_map(|line| line.strip_prefix("event: "));
        let data = self.text.lines().filter_map(|line| line.strip_prefix("data: "));
        let data: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
        assert!(names.eq(data.iter().map(|data| data["type"].as_str().unwrap())), "{self:?}");
        data
    }
}

impl Server {
    /// Starts a server with a fixed key, and returns its folder too.
    #[track_caller]
    pub fn marking(more: &[&str]) -> (Folder, Self) {
        let folder = Folder::with_key();
        let server = Self::start(&folder, &[&["--key", "my.key"], more].concat());
        (folder, server)
    }

    #[track_caller]
    pub fn start(folder: &Folder, arguments: &[&str]) -> Self {
        let mut command = folder.command(&[&["serve", "--port", "0"], arguments].concat());
        Self::started(command.stderr(Stdio::piped()).stdout(Stdio::null()))
    }

    /// Starts a command that serves, whose standard error is a pipe.
    #[track_caller]
    pub fn started(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut said = Vec::new();
        let address = lines.by_ref().find_map(|line| {
            let address = line.split_once("listening at http://").map(|(_, address)| address.to_owned());
            said.push(line);
            address
        });
        let address = address.unwrap_or_else(|| panic!("{said:?}"));
        let address = address.chars().take_while(|&letter| letter.is_ascii_digit() || ".:".contains(letter)).collect();
        let log = Arc::new(Mutex::new(said));
        let kept = log.clone();
        std::thread::spawn(move || lines.for_each(|line| kept.lock().unwrap().push(line)));
        Self { child, address, log }
    }

    /// The lines printed on standard error so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Sends a request that begins with `head`, and a body.
    pub fn send(&self, head: &str, body: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        // HTTP/1.0: no chunks, and the connection is closed at the end.
        write!(stream, "{head} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {}\r\n", body.len()).unwrap();
        stream.write_all(b"\r\n").unwrap();
        self.read(stream, body)
    }

    fn read(&self, mut stream: TcpStream, body: &[u8]) -> Answer {
        // A server that refuses a body need not read it.
        let _ = stream.write_all(body);
        Self::answer(stream).expect("an answer")
    }

    /// Sends raw bytes. Returns `None` if the connection is closed without an answer.
    pub fn raw(&self, request: &[u8]) -> Option<Answer> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let _ = stream.write_all(request);
        Self::answer(stream)
    }

    fn answer(mut stream: TcpStream) -> Option<Answer> {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let all = String::from_utf8(all).unwrap();
        let (head, text) = all.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some(Answer { status, head: head.to_lowercase(), text: text.into() })
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path}"), b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(&format!("POST {path}"), body.to_string().as_bytes())
    }

    /// Like [`Server::post`], with an API key.
    pub fn post_as(&self, path: &str, key: &str, body: &Value) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let body = body.to_string();
        write!(stream, "POST {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n").unwrap();
        write!(stream, "Content-Length: {}\r\n\r\n", body.len()).unwrap();
        self.read(stream, body.as_bytes())
    }

    /// Like [`Server::post`], for a server that may be gone: the bytes received, or `None` if it cannot be reached.
    pub fn try_post(&self, path: &str, body: &Value) -> Option<String> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        let body = body.to_string();
        write!(stream, "POST {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len()).ok()?;
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        String::from_utf8(all).ok()
    }

    /// Like [`Server::get`], with the header `Authorization`.
    pub fn get_as(&self, path: &str, authorization: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: {authorization}\r\n\r\n").unwrap();
        self.read(stream, b"")
    }

    /// A connection that has sent a request and not yet read the answer.
    pub fn ask(&self, path: &str, body: &Value) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let body = body.to_string();
        write!(stream, "POST {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len())
            .unwrap();
        stream
    }

    /// Like [`Server::ask`], with an API key.
    pub fn ask_as(&self, path: &str, key: &str, body: &Value) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let body = body.to_string();
        write!(stream, "POST {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n").unwrap();
        write!(stream, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        stream
    }

    /// The port.
    pub fn port(&self) -> &str {
        self.address.rsplit(':').next().expect("a port")
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks the server to stop and waits for its end. Returns the status.
    #[cfg(unix)]
    pub fn stop(mut self, meanwhile: impl FnOnce(&Self)) -> Option<i32> {
        self.tell_to_stop();
        meanwhile(&self);
        self.child.wait().unwrap().code()
    }

    #[cfg(unix)]
    pub fn tell_to_stop(&self) {
        self.tell("-TERM");
    }

    /// Sends a signal, such as `-HUP`.
    #[cfg(unix)]
    pub fn tell(&self, signal: &str) {
        let told = Command::new("kill").arg(signal).arg(self.child.id().to_string()).status().unwrap();
        assert!(told.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
