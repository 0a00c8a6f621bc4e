//! Who plans queries and hands out their tasks.

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

/// What a scheduler is told.
#[derive(Clone, Debug)]
pub struct Scheduler {
    /// Where it listens, for clients and executors.
    pub address: SocketAddr,
    /// An executor that was silent for so long is taken for dead, and others do what it had not done.
    pub patience: Duration,
}

/// Schedules until the process ends.
///
/// # Errors
/// [`ClusterError::Scheduler`], such as where another program listens already.
pub async fn schedule(told: &Scheduler) -> Result<(), ClusterError> {
    let patience = told.patience.as_secs().max(1);
    let config = SchedulerConfig {
        bind_host: told.address.ip().to_string(),
        bind_port: told.address.port(),
        external_host: told.address.ip().to_string(),
        executor_timeout_seconds: patience,
        expire_dead_executor_interval_seconds: (patience / 3).max(1),
        // A query that finds nobody at work waits for somebody.
        no_executors_grace_period_seconds: 2 * patience,
        task_distribution: TaskDistributionPolicy::RoundRobin,
        override_session_builder: Some(Arc::new(planning)),
        ..SchedulerConfig::default()
    };
    let serve = async {
        let cluster = BallistaCluster::new_from_config(&config).await?;
        start_server(cluster, told.address, Arc::new(config.clone())).await
    };
    serve.await.map_err(|error| ClusterError::Scheduler { address: told.address.to_string(), why: of_ballista(&error) })
}

/// Every session of the scheduler: that of Ballista, with functions that have no keys.
fn planning(config: SessionConfig) -> Result<SessionState> {
    let mut state = default_session_builder(config)?;
    let (scalars, aggregates) = functions(&Arc::new(Judges::none()));
    scalars.into_iter().try_for_each(|function| state.register_udf(Arc::new(function)).map(drop))?;
    aggregates.into_iter().try_for_each(|function| state.register_udaf(Arc::new(function)).map(drop))?;
    Ok(state)
}
