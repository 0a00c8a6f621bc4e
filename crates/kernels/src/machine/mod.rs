//! What this machine has that kernels run on, and how fast its memory is.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@units`] | the processor's name, and which of its SIMD units kernels use |
//! | [`bandwidth`] | how fast the threads of the kernels read memory |

pub mod bandwidth;
pub mod units;

pub use bandwidth::{Bandwidth, read_bandwidth};
pub use units::{Unit, UnitState, processor, units};
