//! Where a model computes.

use candle_core::{DType, Device};

use crate::error::ModelError;

/// The device of a name: `cpu`, `cuda` (the first GPU) or `cuda:1`.
pub fn device(name: &str) -> Result<Device, ModelError> {
    let fault = |fault: String| ModelError::Device { name: name.to_owned(), fault };
    let number = match name {
        "cpu" => return Ok(Device::Cpu),
        "cuda" => Some(0),
        _ => name.strip_prefix("cuda:").and_then(|number| number.parse().ok()),
    };
    let number = number.ok_or_else(|| fault("a device is cpu, cuda or cuda:1".into()))?;
    if !candle_core::utils::cuda_is_available() {
        return Err(fault(
            "this program was built without CUDA; docs/building-for-cuda.md says how to build it".into(),
        ));
    }
    Device::new_cuda(number).map_err(|error| {
        let cause = error.to_string();
        let cause = cause.lines().next().unwrap_or_default();
        fault(format!("no usable GPU ({cause}); check that the NVIDIA driver is installed and that `nvidia-smi` lists it, or choose cpu"))
    })
}

/// The type that weights stored as `stored` have on a device. The kernels for the CPU compute in f32; on a GPU
/// weights stay as they are.
pub(crate) fn weight_type(device: &Device, stored: DType) -> DType {
    match stored {
        DType::F16 | DType::BF16 if !device.is_cpu() => stored,
        _ => DType::F32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood_or_refused() {
        assert!(device("cpu").unwrap().is_cpu());
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
