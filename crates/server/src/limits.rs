//! The limits of a request.

use std::time::{Duration, Instant};

use crate::protocol::Refusal;

/// The limits of a request. Each has its own status for requests that exceed it.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum number of bytes of the address and the headers.
    pub header: usize,
    /// The maximum time for a request to arrive, and for a connection to be idle.
    pub read: Duration,
    /// The maximum time that a client may read nothing of a pending answer.
    pub stall: Duration,
    /// The maximum number of connections; further ones wait to be accepted.
    pub connections: usize,
    /// The maximum time that a request may wait until its prompt is read.
    pub queue: Duration,
    /// The maximum time for a complete answer.
    pub request: Duration,
    /// The maximum number of tokens of a prompt; the model's context is a limit too.
    pub prompt_tokens: usize,
    /// The maximum number of bytes of a schema, a regular expression, or choices.
    pub constraint: usize,
    /// The maximum number of texts of a request: prompts times answers to each.
    pub texts: usize,
    /// The maximum number of bytes that an answer takes while it is written, for texts, tokens and log-probabilities.
    pub answer: usize,
    /// The maximum number of bytes of the bodies and answers of all requests together.
    pub pending: usize,
}

/// The defaults of `verdigris serve`.
impl Default for Limits {
    fn default() -> Self {
        Self {
            header: 16 << 10,
            read: Duration::from_secs(30),
            stall: Duration::from_secs(60),
            connections: 1024,
            queue: Duration::from_secs(60),
            request: Duration::from_secs(600),
            prompt_tokens: usize::MAX,
            constraint: 256 << 10,
            texts: 1024,
            answer: 64 << 20,
            pending: 1 << 30,
        }
    }
}

/// The deadlines of an answer.
pub(crate) struct Deadline {
    begun: Instant,
    queue: Duration,
    request: Duration,
    has_begun: bool,
}

impl Deadline {
    /// The deadlines of an answer that is requested now.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { begun: Instant::now(), queue: limits.queue, request: limits.request, has_begun: false }
    }

    /// Records that the request has had its turn.
    pub(crate) fn begun(&mut self) {
        self.has_begun = true;
    }

    /// Waits for a future.
    ///
    /// # Errors
    /// If the deadline passes first.
    pub(crate) async fn wait<T>(&self, what: impl Future<Output = T>) -> Result<T, Refusal> {
        let patience = if self.has_begun { self.request } else { self.request.min(self.queue) };
        // A deadline that a clock cannot represent never passes.
        let Some(end) = self.begun.checked_add(patience) else { return Ok(what.await) };
        tokio::time::timeout_at(end.into(), what).await.map_err(|_| self.passed())
    }

    fn passed(&self) -> Refusal {
        if self.has_begun || self.request <= self.queue {
            let message =
                format!("the answer took longer than {} seconds: request fewer tokens", self.request.as_secs());
            return Refusal::new(504, "request_timeout", message);
        }
        let message =
            format!("this request could not be started within {} seconds: try again later", self.queue.as_secs());
        Refusal::new(503, "queue_timeout", message).retry_after(self.queue.as_secs().clamp(1, 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(20);

    fn after(queue: Duration, request: Duration, has_begun: bool) -> Result<u8, Refusal> {
        let mut deadline = Deadline { begun: Instant::now(), queue, request, has_begun: false };
        if has_begun {
            deadline.begun();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(deadline.wait(async {
            tokio::time::sleep(10 * MOMENT).await;
            7
        }))
    }

    #[test]
    fn what_does_not_come_in_time_is_refused_by_its_limit() {
        let code = |result: Result<u8, Refusal>| result.map_err(|refusal| (refusal.status, refusal.code.unwrap()));
        assert_eq!(code(after(MOMENT, Duration::MAX, false)), Err((503, "queue_timeout")));
        assert_eq!(code(after(MOMENT, Duration::MAX, true)), Ok(7));
        assert_eq!(code(after(Duration::MAX, MOMENT, true)), Err((504, "request_timeout")));
        assert_eq!(code(after(Duration::MAX, MOMENT, false)), Err((504, "request_timeout")));
        assert_eq!(code(after(100 * MOMENT, 100 * MOMENT, false)), Ok(7));
    }
}
