//! Ranks that are threads of one process.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::deadline::Deadline;
use crate::{Collective, CollectiveError, Deadlines, MAX_MESSAGE, assert_other};

/// One of several threads that compute together.
///
/// Numbers go through shared memory: at a barrier each rank leaves its part, the last one to arrive combines the parts,
/// and each takes the result. If a rank is dropped, the others' calls fail.
#[derive(Debug)]
pub struct Threads {
    shared: Arc<Shared>,
    rank: usize,
    world: usize,
    deadlines: Deadlines,
    sent: u64,
    over: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// The part that each rank has left at the barrier.
    parts: Vec<Vec<f32>>,
    /// The sum of the parts, or the message of rank 0.
    sum: Vec<f32>,
    message: Vec<u8>,
    /// The call that the ranks are making, set by the first to arrive.
    call: Option<Call>,
    /// Whether each rank has arrived.
    arrived: Vec<bool>,
    /// The number of ranks that have yet to take the result; until it is 0, no rank leaves anything new.
    to_leave: usize,
    /// Numbers in transit from each rank to each, at `from * world + to`.
    letters: Vec<Letter>,
    /// Whether the thread of each rank has ended.
    gone: Vec<bool>,
    /// The rank that has given up first, and why.
    failed: Option<(usize, String)>,
}

#[derive(Clone, Debug, Default)]
struct Letter {
    is_there: bool,
    numbers: Vec<f32>,
}

/// A call that all ranks make together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// A sum of the given number of elements.
    Sum(usize),
    Gather,
    Broadcast,
}

/// The rank that a rank waits for.
#[derive(Clone, Copy)]
enum Peer {
    Rank(usize),
    /// The first rank that has not arrived.
    Slowest,
}

impl Threads {
    /// Creates `world` ranks.
    ///
    /// # Panics
    /// If `world` is 0.
    pub fn world(world: usize, deadlines: Deadlines) -> Vec<Self> {
        assert!(world > 0, "a world has ranks");
        let state = State {
            parts: vec![Vec::new(); world],
            sum: Vec::new(),
            message: Vec::new(),
            call: None,
            arrived: vec![false; world],
            to_leave: 0,
            letters: vec![Letter::default(); world * world],
            gone: vec![false; world],
            failed: None,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let rank = |rank| Self { shared: shared.clone(), rank, world, deadlines, sent: 0, over: false };
        (0..world).map(rank).collect()
    }

    /// Accesses the shared state, and aborts if that fails.
    fn guarded(
        &mut self,
        wait: Duration,
        work: impl FnOnce(&Shared, Deadline) -> Result<(), CollectiveError>,
    ) -> Result<(), CollectiveError> {
        if self.over {
            return Err(CollectiveError::Over);
        }
        let done = work(&self.shared, Deadline::after(wait));
        if let Err(error) = &done {
            self.abort(&error.to_string());
        }
        done
    }
}

impl Shared {
    /// The shared state is consistent between any two calls, even if a rank has panicked.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a condition holds.
    fn wait(
        &self,
        deadline: Deadline,
        peer: Peer,
        is_so: impl Fn(&State) -> bool,
    ) -> Result<MutexGuard<'_, State>, CollectiveError> {
        let mut state = self.lock();
        loop {
            if is_so(&state) {
                return Ok(state);
            }
            if let Some((rank, why)) = &state.failed {
                return Err(CollectiveError::Failed { peer: format!("rank {rank}"), fault: why.clone() });
            }
            let mut awaited = (0..state.gone.len()).filter(|&rank| match peer {
                Peer::Rank(peer) => rank == peer,
                Peer::Slowest => !state.arrived[rank],
            });
            if let Some(rank) = awaited.find(|&rank| state.gone[rank]) {
                let (peer, fault) = (format!("rank {rank}"), "its thread has ended".into());
                return Err(CollectiveError::Gone { peer, fault });
            }
            let left = deadline.left(|| {
                let slowest = || state.arrived.iter().position(|arrived| !arrived).unwrap_or(0);
                format!("rank {}", if let Peer::Rank(rank) = peer { rank } else { slowest() })
            })?;
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Enters the barrier: this rank leaves its part, and the last one to arrive joins the parts. On return the result
    /// is available until this rank [leaves](Shared::leave).
    fn arrive(
        &self,
        (rank, call): (usize, Call),
        deadline: Deadline,
        leave: impl FnOnce(&mut State),
        join: impl FnOnce(&mut State),
    ) -> Result<MutexGuard<'_, State>, CollectiveError> {
        let mut state = self.wait(deadline, Peer::Slowest, |state| state.to_leave == 0)?;
        if let Some(other) = state.call.replace(call).filter(|other| *other != call) {
            let fault = format!("it is at {other:?}, this one at {call:?}");
            return Err(CollectiveError::OutOfStep { peer: "another rank".into(), fault });
        }
        leave(&mut state);
        state.arrived[rank] = true;
        if state.arrived.iter().all(|arrived| *arrived) {
            join(&mut state);
            state.to_leave = state.arrived.len();
            state.arrived.fill(false);
            state.call = None;
            self.changed.notify_all();
            return Ok(state);
        }
        drop(state);
        self.wait(deadline, Peer::Slowest, |state| state.to_leave > 0)
    }

    fn leave(&self, mut state: MutexGuard<'_, State>) {
        state.to_leave -= 1;
        if state.to_leave == 0 {
            self.changed.notify_all();
        }
    }
}

impl Collective for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world(&self) -> usize {
        self.world
    }

    fn all_reduce_sum(&mut self, x: &mut [f32]) -> Result<(), CollectiveError> {
        let rank = self.rank;
        self.sent += size_of_val(x) as u64;
        self.guarded(self.deadlines.call, |shared, deadline| {
            let leave = |State { parts, .. }: &mut State| {
                parts[rank].clear();
                parts[rank].extend_from_slice(x);
            };
            let join = |State { parts, sum, .. }: &mut State| {
                sum.clone_from(&parts[0]);
                for part in &parts[1..] {
                    sum.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
                }
            };
            let state = shared.arrive((rank, Call::Sum(x.len())), deadline, leave, join)?;
            x.copy_from_slice(&state.sum);
            shared.leave(state);
            Ok(())
        })
    }

    fn gather(&mut self, part: &[f32], all: &mut [f32]) -> Result<(), CollectiveError> {
        let rank = self.rank;
        if rank > 0 {
            self.sent += size_of_val(part) as u64;
        }
        self.guarded(self.deadlines.call, |shared, deadline| {
            let leave = |State { parts, .. }: &mut State| {
                parts[rank].clear();
                parts[rank].extend_from_slice(part);
            };
            let state = shared.arrive((rank, Call::Gather), deadline, leave, |_| ())?;
            let numbers: usize = state.parts.iter().map(Vec::len).sum();
            let fits = rank > 0 || numbers == all.len();
            if rank == 0 && fits {
                let mut rest = &mut all[..];
                for part in &state.parts {
                    let (these, others) = rest.split_at_mut(part.len());
                    these.copy_from_slice(part);
                    rest = others;
                }
            }
            shared.leave(state);
            match fits {
                true => Ok(()),
                false => {
                    let fault = format!("all parts have {numbers} numbers, not {}", all.len());
                    Err(CollectiveError::OutOfStep { peer: "another rank".into(), fault })
                }
            }
        })
    }

    fn broadcast(&mut self, message: &mut Vec<u8>) -> Result<(), CollectiveError> {
        let rank = self.rank;
        if rank == 0 {
            if message.len() > MAX_MESSAGE {
                return Err(CollectiveError::TooLong { bytes: message.len() });
            }
            self.sent += (self.world - 1) as u64 * message.len() as u64;
        }
        let wait = if rank == 0 { self.deadlines.call } else { self.deadlines.idle };
        self.guarded(wait, |shared, deadline| {
            let leave = |state: &mut State| {
                if rank == 0 {
                    state.message.clone_from(message);
                }
            };
            let state = shared.arrive((rank, Call::Broadcast), deadline, leave, |_| ())?;
            message.clone_from(&state.message);
            shared.leave(state);
            Ok(())
        })
    }

    fn send(&mut self, to: usize, x: &[f32]) -> Result<(), CollectiveError> {
        assert_other(to, self.rank, self.world);
        let at = self.rank * self.world + to;
        self.sent += size_of_val(x) as u64;
        self.guarded(self.deadlines.call, |shared, deadline| {
            let mut state = shared.wait(deadline, Peer::Rank(to), |state| !state.letters[at].is_there)?;
            let Letter { is_there, numbers } = &mut state.letters[at];
            *is_there = true;
            numbers.clear();
            numbers.extend_from_slice(x);
            shared.changed.notify_all();
            Ok(())
        })
    }

    fn receive(&mut self, from: usize, x: &mut [f32]) -> Result<(), CollectiveError> {
        assert_other(from, self.rank, self.world);
        let at = from * self.world + self.rank;
        self.guarded(self.deadlines.call, |shared, deadline| {
            let mut state = shared.wait(deadline, Peer::Rank(from), |state| state.letters[at].is_there)?;
            let Letter { is_there, numbers } = &mut state.letters[at];
            if numbers.len() != x.len() {
                let fault = format!("it sends {} numbers, not {}", numbers.len(), x.len());
                return Err(CollectiveError::OutOfStep { peer: format!("rank {from}"), fault });
            }
            x.copy_from_slice(numbers);
            *is_there = false;
            shared.changed.notify_all();
            Ok(())
        })
    }

    fn abort(&mut self, why: &str) {
        if !std::mem::replace(&mut self.over, true) {
            self.shared.lock().failed.get_or_insert((self.rank, why.to_owned()));
            self.shared.changed.notify_all();
        }
    }

    fn sent(&self) -> u64 {
        self.sent
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.lock().gone[self.rank] = true;
        self.shared.changed.notify_all();
    }
}
