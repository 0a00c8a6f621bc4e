//! `verdigris serve --probe`: asks a running server whether it is healthy, for supervisors without an HTTP client.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// The time that the server may take to connect, and again to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most bytes of a status line.
const STATUS_LINE: usize = 64;

/// Status 0 if the server at the address is healthy, else 1 and the reason on standard error.
pub(super) fn run(address: SocketAddr) -> ExitCode {
    let address = reachable(address);
    let reason = match status(address) {
        Ok(Some(200)) => return ExitCode::SUCCESS,
        Ok(Some(status)) => format!("it answers with status {status}"),
        Ok(None) => "its answer is not HTTP".into(),
        Err(error) => error.to_string(),
    };
    eprintln!("http://{address} is not healthy: {reason}");
    ExitCode::FAILURE
}

/// A server that listens at all addresses is reached at the loopback address.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// The status of `GET /health`.
fn status(address: SocketAddr) -> std::io::Result<Option<u16>> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET /health HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut line = Vec::new();
    while !line.contains(&b'\n') && line.len() < STATUS_LINE {
        let mut some = [0; STATUS_LINE];
        match stream.read(&mut some)? {
            0 => break,
            read => line.extend_from_slice(&some[..read]),
        }
    }
    let line = String::from_utf8_lossy(&line);
    let mut parts = line.split_ascii_whitespace();
    Ok(parts
        .next()
        .filter(|protocol| protocol.starts_with("HTTP/"))
        .and(parts.next())
        .and_then(|code| code.parse().ok()))
}
