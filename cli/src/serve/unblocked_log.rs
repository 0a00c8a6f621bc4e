//! The log of a server, which does not wait for the reader of standard error: one that has stopped to read would stop
//! every request.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use crate::log::{self, LogFormat};

/// The number of lines that may wait for the reader of standard error.
const WAITING: usize = 10_000;

/// The time that the last lines have to be written at the end of the program.
const PATIENCE: Duration = Duration::from_secs(1);

/// Starts the log, with the filter of `RUST_LOG`, or else `usual`. Lines without room are dropped, and their number is
/// logged. [`flush`] writes the last lines.
pub(crate) fn begin(format: LogFormat, usual: &str) {
    let (to, orders) = sync_channel(WAITING);
    let dropped = Arc::new(AtomicU64::new(0));
    let lost = dropped.clone();
    if std::thread::Builder::new().name("log".into()).spawn(move || write(format, &orders, &lost)).is_err() {
        return log::begin(format, usual);
    }
    let _ = ORDERS.set(to.clone());
    log::start(format, usual, move || Line { bytes: Vec::new(), to: to.clone(), dropped: dropped.clone() });
}

/// Waits until the lines so far are written, but not for long.
pub(crate) fn flush() {
    let Some(orders) = ORDERS.get() else { return };
    let (done, wait) = channel();
    if orders.try_send(Order::Flush(done)).is_ok() {
        let _ = wait.recv_timeout(PATIENCE);
    }
}

static ORDERS: OnceLock<SyncSender<Order>> = OnceLock::new();

/// An order to the thread that writes the log.
enum Order {
    Line(Vec<u8>),
    Flush(Sender<()>),
}

/// A line in the making, which is handed over when it is dropped.
struct Line {
    bytes: Vec<u8>,
    to: SyncSender<Order>,
    dropped: Arc<AtomicU64>,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Err(TrySendError::Full(_)) = self.to.try_send(Order::Line(std::mem::take(&mut self.bytes))) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write(format: LogFormat, orders: &Receiver<Order>, dropped: &AtomicU64) {
    // Without a reader there is nothing that could be done.
    let out = |bytes: &[u8]| _ = io::stderr().write_all(bytes);
    while let Ok(order) = orders.recv() {
        match order {
            Order::Line(line) => out(&line),
            Order::Flush(done) => _ = done.send(()),
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let message = format!("{lost} lines of the log were dropped, since standard error was not read");
            let (time, target) = (format!("{:.6}", Timestamp::now()), "verdigris::log");
            let line = match format {
                LogFormat::Text => format!("{time}  WARN {target}: {message}"),
                LogFormat::Json => {
                    json!({ "timestamp": time, "level": "WARN", "message": message, "target": target }).to_string()
                }
            };
            out(format!("{line}\n").as_bytes());
        }
    }
}
