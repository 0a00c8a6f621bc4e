//! Kernels on an NVIDIA GPU, through its driver.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::{
    CUdevice_attribute, CUfunction_attribute_enum, CUgraphInstantiate_flags, CUlaunchAttribute_st, CUlaunchAttributeID,
    CUlaunchAttributeValue_union, CUlaunchConfig, CUresult, CUstreamCaptureMode, cuLaunchKernelEx,
};
use cudarc::driver::{CudaContext, CudaFunction, CudaGraph, CudaModule, CudaSlice, CudaStream, DriverError, result};
use cudarc::nvrtc::Ptx;

use super::About;
use super::backend::{Backend, DeviceMemory, Launch, Recording};
use super::error::CudaError;

static KERNELS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin"));

/// The bytes of shared memory that a block may use without setting an attribute.
const SHARED: u32 = 48 << 10;

impl From<DriverError> for CudaError {
    fn from(error: DriverError) -> Self {
        let text = error.to_string();
        Self::Driver(text.lines().next().unwrap_or_default().to_owned())
    }
}

/// The error for a driver that cannot load the kernels.
fn unloadable(error: DriverError) -> CudaError {
    let what = match error.0 {
        CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => {
            "the NVIDIA driver is older than the compiler of this program's kernels"
        }
        CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU => "this GPU is older than compute capability 8.0",
        _ => return error.into(),
    };
    CudaError::Driver(format!("{what}: docs/building-for-cuda.md says what goes together"))
}

pub(super) struct Driver {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    /// The stream on which launches are recorded, so that the work of other threads is not.
    recorder: Arc<CudaStream>,
    module: Arc<CudaModule>,
    /// The compute capability.
    capability: (i32, i32),
    /// Kernels that have been launched.
    functions: Mutex<HashMap<&'static str, Function>>,
}

#[derive(Clone)]
struct Function {
    function: CudaFunction,
    /// The bytes of shared memory that its blocks may use.
    shared: u32,
    /// Whether it waits for the launches before it. Code that the driver compiles for a newer GPU does not.
    waits: bool,
}

impl Driver {
    pub(super) fn open(number: usize) -> Result<Self, CudaError> {
        find_driver()?;
        let context = CudaContext::new(number)?;
        // SAFETY: one stream does everything in order, so there are no events to wait for.
        unsafe { context.disable_event_tracking() };
        let (stream, recorder) = (context.new_stream()?, context.new_stream()?);
        let module = context.load_module(Ptx::from_binary(KERNELS.to_vec())).map_err(unloadable)?;
        let capability = context.compute_capability()?;
        Ok(Self { context, stream, recorder, module, capability, functions: Mutex::default() })
    }

    fn function(&self, launch: &Launch<'_>) -> Result<Function, CudaError> {
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if !functions.contains_key(launch.kernel) {
            let function = self.module.load_function(launch.kernel)?;
            // The architecture that it was compiled for: 80 for 8.0.
            let of = function.get_attribute(CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_PTX_VERSION)?;
            functions.insert(launch.kernel, Function { function, shared: SHARED, waits: of >= 90 });
        }
        let known = functions.get_mut(launch.kernel).expect("it is there");
        if launch.shared > known.shared {
            let attribute = CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            known.function.set_attribute(attribute, launch.shared as i32)?;
            known.shared = launch.shared;
        }
        Ok(known.clone())
    }
}

fn find_driver() -> Result<(), CudaError> {
    // SAFETY: this only looks for the library, whose initialisation is the driver's responsibility.
    match unsafe { cudarc::driver::sys::is_culib_present() } {
        true => Ok(()),
        false => Err(CudaError::Driver("there is no NVIDIA driver".into())),
    }
}

/// All GPUs that can be used. The error of one that cannot is returned only if none can.
pub(super) fn all() -> Result<Vec<About>, CudaError> {
    find_driver()?;
    let count = CudaContext::device_count()?;
    let (mut usable, mut fault) = (Vec::new(), None);
    for number in 0..count as usize {
        match about(number) {
            Ok(one) => usable.push(one),
            Err(error) => fault = fault.or(Some(error)),
        }
    }
    fault.filter(|_| usable.is_empty()).map_or(Ok(usable), Err)
}

fn about(number: usize) -> Result<About, CudaError> {
    let context = CudaContext::new(number)?;
    let (free, total) = context.mem_get_info()?;
    let attribute = |of| context.attribute(of).map(|value| value as u64);
    let kilohertz = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?;
    let bits = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?;
    let (major, minor) = context.compute_capability()?;
    Ok(About {
        number,
        name: context.name()?,
        capability: (major as u32, minor as u32),
        total: total as u64,
        free: free as u64,
        // Twice a clock cycle.
        bandwidth: 2 * kilohertz * 1000 * bits / 8,
    })
}

impl Backend for Driver {
    fn allocate(&self, bytes: usize) -> Result<Option<Box<dyn DeviceMemory>>, CudaError> {
        // SAFETY: any content is valid for bytes, and kernels must write them before reading.
        match unsafe { self.stream.alloc::<u8>(bytes.max(1)) } {
            Ok(slice) => Ok(Some(Box::new(OnDevice { slice, bytes }))),
            Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn has_wide_products(&self) -> bool {
        self.capability.0 == 9
    }

    fn free_memory(&self) -> Result<u64, CudaError> {
        Ok(self.context.mem_get_info()?.0 as u64)
    }

    fn most_shared(&self) -> Result<u32, CudaError> {
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        Ok(self.context.attribute(attribute)? as u32)
    }

    unsafe fn launch(&self, launch: Launch<'_>) -> Result<(), CudaError> {
        let Function { function, waits, .. } = self.function(&launch)?;
        self.context.bind_to_thread()?;
        let Launch { grid: [x, y, z], threads, shared, args, recorded, .. } = launch;
        let mut args = [args.as_ptr().cast_mut().cast::<c_void>()];
        let stream = if recorded { &self.recorder } else { &self.stream };
        let (function, stream) = (function.cu_function(), stream.cu_stream());
        // A launch may begin while those before it end, if its kernel waits for them: see `wait_for_inputs` of
        // `device.cuh`.
        let mut early = CUlaunchAttribute_st {
            id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: Default::default(),
            value: CUlaunchAttributeValue_union { programmaticStreamSerializationAllowed: 1 },
        };
        let config = CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared,
            hStream: stream,
            attrs: &raw mut early,
            numAttrs: waits.into(),
        };
        // SAFETY: upheld by the caller; the function's module lives as long as `self`.
        Ok(unsafe { cuLaunchKernelEx(&raw const config, function, args.as_mut_ptr(), std::ptr::null_mut()) }
            .result()?)
    }

    fn begin_recording(&self) -> Result<(), CudaError> {
        Ok(self.recorder.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?)
    }

    fn end_recording(&self) -> Result<Box<dyn Recording>, CudaError> {
        let graph = self.recorder.end_capture(CUgraphInstantiate_flags(0))?;
        let graph = graph.ok_or_else(|| CudaError::Driver("nothing was recorded".into()))?;
        Ok(Box::new(Graph { graph, stream: self.stream.clone() }))
    }
}

struct Graph {
    graph: CudaGraph,
    stream: Arc<CudaStream>,
}

// SAFETY: only one thread at a time uses it, as the driver requires: it can be reached only through its owner.
unsafe impl Send for Graph {}

impl Recording for Graph {
    unsafe fn replay(&self) -> Result<(), CudaError> {
        self.stream.context().bind_to_thread()?;
        // SAFETY: the graph exists, and the rest is upheld by the caller.
        unsafe { result::graph::launch(self.graph.cu_graph_exec(), self.stream.cu_stream()) }.map_err(CudaError::from)
    }
}

struct OnDevice {
    slice: CudaSlice<u8>,
    bytes: usize,
}

impl OnDevice {
    /// The address of `bytes` bytes at offset `at`.
    fn at(&self, at: usize, bytes: usize) -> Result<u64, CudaError> {
        assert!(at.checked_add(bytes).is_some_and(|end| end <= self.bytes), "{bytes} bytes at {at} of {}", self.bytes);
        self.slice.context().bind_to_thread()?;
        Ok(self.address() + at as u64)
    }
}

impl DeviceMemory for OnDevice {
    fn address(&self) -> u64 {
        use cudarc::driver::DevicePtr;
        // The guard would record an event, but event tracking is disabled.
        self.slice.device_ptr(self.slice.stream()).0
    }

    fn len(&self) -> usize {
        self.bytes
    }

    fn write(&self, at: usize, bytes: &[u8]) -> Result<(), CudaError> {
        let to = self.at(at, bytes.len())?;
        let stream = self.slice.stream();
        // SAFETY: the range is inside the memory, and `bytes` lives until the copy is done.
        unsafe { result::memcpy_htod_async(to, bytes, stream.cu_stream())? };
        // The driver does not guarantee that host memory has been read when the call returns.
        Ok(stream.synchronize()?)
    }

    fn read(&self, at: usize, bytes: &mut [u8]) -> Result<(), CudaError> {
        let (from, stream) = (self.at(at, bytes.len())?, self.slice.stream());
        // SAFETY: the range is inside the memory, and `bytes` lives until the copy is done.
        unsafe { result::memcpy_dtoh_async(bytes, from, stream.cu_stream())? };
        Ok(stream.synchronize()?)
    }

    fn zero(&self) -> Result<(), CudaError> {
        let to = self.at(0, self.bytes)?;
        // SAFETY: this is all of the memory.
        unsafe { result::memset_d8_async(to, 0, self.bytes, self.slice.stream().cu_stream()) }.map_err(CudaError::from)
    }

    fn copy(&self, from: &dyn DeviceMemory) -> Result<(), CudaError> {
        assert_eq!(self.bytes, from.len(), "memories of one length");
        let to = self.at(0, self.bytes)?;
        // SAFETY: both have this length, and are on the same device.
        unsafe { result::memcpy_dtod_async(to, from.address(), self.bytes, self.slice.stream().cu_stream()) }
            .map_err(CudaError::from)
    }
}
