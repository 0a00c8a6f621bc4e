#![no_main]

#[path = "../../src/fuzz.rs"]
#[allow(dead_code, reason = "each target runs one of them")]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bodies::server(data);
});
