//! The device that a model computes on.

use std::fmt;
use std::sync::Arc;

#[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
use verdigris_kernels::cuda::Gpu;
#[cfg(feature = "cuda")]
use verdigris_kernels::cuda::{About, CudaError};

use crate::backend::Backend;
use crate::error::ModelError;
use crate::parallel::Ranks;

/// The device that a model computes on.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Device {
    /// On the CPU.
    #[default]
    Cpu,
    /// On an NVIDIA GPU, or its emulation.
    #[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
    Gpu(Gpu),
    /// On the CPUs of several processes; this one is rank 0.
    Ranks(Arc<Ranks>),
    /// By another library, on its own device.
    Backend(Arc<dyn Backend>),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            #[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
            Self::Gpu(_) => f.write_str("cuda"),
            Self::Ranks(ranks) => write!(f, "cpu, on {} ranks", ranks.addresses.len() + 1),
            Self::Backend(backend) => backend.fmt(f),
        }
    }
}

/// The device with this name: `cpu`, `cuda` (the GPU with the most free memory) or `cuda:1`; with the feature
/// `emulated-cuda` also `cuda:emulated`.
///
/// # Errors
/// [`ModelError::Device`] for an unknown name and for a device that cannot be used.
pub fn device(name: &str) -> Result<Device, ModelError> {
    let fault = |fault: String| ModelError::Device { name: name.to_owned(), fault };
    let number: Option<usize> = match name {
        "cpu" => return Ok(Device::Cpu),
        #[cfg(feature = "emulated-cuda")]
        "cuda:emulated" => return Ok(Device::Gpu(Gpu::emulated())),
        "cuda" => return gpu(None).map_err(fault),
        _ => name.strip_prefix("cuda:").and_then(|number| number.parse().ok()),
    };
    let number = number.ok_or_else(|| fault("a device is cpu, cuda or cuda:1".into()))?;
    gpu(Some(number)).map_err(fault)
}

/// The NVIDIA GPUs of this machine that can be used; none without a driver.
#[cfg(feature = "cuda")]
pub fn gpus() -> Vec<About> {
    Gpu::all().unwrap_or_default()
}

/// The GPU with this number, or the one with the most free memory.
#[cfg(feature = "cuda")]
fn gpu(number: Option<usize>) -> Result<Device, String> {
    let with_most_memory = || {
        let all = Gpu::all()?;
        // One that is too old is chosen only without others, for its error.
        let rank = |gpu: &&About| (gpu.capability >= (8, 0), gpu.free);
        Ok(all.iter().rev().max_by_key(rank).map_or(0, |gpu| gpu.number))
    };
    let number = number.map_or_else(with_most_memory, Ok);
    number.and_then(Gpu::open).map(Device::Gpu).map_err(|error: CudaError| {
        format!(
            "no usable GPU ({error}); check that the NVIDIA driver is installed and that `nvidia-smi` lists it, or \
             choose cpu"
        )
    })
}

#[cfg(not(feature = "cuda"))]
fn gpu(_: Option<usize>) -> Result<Device, String> {
    Err("this program was built without CUDA; docs/building-for-cuda.md says how to build it".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood_or_refused() {
        assert!(matches!(device("cpu"), Ok(Device::Cpu)));
        for name in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "CPU"] {
            let fault = device(name).unwrap_err().to_string();
            assert!(fault.contains("cpu, cuda or cuda:1"), "{fault}");
        }
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_program_without_cuda_says_so() {
        let fault = device("cuda:0").unwrap_err().to_string();
        assert!(fault.contains("built without CUDA"), "{fault}");
    }
}
