//! candle as a backend.

use std::fmt;
use std::io::Cursor;
use std::sync::Arc;

use candle_core::quantized::gguf_file::Content;
use candle_core::{DType, Device};
use candle_nn::VarBuilder;
use verdigris_models::{Backend, BoxError, Bytes, LanguageModel, ModelError, ModelFiles};

use crate::architectures::{self, Precision, model_types};
use crate::config::Config;
use crate::weights::WeightFiles;

/// One of candle's devices, on which the models of candle-transformers compute.
#[derive(Clone, Debug)]
pub struct Candle {
    device: Device,
    name: String,
}

impl Candle {
    /// The device with this name: `cpu`, `cuda` (the first GPU), `cuda:1`, `metal` or `metal:1`.
    ///
    /// # Errors
    /// [`ModelError::Device`] for an unknown name, and for a device that cannot be used.
    pub fn new(name: &str) -> Result<Self, ModelError> {
        let fault = |fault: String| ModelError::Device { name: format!("candle's {name}"), fault };
        let (kind, number) = name.split_once(':').unwrap_or((name, "0"));
        let number = number.parse().ok();
        let device = match (kind, number) {
            ("cpu", _) if name == "cpu" => Ok(Device::Cpu),
            ("cuda", Some(number)) => Device::new_cuda(number),
            ("metal", Some(number)) => Device::new_metal(number),
            _ => return Err(fault("a device is cpu, cuda, cuda:1, metal or metal:1".into())),
        };
        let device = device.map_err(|error| fault(without(kind, &error)))?;
        Ok(Self { device, name: name.to_owned() })
    }

    /// On a GPU, models compute in the type of their weights unless that blurs positions. On a CPU that would be slower
    /// than f32, and less exact.
    fn kind(&self, stored: DType, precision: Precision) -> DType {
        if self.device.is_cpu() || precision == Precision::F32 { DType::F32 } else { stored }
    }

    fn folder(&self, files: ModelFiles<'_>) -> Result<Arc<dyn LanguageModel>, ModelError> {
        let (path, json) = files.config()?;
        let config = |fault: String| ModelError::Config { path: path.clone(), fault };
        let fields = Config::parse(&json).map_err(config)?;
        let model_type = fields.text("model_type").map_err(config)?;
        let architecture = architectures::of(model_type).ok_or_else(|| ModelError::Architecture {
            path: path.clone(),
            model_type: model_type.to_owned(),
            known: model_types(),
        })?;
        fields.heeded().map_err(config)?;
        let stored = WeightFiles::new(files.safetensors()?, fields.output_is_embedding())?;
        let kind = self.kind(stored.kind(), architecture.precision);
        let weights = VarBuilder::from_backend(Box::new(stored), kind, self.device.clone());
        (architecture.load)(&fields, weights).map_err(|fault| match fault.downcast::<candle_core::Error>() {
            Ok(error) => self.failed(*error),
            Err(fault) => config(fault.to_string()),
        })
    }

    fn gguf(&self, bytes: &Bytes) -> Result<Arc<dyn LanguageModel>, ModelError> {
        let mut file = Cursor::new(bytes.as_ref());
        let content = Content::read(&mut file).map_err(|error| self.failed(error))?;
        architectures::gguf(content, &mut file, &self.device).map_err(|fault| self.failed(fault))
    }

    fn failed(&self, error: impl Into<BoxError>) -> ModelError {
        ModelError::Backend { backend: self.to_string(), source: error.into() }
    }
}

impl Backend for Candle {
    fn model(&self, files: ModelFiles<'_>) -> Result<Arc<dyn LanguageModel>, ModelError> {
        match files.gguf()? {
            Some(bytes) => self.gguf(&bytes),
            None => self.folder(files),
        }
    }
}

impl fmt::Display for Candle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "candle on {}", self.name)
    }
}

/// The reason why the device is missing.
fn without(kind: &str, error: &candle_core::Error) -> String {
    let missing = match kind {
        "cuda" if !candle_core::utils::cuda_is_available() => Some("CUDA (feature `candle-cuda`)"),
        "metal" if !candle_core::utils::metal_is_available() => Some("Metal (feature `candle-metal`)"),
        _ => None,
    };
    // candle may append a backtrace to its message.
    let error = error.to_string();
    let error = match error.lines().next().unwrap_or_default() {
        error if error.contains("CUDA_ERROR_STUB_LIBRARY") => "there is no NVIDIA driver",
        error => error,
    };
    match missing {
        Some(missing) => format!("this program was built without candle's {missing}"),
        None => format!("no usable GPU ({error}); check that its driver is installed, or choose cpu"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_are_understood_or_refused() {
        assert_eq!(Candle::new("cpu").unwrap().to_string(), "candle on cpu");
        for name in ["", "gpu", "cpu:1", "cuda:x", "metal:-1", "CPU"] {
            let fault = Candle::new(name).unwrap_err().to_string();
            assert!(fault.contains("a device is cpu, cuda"), "{name}: {fault}");
        }
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_program_without_cuda_says_so() {
        let fault = Candle::new("cuda:1").unwrap_err().to_string();
        assert!(fault.contains("built without candle's CUDA"), "{fault}");
    }
}
