//! Answers as they are written, on threads of their own.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, mpsc};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use verdigris::{Engine, Key, Written};

use crate::protocol::ask::Ask;
use crate::protocol::refusal::Refusal;

/// What comes of an answer.
#[derive(Debug)]
pub(crate) enum Piece {
    /// What comes next of it: never empty, and whole characters.
    Text(String),
    /// Its end.
    End(Box<Written>),
    /// No end.
    Failed(Refusal),
}

/// One answer that is to be written.
struct Job {
    ask: Arc<Ask>,
    /// Which of the texts that are asked for.
    number: usize,
    key: Option<Arc<Key>>,
    /// What comes goes there, with the text's number. As many pieces wait as an answer has, so who reads slowly holds
    /// up nobody; and where nobody reads any more, the text ends.
    pieces: UnboundedSender<(usize, Piece)>,
}

/// Threads that write.
pub(crate) struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    /// So many threads, each writing one answer at a time, of at most so many tokens.
    pub(crate) fn start(engine: Arc<Engine>, threads: usize, most: usize) -> std::io::Result<Self> {
        let (jobs, waiting) = mpsc::channel::<Job>();
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 0..threads {
            let (engine, waiting) = (engine.clone(), waiting.clone());
            std::thread::Builder::new().name(format!("writer-{number}")).spawn(move || {
                loop {
                    // The lock is held while waiting: another thread's turn comes when this one has a job.
                    let next = waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).recv();
                    match next {
                        Ok(job) => job.write(&engine, most),
                        Err(_) => break,
                    }
                }
            })?;
        }
        Ok(Self { jobs })
    }

    /// Has all texts written that are asked for: those of the first prompt, then those of the next. Dropping what is
    /// returned ends them.
    pub(crate) fn write(&self, ask: &Arc<Ask>, key: Option<&Arc<Key>>) -> UnboundedReceiver<(usize, Piece)> {
        let (pieces, read) = unbounded_channel();
        for number in 0..ask.texts() {
            let job = Job { ask: ask.clone(), number, key: key.cloned(), pieces: pieces.clone() };
            // Where no thread is left, the reader sees an end without a piece.
            let _ = self.jobs.send(job);
        }
        read
    }
}

impl Job {
    fn write(self, engine: &Engine, most: usize) {
        let Self { ask, number, key, pieces } = self;
        if pieces.is_closed() {
            return;
        }
        let written = ask.request(engine, number, key.as_deref(), most).stream(|text| {
            match pieces.send((number, Piece::Text(text.into()))) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        let last = match written {
            Ok(written) => Piece::End(Box::new(written)),
            Err(error) => Piece::Failed(ask.refusal(error)),
        };
        // Where nobody reads any more, nothing is left to do.
        let _ = pieces.send((number, last));
    }
}
