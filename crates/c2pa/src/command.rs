//! A command that signs, for keys that never leave their device.

use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::error::{C2paError, line};

/// The maximum time that a command may take. People may have to enter a PIN.
const PATIENCE: Duration = Duration::from_secs(30);
/// The maximum size of a signature in bytes.
const MAX_SIGNATURE: u64 = 16 << 10;
/// The maximum number of bytes that are read of an error.
const MAX_ERROR: u64 = 16 << 10;

/// A command of the shell that reads the bytes to be signed, and writes the signature.
#[derive(Clone, Debug)]
pub struct SignCommand(String);

impl SignCommand {
    /// A command line for the shell.
    pub fn new(line: impl Into<String>) -> Self {
        Self(line.into())
    }

    /// Runs the command on a message, and returns its output.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, C2paError> {
        let until = Instant::now() + PATIENCE;
        let mut child = self.start().map_err(|error| fault(format!("cannot be started: {error}")))?;
        let mut stdin = child.stdin.take().expect("it is piped");
        let signed = reading(child.stdout.take().expect("it is piped"), MAX_SIGNATURE + 1);
        let said = reading(child.stderr.take().expect("it is piped"), MAX_ERROR);
        let message = message.to_owned();
        // The command may end without reading all of it, and reports the reason itself.
        std::thread::spawn(move || drop(stdin.write_all(&message)));
        let status = ended(&mut child, until).map_err(|error| fault(format!("cannot be run: {error}")))?;
        let rest = || until.saturating_duration_since(Instant::now());
        let Some(status) = status else { return Err(fault(format!("took more than {} s", PATIENCE.as_secs()))) };
        if !status.success() {
            let said = said.recv_timeout(rest()).unwrap_or_default();
            let said = String::from_utf8_lossy(&said);
            let why = said.lines().rev().map(line).find(|line| !line.is_empty());
            return Err(fault(format!("failed ({status}){}", why.map(|why| format!(": {why}")).unwrap_or_default())));
        }
        let signed = signed.recv_timeout(rest()).map_err(|_| fault("did not close its output".into()))?;
        match signed.len() as u64 {
            0 => Err(fault("wrote nothing".into())),
            1..=MAX_SIGNATURE => Ok(signed),
            _ => Err(fault(format!("wrote more than {MAX_SIGNATURE} bytes"))),
        }
    }

    fn start(&self) -> io::Result<Child> {
        let [shell, option] = if cfg!(windows) { ["cmd", "/C"] } else { ["sh", "-c"] };
        let mut command = Command::new(shell);
        command.args([option, &self.0]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    }
}

fn fault(why: String) -> C2paError {
    C2paError::Command(why)
}

/// Reads at most `most` bytes on another thread, since a command may start others that keep its output open.
fn reading(from: impl Read + Send + 'static, most: u64) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut read = Vec::new();
        // What could be read so far is returned.
        let _ = from.take(most).read_to_end(&mut read);
        let _ = sender.send(read);
    });
    receiver
}

/// Waits until a child has ended; `None` if it was killed because it took too long.
fn ended(child: &mut Child, until: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
