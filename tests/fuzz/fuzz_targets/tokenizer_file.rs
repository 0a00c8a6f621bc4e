#![no_main]

#[path = "../../src/fuzz.rs"]
#[allow(dead_code, reason = "each target runs one of them")]
mod bodies;

libfuzzer_sys::fuzz_target!(
    // A panic in the tokenizers library is caught and becomes an error, so the hook must not end the run; uncaught
    // panics still do.
    init: drop(std::panic::take_hook()),
    |data: &[u8]| {
        _ = bodies::tokenizer_file(data);
    }
);
