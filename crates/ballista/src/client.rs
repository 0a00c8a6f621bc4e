//! Who asks.

use std::path::Path;
use std::sync::Arc;

use ballista::prelude::{SessionConfigExt, SessionContextExt};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use verdigris_datafusion::{Judges, register};

use crate::error::ClusterError;

/// A context whose queries run on a cluster. Scans are cut into at most so many `tasks`, that lost work is small.
///
/// # Errors
/// Where `scheduler` is no host and port.
pub async fn client(scheduler: &str, tasks: usize) -> Result<SessionContext, ClusterError> {
    let config = SessionConfig::new_with_ballista().with_target_partitions(tasks);
    let state = SessionStateBuilder::new().with_config(config).with_default_features().build();
    let context = SessionContext::remote_with_state(&format!("df://{scheduler}"), state).await?;
    // After the context is made: making it replaces all functions.
    register(&context, &Arc::new(Judges::none()));
    Ok(context)
}

/// Makes a file or folder of Parquet the table `documents`. Executors open it by the name that it has here.
///
/// # Errors
/// [`ClusterError::Input`] where there is none.
pub async fn register_documents(context: &SessionContext, path: &Path) -> Result<(), ClusterError> {
    let input = |why: &dyn std::fmt::Display| ClusterError::Input(format!("cannot read {}: {why}", path.display()));
    let there = path.canonicalize().map_err(|error| input(&error))?;
    // A folder is told from a file by its last character.
    let mut name = there.to_string_lossy().into_owned();
    if there.is_dir() {
        name.push('/');
    }
    let options = ParquetReadOptions::default();
    Ok(context.register_parquet("documents", &name, options).await?)
}
