//! Whether there is a GPU, and whether this program can use it.

use std::fs;

use serde::Serialize;

use crate::doctor::finding::Finding;

#[derive(Serialize)]
pub(super) struct Gpus {
    /// Whether the program was built with CUDA.
    built: bool,
    /// Whether `--device cuda` can be used.
    usable: bool,
    /// The reason why it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
    /// The names of the GPUs that the NVIDIA driver lists.
    names: Vec<String>,
    /// The GPUs that this program sees.
    gpus: Vec<Gpu>,
}

#[derive(Serialize)]
struct Gpu {
    /// As in `--device cuda:1`.
    number: usize,
    name: String,
    compute_capability: String,
    memory_bytes: u64,
    free_bytes: u64,
    /// By its clock and its width.
    bytes_per_second: u64,
    /// Of a text by a model of eight billion weights in bf16.
    tokens_per_second_of_8b: u64,
}

impl Gpu {
    fn about(&self) -> String {
        let Self { number, name, memory_bytes, free_bytes, bytes_per_second, tokens_per_second_of_8b, .. } = self;
        let gib = |bytes: &u64| *bytes as f64 / f64::from(1 << 30);
        format!(
            "cuda:{number} is {name}, {:.0} of {:.0} GiB free, {:.1} TB/s: an 8B model in bf16 writes about \
             {tokens_per_second_of_8b} tokens/s",
            gib(free_bytes),
            gib(memory_bytes),
            *bytes_per_second as f64 / 1e12,
        )
    }
}

/// The GPUs that this program sees.
#[cfg(feature = "cuda")]
fn gpus() -> Vec<Gpu> {
    let gpu = |about: verdigris::models::AboutGpu| Gpu {
        number: about.number,
        name: about.name,
        compute_capability: format!("{}.{}", about.capability.0, about.capability.1),
        memory_bytes: about.total,
        free_bytes: about.free,
        bytes_per_second: about.bandwidth,
        // A text reads all weights for each token, with half of the bandwidth (docs/gpu.md).
        tokens_per_second_of_8b: about.bandwidth / 2 / 16_060_000_000,
    };
    verdigris::models::gpus().into_iter().map(gpu).collect()
}

#[cfg(not(feature = "cuda"))]
fn gpus() -> Vec<Gpu> {
    Vec::new()
}

impl Gpus {
    pub(super) fn of_this_machine() -> Self {
        let fault = verdigris::device("cuda").err().map(|error| error.to_string());
        Self { built: cfg!(feature = "cuda"), usable: fault.is_none(), fault, names: names(), gpus: gpus() }
    }

    pub(super) fn finding(&self) -> Finding {
        let listed = match &self.names[..] {
            [] => "none listed by an NVIDIA driver".into(),
            names => names.join(", "),
        };
        match (self.built, self.usable, self.names.is_empty()) {
            (true, true, _) => {
                let about: Vec<String> = self.gpus.iter().map(Gpu::about).collect();
                Finding::fine("GPU", about.join("; "))
            }
            (true, false, true) if self.fault.as_ref().is_none_or(|fault| fault.contains("no NVIDIA driver")) => {
                Finding::fine("GPU", format!("{listed}; this program could use one"))
            }
            (true, false, _) => {
                let fault = self.fault.as_deref().unwrap_or_default();
                Finding::better("GPU", format!("{listed}, but it cannot be used: {fault}"), "nvidia-smi")
            }
            (false, _, true) => Finding::fine("GPU", format!("{listed}; this program was built without CUDA")),
            (false, _, false) => Finding::better(
                "GPU",
                format!("{listed}, but this program was built without CUDA"),
                "cargo install --path cli --features cuda",
            ),
        }
    }
}

/// The names of the GPUs that the NVIDIA driver for Linux lists.
fn names() -> Vec<String> {
    let Ok(gpus) = fs::read_dir("/proc/driver/nvidia/gpus") else { return Vec::new() };
    let name = |gpu: fs::DirEntry| {
        let about = fs::read_to_string(gpu.path().join("information")).ok()?;
        about.lines().find_map(|line| line.strip_prefix("Model:")).map(|name| name.trim().to_owned())
    };
    gpus.filter_map(|gpu| name(gpu.ok()?)).collect()
}
