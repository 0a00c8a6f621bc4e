//! Names that do not occur in checkpoints. They would do no harm here, since nothing is called; but an error warns the
//! user not to load the file elsewhere.

/// Modules of Python that act on the system or run code.
const MODULES: [&str; 13] = [
    "ctypes",
    "importlib",
    "marshal",
    "nt",
    "os",
    "pdb",
    "posix",
    "pty",
    "runpy",
    "shutil",
    "socket",
    "subprocess",
    "sys",
];

/// Functions that do so in modules that are otherwise harmless.
const FUNCTIONS: [(&str, &str); 13] = [
    ("builtins", "__import__"),
    ("builtins", "breakpoint"),
    ("builtins", "compile"),
    ("builtins", "eval"),
    ("builtins", "exec"),
    ("builtins", "globals"),
    ("builtins", "input"),
    ("builtins", "open"),
    ("pickle", "loads"),
    ("torch", "load"),
    ("torch.hub", "load"),
    ("types", "CodeType"),
    ("types", "FunctionType"),
];

/// Whether a name is one of them.
pub(super) fn is_refused(module: &str, name: &str) -> bool {
    // The module's name in Python 2, which Python 3 translates.
    let module = if module == "__builtin__" { "builtins" } else { module };
    let package = module.split('.').next().unwrap_or_default();
    // `os` may also be reached through another module's name for it (`torch.serialization`, `os.system`).
    let is_below = name.split('.').any(|part| MODULES.contains(&part)) && name.contains('.');
    MODULES.contains(&package) || FUNCTIONS.contains(&(module, name)) || is_below
}
