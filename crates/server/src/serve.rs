//! From the first connection to the last.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use verdigris::{Engine, Error, Key};

use crate::routes;
use crate::service::{Drafts, Options, Service};

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The key does not fit the model.
    #[error(transparent)]
    Key(#[from] Error),
    /// The address cannot be listened to.
    #[error("{address}: {source}: choose another --host or --port")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// Everybody who reaches the address could ask.
    #[error(
        "{0} can be reached from other machines, and nobody needs a key: give --api-key-file, or say --allow-anyone"
    )]
    Open(SocketAddr),
    /// Threads or signals.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// Serves until it is told to stop (SIGTERM, or Ctrl-C): then no new requests are taken, those that are being
/// answered end, as long as [`Options::drain`] allows, and the server with them. Told so again it ends at once.
/// `ready` is called with the address when connections are taken.
///
/// # Errors
/// [`ServeError`].
pub fn serve(
    engine: Engine,
    key: Option<Key>,
    drafts: Box<dyn Drafts>,
    options: Options,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    if !options.address.ip().is_loopback() && options.api_keys.is_open() && !options.allow_anyone {
        return Err(ServeError::Open(options.address));
    }
    if let Some(key) = &key {
        engine.reader().fits(key).map_err(Error::Detect)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let service = Arc::new(Service::new(engine, key, drafts, options));
    runtime.block_on(until_stopped(service, ready))
}

async fn until_stopped(service: Arc<Service>, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    let address = service.options.address;
    let listener = TcpListener::bind(address).await.map_err(|source| ServeError::Bind { address, source })?;
    ready(listener.local_addr()?);
    let (drained, patience) = (service.clone(), service.options.drain);
    let server = axum::serve(listener, routes::router(service)).with_graceful_shutdown(async move {
        told().await;
        // Connections are still taken, so that `/health` tells of it.
        drained.drain().await;
    });
    let cut_off = async move {
        told().await;
        tokio::select! {
            () = told() => {}
            () = tokio::time::sleep(patience) => {}
        }
    };
    tokio::select! {
        ended = server.into_future() => Ok(ended?),
        () = cut_off => Ok(()),
    }
}

/// Waits until the server is told to stop. Without signals nobody can tell it.
async fn told() {
    if signal().await.is_err() {
        std::future::pending().await
    }
}

/// Waits for SIGTERM or Ctrl-C.
async fn signal() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}
