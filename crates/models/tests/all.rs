//! All suites but that of GPUs: one test binary, since each takes as long to build as all of them.

mod adapters;
mod architectures;
mod configurations;
mod convert;
mod decoder;
mod distributions;
mod draft_heads;
mod folder;
mod gguf;
mod gguf_architectures;
mod golden;
mod positions;
mod prompt_files;
mod ranks;
mod recurrent;
mod rewards;
mod sequences;
