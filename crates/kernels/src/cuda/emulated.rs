//! Kernels on a CPU, one thread after the other, for tests: see `cuda/emulator.h`.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::backend::{Backend, DeviceMemory, Launch, Recording};
use super::error::CudaError;

unsafe extern "C" {
    fn verdigris_emulate(
        name: *const c_char,
        grid: *const c_uint,
        threads: c_uint,
        shared: usize,
        args: *const c_void,
    ) -> c_int;
}

/// The bytes of memory of an emulated GPU.
const MEMORY: u64 = 4 << 30;

pub(super) struct Emulated {
    recording: Mutex<Vec<OwnedLaunch>>,
    /// The bytes that are allocated.
    allocated: Arc<AtomicU64>,
    has_wide_products: bool,
}

impl Emulated {
    pub(super) fn new(has_wide_products: bool) -> Self {
        Self { recording: Mutex::default(), allocated: Arc::default(), has_wide_products }
    }
}

/// The bytes that a block may share on most GPUs since compute capability 8.0, and on those of 9.0.
fn most_shared(has_wide_products: bool) -> u32 {
    if has_wide_products { 227 << 10 } else { 99 << 10 }
}

struct OwnedLaunch {
    kernel: &'static str,
    grid: [u32; 3],
    threads: u32,
    shared: u32,
    most_shared: u32,
    /// Aligned like structs with pointers.
    args: Vec<MaybeUninit<u64>>,
}

impl OwnedLaunch {
    fn new(launch: Launch<'_>, has_wide_products: bool) -> Self {
        let most_shared = most_shared(has_wide_products);
        let Launch { kernel, grid, threads, shared, args: bytes, .. } = launch;
        let mut args = vec![MaybeUninit::new(0u64); bytes.len().div_ceil(8)];
        // SAFETY: there is room for the bytes, and the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), args.as_mut_ptr().cast(), bytes.len()) };
        Self { kernel, grid, threads, shared, most_shared, args }
    }

    /// # Safety
    /// As for a launch.
    unsafe fn run(&self) -> Result<(), CudaError> {
        // A device refuses these shapes, although the emulation could run them.
        if self.grid.contains(&0) || self.threads == 0 || self.threads > 1024 || self.shared > self.most_shared {
            return Err(CudaError::Driver(format!("{}: no such shape of launch", self.kernel)));
        }
        let name = CString::new(self.kernel).expect("no zero in a name");
        let (grid, args) = (self.grid.as_ptr(), self.args.as_ptr().cast());
        // SAFETY: the name and the shape are valid, and the rest is upheld by the caller.
        let status = unsafe { verdigris_emulate(name.as_ptr(), grid, self.threads, self.shared as usize, args) };
        if status == 0 { Ok(()) } else { Err(CudaError::Driver(format!("there is no kernel {}", self.kernel))) }
    }
}

impl Backend for Emulated {
    fn allocate(&self, bytes: usize) -> Result<Option<Box<dyn DeviceMemory>>, CudaError> {
        if self.allocated.load(Ordering::Relaxed) + bytes as u64 > MEMORY {
            return Ok(None);
        }
        // Memory that has not been written holds NaN.
        let mut words = Vec::new();
        if words.try_reserve_exact(bytes.div_ceil(16)).is_err() {
            return Ok(None);
        }
        words.resize(bytes.div_ceil(16), u128::MAX);
        self.allocated.fetch_add(bytes as u64, Ordering::Relaxed);
        let allocated = self.allocated.clone();
        Ok(Some(Box::new(Host { words: Box::into_raw(words.into_boxed_slice()), bytes, allocated })))
    }

    fn has_wide_products(&self) -> bool {
        self.has_wide_products
    }

    fn free_memory(&self) -> Result<u64, CudaError> {
        Ok(MEMORY.saturating_sub(self.allocated.load(Ordering::Relaxed)))
    }

    fn most_shared(&self) -> Result<u32, CudaError> {
        Ok(most_shared(self.has_wide_products))
    }

    unsafe fn launch(&self, launch: Launch<'_>) -> Result<(), CudaError> {
        let is_recorded = launch.recorded;
        let launch = OwnedLaunch::new(launch, self.has_wide_products);
        if is_recorded {
            self.recording.lock().unwrap_or_else(PoisonError::into_inner).push(launch);
            return Ok(());
        }
        // SAFETY: upheld by the caller.
        unsafe { launch.run() }
    }

    fn begin_recording(&self) -> Result<(), CudaError> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }

    fn end_recording(&self) -> Result<Box<dyn Recording>, CudaError> {
        Ok(Box::new(Recorded(std::mem::take(&mut *self.recording.lock().unwrap_or_else(PoisonError::into_inner)))))
    }
}

struct Recorded(Vec<OwnedLaunch>);

impl Recording for Recorded {
    unsafe fn replay(&self) -> Result<(), CudaError> {
        for launch in &self.0 {
            // SAFETY: upheld by the caller.
            unsafe { launch.run()? };
        }
        Ok(())
    }
}

struct Host {
    words: *mut [u128],
    bytes: usize,
    /// The bytes that are allocated on its GPU.
    allocated: Arc<AtomicU64>,
}

// SAFETY: it owns its memory, which kernels change like a device's: its users must ensure that accesses do not overlap.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

impl Host {
    fn at(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(at.checked_add(bytes).is_some_and(|end| end <= self.bytes), "{bytes} bytes at {at} of {}", self.bytes);
        // SAFETY: the range is inside the memory.
        unsafe { self.words.cast::<u8>().add(at) }
    }
}

impl DeviceMemory for Host {
    fn address(&self) -> u64 {
        self.words.cast::<u8>() as u64
    }

    fn len(&self) -> usize {
        self.bytes
    }

    fn write(&self, at: usize, bytes: &[u8]) -> Result<(), CudaError> {
        // SAFETY: the range is inside the memory, and no kernel runs: each is done when its launch returns.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(at, bytes.len()), bytes.len()) };
        Ok(())
    }

    fn read(&self, at: usize, bytes: &mut [u8]) -> Result<(), CudaError> {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(self.at(at, bytes.len()), bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    fn zero(&self) -> Result<(), CudaError> {
        // SAFETY: as above.
        unsafe { self.at(0, self.bytes).write_bytes(0, self.bytes) };
        Ok(())
    }

    fn copy(&self, from: &dyn DeviceMemory) -> Result<(), CudaError> {
        assert_eq!(self.bytes, from.len(), "memories of one length");
        // SAFETY: as above, and two memories do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from.address() as *const u8, self.at(0, self.bytes), self.bytes) };
        Ok(())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.allocated.fetch_sub(self.bytes as u64, Ordering::Relaxed);
        // SAFETY: the pointer came from a box.
        drop(unsafe { Box::from_raw(self.words) });
    }
}
