//! The program as a server, and a client that asks it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::Folder;

/// `verdigris serve` on a free port of this machine. It is stopped when this is dropped.
pub struct Server {
    child: Child,
    address: String,
}

/// What it answered.
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

    /// The events of a stream, without the last, which says that it is the last.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        assert!(self.head.contains("text/event-stream"), "{self:?}");
        let mut data: Vec<&str> = self.text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(data.pop(), Some("[DONE]"), "{self:?}");
        data.into_iter().map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

impl Server {
    #[track_caller]
    pub fn start(folder: &Folder, arguments: &[&str]) -> Self {
        let mut command = folder.command(&[&["serve", "--port", "0"], arguments].concat());
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        let address = said.trim().strip_prefix("listening at http://").unwrap_or_else(|| panic!("{said}")).to_owned();
        Self { child, address }
    }

    /// Sends what stands before a body, and the body, as they are.
    pub fn send(&self, head: &str, body: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        // Without chunks, and with an end of the connection.
        write!(stream, "{head} HTTP/1.0\r\nHost: here\r\nContent-Length: {}\r\n", body.len()).unwrap();
        stream.write_all(b"\r\n").unwrap();
        self.read(stream, body)
    }

    fn read(&self, mut stream: TcpStream, body: &[u8]) -> Answer {
        // A server that refuses a body need not read it.
        let _ = stream.write_all(body);
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let all = String::from_utf8(all).unwrap();
        let (head, text) = all.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {all:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), text: text.into() }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path}"), b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(&format!("POST {path}"), body.to_string().as_bytes())
    }

    /// With a header `Authorization`.
    pub fn get_as(&self, path: &str, authorization: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: here\r\nAuthorization: {authorization}\r\n\r\n").unwrap();
        self.read(stream, b"")
    }

    /// A connection that has asked for something and reads nothing yet.
    pub fn ask(&self, path: &str, body: &Value) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let body = body.to_string();
        write!(stream, "POST {path} HTTP/1.0\r\nHost: here\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        stream
    }

    /// Tells it to stop, and waits for its end: its status.
    #[cfg(unix)]
    pub fn stop(mut self, meanwhile: impl FnOnce(&Self)) -> Option<i32> {
        self.tell_to_stop();
        meanwhile(&self);
        self.child.wait().unwrap().code()
    }

    #[cfg(unix)]
    pub fn tell_to_stop(&self) {
        let told = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(told.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
