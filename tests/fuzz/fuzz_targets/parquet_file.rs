#![no_main]

#[path = "../../src/fuzz.rs"]
#[allow(dead_code, reason = "each target runs one of them")]
mod bodies;

libfuzzer_sys::fuzz_target!(
    // A panic of the library that reads Parquet is caught and becomes an error; one that nobody catches ends the run.
    init: drop(std::panic::take_hook()),
    |data: &[u8]| {
        bodies::parquet_file(data);
    }
);
