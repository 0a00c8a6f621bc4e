//! The loop on a thread of its own. Nobody who asks waits for it, and it waits for nobody who reads.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use verdigris_decoding::Stop;
use verdigris_models::LanguageModel;

use crate::policy::TextId;
use crate::schedule::{Ask, Capacity, Refused, Room, Schedule, Statistics, Told};

/// Who is told what comes of a text, on the thread of the loop. It must not wait: where others do, a channel without a
/// bound takes what comes, which is at most as many tokens as the text may have. On [`ControlFlow::Break`] the text
/// ends.
pub type Reader = Box<dyn FnMut(Told) -> ControlFlow<Stop> + Send>;

/// What the loop is asked.
enum Request {
    Submit {
        number: u64,
        ask: Box<Ask>,
        reader: Reader,
    },
    Cancel(u64),
    /// There is no service any more.
    End,
}

/// The loop is no more: the model has failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the model has failed, and no more is written: {why}")]
pub struct Gone {
    /// What the model said.
    pub why: String,
}

/// Why a text is not written by a [`Service`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotTaken {
    /// It could never begin.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Nothing is written any more.
    #[error(transparent)]
    Gone(#[from] Gone),
}

/// A [`Schedule`] on a thread of its own. Without a text it sleeps. When the service is dropped, what runs is
/// cancelled.
pub struct Service {
    requests: Sender<Request>,
    room: Room,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    statistics: Mutex<Statistics>,
    failed: Mutex<Option<Gone>>,
    next: AtomicU64,
}

/// One text of a [`Service`]. When it is dropped the text is cancelled.
#[must_use = "a text whose handle is dropped is cancelled"]
pub struct Handle {
    number: u64,
    requests: Sender<Request>,
}

impl Service {
    /// Starts the loop.
    ///
    /// # Panics
    /// As [`Schedule::new`], and where the system gives no thread.
    pub fn start(model: Arc<dyn LanguageModel>, capacity: Capacity) -> Self {
        let (sender, requests) = mpsc::channel();
        let shared = Arc::new(Shared::default());
        let schedule = Schedule::new(model, capacity);
        *lock(&shared.statistics) = schedule.statistics();
        let room = schedule.room().clone();
        let of_thread = shared.clone();
        let run =
            move || Loop { schedule, numbers: HashMap::new(), readers: HashMap::new() }.run(&requests, &of_thread);
        let thread = std::thread::Builder::new().name("schedule".into()).spawn(run).expect("a thread");
        Self { requests: sender, room, shared, thread: Some(thread) }
    }

    /// Has a text written, of which a reader is told. This waits for nothing: the text begins with a pass to come.
    /// Should the model fail before that, the reader is dropped and told nothing.
    ///
    /// # Errors
    /// [`NotTaken`]; then the reader is told nothing.
    pub fn submit(&self, ask: Ask, reader: Reader) -> Result<Handle, NotTaken> {
        self.room.of(&ask)?;
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let requests = self.requests.clone();
        let sent = requests.send(Request::Submit { number, ask: Box::new(ask), reader });
        sent.map_err(|_| self.gone())?;
        Ok(Handle { number, requests })
    }

    /// As [`Service::submit`], with what comes of the text in a channel. The end is the last.
    ///
    /// # Errors
    /// As [`Service::submit`].
    pub fn stream(&self, ask: Ask) -> Result<(Handle, Receiver<Told>), NotTaken> {
        let (sender, receiver) = mpsc::channel();
        let reader = move |told| match sender.send(told) {
            Ok(()) => ControlFlow::Continue(()),
            // Whoever has read it is gone.
            Err(_) => ControlFlow::Break(Stop::StopString),
        };
        Ok((self.submit(ask, Box::new(reader))?, receiver))
    }

    /// How many tokens of a text, prompt included, there is memory for. The last of a text needs none.
    pub fn memory(&self) -> usize {
        self.room.memory()
    }

    /// What is going on, as of the last pass.
    pub fn statistics(&self) -> Statistics {
        *lock(&self.shared.statistics)
    }

    /// Whether texts are written: they are until the model fails.
    pub fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    fn gone(&self) -> Gone {
        lock(&self.shared.failed).clone().unwrap_or_else(|| Gone { why: "its thread has ended".into() })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.requests.send(Request::End);
        if let Some(thread) = self.thread.take() {
            // A panic of the loop was told where it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Where the loop is gone there is nothing to cancel.
        let _ = self.requests.send(Request::Cancel(self.number));
    }
}

struct Loop {
    schedule: Schedule,
    numbers: HashMap<u64, TextId>,
    readers: HashMap<TextId, (u64, Reader)>,
}

impl Loop {
    fn run(mut self, requests: &Receiver<Request>, shared: &Shared) {
        loop {
            // Without a text there is nothing to do but wait for one.
            let mut next = if self.schedule.is_empty() { requests.recv().ok() } else { requests.try_recv().ok() };
            while let Some(request) = next {
                if self.take(request).is_break() {
                    return;
                }
                next = requests.try_recv().ok();
            }
            *lock(&shared.statistics) = self.schedule.statistics();
            let Self { schedule, numbers, readers } = &mut self;
            let passed = schedule.pass(&mut |id, told| {
                let is_end = matches!(told, Told::Ended(_) | Told::Failed(_));
                let Some((number, reader)) = readers.get_mut(&id) else { return ControlFlow::Break(Stop::StopString) };
                let goes_on = reader(told);
                if is_end {
                    numbers.remove(number);
                    readers.remove(&id);
                }
                goes_on
            });
            *lock(&shared.statistics) = schedule.statistics();
            if let Err(fault) = passed {
                // Readers that are dropped see that nothing comes.
                *lock(&shared.failed) = Some(Gone { why: fault.to_string() });
                return;
            }
        }
    }

    fn take(&mut self, request: Request) -> ControlFlow<()> {
        match request {
            Request::End => return ControlFlow::Break(()),
            Request::Submit { number, ask, reader } => {
                let id = self.schedule.submit(*ask).expect("whoever asked has seen that it fits");
                self.numbers.insert(number, id);
                self.readers.insert(id, (number, reader));
            }
            Request::Cancel(number) => {
                if let Some(id) = self.numbers.remove(&number) {
                    self.schedule.cancel(id);
                    self.readers.remove(&id);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
