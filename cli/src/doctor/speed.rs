//! Measures how fast this machine reads memory and writes text, and estimates the speed of larger models.

use std::fs;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde::Serialize;
use verdigris::models::Format;
use verdigris::models::machine::{Bandwidth, read_bandwidth};
use verdigris::{Device, Engine};

use crate::built_in::storyteller;
use crate::doctor::finding::Finding;
use crate::error::Failure;

/// The time for which memory is read.
const READING: Duration = Duration::from_millis(300);

/// The fewest bytes that are read: more than most caches hold.
const LEAST_MEMORY: usize = 256 << 20;

/// The most bytes that are read, since they are written first, which takes time.
const MOST_MEMORY: usize = 512 << 20;

/// The time after which the built-in model stops writing.
const WRITING: Duration = Duration::from_millis(700);

/// The most tokens that it writes.
const TOKENS: usize = 96;

/// Models of common sizes: their names, numbers of parameters, and formats.
const MODELS: [(&str, f64, Format, &str); 4] = [
    ("135 M", 134.5e6, Format::Q8_0, "q8_0"),
    ("135 M", 134.5e6, Format::Bf16, "bf16"),
    ("1 B", 1.0e9, Format::Q4_0, "q4_0"),
    ("7 B", 7.0e9, Format::Q4_0, "q4_0"),
];

#[derive(Serialize)]
pub(super) struct MemorySpeed {
    bytes_per_second: f64,
    /// The bytes read in one pass.
    read: usize,
    whiles: usize,
    threads: usize,
    /// The size of the processor's largest cache in bytes, if the system reports it.
    largest_cache: Option<usize>,
}

impl MemorySpeed {
    /// Measures memory; `None` if too little of it is free.
    pub(super) fn measured() -> Option<Self> {
        let largest_cache = largest_cache();
        let wanted = largest_cache.map_or(LEAST_MEMORY, |cache| cache.saturating_mul(2));
        let read = wanted.clamp(LEAST_MEMORY, MOST_MEMORY).min(available().map_or(LEAST_MEMORY, |bytes| bytes / 4));
        if read < LEAST_MEMORY / 16 {
            return None;
        }
        let Bandwidth { bytes_per_second, whiles, threads } = read_bandwidth(read, READING)?;
        Some(Self { bytes_per_second, read, whiles, threads, largest_cache })
    }

    pub(super) fn finding(&self) -> Finding {
        let threads = if self.threads == 1 { "1 thread".into() } else { format!("{} threads", self.threads) };
        let Self { bytes_per_second, read, .. } = self;
        let speed = format!(
            "{:.1} GB/s: {} MB read by {threads}, the fastest 33 MB of them",
            bytes_per_second / 1e9,
            read / 1_000_000
        );
        Finding::fine("memory", speed)
    }

    /// The size of the largest cache in bytes, if it could speed up the measurement or the smallest model.
    pub(super) fn cache_that_helps(&self) -> Option<usize> {
        let smallest = self.expected().iter().map(|expected| expected.bytes).fold(f64::INFINITY, f64::min);
        self.largest_cache.filter(|&cache| 2 * cache > self.read || cache as f64 > smallest)
    }

    /// The most that each of [`MODELS`] can write.
    pub(super) fn expected(&self) -> Vec<Expected> {
        let expect = |(model, parameters, format, name): (&'static str, f64, Format, &'static str)| {
            let bytes = parameters / format.block() as f64 * format.block_bytes() as f64;
            Expected { model, format: name, bytes, tokens_per_second: self.bytes_per_second / bytes }
        };
        MODELS.into_iter().map(expect).collect()
    }
}

/// The speed limit of a model, since each token needs all weights.
#[derive(Serialize)]
pub(super) struct Expected {
    pub(super) model: &'static str,
    pub(super) format: &'static str,
    pub(super) bytes: f64,
    pub(super) tokens_per_second: f64,
}

#[derive(Serialize)]
pub(super) struct Tale {
    tokens_per_second: f64,
    tokens: usize,
}

impl Tale {
    /// Measures a short text of the built-in model.
    pub(super) fn measured() -> Result<Self, Failure> {
        let engine = Engine::from_folder(&storyteller(), &Device::Cpu)?;
        // Work that is done once per model is not measured.
        engine.request("The captain").through_end().max_tokens(1).seed(1).text()?;
        let started = Instant::now();
        let request = engine.request("The captain").through_end().max_tokens(TOKENS).seed(1);
        let written = request.stream(|_| match started.elapsed() > WRITING {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })?;
        let tokens = written.tokens.len();
        Ok(Self { tokens_per_second: tokens as f64 / started.elapsed().as_secs_f64(), tokens })
    }

    pub(super) fn finding(&self) -> Finding {
        let Self { tokens_per_second, tokens } = self;
        Finding::fine("tale", format!("{tokens_per_second:.0} tokens/s: {tokens} tokens of the built-in model"))
    }
}

/// The largest cache of the first processor, in bytes.
fn largest_cache() -> Option<usize> {
    let caches = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    let size = |cache: fs::DirEntry| {
        let size = fs::read_to_string(cache.path().join("size")).ok()?;
        size.trim().strip_suffix('K')?.parse::<usize>().ok().map(|kilobytes| kilobytes << 10)
    };
    caches.filter_map(|cache| size(cache.ok()?)).max()
}

/// The available memory in bytes, if the system reports it.
fn available() -> Option<usize> {
    let about = fs::read_to_string("/proc/meminfo").ok()?;
    let line = about.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok().map(|kilobytes| kilobytes << 10)
}
