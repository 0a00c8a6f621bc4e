//! A connection to one rank, and the frames that go over it.
//!
//! A frame is eight bytes and what follows them: `V`, `R`, the kind, 0, and the length of the rest as 32 bits. All
//! numbers are little-endian.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::CollectiveError;
use crate::deadline::Deadline;

const HEADER: usize = 8;

/// As much as is taken at once of what a frame says that it has.
const STEP: usize = 1 << 20;

/// No rank has more to say of why it gave up.
const MOST_OF_A_FAULT: usize = 1 << 10;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Who wants to compute what with whom.
    Hello = 1,
    /// That this is agreed.
    Welcome,
    /// Why a rank cannot go on.
    Fault,
    /// What one rank adds to a sum, or the sum.
    Sum,
    /// One rank's part of what rank 0 gathers.
    Part,
    /// A message of rank 0 to all.
    Message,
    /// Numbers from one rank to another.
    Numbers,
}

impl Kind {
    const ALL: [Self; 7] =
        [Self::Hello, Self::Welcome, Self::Fault, Self::Sum, Self::Part, Self::Message, Self::Numbers];
}

/// How many bytes a frame may have after its header.
#[derive(Clone, Copy, Debug)]
pub(super) enum Length {
    Exactly(usize),
    AtMost(usize),
}

/// A connection to a rank.
#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    /// Which rank, and where it is.
    peer: String,
    /// What is sent or was received last.
    buffer: Vec<u8>,
    sent: u64,
}

impl Link {
    pub(super) fn new(stream: TcpStream, peer: String) -> std::io::Result<Self> {
        // A frame that waits for more to send would wait for an answer that waits for it.
        stream.set_nodelay(true)?;
        Ok(Self { stream, peer, buffer: Vec::new(), sent: 0 })
    }

    pub(super) fn peer(&self) -> &str {
        &self.peer
    }

    pub(super) fn rename(&mut self, peer: String) {
        self.peer = peer;
    }

    /// Bytes sent, headers included.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    pub(super) fn send(&mut self, kind: Kind, bytes: &[u8], deadline: Deadline) -> Result<(), CollectiveError> {
        self.begin(kind, bytes.len());
        self.buffer.extend_from_slice(bytes);
        self.flush(deadline)
    }

    pub(super) fn send_numbers(&mut self, kind: Kind, x: &[f32], deadline: Deadline) -> Result<(), CollectiveError> {
        self.begin(kind, size_of_val(x));
        self.buffer.resize(HEADER + size_of_val(x), 0);
        let numbers = self.buffer[HEADER..].as_chunks_mut().0;
        numbers.iter_mut().zip(x).for_each(|(bytes, x)| *bytes = x.to_le_bytes());
        self.flush(deadline)
    }

    fn begin(&mut self, kind: Kind, length: usize) {
        // What is longer than 32 bits can say is refused by whoever receives it: no frame may be that long.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.buffer.clear();
        self.buffer.extend_from_slice(&[b'V', b'R', kind as u8, 0]);
        self.buffer.extend_from_slice(&length.to_le_bytes());
    }

    fn flush(&mut self, deadline: Deadline) -> Result<(), CollectiveError> {
        let Self { stream, peer, buffer, sent } = self;
        let mut rest = &buffer[..];
        while !rest.is_empty() {
            let left = deadline.left(|| peer.clone())?;
            let written = stream.set_write_timeout(Some(left)).and_then(|()| stream.write(rest));
            let count = progress(written, peer)?.unwrap_or(0);
            *sent += count as u64;
            rest = &rest[count..];
        }
        Ok(())
    }

    /// The next frame, which must be of that kind and length.
    pub(super) fn receive(&mut self, kind: Kind, length: Length, deadline: Deadline) -> Result<&[u8], CollectiveError> {
        let mut header = [0; HEADER];
        self.fill(&mut header, deadline)?;
        let [b'V', b'R', number, 0, count @ ..] = header else {
            return Err(self.out_of_step("what it sends is no frame".into()));
        };
        let count = u32::from_le_bytes(count) as usize;
        let came = Kind::ALL.into_iter().find(|kind| *kind as u8 == number);
        if came == Some(Kind::Fault) {
            let said = self.take(count.min(MOST_OF_A_FAULT), deadline)?;
            let fault = String::from_utf8_lossy(said).into_owned();
            return Err(CollectiveError::Failed { peer: self.peer.clone(), fault });
        }
        let fits = match length {
            Length::Exactly(bytes) => count == bytes,
            Length::AtMost(bytes) => count <= bytes,
        };
        if came != Some(kind) || !fits {
            let came = came.map_or_else(|| format!("kind {number}"), |kind| format!("{kind:?}"));
            let fault = format!("it sends {came} of {count} bytes, and not {kind:?} of {length:?}");
            return Err(self.out_of_step(fault));
        }
        self.take(count, deadline)
    }

    /// Adds the numbers of the next frame to others, or replaces these.
    pub(super) fn receive_numbers(
        &mut self,
        kind: Kind,
        x: &mut [f32],
        deadline: Deadline,
        each: impl Fn(&mut f32, f32),
    ) -> Result<(), CollectiveError> {
        let bytes = self.receive(kind, Length::Exactly(size_of_val(x)), deadline)?;
        x.iter_mut().zip(bytes.as_chunks().0).for_each(|(x, bytes)| each(x, f32::from_le_bytes(*bytes)));
        Ok(())
    }

    fn take(&mut self, count: usize, deadline: Deadline) -> Result<&[u8], CollectiveError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let mut read = Ok(());
        while buffer.len() < count && read.is_ok() {
            let from = buffer.len();
            // Memory is for what comes, not for what is said to come.
            buffer.resize(count.min(from + STEP), 0);
            read = self.fill(&mut buffer[from..], deadline);
        }
        self.buffer = buffer;
        read.map(|()| &self.buffer[..])
    }

    fn fill(&mut self, mut out: &mut [u8], deadline: Deadline) -> Result<(), CollectiveError> {
        let Self { stream, peer, .. } = self;
        while !out.is_empty() {
            let left = deadline.left(|| peer.clone())?;
            let read = stream.set_read_timeout(Some(left)).and_then(|()| stream.read(out));
            let count = progress(read, peer)?.unwrap_or(0);
            out = &mut out[count..];
        }
        Ok(())
    }

    fn out_of_step(&self, fault: String) -> CollectiveError {
        CollectiveError::OutOfStep { peer: self.peer.clone(), fault }
    }
}

/// How far one call of the system came; `None` where it is to be made again, as long as there is time.
fn progress(count: std::io::Result<usize>, peer: &str) -> Result<Option<usize>, CollectiveError> {
    let gone = |fault: String| CollectiveError::Gone { peer: peer.to_owned(), fault };
    match count {
        Ok(0) => Err(gone("the connection was closed".into())),
        Ok(count) => Ok(Some(count)),
        Err(error) => match error.kind() {
            ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(None),
            _ => Err(gone(error.to_string())),
        },
    }
}
