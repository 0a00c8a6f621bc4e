//! How ranks connect to each other.
//!
//! Every rank except rank 0 listens, and each connects to the ranks above it. First, rank 0 sends a hello to all, with
//! the rank of each and the addresses of the others. A rank that accepts it connects to the ranks above, waits for
//! those below, and sends a welcome to rank 0, which starts when it has received one from every rank.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use super::Tcp;
use super::hello::{BadHello, Hello, MOST, MOST_RANKS, VERSION};
use super::link::{Kind, Length, Link};
use crate::deadline::Deadline;
use crate::{CollectiveError, Deadlines};

/// The time after which a silent connection counts as foreign.
const SILENCE: Duration = Duration::from_secs(5);

/// The most connections that have not sent anything yet.
const MOST_SILENT: usize = 64;

/// The interval at which a listener polls for connections, unless it waits indefinitely.
const LOOK: Duration = Duration::from_millis(5);

/// The longest time that a machine may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// A socket on which a rank waits for the others.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Tcp {
    /// Becomes rank 0: connects to the ranks from 1 on, which [listen](Listener) at `addresses`. All must have the same
    /// `terms`, each a name and a value.
    ///
    /// # Errors
    /// If one of them cannot be reached, does not fit, or does not answer.
    pub fn lead(addresses: &[String], terms: &[(&str, String)], deadlines: Deadlines) -> Result<Self, CollectiveError> {
        let misfit = |peer: &String, fault: &str| CollectiveError::Misfit { peer: peer.clone(), fault: fault.into() };
        if let Some((_, twice)) = addresses.iter().enumerate().find(|(i, address)| addresses[..*i].contains(address)) {
            return Err(misfit(twice, "it is listed twice, but is one rank"));
        }
        if let Some(address) = addresses.get(MOST_RANKS - 1) {
            return Err(misfit(address, "there are too many ranks"));
        }
        let world = addresses.len() + 1;
        let mut own = Self::new(0, world, deadlines);
        let terms: Vec<_> = terms.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        // The keys of a hasher are random.
        let session = RandomState::new().hash_one(0);
        own.guarded(deadlines.call, |links, deadline| {
            for (i, address) in addresses.iter().enumerate() {
                let to = i + 1;
                let mut link = connect(to, address, deadline)?;
                let (addresses, terms) = (addresses.to_vec(), terms.clone());
                let hello = Hello { session, from: 0, to, world, addresses, terms };
                link.send(Kind::Hello, &hello.bytes(), deadline)?;
                links[to] = Some(link);
            }
            for link in links.iter_mut().flatten() {
                link.receive(Kind::Welcome, Length::Exactly(0), deadline).map_err(|error| match error {
                    CollectiveError::Failed { peer, fault } => CollectiveError::Misfit { peer, fault },
                    error => error,
                })?;
            }
            Ok(())
        })?;
        Ok(own)
    }
}

impl Listener {
    /// Listens at `host:port`; port 0 selects a free one.
    ///
    /// # Errors
    /// [`CollectiveError::Listen`] if that is not an address, not one of this machine, or taken.
    pub fn bind(address: &str) -> Result<Self, CollectiveError> {
        let bound = TcpListener::bind(address).and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (at, listener) = bound.map_err(|source| CollectiveError::Listen { address: address.into(), source })?;
        Ok(Self { listener, address: at })
    }

    /// The local address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits, as long as it takes, until rank 0 assigns a rank to this process, and then for the others. Rank 0 must
    /// have these `terms`, and the number of ranks must be `world`, if given. A rank 0 with other terms or of another
    /// version is rejected with the reason, which is also passed to `refused`; then this waits for the next one.
    ///
    /// # Errors
    /// [`CollectiveError::Listen`] if connections cannot be accepted any more; and errors if a rank is gone or late.
    pub fn follow(
        self,
        world: Option<usize>,
        terms: &[(&str, String)],
        deadlines: Deadlines,
        refused: impl FnMut(CollectiveError),
    ) -> Result<Tcp, CollectiveError> {
        let mut door = Door::new(&self, refused);
        let mut early = Vec::new();
        let (to_rank_0, hello) = loop {
            let (link, hello) = door.next(None)?;
            match hello.from {
                0 => match misfit(&hello, world, terms) {
                    Some(fault) => door.refuse(link, fault, Deadline::after(deadlines.call)),
                    None => break (link, hello),
                },
                _ if early.len() < MOST_RANKS => early.push((link, hello)),
                _ => {}
            }
        };
        let (rank, world) = (hello.to, hello.world);
        let mut own = Tcp::new(rank, world, deadlines);
        own.guarded(deadlines.call, |links, deadline| {
            links[0] = Some(to_rank_0);
            for (to, above) in links.iter_mut().enumerate().skip(rank + 1) {
                let mut link = connect(to, &hello.addresses[to - 1], deadline)?;
                let (addresses, terms) = (Vec::new(), Vec::new());
                let hello = Hello { session: hello.session, from: rank, to, world, addresses, terms };
                link.send(Kind::Hello, &hello.bytes(), deadline)?;
                *above = Some(link);
            }
            let mut early = early.into_iter();
            while let Some(missing) = (1..rank).find(|below| links[*below].is_none()) {
                let (link, from) = match early.next() {
                    Some(early) => early,
                    None => door.next(Some((deadline, missing)))?,
                };
                // The connection may belong to a world that failed to start.
                if (from.session, from.to) == (hello.session, rank) && from.from > 0 {
                    links[from.from] = Some(link);
                }
            }
            let to_rank_0 = links[0].as_mut().expect("rank 0 has said hello");
            to_rank_0.send(Kind::Welcome, &[], deadline)
        })?;
        Ok(own)
    }
}

/// The reason why the world of a rank 0 is not the one that this rank waits for, if it is not.
fn misfit(hello: &Hello, world: Option<usize>, terms: &[(&str, String)]) -> Option<String> {
    let other_world = world.filter(|world| *world != hello.world);
    let other_world = other_world.map(|world| format!("rank 0 wants a world of {} ranks, not {world}", hello.world));
    let nowhere =
        || (hello.addresses.len() + 1 != hello.world).then(|| "rank 0 does not say where the others are".to_owned());
    other_world.or_else(|| hello.differs(terms)).or_else(nowhere)
}

/// A connection, and its hello.
type Greeting = (Link, Result<Hello, BadHello>);

/// The accepting side. Each connection is read on its own thread, so that a silent one does not block others.
struct Door<'l, F> {
    listener: &'l Listener,
    refused: F,
    sender: Sender<Option<Greeting>>,
    greetings: Receiver<Option<Greeting>>,
    /// The number of connections that have not sent anything yet.
    silent: usize,
}

impl<'l, F: FnMut(CollectiveError)> Door<'l, F> {
    fn new(listener: &'l Listener, refused: F) -> Self {
        let (sender, greetings) = mpsc::channel();
        Self { listener, refused, sender, greetings, silent: 0 }
    }

    /// The next rank that connects and sends a hello; with a deadline if a rank is missing.
    fn next(&mut self, missing: Option<(Deadline, usize)>) -> Result<(Link, Hello), CollectiveError> {
        loop {
            if let Some((deadline, rank)) = missing {
                deadline.left(|| format!("rank {rank}"))?;
            }
            if let Ok(greeting) = self.greetings.try_recv() {
                self.silent -= 1;
                match greeting {
                    Some((mut link, Ok(hello))) => {
                        link.rename(format!("rank {} ({})", hello.from, link.peer()));
                        return Ok((link, hello));
                    }
                    Some((link, Err(BadHello::Version(theirs)))) => {
                        let fault =
                            format!("it speaks version {theirs} of what ranks say to each other, not {VERSION}");
                        self.refuse(link, fault, Deadline::after(SILENCE));
                    }
                    // Foreign connections, such as port scans, are ignored.
                    Some((_, Err(BadHello::Foreign))) | None => {}
                }
                continue;
            }
            // With no pending connections, a blocking wait costs nothing.
            let waits = missing.is_none() && self.silent == 0;
            let accepted =
                self.listener.listener.set_nonblocking(!waits).and_then(|()| self.listener.listener.accept());
            match accepted {
                Ok((stream, from)) => self.hear(stream, from),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(LOOK),
                Err(error)
                    if [io::ErrorKind::ConnectionAborted, io::ErrorKind::Interrupted].contains(&error.kind()) => {}
                Err(source) => {
                    return Err(CollectiveError::Listen { address: self.listener.address.to_string(), source });
                }
            }
        }
    }

    /// Reads the hello of a connection on a new thread. If too many connections are silent, it is dropped.
    fn hear(&mut self, stream: TcpStream, from: SocketAddr) {
        if self.silent >= MOST_SILENT {
            return;
        }
        let sender = self.sender.clone();
        let listen = move || {
            let greeting = stream.set_nonblocking(false).and_then(|()| Link::new(stream, from.to_string())).ok();
            let greeting = greeting.and_then(|mut link| {
                let bytes = link.receive(Kind::Hello, Length::AtMost(MOST), Deadline::after(SILENCE)).ok()?;
                let hello = Hello::parse(bytes);
                Some((link, hello))
            });
            let _ = sender.send(greeting);
        };
        if thread::Builder::new().name("hello".into()).spawn(listen).is_ok() {
            self.silent += 1;
        }
    }

    /// Rejects a rank with the reason.
    fn refuse(&mut self, mut link: Link, fault: String, deadline: Deadline) {
        // If this does not arrive, the other rank sees that the connection is closed.
        let _ = link.send(Kind::Fault, fault.as_bytes(), deadline);
        (self.refused)(CollectiveError::Misfit { peer: link.peer().to_owned(), fault });
    }
}

fn connect(rank: usize, address: &str, deadline: Deadline) -> Result<Link, CollectiveError> {
    let fault = |source| CollectiveError::Connect { address: address.to_owned(), source };
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for at in address.to_socket_addrs().map_err(fault)? {
        let wait = deadline.left(|| format!("rank {rank}"))?.min(CONNECT);
        match TcpStream::connect_timeout(&at, wait) {
            Ok(stream) => return Link::new(stream, format!("rank {rank} ({address})")).map_err(fault),
            Err(error) => last = error,
        }
    }
    Err(fault(last))
}
