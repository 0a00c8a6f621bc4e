//! A connection to one rank, and the frames that go over it.
//!
//! A frame is a header of eight bytes and a body: `V`, `R`, the kind, 0, and the length of the body as 32 bits. All
//! numbers are little-endian.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::CollectiveError;
use crate::deadline::Deadline;

const HEADER: usize = 8;

/// The most bytes of a body that are read at once, whatever length the header announces.
const STEP: usize = 1 << 20;

/// The most bytes of a rank's reason for giving up.
const MOST_OF_A_FAULT: usize = 1 << 10;

/// The content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// The sender, the receiver, and what is to be computed.
    Hello = 1,
    /// Acceptance of a hello.
    Welcome,
    /// The reason why a rank cannot continue.
    Fault,
    /// A rank's part of a sum, or the sum.
    Sum,
    /// A rank's part of what rank 0 gathers.
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

/// The allowed length of a frame's body in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Length {
    Exactly(usize),
    AtMost(usize),
}

/// A connection to a rank.
#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    /// The rank, and its address.
    peer: String,
    /// The frame that was sent or received last.
    buffer: Vec<u8>,
    sent: u64,
}

impl Link {
    pub(super) fn new(stream: TcpStream, peer: String) -> std::io::Result<Self> {
        // Delayed frames would deadlock with a peer that waits for them before it answers.
        stream.set_nodelay(true)?;
        Ok(Self { stream, peer, buffer: Vec::new(), sent: 0 })
    }

    pub(super) fn peer(&self) -> &str {
        &self.peer
    }

    pub(super) fn rename(&mut self, peer: String) {
        self.peer = peer;
    }

    /// The number of bytes sent, including headers.
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
        // The receiver rejects lengths beyond 32 bits: no frame may be that long.
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

    /// Receives the next frame, which must have this kind and length.
    pub(super) fn receive(&mut self, kind: Kind, length: Length, deadline: Deadline) -> Result<&[u8], CollectiveError> {
        let mut header = [0; HEADER];
        self.fill(&mut header, deadline)?;
        let [b'V', b'R', number, 0, count @ ..] = header else {
            return Err(self.out_of_step("what it sends is not a frame".into()));
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

    /// Receives the numbers of the next frame, and combines each with the element of `x` by `each`.
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
            // Memory grows with the bytes received, not with the length announced.
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

/// The number of bytes that one system call transferred; `None` if it must be repeated, as long as there is time.
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
