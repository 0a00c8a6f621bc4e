//! Cancels work that is no longer needed.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lets one thread stop what another compiles, for instance in a server whose client has disconnected.
///
/// ```
/// use verdigris_constrain::{Cancellation, Grammar, Style};
///
/// let cancellation = Cancellation::default();
/// cancellation.cancel();
/// let schema = serde_json::json!({"type": "string"});
/// assert!(cancellation.scope(|| Grammar::json_schema(&schema, Style::default())).is_err());
/// assert!(Grammar::json_schema(&schema, Style::default()).is_ok());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

thread_local! {
    /// The cancellation of the innermost scope.
    static CURRENT: RefCell<Option<Cancellation>> = const { RefCell::new(None) };
}

impl Cancellation {
    /// From now on, fails the compilation of schemas in scopes of this cancellation, including those in progress.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether this has been cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Runs `work` on the calling thread, such that this can cancel it.
    pub fn scope<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Leaves the scope, even if the work panics.
        struct Outer(Option<Cancellation>);
        impl Drop for Outer {
            fn drop(&mut self) {
                CURRENT.replace(self.0.take());
            }
        }
        let _outer = Outer(CURRENT.replace(Some(self.clone())));
        work()
    }

    /// The cancellation of the innermost scope on the calling thread.
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_nest_and_end() {
        let (outer, inner) = (Cancellation::default(), Cancellation::default());
        let is_cancelled = || Cancellation::current().map(|current| current.is_cancelled());
        inner.cancel();
        outer.scope(|| {
            assert_eq!(is_cancelled(), Some(false));
            assert_eq!(inner.scope(is_cancelled), Some(true));
            let panicked = std::panic::catch_unwind(|| inner.scope(|| panic!("on purpose")));
            assert!(panicked.is_err());
            assert_eq!(is_cancelled(), Some(false));
            outer.cancel();
            assert_eq!(is_cancelled(), Some(true));
        });
        assert_eq!(is_cancelled(), None);
    }
}
