//! The inner loops of a decoder on a CPU. The only crate of the workspace with `unsafe`.
//!
//! Every kernel gives each row of its result the same bits whatever the number of rows computed beside it and
//! whatever the number of threads, and the same bits on every CPU: a sum runs over 16 lanes in a fixed order,
//! with fused multiply-add, and the lanes are added in a fixed order at the end. So a model that verifies five
//! drafted tokens at once computes exactly what it computes one token at a time.
//!
//! | module | holds |
//! |---|---|
//! | [`linear`] | `x * w^T` for few rows |
//! | [`attention`] | attention over a cache of keys and values |
//! | `dispatch` | one body of code, compiled for each kind of CPU |
#![deny(unsafe_op_in_unsafe_fn)]

pub mod attention;
mod dispatch;
pub mod linear;

pub use attention::{Heads, attend};
pub use linear::linear;

/// The width of every sum.
const LANES: usize = 16;

/// Adds `a * b` to the lanes of a sum; the rest past a multiple of [`LANES`] goes to the first lanes.
#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for i in 0..LANES {
            lanes[i] = a[i].mul_add(b[i], lanes[i]);
        }
    }
    for (i, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        lanes[i] = a.mul_add(*b, lanes[i]);
    }
    reduce(lanes)
}

/// Adds the lanes of a sum, halving their number four times.
#[inline(always)]
fn reduce(lanes: [f32; LANES]) -> f32 {
    let mut sum = lanes;
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            sum[i] += sum[i + half];
        }
        half /= 2;
    }
    sum[0]
}
