//! The executor, which judges texts.

use std::io;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ballista_core::registry::BallistaFunctionRegistry;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use tokio::net::TcpStream;
use verdigris_datafusion::{Judges, functions};

use crate::error::{ClusterError, of_ballista};

/// The options of an executor, apart from its keys.
#[derive(Clone, Debug)]
pub struct Executor {
    /// Its name in the cluster, which must be unique.
    pub name: String,
    /// Host and port of the scheduler.
    pub scheduler: (String, u16),
    /// The address that it listens on and that others reach it by.
    pub address: IpAddr,
    /// The port for its results.
    pub port: u16,
    /// The port for commands from the scheduler.
    pub control: u16,
    /// The number of tasks that it runs at a time.
    pub tasks: NonZeroUsize,
    /// The folder for intermediate results of tasks.
    pub folder: PathBuf,
    /// The interval between heartbeats.
    pub heartbeat: Duration,
}

/// Runs the executor until the process is stopped; `ready` is called when the scheduler knows the executor.
///
/// # Errors
/// [`ClusterError::Executor`], for example if there is no scheduler or a port is taken.
pub async fn execute(told: &Executor, judges: &Arc<Judges>, ready: impl FnOnce()) -> Result<(), ClusterError> {
    let (host, port) = told.scheduler.clone();
    let config = ExecutorProcessConfig {
        executor_id: told.name.clone(),
        bind_host: told.address.to_string(),
        external_host: Some(told.address.to_string()),
        port: told.port,
        grpc_port: told.control,
        scheduler_host: host.clone(),
        scheduler_port: port,
        // The scheduler is known to be reachable by then; with a limit of its own, Ballista 55 would wait forever.
        scheduler_connect_timeout_seconds: 0,
        vcores: told.tasks.get(),
        work_dir: Some(told.folder.to_string_lossy().into_owned()),
        executor_heartbeat_interval_seconds: told.heartbeat.as_secs().max(1),
        override_function_registry: Some(Arc::new(registry(judges))),
        ..ExecutorProcessConfig::default()
    };
    let cannot = |why| ClusterError::Executor { name: told.name.clone(), scheduler: format!("{host}:{port}"), why };
    std::fs::create_dir_all(&told.folder).map_err(|error| cannot(format!("{}: {error}", told.folder.display())))?;
    reached(&host, port).await.map_err(|error| cannot(format!("nothing answers at this address: {error}")))?;
    let health = config.health.clone();
    let known = async {
        while !health.is_ready() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        ready();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        done = start_executor_process(Arc::new(config)) => done.map_err(|error| cannot(of_ballista(&error))),
        () = known => unreachable!("the future never completes"),
    }
}

/// Waits up to 10 seconds for a listener, since all parts of a cluster may start at the same time.
async fn reached(host: &str, port: u16) -> io::Result<()> {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match TcpStream::connect((host, port)).await {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > end => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

/// Returns the engine's functions and ours, with keys.
fn registry(judges: &Arc<Judges>) -> BallistaFunctionRegistry {
    let mut all = BallistaFunctionRegistry::default();
    let (scalars, aggregates) = functions(judges);
    all.scalar_functions.extend(scalars.into_iter().map(|function| (function.name().to_owned(), Arc::new(function))));
    all.aggregate_functions
        .extend(aggregates.into_iter().map(|function| (function.name().to_owned(), Arc::new(function))));
    all
}
