//! Threads that work while the interpreter lock is released.
//!
//! Python programs fork, as do `multiprocessing` and the workers of Spark. A forked process has none of its parent's
//! threads, and would wait for them forever, so each process has its own pool.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error;

/// The pool, and the process that it belongs to.
static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

fn pool() -> PyResult<Arc<ThreadPool>> {
    let (process, mut kept) = (std::process::id(), POOL.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some((owner, pool)) = &*kept
        && *owner == process
    {
        return Ok(pool.clone());
    }
    let made = ThreadPoolBuilder::new().thread_name(|number| format!("verdigris-{number}")).build();
    let made = Arc::new(made.map_err(|fault| error::argument(format!("no threads can be started: {fault}")))?);
    // The pool of the parent process cannot be dropped, since its threads do not exist here.
    mem::forget(kept.replace((process, made.clone())));
    Ok(made)
}

/// Does work on all cores, while other Python threads continue.
pub(crate) fn work<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let pool = pool()?;
    Ok(py.detach(|| pool.install(work)))
}
