//! Ranks that are processes, on one machine or on several.
//!
//! Each rank has a TCP connection to every other. Sums and gathered parts go through rank 0, which processes them in
//! the order of the ranks. Connections are neither encrypted nor authenticated: anyone with access to a rank's port can
//! compute with its model, and anyone who can eavesdrop on a connection can read the text.

mod hello;
mod link;
mod meeting;

use std::time::Duration;

use crate::deadline::Deadline;
use crate::{Collective, CollectiveError, Deadlines, MAX_MESSAGE, assert_other};
use link::{Kind, Length, Link};
pub use meeting::Listener;

/// The time for the others to receive this rank's last message.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// One of several processes that compute together: see [`Tcp::lead`] and [`Listener`].
#[derive(Debug)]
pub struct Tcp {
    rank: usize,
    world: usize,
    deadlines: Deadlines,
    /// The link to each other rank.
    links: Vec<Option<Link>>,
    over: bool,
}

impl Tcp {
    fn new(rank: usize, world: usize, deadlines: Deadlines) -> Self {
        Self { rank, world, deadlines, links: (0..world).map(|_| None).collect(), over: false }
    }

    /// Communicates with the other ranks, and aborts if that fails.
    fn guarded(
        &mut self,
        wait: Duration,
        talk: impl FnOnce(&mut [Option<Link>], Deadline) -> Result<(), CollectiveError>,
    ) -> Result<(), CollectiveError> {
        if self.over {
            return Err(CollectiveError::Over);
        }
        let done = talk(&mut self.links, Deadline::after(wait));
        if let Err(error) = &done {
            self.abort(&error.to_string());
        }
        done
    }
}

fn to(links: &mut [Option<Link>], rank: usize) -> &mut Link {
    links[rank].as_mut().expect("ranks that have met are connected")
}

impl Collective for Tcp {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world(&self) -> usize {
        self.world
    }

    fn all_reduce_sum(&mut self, x: &mut [f32]) -> Result<(), CollectiveError> {
        let rank = self.rank;
        self.guarded(self.deadlines.call, |links, deadline| {
            if rank > 0 {
                let link = to(links, 0);
                link.send_numbers(Kind::Sum, x, deadline)?;
                return link.receive_numbers(Kind::Sum, x, deadline, |x, sum| *x = sum);
            }
            for link in links.iter_mut().flatten() {
                link.receive_numbers(Kind::Sum, x, deadline, |sum, x| *sum += x)?;
            }
            links.iter_mut().flatten().try_for_each(|link| link.send_numbers(Kind::Sum, x, deadline))
        })
    }

    fn gather(&mut self, part: &[f32], all: &mut [f32]) -> Result<(), CollectiveError> {
        let rank = self.rank;
        self.guarded(self.deadlines.call, |links, deadline| {
            if rank > 0 {
                return to(links, 0).send_numbers(Kind::Part, part, deadline);
            }
            let mut rest = all;
            let too_short = |peer: &str| {
                let fault = "all parts are not as long as they should be".into();
                CollectiveError::OutOfStep { peer: peer.to_owned(), fault }
            };
            let (own, others) = rest.split_at_mut_checked(part.len()).ok_or_else(|| too_short("rank 0"))?;
            own.copy_from_slice(part);
            rest = others;
            for link in links.iter_mut().flatten() {
                let bytes = link.receive(Kind::Part, Length::AtMost(size_of_val(rest)), deadline)?;
                let numbers = bytes.as_chunks().0;
                let (these, others) = std::mem::take(&mut rest).split_at_mut(numbers.len());
                these.iter_mut().zip(numbers).for_each(|(x, bytes)| *x = f32::from_le_bytes(*bytes));
                rest = others;
            }
            if rest.is_empty() { Ok(()) } else { Err(too_short("the last rank")) }
        })
    }

    fn broadcast(&mut self, message: &mut Vec<u8>) -> Result<(), CollectiveError> {
        if self.rank > 0 {
            return self.guarded(self.deadlines.idle, |links, deadline| {
                let bytes = to(links, 0).receive(Kind::Message, Length::AtMost(MAX_MESSAGE), deadline)?;
                message.clear();
                message.extend_from_slice(bytes);
                Ok(())
            });
        }
        if message.len() > MAX_MESSAGE {
            return Err(CollectiveError::TooLong { bytes: message.len() });
        }
        self.guarded(self.deadlines.call, |links, deadline| {
            links.iter_mut().flatten().try_for_each(|link| link.send(Kind::Message, message, deadline))
        })
    }

    fn send(&mut self, rank: usize, x: &[f32]) -> Result<(), CollectiveError> {
        assert_other(rank, self.rank, self.world);
        self.guarded(self.deadlines.call, |links, deadline| to(links, rank).send_numbers(Kind::Numbers, x, deadline))
    }

    fn receive(&mut self, rank: usize, x: &mut [f32]) -> Result<(), CollectiveError> {
        assert_other(rank, self.rank, self.world);
        self.guarded(self.deadlines.call, |links, deadline| {
            to(links, rank).receive_numbers(Kind::Numbers, x, deadline, |x, came| *x = came)
        })
    }

    fn abort(&mut self, why: &str) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        for link in self.links.iter_mut().flatten() {
            // Ranks that are gone or do not read cannot be notified.
            let _ = link.send(Kind::Fault, why.as_bytes(), Deadline::after(LAST_WORDS));
        }
        self.links.fill_with(|| None);
    }

    fn sent(&self) -> u64 {
        self.links.iter().flatten().map(Link::sent).sum()
    }
}
