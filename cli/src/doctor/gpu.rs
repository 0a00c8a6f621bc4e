//! Whether there is a GPU, and whether this program can use it.

use std::fs;

use serde::Serialize;

use crate::doctor::finding::Finding;

#[derive(Serialize)]
pub(super) struct Gpus {
    /// Whether the program was built with CUDA.
    built: bool,
    /// Whether the first GPU can be used.
    usable: bool,
    /// The reason why it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
    /// The names of the GPUs that the NVIDIA driver lists.
    names: Vec<String>,
}

impl Gpus {
    pub(super) fn of_this_machine() -> Self {
        let fault = verdigris::device("cuda").err().map(|error| error.to_string());
        Self { built: cfg!(feature = "cuda"), usable: fault.is_none(), fault, names: names() }
    }

    pub(super) fn finding(&self) -> Finding {
        let listed = match &self.names[..] {
            [] => "none listed by an NVIDIA driver".into(),
            names => names.join(", "),
        };
        match (self.built, self.usable, self.names.is_empty()) {
            (true, true, _) => Finding::fine("GPU", format!("{listed}: --device cuda")),
            (true, false, true) => Finding::fine("GPU", format!("{listed}; this program could use one")),
            (true, false, false) => {
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
