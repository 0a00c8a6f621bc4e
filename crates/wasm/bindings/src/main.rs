//! `verdigris-wasm-bindings MODULE FOLDER`: generates the JavaScript for a compiled module, like the command
//! `wasm-bindgen` with `--target no-modules`. That command must have the version that the module was compiled with;
//! here the lock file ensures that.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [module, folder] = &arguments[..] else {
        eprintln!("usage: verdigris-wasm-bindings MODULE FOLDER");
        return ExitCode::from(2);
    };
    let mut bindings = Bindgen::new();
    bindings.input_path(module).out_name("verdigris").typescript(false);
    bindings.remove_name_section(true).remove_producers_section(true);
    match bindings.no_modules(true).and_then(|bindings| bindings.generate(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{module}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
