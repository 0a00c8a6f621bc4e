//! The threads that share a kernel's work.
//!
//! A token of a small model takes a few hundred products of some ten microseconds each, so waking a thread must cost
//! less than that. Idle threads therefore poll for work for a while before they sleep, and take it without a lock: at
//! first without pause, then yielding to threads that want their processor, for long enough that they are still awake
//! after a token was sampled and the next is computed.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The number of times that an idle thread polls before it first yields its processor: about a tenth of a millisecond.
const LOOKS: usize = if cfg!(miri) { 2 } else { 1 << 12 };

/// The number of polls between two yields.
const LOOKS_BETWEEN_OFFERS: usize = if cfg!(miri) { 1 } else { 1 << 6 };

/// The time for which an idle thread polls and yields before it sleeps. Processing a row of logits takes less, so all
/// threads stay awake while text is generated; otherwise they spin no longer than this.
const AWAKE: Duration = Duration::from_millis(if cfg!(miri) { 0 } else { 3 });

/// A job that is split into numbered tasks.
type Job<'a> = dyn Fn(usize) + Sync + 'a;

/// Threads that wait for work; as many as rayon has, including the calling one.
struct Pool {
    shared: Arc<Shared>,
    /// Held while a job runs: one at a time.
    turn: Mutex<()>,
    threads: usize,
}

struct Shared {
    /// Even while there is no work; incremented whenever work begins or ends.
    epoch: AtomicUsize,
    /// The number of threads that may be accessing `work`.
    active: AtomicUsize,
    /// The job of an odd epoch.
    work: UnsafeCell<Option<*const Job<'static>>>,
    /// The first task that has not been taken, and the number of tasks.
    next: AtomicUsize,
    tasks: AtomicUsize,
    panicked: AtomicBool,
    sleeping: Mutex<usize>,
    wake: Condvar,
}

// SAFETY: `work` is written only by the one thread that holds the turn, while no other accesses it: others access it
// only between joining `active` and leaving it, and only if the epoch is still the one that they joined for. The writer
// changes `work` after it has ended the last epoch and seen `active` at zero, and before it begins the next. The job
// that `work` points to is `Sync`, so any thread may call it.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer is followed only while the thread that owns the job waits.
unsafe impl Send for Shared {}

// Miri does not work well with rayon's threads.
static POOL: LazyLock<Pool> = LazyLock::new(|| Pool::new(if cfg!(miri) { 2 } else { rayon::current_num_threads() }));

/// Runs `work` for each of `tasks` tasks, on several threads if they are free; returns when all are done.
///
/// # Panics
/// If a task panics.
pub(crate) fn run(tasks: usize, work: &Job<'_>) {
    POOL.run(tasks, work);
}

/// Calls `work` with each item, on several threads if they are free. If `work` itself uses the pool, its tasks run on
/// the calling thread.
///
/// # Panics
/// If `work` panics.
pub fn each<T: Send>(items: &mut [T], work: impl Fn(&mut T) + Sync) {
    /// The items, of which each task takes one.
    struct Items<T>(*mut T);
    // SAFETY: each thread takes different items, which may be sent to other threads.
    unsafe impl<T: Send> Sync for Items<T> {}
    impl<T> Items<T> {
        /// # Safety
        /// `task` is the index of an item that no other caller has.
        #[expect(clippy::mut_from_ref, reason = "each caller has an item of its own")]
        unsafe fn item(&self, task: usize) -> &mut T {
            // SAFETY: upheld by the caller.
            unsafe { &mut *self.0.add(task) }
        }
    }
    let (count, items) = (items.len(), Items(items.as_mut_ptr()));
    run(count, &|task| {
        // SAFETY: each task runs once, on one thread, before `run` returns; there is an item for each.
        work(unsafe { items.item(task) });
    });
}

/// The number of threads that share the work.
pub fn threads() -> usize {
    POOL.threads
}

impl Pool {
    fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared {
            epoch: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            work: UnsafeCell::new(None),
            next: AtomicUsize::new(0),
            tasks: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            sleeping: Mutex::new(0),
            wake: Condvar::new(),
        });
        let mut started = 1;
        for number in 1..threads {
            let shared = shared.clone();
            let thread = thread::Builder::new().name(format!("kernel-{number}"));
            // If a thread cannot be started, the work is only slower.
            started += usize::from(thread.spawn(move || shared.serve()).is_ok());
        }
        Self { shared, turn: Mutex::new(()), threads: started }
    }

    fn run(&self, tasks: usize, work: &Job<'_>) {
        let alone = || (0..tasks).for_each(work);
        if tasks <= 1 || self.threads == 1 {
            return alone();
        }
        // While another thread's job runs, and inside a task, waiting would take longer.
        let Ok(turn) = self.turn.try_lock() else { return alone() };
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes. The pointer is followed only by threads in `active`, and this function
        // does not return, or unwind, before it has ended the epoch and seen that there are none.
        let erased = unsafe { std::mem::transmute::<*const Job<'_>, *const Job<'static>>(work) };
        // SAFETY: this thread holds the turn, and no thread is active: see `Sync`.
        unsafe { *shared.work.get() = Some(erased) };
        shared.next.store(0, SeqCst);
        shared.tasks.store(tasks, SeqCst);
        shared.epoch.fetch_add(1, SeqCst);
        if *shared.sleeping.lock().unwrap_or_else(PoisonError::into_inner) > 0 {
            shared.wake.notify_all();
        }
        shared.take_tasks(work);
        shared.epoch.fetch_add(1, SeqCst);
        let mut looks = 0;
        while shared.active.load(SeqCst) > 0 {
            looks += 1;
            // Let a thread that has no processor use this one.
            if looks < LOOKS { std::hint::spin_loop() } else { thread::yield_now() }
        }
        let panicked = shared.panicked.swap(false, SeqCst);
        drop(turn);
        assert!(!panicked, "a kernel's task has panicked");
    }
}

impl Shared {
    /// Runs tasks until all have been taken.
    fn take_tasks(&self, work: &Job<'_>) {
        let tasks = self.tasks.load(SeqCst);
        let done = catch_unwind(AssertUnwindSafe(|| {
            loop {
                let task = self.next.fetch_add(1, SeqCst);
                if task >= tasks {
                    break;
                }
                work(task);
            }
        }));
        if let Err(payload) = done {
            self.panicked.store(true, SeqCst);
            // Its drop may panic again, and this thread must still end its part of the job.
            std::mem::forget(payload);
        }
    }

    fn serve(&self) {
        let mut last = 0;
        loop {
            let epoch = self.wait(last);
            self.active.fetch_add(1, SeqCst);
            if self.epoch.load(SeqCst) == epoch {
                // SAFETY: this thread is active in an epoch that has not ended, so the thread that began it waits and
                // the job is alive; the pointer was written before the epoch began.
                let work = unsafe { (*self.work.get()).map(|work| &*work) };
                if let Some(work) = work {
                    self.take_tasks(work);
                }
            }
            self.active.fetch_sub(1, SeqCst);
            last = epoch;
        }
    }

    /// Waits for an odd epoch after `last`.
    fn wait(&self, last: usize) -> usize {
        let come = || Some(self.epoch.load(SeqCst)).filter(|epoch| epoch % 2 == 1 && *epoch != last);
        for _ in 0..LOOKS {
            if let Some(epoch) = come() {
                return epoch;
            }
            std::hint::spin_loop();
        }
        let begun = Instant::now();
        while begun.elapsed() < AWAKE {
            thread::yield_now();
            for _ in 0..LOOKS_BETWEEN_OFFERS {
                if let Some(epoch) = come() {
                    return epoch;
                }
                std::hint::spin_loop();
            }
        }
        let mut sleeping = self.sleeping.lock().unwrap_or_else(PoisonError::into_inner);
        *sleeping += 1;
        loop {
            if let Some(epoch) = come() {
                *sleeping -= 1;
                return epoch;
            }
            sleeping = self.wake.wait(sleeping).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_met_once() {
        for count in [0, 1, 2, 7, if cfg!(miri) { 20 } else { 5000 }] {
            let mut items: Vec<(usize, String)> = (0..count).map(|i| (i, String::new())).collect();
            each(&mut items, |(i, text)| {
                // Nested use of the pool.
                let sum = AtomicUsize::new(0);
                run(3, &|task| {
                    sum.fetch_add(task, SeqCst);
                });
                text.push_str(&format!("{i} {}", sum.into_inner()));
            });
            for (i, (number, text)) in items.iter().enumerate() {
                assert_eq!((*number, text.as_str()), (i, format!("{i} 3").as_str()));
            }
        }
    }

    #[test]
    fn every_task_is_done_once() {
        let pool = Pool::new(4);
        let (rounds, many) = if cfg!(miri) { (6, 20) } else { (200, 5000) };
        for tasks in (0..rounds).chain([many]) {
            let done: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
            pool.run(tasks, &|task| {
                done[task].fetch_add(1, SeqCst);
            });
            assert!(done.iter().all(|count| count.load(SeqCst) == 1), "{tasks}");
            if tasks % 50 == 0 {
                thread::sleep(AWAKE + Duration::from_millis(2)); // long enough to sleep
            }
        }
    }

    #[test]
    fn several_threads_and_tasks_inside_tasks() {
        const ROUNDS: usize = if cfg!(miri) { 2 } else { 100 };
        let pool = Pool::new(3);
        let count = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        pool.run(7, &|_| {
                            pool.run(3, &|_| {
                                count.fetch_add(1, SeqCst);
                            })
                        });
                    }
                });
            }
        });
        assert_eq!(count.load(SeqCst), 4 * ROUNDS * 7 * 3);
    }

    #[test]
    fn a_panic_comes_back_and_the_pool_goes_on() {
        let pool = Pool::new(2);
        for bad in [0, 63] {
            let ran = catch_unwind(AssertUnwindSafe(|| pool.run(64, &|task| assert_ne!(task, bad))));
            assert!(ran.is_err());
            let count = AtomicUsize::new(0);
            pool.run(64, &|_| {
                count.fetch_add(1, SeqCst);
            });
            assert_eq!(count.load(SeqCst), 64);
        }
    }

    /// The payload of a panic may itself panic when it is dropped.
    #[test]
    fn a_panic_of_a_panic_ends_no_thread() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("dropped");
            }
        }
        let pool = Pool::new(3);
        for _ in 0..3 {
            let ran = catch_unwind(AssertUnwindSafe(|| pool.run(64, &|_| std::panic::panic_any(Bomb))));
            assert_ne!(ran.unwrap_err().downcast_ref(), Some(&"dropped"));
        }
        let count = AtomicUsize::new(0);
        pool.run(64, &|_| _ = count.fetch_add(1, SeqCst));
        assert_eq!(count.load(SeqCst), 64);
    }
}
