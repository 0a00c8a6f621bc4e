//! The decoder on a CPU: weights as they are stored, kernels on slices, and reused memory.

mod alternating;
mod attention;
mod both;
mod decoder;
mod feed_forward;
mod given;
mod latent;
mod pages;
mod pass;
mod peers;
mod per_head;
mod per_layer;
mod projection;
mod recurrent;
mod router;
mod sequence;
mod state;
mod stored;
mod work;

pub use decoder::CpuDecoder;
pub(crate) use given::{Given, give};
pub(crate) use peers::Peers;
pub(crate) use sequence::{forward, reserve};
pub(crate) use state::State;
pub(crate) use stored::STATES;
pub(crate) use work::{Beginning, CpuItem, Sight, Work};
