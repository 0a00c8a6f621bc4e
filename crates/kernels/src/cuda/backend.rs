//! What runs kernels: a GPU, or its emulation.

use super::error::CudaError;

/// Memory on a device, which is freed when nothing on the stream can need it any more.
pub(super) trait Memory: Send + Sync {
    fn address(&self) -> u64;
    fn len(&self) -> usize;

    /// Writes bytes from an offset on. The call returns when `bytes` may change.
    ///
    /// # Panics
    /// If they reach past the end; so in what follows.
    fn write(&self, at: usize, bytes: &[u8]) -> Result<(), CudaError>;

    /// Reads bytes from an offset on, once everything before is done.
    fn read(&self, at: usize, bytes: &mut [u8]) -> Result<(), CudaError>;

    /// Sets all bytes to zero.
    fn zero(&self) -> Result<(), CudaError>;

    /// Copies all of another memory of the same length.
    fn copy(&self, from: &dyn Memory) -> Result<(), CudaError>;
}

/// What a kernel is launched with.
#[derive(Clone, Copy)]
pub(super) struct Launch<'a> {
    pub(super) kernel: &'static str,
    /// Blocks in three directions.
    pub(super) grid: [u32; 3],
    /// Threads of a block.
    pub(super) threads: u32,
    /// Bytes that the threads of a block share.
    pub(super) shared: u32,
    /// The struct that the kernel takes, as bytes.
    pub(super) args: &'a [std::mem::MaybeUninit<u8>],
    /// Whether it is only to be recorded.
    pub(super) recorded: bool,
}

/// A device with one stream: what is asked of it is done in order, and not yet done when the call returns.
pub(super) trait Backend: Send + Sync {
    /// Memory with any content, or `None` where there is not so much.
    fn allocate(&self, bytes: usize) -> Result<Option<Box<dyn Memory>>, CudaError>;

    /// Bytes that are free.
    fn free_memory(&self) -> Result<u64, CudaError>;

    /// # Safety
    /// The arguments are what the kernel takes, and all that it reaches through them is there until it is done.
    unsafe fn launch(&self, launch: Launch<'_>) -> Result<(), CudaError>;

    /// Launches may be recorded from here on, by one thread. What others ask for is done meanwhile.
    fn begin_recording(&self) -> Result<(), CudaError>;

    /// What was recorded.
    fn end_recording(&self) -> Result<Box<dyn Recording>, CudaError>;
}

/// Launches that can be done again, with the same arguments.
pub(super) trait Recording: Send {
    /// # Safety
    /// As for each of the launches.
    unsafe fn replay(&self) -> Result<(), CudaError>;
}
