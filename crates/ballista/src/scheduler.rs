//! The scheduler, which plans queries and assigns their tasks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ballista_core::utils::default_session_builder;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::{SchedulerConfig, TaskDistributionPolicy};
use ballista_scheduler::scheduler_process::start_server;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::execution::registry::FunctionRegistry;
use datafusion::prelude::SessionConfig;
use verdigris_datafusion::{Judges, functions};

use crate::error::{ClusterError, of_ballista};

/// Runs the scheduler until the process ends. It listens on `address`, for clients and executors. An executor is
/// presumed dead after a silence of `patience`, and others do its unfinished tasks.
///
/// # Errors
/// [`ClusterError::Scheduler`], for example if another program listens on the address.
pub async fn schedule(address: SocketAddr, patience: Duration) -> Result<(), ClusterError> {
    let patience = patience.as_secs().max(1);
    let config = SchedulerConfig {
        bind_host: address.ip().to_string(),
        bind_port: address.port(),
        external_host: address.ip().to_string(),
        executor_timeout_seconds: patience,
        expire_dead_executor_interval_seconds: (patience / 3).max(1),
        // A query waits this long if there are no executors.
        no_executors_grace_period_seconds: 2 * patience,
        task_distribution: TaskDistributionPolicy::RoundRobin,
        override_session_builder: Some(Arc::new(planning)),
        ..SchedulerConfig::default()
    };
    let serve = async {
        let cluster = BallistaCluster::new_from_config(&config).await?;
        start_server(cluster, address, Arc::new(config.clone())).await
    };
    serve.await.map_err(|error| ClusterError::Scheduler { address: address.to_string(), why: of_ballista(&error) })
}

/// Creates a session of the scheduler: Ballista's default, with functions without keys.
fn planning(config: SessionConfig) -> Result<SessionState> {
    let mut state = default_session_builder(config)?;
    let (scalars, aggregates) = functions(&Arc::new(Judges::none()));
    scalars.into_iter().try_for_each(|function| state.register_udf(Arc::new(function)).map(drop))?;
    aggregates.into_iter().try_for_each(|function| state.register_udaf(Arc::new(function)).map(drop))?;
    Ok(state)
}
