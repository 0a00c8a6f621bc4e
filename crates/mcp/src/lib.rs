#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod detector;
mod handler;
mod tools;
mod transport;

pub use detector::Detector;
pub use transport::{Http, McpError, serve_http, serve_stdio};
