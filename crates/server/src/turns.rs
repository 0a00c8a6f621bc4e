//! Places for work that takes a while, which tenants take in turn.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot::{self, Sender};
use verdigris::constrain::Cancellation;

/// So many places. Where all are taken, tenants wait in a ring, each with a queue of its own; and a tenant takes the
/// last place only if it has none, so that one with long work leaves one to the others.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Mutex<State>>);

struct State {
    places: usize,
    taken: HashMap<Arc<str>, usize>,
    /// Who waits, in the order of the ring. No queue is empty.
    ring: VecDeque<(Arc<str>, VecDeque<Sender<Turn>>)>,
}

/// A place, which is free again when this is dropped.
pub(crate) struct Turn {
    of: Turns,
    tenant: Arc<str>,
}

impl Turn {
    /// Does some work on a thread of its own, and gives the place back when it ends. Where nobody waits for it any more
    /// it is cancelled. `None` where it panics.
    pub(crate) async fn spend<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        /// Cancels the work where it is dropped with what waits.
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
    pub(crate) fn new(places: usize) -> Self {
        Self(Arc::new(Mutex::new(State { places, taken: HashMap::new(), ring: VecDeque::new() })))
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
        turn.await.expect("who waits is given a place, or waits on")
    }

    /// Gives free places to those whose turn it is.
    fn hand_out(&self) {
        loop {
            let next = self.state().next();
            let Some((tenant, sender)) = next else { return };
            // Who has gone away gives the place back.
            drop(sender.send(Turn { of: self.clone(), tenant }));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes a place for the next of the ring that may have one.
    fn next(&mut self) -> Option<(Arc<str>, Sender<Turn>)> {
        let free = self.places - self.taken.values().sum::<usize>();
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

    /// What is there already.
    fn now<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    /// A schema is given up where the client has left, and the place is free for the next.
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
            _ = work => panic!("it ends only when nobody waits for it"),
            () = leaving => {}
        }
        assert!(has_ended.await.unwrap().contains("cancelled"));
        let whole = turns.take(&acme).await.spend(|| Cancellation::current().unwrap().is_cancelled()).await;
        assert_eq!(whole, Some(false));
    }

    #[test]
    fn tenants_take_turns_and_leave_one_to_others() {
        let (turns, acme, rival, third) = (Turns::new(3), "acme".into(), "rival".into(), "third".into());
        let first = now(pin!(turns.take(&acme))).unwrap();
        let second = now(pin!(turns.take(&acme))).unwrap();
        let (mut more, mut gone) = (Box::pin(turns.take(&acme)), Box::pin(turns.take(&acme)));
        assert!(now(more.as_mut()).is_none() && now(gone.as_mut()).is_none(), "the last place is another's");
        let of_rival = now(pin!(turns.take(&rival))).expect("a place for one who has none");
        let mut of_third = Box::pin(turns.take(&third));
        let mut again = Box::pin(turns.take(&rival));
        assert!(now(of_third.as_mut()).is_none() && now(again.as_mut()).is_none());
        drop(second);
        assert!(now(more.as_mut()).is_none() && now(again.as_mut()).is_none());
        let of_third = now(of_third.as_mut()).expect("the one who has none");
        drop((first, gone, of_third));
        let more = now(more.as_mut()).expect("its turn, and nobody has gone away with the place");
        drop(of_rival);
        assert!(now(again.as_mut()).is_some());
        drop(more);
        assert!(turns.state().taken.is_empty() && turns.state().ring.is_empty());
    }
}
