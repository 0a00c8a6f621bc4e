//! Accepts and serves connections.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::limits::Limits;
use crate::patient::Patient;

/// The maximum number of headers that are read at all. [`gate`](crate::routes) checks the limit on their bytes, with an
/// error message.
const HEADERS: usize = 512;

/// The maximum number of bytes that are read of a request before its body.
const HEAD: usize = 256 << 10;

/// The pause after a connection could not be accepted, for example for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(200);

/// Serves connections until `stop` completes, and then until the running requests have ended.
pub(crate) async fn answer(listener: TcpListener, router: Router, limits: Limits, stop: impl Future<Output = ()>) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.read).max_headers(HEADERS).max_buf_size(HEAD);
    let slots = Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS)));
    let open = GracefulShutdown::new();
    let mut stop = pin!(stop);
    loop {
        // The semaphore is never closed.
        let slot = tokio::select! {
            slot = slots.clone().acquire_owned() => slot,
            () = &mut stop => break,
        };
        let stream = tokio::select! {
            stream = accepted(&listener) => stream,
            () = &mut stop => break,
        };
        let stream = TokioIo::new(Patient::new(stream, limits.stall));
        let connection = http.serve_connection(stream, TowerToHyperService::new(router.clone()));
        let connection = open.watch(connection);
        tokio::spawn(async move {
            // Errors are of no interest: the client disconnected, or was too slow.
            let _ = connection.await;
            drop(slot);
        });
    }
    drop(listener);
    open.shutdown().await;
}

async fn accepted(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Pieces of a stream are small, and must be sent at once.
                let _ = stream.set_nodelay(true);
                return stream;
            }
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
