//! How fast memory is read: what bounds a model that writes one token at a time, which reads all its weights for each.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::pool;
use crate::zeroed::zeroed;

/// What a thread reads before it looks for more work.
const TASK: usize = 1 << 20;

/// What all threads read between two looks at the clock, in tasks: on a machine that does other things too, one of
/// many short whiles is undisturbed.
const WINDOW: usize = 32;

/// How fast memory was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// In the fastest of some short whiles, for whatever else the machine does makes reading slower and never faster.
    pub bytes_per_second: f64,
    /// How many such whiles there were, each of at most 32 MiB.
    pub whiles: usize,
    /// How many threads shared the work.
    pub threads: usize,
}

/// Reads so much memory over and over on the threads of the kernels, for about `time` and at least once to its end.
/// What is larger than the caches shows how fast memory is. `None` where there is not so much memory.
///
/// # Panics
/// If `bytes` is 0.
pub fn read_bandwidth(bytes: usize, time: Duration) -> Option<Bandwidth> {
    assert!(bytes > 0, "nothing takes no time to read");
    let mut memory = zeroed(bytes)?;
    // Pages that nobody has written are all one page.
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
            // A clock that has not moved is too coarse for so little memory.
            best = best.max(read as f64 / start.elapsed().as_secs_f64().max(1e-9));
            whiles += 1;
        }
    }
    Some(Bandwidth { bytes_per_second: best, whiles, threads: pool::threads() })
}

/// The sum of words of eight bytes, which a compiler adds as fast as they come; a rest shorter than that is left out.
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
