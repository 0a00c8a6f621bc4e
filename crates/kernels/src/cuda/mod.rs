//! Kernels for NVIDIA GPUs: those of a decoder, and token sampling from a row of logits, which never leaves the GPU.
//!
//! The kernels are written in CUDA C++ (`cuda/` of this crate) and compiled in two ways: for GPUs (feature `cuda`), and
//! as C++ for a CPU that runs the threads of a block as fibres (feature `emulated-cuda`), so that tests run the same
//! source without a GPU. A [`Gpu`] is one or the other.
//!
//! Calls return before their work is done; the work of a GPU is done in order. [`Gpu::record`] records the launches of
//! a closure as a [`Graph`], which repeats them at the cost of one.
//!
//! | module | contents |
//! |---|---|
//! | [`activations`] | rows of activations, as products read them |
//! | [`inputs`] | the inputs of a pass: tokens, positions, pages, masks |
//! | [`linear`] | `x * w^T` on tensor cores, with weights as they are stored or packed |
//! | [`attention`] | attention over paged keys and values |
//! | [`elements`] | embeddings, norms, activations, rotary position embeddings |
//! | [`draw`] | edits of sets of tokens, cuts such as top-k, and sampling |

pub mod activations;
pub mod attention;
mod backend;
pub mod draw;
#[cfg(feature = "cuda")]
mod driver;
pub mod elements;
#[cfg(feature = "emulated-cuda")]
mod emulated;
mod error;
pub mod inputs;
pub mod linear;
mod matrix;
mod packed;

use std::fmt;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use backend::{Backend, DeviceMemory, Launch, Recording};

use crate::format;

pub use error::CudaError;
pub use matrix::Matrix;

/// A GPU with one stream of work. Clones share it.
#[derive(Clone)]
pub struct Gpu {
    backend: Arc<dyn Backend>,
    recorder: Arc<Recorder>,
    number: usize,
}

/// A GPU of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its number, counted from zero.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// Its compute capability.
    pub capability: (u32, u32),
    /// The bytes of its memory.
    pub total: u64,
    /// The bytes that are free.
    pub free: u64,
    /// The bytes that its memory transfers per second at most.
    pub bandwidth: u64,
}

#[derive(Default)]
struct Recorder {
    /// Held by the thread that records.
    turn: Mutex<()>,
    /// That thread, and the buffers that its launches access.
    reached: Mutex<Option<(ThreadId, Vec<Buffer>)>>,
    /// The number of kernels and graphs launched.
    launches: Arc<AtomicU64>,
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gpu")
    }
}

/// A recording in progress, which ends even if its work panics, so that later launches are not recorded.
struct Recorded<'a> {
    gpu: &'a Gpu,
    has_ended: bool,
}

impl Recorded<'_> {
    /// Ends the recording; returns it and the buffers that it accesses.
    fn end(mut self) -> (Result<Box<dyn Recording>, CudaError>, Vec<Buffer>) {
        self.has_ended = true;
        let buffers = self.gpu.reached().take().map(|(_, buffers)| buffers).unwrap_or_default();
        (self.gpu.backend.end_recording(), buffers)
    }
}

impl Drop for Recorded<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.gpu.reached().take();
            // Discard the incomplete recording.
            drop(self.gpu.backend.end_recording());
        }
    }
}

/// Memory on a GPU. Clones share it.
#[derive(Clone)]
pub struct Buffer(Arc<dyn DeviceMemory>);

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes on a GPU", self.len())
    }
}

/// Launches that can be repeated on the same memory, which may hold other numbers by then.
pub struct Graph {
    recording: Box<dyn Recording>,
    /// The buffers that they access.
    _buffers: Vec<Buffer>,
    launches: Arc<AtomicU64>,
}

impl Gpu {
    /// Opens a GPU by its number, counted from zero.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if the GPU or its driver does not exist.
    #[cfg(feature = "cuda")]
    pub fn open(number: usize) -> Result<Self, CudaError> {
        Ok(Self { backend: Arc::new(driver::Driver::open(number)?), recorder: Arc::default(), number })
    }

    /// All GPUs of this machine that can be used.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if the driver does not exist, or if no GPU can be used.
    #[cfg(feature = "cuda")]
    pub fn all() -> Result<Vec<About>, CudaError> {
        driver::all()
    }

    /// A GPU that is emulated on the CPU: slow, for tests.
    #[cfg(feature = "emulated-cuda")]
    pub fn emulated() -> Self {
        Self { backend: Arc::new(emulated::Emulated::new(true)), recorder: Arc::default(), number: 0 }
    }

    /// An emulated GPU that lacks what came with compute capability 9.0.
    #[cfg(feature = "emulated-cuda")]
    pub fn emulated_8() -> Self {
        Self { backend: Arc::new(emulated::Emulated::new(false)), recorder: Arc::default(), number: 0 }
    }

    /// The number of this GPU in the machine, counted from zero.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Allocates memory with arbitrary content.
    ///
    /// # Errors
    /// [`CudaError::Memory`] if the GPU does not have enough memory left.
    pub fn allocate(&self, bytes: usize) -> Result<Buffer, CudaError> {
        self.backend.allocate(bytes)?.map(|memory| Buffer(memory.into())).ok_or(CudaError::Memory { bytes })
    }

    /// Allocates zeroed memory.
    ///
    /// # Errors
    /// [`CudaError::Memory`] if the GPU does not have enough memory left.
    pub fn zeroed(&self, bytes: usize) -> Result<Buffer, CudaError> {
        let buffer = self.allocate(bytes)?;
        buffer.0.zero()?;
        Ok(buffer)
    }

    /// Allocates memory that holds `bytes`.
    ///
    /// # Errors
    /// [`CudaError::Memory`] if the GPU does not have enough memory left.
    pub fn upload(&self, bytes: &[u8]) -> Result<Buffer, CudaError> {
        let buffer = self.allocate(bytes.len())?;
        buffer.write(0, bytes)?;
        Ok(buffer)
    }

    /// Allocates memory that holds `numbers`.
    ///
    /// # Errors
    /// [`CudaError::Memory`] if the GPU does not have enough memory left.
    pub fn upload_numbers(&self, numbers: &[f32]) -> Result<Buffer, CudaError> {
        self.upload(format::bytes(numbers))
    }

    /// The number of kernels and graphs launched so far.
    pub fn launches(&self) -> u64 {
        self.recorder.launches.load(Ordering::Relaxed)
    }

    /// Whether four warps multiply together, in the background.
    fn has_wide_products(&self) -> bool {
        self.backend.has_wide_products()
    }

    /// The number of free bytes of memory.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if the driver fails.
    pub fn free_memory(&self) -> Result<u64, CudaError> {
        self.backend.free_memory()
    }

    /// Records the launches of `work` without running them. It must do nothing else on this GPU in this thread.
    ///
    /// # Errors
    /// Those of `work`, and [`CudaError::Driver`] if the driver cannot record it.
    pub fn record(&self, work: impl FnOnce() -> Result<(), CudaError>) -> Result<Graph, CudaError> {
        let _turn = self.recorder.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.backend.begin_recording()?;
        *self.reached() = Some((thread::current().id(), Vec::new()));
        let recording = Recorded { gpu: self, has_ended: false };
        let done = work();
        let (recording, buffers) = recording.end();
        done?;
        Ok(Graph { recording: recording?, _buffers: buffers, launches: self.recorder.launches.clone() })
    }

    fn reached(&self) -> MutexGuard<'_, Option<(ThreadId, Vec<Buffer>)>> {
        self.recorder.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Safety
    /// `args` is the struct that the kernel takes. All memory that the kernel accesses through it is in `buffers`, or
    /// in memory whose addresses those hold and that lives until the kernel, or a graph that contains it, is done.
    unsafe fn launch<A: Copy>(
        &self,
        kernel: &'static str,
        grid: [usize; 3],
        (threads, shared): (u32, usize),
        args: &A,
        buffers: &[&Buffer],
    ) -> Result<(), CudaError> {
        let mut reached = self.reached();
        let reached = reached.as_mut().filter(|(recording, _)| *recording == thread::current().id());
        let recorded = reached.map(|(_, all)| all.extend(buffers.iter().copied().cloned())).is_some();
        if !recorded {
            self.recorder.launches.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: these bytes may be uninitialized, like padding.
        let args = unsafe { std::slice::from_raw_parts((&raw const *args).cast::<MaybeUninit<u8>>(), size_of::<A>()) };
        let grid = grid.map(|blocks| u32::try_from(blocks).expect("a grid has fewer blocks"));
        let shared = u32::try_from(shared).expect("less memory is shared");
        // SAFETY: upheld by the caller.
        unsafe { self.backend.launch(Launch { kernel, grid, threads, shared, args, recorded }) }
    }
}

impl Buffer {
    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes bytes from an offset (in bytes).
    ///
    /// # Panics
    /// If they reach past the end; also below.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if the driver fails.
    pub fn write(&self, at: usize, bytes: &[u8]) -> Result<(), CudaError> {
        self.0.write(at, bytes)
    }

    /// Reads numbers from an offset (in bytes), once all earlier work is done.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if the driver fails.
    pub fn read_numbers(&self, at: usize, numbers: &mut [f32]) -> Result<(), CudaError> {
        // SAFETY: any bytes are valid numbers.
        let bytes = unsafe { std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast(), size_of_val(numbers)) };
        self.0.read(at, bytes)
    }

    /// Copies all of another buffer of the same length.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if the driver fails.
    pub fn copy(&self, from: &Self) -> Result<(), CudaError> {
        self.0.copy(&*from.0)
    }

    fn address(&self) -> u64 {
        self.0.address()
    }

    /// The address, for a kernel that reads or writes `count` numbers there.
    fn numbers(&self, count: usize) -> u64 {
        let bytes = count.checked_mul(4).expect("fewer numbers");
        assert!(self.len() >= bytes, "{bytes} bytes of {}", self.len());
        self.address()
    }
}

impl Graph {
    /// Repeats the launches, in order.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if the driver fails.
    pub fn replay(&self) -> Result<(), CudaError> {
        self.launches.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the graph keeps its memory; where that holds addresses, `Inputs` keeps their targets until it writes
        // others.
        unsafe { self.recording.replay() }
    }
}

/// The name of the kernel for a format.
macro_rules! by_format {
    ($format:expr, $prefix:literal, $suffix:literal) => {
        match $format {
            Format::F32 => concat!($prefix, "_f32", $suffix),
            Format::F16 => concat!($prefix, "_f16", $suffix),
            Format::Bf16 => concat!($prefix, "_bf16", $suffix),
            Format::Q8_0 => concat!($prefix, "_q8_0", $suffix),
            Format::Q4_0 => concat!($prefix, "_q4_0", $suffix),
            Format::Q4_1 => concat!($prefix, "_q4_1", $suffix),
            Format::Q5_0 => concat!($prefix, "_q5_0", $suffix),
            Format::Q5_1 => concat!($prefix, "_q5_1", $suffix),
            Format::Q2K => concat!($prefix, "_q2k", $suffix),
            Format::Q3K => concat!($prefix, "_q3k", $suffix),
            Format::Q4K => concat!($prefix, "_q4k", $suffix),
            Format::Q5K => concat!($prefix, "_q5k", $suffix),
            Format::Q6K => concat!($prefix, "_q6k", $suffix),
            Format::Iq4Nl => concat!($prefix, "_iq4_nl", $suffix),
            Format::Iq4Xs => concat!($prefix, "_iq4_xs", $suffix),
            Format::Mxfp4 => concat!($prefix, "_mxfp4", $suffix),
        }
    };
}
use by_format;

/// A count in the 32 bits that kernels use.
fn small(count: usize) -> u32 {
    u32::try_from(count).expect("a kernel counts in 32 bits")
}
