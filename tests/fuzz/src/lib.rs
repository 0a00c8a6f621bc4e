//! What the fuzz targets share.

#[path = "../../src/fuzz.rs"]
pub mod bodies;

/// The target that runs the function of [`bodies`] with this name. After `catching`, a panic in a library is caught by
/// that function and becomes an error.
#[macro_export]
macro_rules! target {
    ($body:ident) => {
        libfuzzer_sys::fuzz_target!(|data: &[u8]| {
            $crate::bodies::$body(data);
        });
    };
    (catching $body:ident) => {
        libfuzzer_sys::fuzz_target!(
            // The hook must not end the run at a panic that is caught; those that are not still end it.
            init: drop(std::panic::take_hook()),
            |data: &[u8]| {
                $crate::bodies::$body(data);
            }
        );
    };
}
