//! Start and shutdown of the server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use verdigris::{Error, Key};

use crate::audit::AuditLog;
use crate::connections;
use crate::keys::BadKeys;
use crate::model_source::ServedModels;
use crate::operator::Operator;
use crate::options::Options;
use crate::routes;
use crate::service::Service;

/// Why the server could not start, or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The keys do not fit a model.
    #[error(transparent)]
    Key(#[from] BadKeys),
    /// The folder for states of prompts cannot be used.
    #[error(transparent)]
    PrefixStore(#[from] Error),
    /// The server cannot listen at the address.
    #[error("{address}: {source}: choose another --host or --port")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// Other machines can reach the address, and no API key is required.
    #[error(
        "{0} can be reached from other machines, and no API key is required: give --api-key-file, or --allow-anyone"
    )]
    Open(SocketAddr),
    /// The audit log cannot be written.
    #[error("{}: {source}: choose another file for --audit-log", .path.display())]
    Audit {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Threads or signals could not be set up.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// The time that states of prompts may take to be stored at shutdown.
const STORING: Duration = Duration::from_secs(10);

/// The time that computations may take to notice the shutdown.
const CLOSING: Duration = Duration::from_millis(200);

/// Serves until SIGTERM or Ctrl-C. Then no new requests are accepted, and running ones may finish within
/// [`Options::drain`]; a second signal ends the server at once. `ready` is called with the address when connections are
/// accepted.
///
/// # Errors
/// [`ServeError`].
pub fn serve(
    models: ServedModels,
    key: Option<Key>,
    mut options: Options,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    if !options.address.ip().is_loopback() && options.api_keys.is_open() && !options.allow_anyone {
        return Err(ServeError::Open(options.address));
    }
    let audit = options
        .audit_log
        .clone()
        .map(|path| AuditLog::open(&path).map_err(|source| ServeError::Audit { path, source }));
    let audit = audit.transpose()?;
    let (ring, api_keys) = (options.ring.take(), std::mem::take(&mut options.api_keys));
    let ledger = options.ledger.take();
    let operator = Operator::new(key, ring, api_keys, audit, ledger, &models.sources)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let service = Arc::new(Service::new(models, operator, options)?);
    let (models, closing) = (service.models.clone(), service.clone());
    let served = runtime.block_on(until_stopped(service, ready));
    let pending = models.pending();
    drop(models);
    // Drops requests that are cut, which records them. Hardly waits for running computations, so that a second signal
    // ends them.
    runtime.shutdown_timeout(CLOSING);
    closing.operator.close_audit();
    if served.is_ok() {
        pending.iter().for_each(|pending| _ = pending.wait(STORING));
    }
    served
}

async fn until_stopped(service: Arc<Service>, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    let address = service.options.address;
    let listener = TcpListener::bind(address).await.map_err(|source| ServeError::Bind { address, source })?;
    #[cfg(unix)]
    tokio::spawn(reload_on_hangup(service.clone(), hangups()?));
    if service.operator.has_ledger() {
        tokio::spawn(prune_hourly(service.clone()));
    }
    ready(listener.local_addr()?);
    let (drained, patience) = (service.clone(), service.options.drain);
    let limits = service.options.limits;
    let server = connections::answer(listener, routes::router(service), limits, async move {
        stop_signal().await;
        // Connections are still accepted, so that `/health` reports the shutdown.
        drained.drain().await;
    });
    let cut_off = async move {
        stop_signal().await;
        tokio::select! {
            () = stop_signal() => {}
            () = tokio::time::sleep(patience) => {}
        }
    };
    tokio::select! {
        () = server => (),
        () = cut_off => (),
    }
    Ok(())
}

/// Handles SIGHUP, which from now on does not end the program.
#[cfg(unix)]
fn hangups() -> std::io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())
}

/// Reads the keys again at every SIGHUP. If they cannot be used, nothing changes.
#[cfg(unix)]
async fn reload_on_hangup(service: Arc<Service>, mut hangups: tokio::signal::unix::Signal) {
    while hangups.recv().await.is_some() {
        match service.operator.reload(&service.models).await {
            Ok(()) => tracing::info!("the keys have been read again"),
            Err(error) => tracing::error!(%error, "the keys cannot be used, and the previous ones stay in use"),
        }
    }
}

/// Removes old entries of the ledger, now and once an hour.
async fn prune_hourly(service: Arc<Service>) {
    loop {
        let pruning = service.clone();
        // A panic there has been reported.
        let _ = tokio::task::spawn_blocking(move || pruning.operator.prune()).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
    }
}

/// Waits for a signal to stop; forever if there are no signals.
async fn stop_signal() {
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
