//! The choice between the decoders of this project and candle, which has further architectures.

use verdigris_models::{Device, LoadedModel, ModelError, ModelFolder};

/// The device with this name: `cpu`, `cuda` (the GPU with the most free memory) or `cuda:1`. If our own kernels do not
/// run on it and the program was built with `candle-cuda`, the device is candle's, whose `cuda` is the first GPU. With
/// `candle-metal` there are `metal` and `metal:1`.
///
/// # Errors
/// Those of [`device`](fn@verdigris_models::device).
pub fn device(name: &str) -> Result<Device, ModelError> {
    let own = verdigris_models::device(name);
    #[cfg(any(feature = "candle-cuda", feature = "candle-metal"))]
    if own.is_err() {
        match verdigris_candle::Candle::new(name) {
            Ok(candle) => return Ok(Device::Backend(std::sync::Arc::new(candle))),
            // Without our own CUDA kernels, candle's error is the informative one.
            Err(fault) if cfg!(not(feature = "cuda")) => return Err(fault),
            Err(_) => {}
        }
    }
    own
}

/// Loads a model for a device. If the decoders lack its architecture, candle computes it on the same kind of device.
///
/// # Errors
/// Those of [`ModelFolder::load`].
pub(crate) fn load(folder: &ModelFolder, device: &Device) -> Result<LoadedModel, ModelError> {
    match folder.load(device) {
        Err(ModelError::Architecture { path, model_type, known })
            if !matches!(device, Device::Backend(_) | Device::Ranks(_)) =>
        {
            beside(folder, device, &model_type)
                .unwrap_or_else(|more| Err(ModelError::Architecture { path, model_type, known: known + &more }))
        }
        loaded => loaded,
    }
}

/// Loads a model with candle. If candle cannot compute it, returns a further part for the list of supported types.
#[cfg(feature = "candle")]
fn beside(folder: &ModelFolder, device: &Device, model_type: &str) -> Result<Result<LoadedModel, ModelError>, String> {
    if !verdigris_candle::has(model_type) {
        return Err(format!("; and by candle {}", verdigris_candle::model_types()));
    }
    let name = match device {
        #[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
        Device::Gpu(gpu) => format!("cuda:{}", gpu.number()),
        _ => "cpu".to_owned(),
    };
    let candle = verdigris_candle::Candle::new(&name);
    Ok(candle.and_then(|candle| folder.load(&Device::Backend(std::sync::Arc::new(candle)))))
}

#[cfg(not(feature = "candle"))]
fn beside(_: &ModelFolder, _: &Device, model_type: &str) -> Result<Result<LoadedModel, ModelError>, String> {
    match OF_CANDLE.contains(&model_type) {
        true => Err("; this one is supported with the feature `candle`".into()),
        false => Err(String::new()),
    }
}

/// The model types that candle supports and the decoders of this project do not.
#[cfg(any(test, not(feature = "candle")))]
const OF_CANDLE: [&str; 3] = ["mamba", "phi", "t5"];

#[cfg(all(test, feature = "candle"))]
mod tests {
    use super::*;

    /// The list equals candle's without our own types.
    #[test]
    fn what_candle_has_is_known_without_it() {
        let others = verdigris_candle::model_types();
        let ours = [
            "falcon",
            "gemma",
            "glm4",
            "llama",
            "mixtral",
            "phi3",
            "qwen2",
            "qwen2_moe",
            "qwen3",
            "qwen3_moe",
            "starcoder2",
        ];
        let others: Vec<&str> = others.split(", ").filter(|name| !ours.contains(name)).collect();
        assert_eq!(others, OF_CANDLE);
    }
}
