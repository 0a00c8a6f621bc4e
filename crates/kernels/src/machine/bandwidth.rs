//! Memory bandwidth, which bounds a model that generates one token at a time: each token reads all its weights.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::pool;
use crate::zeroed::zeroed;

/// The number of bytes that a thread reads before it takes another task.
const TASK: usize = 1 << 20;

/// The number of tasks between two readings of the clock. Among many short intervals some are undisturbed, even on a
/// machine with other work.
const WINDOW: usize = 32;

/// A measured memory bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// The rate of the fastest interval: other work on the machine only ever slows reading down.
    pub bytes_per_second: f64,
    /// The number of intervals, each of at most 32 MiB.
    pub whiles: usize,
    /// The number of threads that shared the work.
    pub threads: usize,
}

/// Reads `bytes` bytes of memory repeatedly on the kernel threads, for about `time` and at least once in full. Sizes
/// larger than the caches measure main memory. Returns `None` if there is not enough memory.
///
/// # Panics
/// If `bytes` is 0.
pub fn read_bandwidth(bytes: usize, time: Duration) -> Option<Bandwidth> {
    assert!(bytes > 0, "nothing takes no time to read");
    let mut memory = zeroed(bytes)?;
    // Pages that have never been written all share one physical page.
    let parts: Vec<Mutex<&mut [u8]>> = memory.chunks_mut(TASK).map(Mutex::new).collect();
    pool::run(parts.len(), &|task| parts[task].lock().unwrap_or_else(PoisonError::into_inner).fill(1));
    let parts: Vec<&[u8]> = memory.chunks(TASK).collect();
    let (begun, mut whiles, mut best) = (Instant::now(), 0, 0.0f64);
    while whiles == 0 || begun.elapsed() < time {
        for window in parts.chunks(WINDOW) {
            let start = Instant::now();
            pool::run(window.len(), &|task| {
                black_box(sum(window[task]));
            });
            let read: usize = window.iter().map(|part| part.len()).sum();
            // With little memory a coarse clock may not have advanced.
            best = best.max(read as f64 / start.elapsed().as_secs_f64().max(1e-9));
            whiles += 1;
        }
    }
    Some(Bandwidth { bytes_per_second: best, whiles, threads: pool::threads() })
}

/// The sum of the 8-byte words, which compiles to code bound by memory; trailing bytes are left out.
fn sum(bytes: &[u8]) -> u64 {
    bytes.as_chunks::<8>().0.iter().fold(0, |sum: u64, &word| sum.wrapping_add(u64::from_le_bytes(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_read() {
        assert_eq!(sum(&[1; 8 * 5]), 5 * 0x0101_0101_0101_0101);
        let (bytes, whiles) = if cfg!(miri) { (TASK / 64, 1) } else { (2 * WINDOW * TASK + 5, 3) };
        let read = read_bandwidth(bytes, Duration::ZERO).unwrap();
        assert_eq!((read.whiles, read.threads), (whiles, pool::threads()));
        assert!(read.bytes_per_second.is_finite() && read.bytes_per_second > 0.0);
        assert!(read_bandwidth(isize::MAX as usize, Duration::ZERO).is_none() || cfg!(miri));
    }
}
