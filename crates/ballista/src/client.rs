//! The client side of a cluster.

use std::path::Path;
use std::sync::Arc;

use ballista::prelude::{SessionConfigExt, SessionContextExt};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use verdigris_datafusion::{Judges, register};

use crate::error::ClusterError;

/// Creates a context whose queries run on a cluster. Scans are split into at most `tasks` tasks, so that little work is
/// lost with one.
///
/// # Errors
/// [`ClusterError::Query`] if `scheduler` is not a host and a port.
pub async fn client(scheduler: &str, tasks: usize) -> Result<SessionContext, ClusterError> {
    let config = SessionConfig::new_with_ballista().with_target_partitions(tasks);
    let state = SessionStateBuilder::new().with_config(config).with_default_features().build();
    let context = SessionContext::remote_with_state(&format!("df://{scheduler}"), state).await?;
    // After the context is created, since creating it replaces all functions.
    register(&context, &Arc::new(Judges::none()));
    Ok(context)
}

/// Registers a file or folder of Parquet as the table `documents`. Executors open it by the same path as this machine.
///
/// # Errors
/// [`ClusterError::Input`] if it does not exist.
pub async fn register_documents(context: &SessionContext, path: &Path) -> Result<(), ClusterError> {
    let input = |why: &dyn std::fmt::Display| ClusterError::Input(format!("cannot read {}: {why}", path.display()));
    let there = path.canonicalize().map_err(|error| input(&error))?;
    // The engine recognizes a folder by a slash at the end.
    let mut name = there.to_string_lossy().into_owned();
    if there.is_dir() {
        name.push('/');
    }
    let options = ParquetReadOptions::default();
    Ok(context.register_parquet("documents", &name, options).await?)
}
