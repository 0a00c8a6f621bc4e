//! The maximum sizes of texts and manifests.

/// The maximum size of a text that is signed or judged, in bytes.
pub use verdigris_detector::MAX_TEXT;
/// The maximum size of a manifest store, in bytes. As invisible characters each takes up to four.
pub const MAX_MANIFEST: usize = 4 << 20;
