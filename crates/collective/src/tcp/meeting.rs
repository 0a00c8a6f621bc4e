//! How ranks find each other.
//!
//! Every rank but rank 0 listens, and each connects to those above it. Rank 0 says hello to all first: which rank each
//! is, and where the others are. Whoever accepts that connects upwards, waits for those below it, and says welcome to
//! rank 0, which begins when it has heard that from all.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::Duration;

use super::Tcp;
use super::hello::{BadHello, Hello, MOST, MOST_RANKS, VERSION};
use super::link::{Kind, Length, Link};
use crate::deadline::Deadline;
use crate::{CollectiveError, Deadlines};

/// Who connects and says nothing for so long is no rank.
const SILENCE: Duration = Duration::from_secs(5);

/// How often a listener looks whether somebody has connected, where it does not wait for ever.
const LOOK: Duration = Duration::from_millis(5);

/// No machine needs longer to say that it is there.
const CONNECT: Duration = Duration::from_secs(10);

/// Where a rank waits for the others.
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
    /// Where one of them cannot be reached, does not fit, or does not answer.
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
    /// Listens at `host:port`; port 0 is one that is free.
    ///
    /// # Errors
    /// [`CollectiveError::Listen`] where that is no address, or not one of this machine, or taken.
    pub fn bind(address: &str) -> Result<Self, CollectiveError> {
        let bound = TcpListener::bind(address).and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (at, listener) = bound.map_err(|source| CollectiveError::Listen { address: address.into(), source })?;
        Ok(Self { listener, address: at })
    }

    /// Where this listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits, as long as it takes, until rank 0 says which rank this is, and then for the others. It must have these
    /// `terms`, and as many ranks as this `world` says.
    ///
    /// # Errors
    /// [`CollectiveError::Misfit`] for a rank 0 with other terms or of another version, which is told so; and where a
    /// rank is gone or late.
    pub fn follow(
        self,
        world: Option<usize>,
        terms: &[(&str, String)],
        deadlines: Deadlines,
    ) -> Result<Tcp, CollectiveError> {
        let mut early = Vec::new();
        let (mut to_rank_0, hello) = loop {
            let (link, hello) = self.next(None)?;
            match hello.from {
                0 => break (link, hello),
                _ if early.len() < MOST_RANKS => early.push((link, hello)),
                _ => {}
            }
        };
        let deadline = Deadline::after(deadlines.call);
        let wrong_world = world.filter(|world| *world != hello.world);
        let wrong_world =
            wrong_world.map(|world| format!("rank 0 wants a world of {} ranks, not {world}", hello.world));
        if let Some(fault) = wrong_world.or_else(|| hello.differs(terms)) {
            return Err(refuse(&mut to_rank_0, fault, deadline));
        }
        if hello.addresses.len() + 1 != hello.world {
            return Err(refuse(&mut to_rank_0, "rank 0 does not say where the others are".into(), deadline));
        }
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
                    None => self.next(Some((deadline, missing)))?,
                };
                // Others may be of a world that came to nothing.
                if (from.session, from.to) == (hello.session, rank) && from.from > 0 {
                    links[from.from] = Some(link);
                }
            }
            let to_rank_0 = links[0].as_mut().expect("rank 0 has said hello");
            to_rank_0.send(Kind::Welcome, &[], deadline)
        })?;
        Ok(own)
    }

    /// The next rank that connects; before a deadline, where a rank is missing.
    fn next(&self, missing: Option<(Deadline, usize)>) -> Result<(Link, Hello), CollectiveError> {
        let fault = |source| CollectiveError::Listen { address: self.address.to_string(), source };
        self.listener.set_nonblocking(missing.is_some()).map_err(fault)?;
        loop {
            if let Some((deadline, rank)) = missing {
                deadline.left(|| format!("rank {rank}"))?;
            }
            let (stream, from) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    thread::sleep(LOOK);
                    continue;
                }
                Err(error)
                    if [io::ErrorKind::ConnectionAborted, io::ErrorKind::Interrupted].contains(&error.kind()) =>
                {
                    continue;
                }
                Err(source) => return Err(fault(source)),
            };
            let accepted = stream.set_nonblocking(false).and_then(|()| Link::new(stream, format!("a rank at {from}")));
            let Ok(mut link) = accepted else { continue };
            let deadline = Deadline::after(SILENCE);
            // Whoever is no rank, and only looks what listens here, is left alone.
            let Ok(bytes) = link.receive(Kind::Hello, Length::AtMost(MOST), deadline) else { continue };
            match Hello::parse(bytes) {
                Ok(hello) => {
                    link.rename(format!("rank {} ({from})", hello.from));
                    return Ok((link, hello));
                }
                Err(BadHello::Foreign) => {}
                Err(BadHello::Version(theirs)) => {
                    let fault = format!("it speaks version {theirs} of what ranks say to each other, not {VERSION}");
                    return Err(refuse(&mut link, fault, deadline));
                }
            }
        }
    }
}

/// Tells a rank why it does not fit.
fn refuse(link: &mut Link, fault: String, deadline: Deadline) -> CollectiveError {
    // If that does not reach it, it hears that this rank is gone.
    let _ = link.send(Kind::Fault, fault.as_bytes(), deadline);
    CollectiveError::Misfit { peer: link.peer().to_owned(), fault }
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
