//! What a request may take.

use std::time::{Duration, Instant};

use crate::protocol::Refusal;

/// What a request may take. What is beyond it is refused, each with a status of its own.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of an address and its headers.
    pub header: usize,
    /// How long a request may take to come, and a connection lie idle.
    pub read: Duration,
    /// How long whoever asks may read nothing of an answer that is there.
    pub stall: Duration,
    /// Connections at the same time; more wait to be taken.
    pub connections: usize,
    /// How long a request may wait for its turn, that its prompt is read.
    pub queue: Duration,
    /// How long an answer may take as a whole.
    pub request: Duration,
    /// The most tokens of a prompt; the model's context is a limit too.
    pub prompt_tokens: usize,
    /// The most bytes of a schema, an expression, or choices.
    pub form: usize,
    /// The most texts of a request: prompts times answers to each.
    pub texts: usize,
    /// The most bytes that an answer may take while it is written, by its texts, their tokens and log-probabilities.
    pub answer: usize,
    /// The most bytes of the bodies and answers of all requests together.
    pub pending: usize,
}

/// As `verdigris serve` has them unless told otherwise.
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
            form: 256 << 10,
            texts: 1024,
            answer: 64 << 20,
            pending: 1 << 30,
        }
    }
}

/// Until when something of an answer must come.
pub(crate) struct Deadline {
    begun: Instant,
    queue: Duration,
    request: Duration,
    has_begun: bool,
}

impl Deadline {
    /// Of an answer that is asked for now.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { begun: Instant::now(), queue: limits.queue, request: limits.request, has_begun: false }
    }

    /// Its turn has come.
    pub(crate) fn begun(&mut self) {
        self.has_begun = true;
    }

    /// What comes in time.
    ///
    /// # Errors
    /// Where it does not.
    pub(crate) async fn wait<T>(&self, what: impl Future<Output = T>) -> Result<T, Refusal> {
        let patience = if self.has_begun { self.request } else { self.request.min(self.queue) };
        // A time that no clock can show never comes.
        let Some(end) = self.begun.checked_add(patience) else { return Ok(what.await) };
        tokio::time::timeout_at(end.into(), what).await.map_err(|_| self.passed())
    }

    fn passed(&self) -> Refusal {
        if self.has_begun || self.request <= self.queue {
            let message =
                format!("the answer took longer than {} seconds: ask for fewer tokens", self.request.as_secs());
            return Refusal::new(504, "request_timeout", message);
        }
        let message =
            format!("the turn of this request did not come within {} seconds: come again", self.queue.as_secs());
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
