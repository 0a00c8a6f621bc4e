//! Slots for long work, which tenants take in turn.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot::{self, Sender};
use verdigris::constrain::Cancellation;

/// A fixed number of slots. Tenants wait for them in a ring, each with its own queue. A tenant takes the last free slot
/// only if it holds none, so that one with long work leaves a slot to the others.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Mutex<State>>);

struct State {
    slots: usize,
    taken: HashMap<Arc<str>, usize>,
    /// The waiting requests of each tenant, in the order of the ring. No queue is empty.
    ring: VecDeque<(Arc<str>, VecDeque<Sender<Turn>>)>,
}

/// A slot, which is freed on drop.
pub(crate) struct Turn {
    of: Turns,
    tenant: Arc<str>,
}

impl Turn {
    /// Runs `work` on its own thread, and frees the slot when it ends. The work is cancelled if the future is dropped.
    /// `None` if it panics.
    pub(crate) async fn spend<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        /// Cancels the work when the waiting future is dropped.
        struct Wanted(Cancellation);
        impl Drop for Wanted {
            fn drop(&mut self) {
                self.0.cancel();
            }
        }
        let cancellation = Cancellation::default();
        let _wanted = Wanted(cancellation.clone());
        let done = tokio::task::spawn_blocking(move || {
            let _turn = self;
            cancellation.scope(work)
        });
        done.await.ok()
    }
}

impl Turns {
    pub(crate) fn new(slots: usize) -> Self {
        Self(Arc::new(Mutex::new(State { slots, taken: HashMap::new(), ring: VecDeque::new() })))
    }

    /// Waits for the turn of a tenant.
    pub(crate) async fn take(&self, tenant: &Arc<str>) -> Turn {
        let (sender, turn) = oneshot::channel();
        {
            let mut state = self.state();
            match state.ring.iter_mut().find(|(other, _)| other == tenant) {
                Some((_, queue)) => queue.push_back(sender),
                None => state.ring.push_back((tenant.clone(), [sender].into())),
            }
        }
        self.hand_out();
        turn.await.expect("a sender is kept until it is used")
    }

    /// Gives free slots to the tenants whose turn it is.
    fn hand_out(&self) {
        loop {
            let next = self.state().next();
            let Some((tenant, sender)) = next else { return };
            // If the receiver has gone since then, the slot is freed again.
            drop(sender.send(Turn { of: self.clone(), tenant }));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes a slot for the next tenant of the ring that may have one.
    fn next(&mut self) -> Option<(Arc<str>, Sender<Turn>)> {
        // Disconnected clients have left their senders behind.
        self.ring.iter_mut().for_each(|(_, queue)| queue.retain(|sender| !sender.is_closed()));
        self.ring.retain(|(_, queue)| !queue.is_empty());
        let free = self.slots - self.taken.values().sum::<usize>();
        let may = |(tenant, _): &(Arc<str>, _)| match self.taken.get(tenant) {
            None => free > 0,
            Some(_) => free > 1,
        };
        let at = self.ring.iter().position(may)?;
        let (tenant, mut queue) = self.ring.remove(at)?;
        let sender = queue.pop_front()?;
        if !queue.is_empty() {
            self.ring.push_back((tenant.clone(), queue));
        }
        *self.taken.entry(tenant.clone()).or_insert(0) += 1;
        Some((tenant, sender))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        {
            let mut state = self.of.state();
            if let Some(taken) = state.taken.get_mut(&self.tenant) {
                *taken -= 1;
                if *taken == 0 {
                    state.taken.remove(&self.tenant);
                }
            }
        }
        self.of.hand_out();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// The value of a future that is ready.
    fn now<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    /// A schema is abandoned when the client disconnects, and its slot is freed.
    #[tokio::test]
    async fn work_of_those_that_leave_is_cancelled() {
        let (turns, acme) = (Turns::new(2), "acme".into());
        let turn = turns.take(&acme).await;
        let (begun, has_begun) = oneshot::channel();
        let (ended, has_ended) = oneshot::channel();
        let work = turn.spend(move || {
            begun.send(()).unwrap();
            let cancellation = Cancellation::current().unwrap();
            while !cancellation.is_cancelled() {
                std::thread::yield_now();
            }
            let refused = verdigris::Grammar::json_schema(&true.into(), verdigris::Style::default());
            ended.send(refused.unwrap_err().to_string()).unwrap();
        });
        let leaving = async { has_begun.await.unwrap() };
        tokio::select! {
            _ = work => panic!("it ends only when it is cancelled"),
            () = leaving => {}
        }
        assert!(has_ended.await.unwrap().contains("cancelled"));
        let whole = turns.take(&acme).await.spend(|| Cancellation::current().unwrap().is_cancelled()).await;
        assert_eq!(whole, Some(false));
    }

    /// Clients that disconnect while they wait are forgotten, however many they are.
    #[test]
    fn those_that_leave_before_their_turn_are_forgotten() {
        let (turns, acme) = (Turns::new(2), "acme".into());
        let first = now(pin!(turns.take(&acme))).unwrap();
        for _ in 0..20_000 {
            assert!(now(pin!(turns.take(&acme))).is_none(), "the last slot is for others");
        }
        let waiting = turns.state().ring.iter().map(|(_, queue)| queue.len()).sum::<usize>();
        assert!(waiting <= 1, "{waiting} wait");
        drop(first);
        assert!(turns.state().taken.is_empty() && turns.state().ring.is_empty());
    }

    #[test]
    fn tenants_take_turns_and_leave_one_to_others() {
        let (turns, acme, rival, third) = (Turns::new(3), "acme".into(), "rival".into(), "third".into());
        let first = now(pin!(turns.take(&acme))).unwrap();
        let second = now(pin!(turns.take(&acme))).unwrap();
        let (mut more, mut gone) = (Box::pin(turns.take(&acme)), Box::pin(turns.take(&acme)));
        assert!(now(more.as_mut()).is_none() && now(gone.as_mut()).is_none(), "the last slot is for others");
        let of_rival = now(pin!(turns.take(&rival))).expect("a slot for a tenant without one");
        let mut of_third = Box::pin(turns.take(&third));
        let mut again = Box::pin(turns.take(&rival));
        assert!(now(of_third.as_mut()).is_none() && now(again.as_mut()).is_none());
        drop(second);
        assert!(now(more.as_mut()).is_none() && now(again.as_mut()).is_none());
        let of_third = now(of_third.as_mut()).expect("the tenant without one");
        drop((first, gone, of_third));
        let more = now(more.as_mut()).expect("its turn, and an abandoned slot is free again");
        drop(of_rival);
        assert!(now(again.as_mut()).is_some());
        drop(more);
        assert!(turns.state().taken.is_empty() && turns.state().ring.is_empty());
    }
}
