//! The loop on its own thread. Callers do not wait for it, and it does not wait for readers.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use verdigris_decoding::Stop;
use verdigris_models::LanguageModel;

use crate::event::{Event, TokenEvent};
use crate::policy::TextId;
use crate::prefix_store::PrefixStore;
use crate::schedule::{Ask, Capacity, Refused, Room, Schedule, Statistics};

/// Receives the events of a text, on the thread of the loop. It must not block: if its consumer may block, use an
/// unbounded channel, which holds at most the tokens of the text. On [`ControlFlow::Break`] the text ends.
pub type Reader = Box<dyn FnMut(TokenEvent) -> ControlFlow<Stop> + Send>;

/// A request to the loop.
enum Request {
    Submit {
        number: u64,
        ask: Box<Ask>,
        reader: Reader,
    },
    Cancel(u64),
    /// The service was dropped.
    End,
}

/// The loop has ended, because the model failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the model has failed, and no more is written: {why}")]
pub struct Gone {
    /// The error of the model.
    pub why: String,
}

/// The reason that a [`Service`] does not write a text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotTaken {
    /// It could never begin.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The loop has ended.
    #[error(transparent)]
    Gone(#[from] Gone),
}

/// A [`Schedule`] on its own thread, which sleeps while there is no text. Dropping the service cancels all texts.
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

/// A text of a [`Service`]. Dropping the handle cancels the text.
#[must_use = "a text whose handle is dropped is cancelled"]
pub struct Handle {
    number: u64,
    requests: Sender<Request>,
}

impl Service {
    /// Starts the loop.
    ///
    /// # Panics
    /// Like [`Schedule::new`], and if the system cannot start a thread.
    pub fn start(model: Arc<dyn LanguageModel>, capacity: Capacity) -> Self {
        Self::run(Schedule::new(model, capacity))
    }

    /// Like [`Service::start`], with a [store](Schedule::with_store).
    ///
    /// # Panics
    /// Like [`Service::start`].
    pub fn start_with_store(model: Arc<dyn LanguageModel>, capacity: Capacity, store: Arc<dyn PrefixStore>) -> Self {
        Self::run(Schedule::new(model, capacity).with_store(store))
    }

    fn run(schedule: Schedule) -> Self {
        let (sender, requests) = mpsc::channel();
        let shared = Arc::new(Shared::default());
        *lock(&shared.statistics) = schedule.statistics();
        let room = schedule.room().clone();
        let of_thread = shared.clone();
        let run =
            move || Loop { schedule, numbers: HashMap::new(), readers: HashMap::new() }.run(&requests, &of_thread);
        let thread = std::thread::Builder::new().name("schedule".into()).spawn(run).expect("a thread");
        Self { requests: sender, room, shared, thread: Some(thread) }
    }

    /// Submits a text whose events are passed to a reader. This does not block: the text begins in a later pass. If the
    /// model fails before that, the reader is dropped without being called.
    ///
    /// # Errors
    /// [`NotTaken`]; the reader is then not called.
    pub fn submit(&self, ask: Ask, reader: Reader) -> Result<Handle, NotTaken> {
        self.room.of(&ask)?;
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let requests = self.requests.clone();
        let sent = requests.send(Request::Submit { number, ask: Box::new(ask), reader });
        sent.map_err(|_| self.gone())?;
        Ok(Handle { number, requests })
    }

    /// Like [`Service::submit`], with the events of the text in a channel. The last one is the end.
    ///
    /// # Errors
    /// Like [`Service::submit`].
    pub fn stream(&self, ask: Ask) -> Result<(Handle, Receiver<TokenEvent>), NotTaken> {
        let (sender, receiver) = mpsc::channel();
        let reader = move |event| match sender.send(event) {
            Ok(()) => ControlFlow::Continue(()),
            // The receiver was dropped.
            Err(_) => ControlFlow::Break(Stop::StopString),
        };
        Ok((self.submit(ask, Box::new(reader))?, receiver))
    }

    /// The number of tokens of a text, prompt included, that fit into memory. The last token of a text needs none.
    pub fn memory(&self) -> usize {
        self.room.memory()
    }

    /// The statistics after the last pass.
    pub fn statistics(&self) -> Statistics {
        *lock(&self.shared.statistics)
    }

    /// Whether texts are being served, which is the case until the model fails.
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
            // A panic of the loop was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // If the loop has ended, there is nothing to cancel.
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
            // Without texts, wait for a request.
            let mut next = if self.schedule.is_empty() { requests.recv().ok() } else { requests.try_recv().ok() };
            while let Some(request) = next {
                if self.take(request).is_break() {
                    return;
                }
                next = requests.try_recv().ok();
            }
            *lock(&shared.statistics) = self.schedule.statistics();
            let Self { schedule, numbers, readers } = &mut self;
            let passed = schedule.pass(&mut |id, event| {
                let is_end = matches!(event, Event::End(_) | Event::Failed(_));
                let Some((number, reader)) = readers.get_mut(&id) else { return ControlFlow::Break(Stop::StopString) };
                let goes_on = reader(event);
                if is_end {
                    numbers.remove(number);
                    readers.remove(&id);
                }
                goes_on
            });
            *lock(&shared.statistics) = schedule.statistics();
            if let Err(fault) = passed {
                // Dropping the readers shows that no more events will come.
                *lock(&shared.failed) = Some(Gone { why: fault.to_string() });
                return;
            }
        }
    }

    fn take(&mut self, request: Request) -> ControlFlow<()> {
        match request {
            Request::End => return ControlFlow::Break(()),
            Request::Submit { number, ask, reader } => {
                let id = self.schedule.submit(*ask).expect("the caller has checked that it fits");
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
