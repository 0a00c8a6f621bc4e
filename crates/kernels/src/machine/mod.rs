//! The hardware that kernels run on: SIMD units and memory bandwidth.
//!
//! | module | contents |
//! |---|---|
//! | [`mod@units`] | the processor's name, and the SIMD units that kernels use |
//! | [`bandwidth`] | the rate at which the kernel threads read memory |

pub mod bandwidth;
pub mod units;

pub use bandwidth::{Bandwidth, read_bandwidth};
pub use units::{Unit, UnitState, processor, units};
