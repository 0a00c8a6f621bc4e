//! The connections of clients: standard input and output, and streamable HTTP.

use std::net::SocketAddr;

use axum::Router;
use rmcp::ServiceExt;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::detector::Detector;
use crate::handler::Handler;

/// The most bytes of a request for each byte of its text, which JSON may write as `\u0000`, and those around the text.
const ESCAPED: usize = 6;
const AROUND: usize = 64 << 10;
/// A longer line of standard input is dropped without an answer. It is far above the length of any text that is judged,
/// since a text that is too long should be refused with an answer.
const LONGEST_LINE: usize = 256 << 20;

/// The address of the endpoint.
const PATH: &str = "/mcp";

/// The options of a server over HTTP.
#[derive(Clone, Debug)]
pub struct Http {
    /// The address to listen at.
    pub address: SocketAddr,
    /// The host names that the server answers to, in addition to those of this machine; if there are none, an address
    /// that other machines can reach answers to all names.
    pub allowed_hosts: Vec<String>,
    /// Whether the address may be one that other machines can reach.
    pub allow_anyone: bool,
}

/// Why the server could not start, or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// Other machines can reach the address.
    #[error("{0} can be reached from other machines, and this server requires no API key: give --allow-anyone")]
    Open(SocketAddr),
    /// The server cannot listen at the address.
    #[error("{address}: {source}: choose another address for --http")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// A client broke the protocol before it was initialized.
    #[error("the client did not begin as the protocol says: {0}")]
    Client(String),
    /// Threads could not be set up.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// The most bytes of a request.
fn most_bytes(detector: &Detector) -> usize {
    detector.max_text().saturating_mul(ESCAPED).saturating_add(AROUND)
}

fn runtime() -> Result<Runtime, std::io::Error> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

/// Serves one client over standard input and output, until its end of the input.
///
/// # Errors
/// [`McpError::Client`] and [`McpError::System`].
pub fn serve_stdio(detector: Detector) -> Result<(), McpError> {
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let (input, output) = stdio_pipes();
        let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(LONGEST_LINE);
        let running = match Handler::new(detector).serve(transport).await {
            Ok(running) => running,
            // The client left before it said anything.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(McpError::Client(error.to_string())),
        };
        running.waiting().await.map(drop).map_err(|error| McpError::Client(error.to_string()))
    });
    // Reading standard input cannot be interrupted.
    runtime.shutdown_background();
    served
}

/// Serves clients over HTTP, at the path `/mcp`, until SIGTERM or Ctrl-C. `ready` is called with the address when
/// connections are accepted. Requests from web pages are refused.
///
/// # Errors
/// [`McpError::Open`], [`McpError::Bind`] and [`McpError::System`].
pub fn serve_http(detector: Detector, http: Http, ready: impl FnOnce(SocketAddr)) -> Result<(), McpError> {
    let Http { address, allowed_hosts, allow_anyone } = http;
    if !address.ip().is_loopback() && !allow_anyone {
        return Err(McpError::Open(address));
    }
    let mut config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .enforce_origin_validation()
        .with_max_request_body_bytes(most_bytes(&detector));
    config = match (allowed_hosts.is_empty(), address.ip().is_loopback()) {
        (true, true) => config,
        (true, false) => config.disable_allowed_hosts(),
        (false, _) => {
            let all: Vec<String> = config.allowed_hosts.iter().cloned().chain(allowed_hosts).collect();
            config.with_allowed_hosts(all)
        }
    };
    let handler = Handler::new(detector);
    let sessions = std::sync::Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(handler.clone()), sessions, config);
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let listener = TcpListener::bind(address).await.map_err(|source| McpError::Bind { address, source })?;
        ready(listener.local_addr()?);
        let router = Router::new().route_service(PATH, service);
        let serving = axum::serve(listener, router).into_future();
        tokio::select! {
            served = serving => served.map_err(McpError::System),
            () = stopped() => Ok(()),
        }
    });
    runtime.shutdown_background();
    served
}

/// Waits for SIGTERM or Ctrl-C, or forever on systems without signals.
async fn stopped() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let (Ok(mut terminate), Ok(mut interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            return;
        }
    }
    #[cfg(not(unix))]
    if tokio::signal::ctrl_c().await.is_ok() {
        return;
    }
    std::future::pending().await
}
