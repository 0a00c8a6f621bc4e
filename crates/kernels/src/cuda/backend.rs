//! The devices that run kernels: a GPU, or its emulation.

use super::error::CudaError;

/// Memory on a device, which is freed once nothing on the stream can use it any more.
pub(super) trait DeviceMemory: Send + Sync {
    fn address(&self) -> u64;
    fn len(&self) -> usize;

    /// Writes bytes from an offset. When the call returns, `bytes` may change.
    ///
    /// # Panics
    /// If they reach past the end; also below.
    fn write(&self, at: usize, bytes: &[u8]) -> Result<(), CudaError>;

    /// Reads bytes from an offset, once all earlier work is done.
    fn read(&self, at: usize, bytes: &mut [u8]) -> Result<(), CudaError>;

    /// Sets all bytes to zero.
    fn zero(&self) -> Result<(), CudaError>;

    /// Copies all of another memory of the same length.
    fn copy(&self, from: &dyn DeviceMemory) -> Result<(), CudaError>;
}

/// A launch of a kernel.
#[derive(Clone, Copy)]
pub(super) struct Launch<'a> {
    pub(super) kernel: &'static str,
    /// The number of blocks in three dimensions.
    pub(super) grid: [u32; 3],
    /// The number of threads in a block.
    pub(super) threads: u32,
    /// The number of bytes that the threads of a block share.
    pub(super) shared: u32,
    /// The bytes of the struct that the kernel takes.
    pub(super) args: &'a [std::mem::MaybeUninit<u8>],
    /// Whether the launch is only recorded.
    pub(super) recorded: bool,
}

/// A device with one stream: work is done in order, and may not be done yet when a call returns.
pub(super) trait Backend: Send + Sync {
    /// Allocates memory with arbitrary content; `None` if there is not enough.
    fn allocate(&self, bytes: usize) -> Result<Option<Box<dyn DeviceMemory>>, CudaError>;

    /// Whether the kernels for products of four warps exist for it.
    fn has_wide_products(&self) -> bool;

    /// The number of free bytes.
    fn free_memory(&self) -> Result<u64, CudaError>;

    /// The most bytes that the threads of a block can share.
    fn most_shared(&self) -> Result<u32, CudaError>;

    /// # Safety
    /// The arguments are those that the kernel takes, and all memory that it accesses through them lives until it is
    /// done.
    unsafe fn launch(&self, launch: Launch<'_>) -> Result<(), CudaError>;

    /// Starts recording launches of one thread. Launches of other threads run meanwhile.
    fn begin_recording(&self) -> Result<(), CudaError>;

    /// Ends the recording and returns it.
    fn end_recording(&self) -> Result<Box<dyn Recording>, CudaError>;
}

/// Launches that can be repeated with the same arguments.
pub(super) trait Recording: Send {
    /// # Safety
    /// As for each of the launches.
    unsafe fn replay(&self) -> Result<(), CudaError>;
}
