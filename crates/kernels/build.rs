//! Sets `cfg(amx)` where AMX may exist, and compiles the kernels in `cuda/`: with `nvcc` for GPUs, with a C++ compiler
//! for their emulation.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(amx)");
    let target = |what: &str| std::env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    // Permission to use AMX is requested by a Linux system call; Miri runs no inline assembly.
    if target("ARCH") == "x86_64" && target("OS") == "linux" && std::env::var_os("CARGO_CFG_MIRI").is_none() {
        println!("cargo:rustc-cfg=amx");
    }
    #[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
    println!("cargo:rerun-if-changed=cuda");
    #[cfg(feature = "cuda")]
    for_gpus();
    #[cfg(feature = "emulated-cuda")]
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .define("VERDIGRIS_EMULATED", None)
        .flag("-xc++")
        .flag("-Wno-unknown-pragmas")
        // A debug build would be unusably slow.
        .opt_level(2)
        .files(["cuda/emulator.cpp", "cuda/kernels.cu"])
        // Kernels register themselves, so nothing refers to them by name.
        .link_lib_modifier("+whole-archive")
        .compile("verdigris_emulator");
}

/// Compiles to intermediate code for every GPU since compute capability 8.0, which the driver compiles when the program
/// first starts; to machine code for 9.0, which has instructions of its own; and to machine code for
/// `CUDA_COMPUTE_CAP`, if set, which needs no such compilation.
#[cfg(feature = "cuda")]
fn for_gpus() {
    use std::env;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    println!("cargo:rerun-if-env-changed=CUDA_COMPUTE_CAP");
    println!("cargo:rerun-if-env-changed=CUDA_HOME");
    println!("cargo:rerun-if-env-changed=NVCC");
    let nvcc = env::var_os("NVCC").map(PathBuf::from).or_else(|| {
        let home = env::var_os("CUDA_HOME").or_else(|| env::var_os("CUDA_PATH"));
        home.map(|home| Path::new(&home).join("bin/nvcc"))
    });
    let nvcc = nvcc.unwrap_or_else(|| "nvcc".into());
    let out = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join("kernels.fatbin");
    let mut command = Command::new(&nvcc);
    command.args(["-std=c++17", "-fatbin", "--threads=0", "cuda/kernels.cu", "-o"]);
    command.arg(&out);
    command.args(["-gencode=arch=compute_80,code=compute_80", "-gencode=arch=compute_90a,code=sm_90a"]);
    if let Some(cap) = env::var("CUDA_COMPUTE_CAP").ok().filter(|cap| cap != "90") {
        command.arg(format!("-gencode=arch=compute_{cap},code=sm_{cap}"));
    }
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{} ended with {status}", nvcc.display()),
        Err(error) => panic!(
            "{}: {error}\nThe feature `cuda` needs NVIDIA's compiler: put it on the PATH, or set CUDA_HOME \
             (docs/building-for-cuda.md)",
            nvcc.display()
        ),
    }
}
