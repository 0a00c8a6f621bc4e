//! `verdigris convert`: writes a model in fewer bits, or makes one from a training checkpoint.

mod checkpoint;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use verdigris::models::Format;

use crate::choice::{Choice, OneOf};
use crate::convert::checkpoint::CheckpointOptions;
use crate::error::Failure;
use crate::model::find;
use crate::output::OutputFile;
use crate::progress;
use crate::report::print_json;

/// Write a model as a GGUF file in fewer bits, or make one from a training checkpoint
#[derive(Args)]
#[command(after_help = "\
Examples:
  verdigris convert tale --out tale.gguf
  verdigris convert Qwen/Qwen2.5-0.5B-Instruct --out qwen.gguf --format q4_k
  verdigris generate \"The captain\" --model tale.gguf
  verdigris convert qwen.gguf --out qwen-bf16.gguf --format bf16
  verdigris convert checkpoint-500 --out model
  verdigris convert step-1000 --from dcp --like base --dtype bf16 --out model

A checkpoint of DeepSpeed or torch.distributed becomes a model folder, which can then be converted.")]
pub(crate) struct Convert {
    /// A model folder, a model on the Hugging Face hub, a GGUF file (whose weights are rounded again), or a folder with
    /// a checkpoint of DeepSpeed or torch.distributed
    #[arg(value_name = "PATH|NAME")]
    model: PathBuf,
    /// The file to write, or the folder to write a checkpoint to
    #[arg(short, long, value_name = "PATH")]
    out: PathBuf,
    /// The format of the weights; rows that do not divide into blocks of 256 are stored in blocks of 32, or else in
    /// f16. With 4 bits or fewer, the embedding and the output have 6 [default: q8_0]
    #[arg(long, value_parser = OneOf(FORMATS))]
    format: Option<Format>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Print what was written as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Checkpoints")]
    checkpoint: CheckpointOptions,
}

/// The formats of weights in GGUF files.
const FORMATS: &[Choice<Format>] = &[
    ("q8_0", Format::Q8_0, "8 bits and a scale for 32 weights"),
    ("q4_k", Format::Q4K, "4 bits, with scales and offsets for 32 and for 256 weights"),
    ("q5_k", Format::Q5K, "5 bits, likewise"),
    ("q6_k", Format::Q6K, "6 bits, with scales for 16 and for 256 weights"),
    ("q4_0", Format::Q4_0, "4 bits and a scale for 32 weights"),
    (
        "iq4_nl",
        Format::Iq4Nl,
        "4-bit indices into a table of values that are denser near zero, and a scale for 32 weights",
    ),
    ("iq4_xs", Format::Iq4Xs, "4 bits, likewise, with scales for 32 and for 256 weights"),
    ("mxfp4", Format::Mxfp4, "4-bit floating point, and a power of two for 32 weights"),
    ("bf16", Format::Bf16, ""),
    ("f16", Format::F16, ""),
    ("f32", Format::F32, ""),
];

#[derive(Serialize)]
struct Output {
    #[serde(serialize_with = "crate::report::lossy")]
    file: PathBuf,
    bytes: u64,
    bits_a_weight: f64,
    /// The number of weights in each format.
    weights: serde_json::Map<String, serde_json::Value>,
}

impl Convert {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if let Some(kind) = self.checkpoint.kind(&self.model) {
            let refused = match (self.format, self.force) {
                (Some(_), _) => {
                    "--format is for GGUF files: a checkpoint becomes a folder (--dtype), which can be converted"
                }
                (None, true) => {
                    "--force replaces files, but a checkpoint becomes a folder: give another name, or remove the folder"
                }
                (None, false) => return self.checkpoint.convert(&self.model, kind, &self.out, self.json),
            };
            return Err(Failure::Usage(refused.into()));
        }
        if let Some(option) = self.checkpoint.given() {
            let message = format!("{option} is for checkpoints, but there is none at {}", self.model.display());
            return Err(Failure::Usage(message));
        }
        // All files of a folder may be read.
        let mut inputs = vec![self.model.clone()];
        inputs.extend(std::fs::read_dir(&self.model).into_iter().flatten().flatten().map(|entry| entry.path()));
        let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
        let path = OutputFile::new(&self.out, self.force, &inputs)?.into_path()?;
        let format = self.format.unwrap_or(Format::Q8_0);
        let bar = progress::of_conversion();
        let converted = find(&self.model)?.convert(&path, format, self.force, |done, of| {
            bar.set_length(of);
            bar.set_position(done);
        })?;
        bar.finish_and_clear();
        let all: u64 = converted.weights.iter().map(|(_, count)| count).sum();
        let output = Output {
            bytes: converted.bytes,
            bits_a_weight: converted.bytes as f64 * 8.0 / all as f64,
            weights: converted.weights.iter().map(|(f, count)| (format!("{f:?}"), (*count).into())).collect(),
            file: self.out,
        };
        if self.json {
            return print_json(&output);
        }
        let mut out = anstream::stdout();
        let parts: Vec<String> = output.weights.iter().map(|(format, count)| format!("{count} as {format}")).collect();
        writeln!(out, "{}", output.file.display())?;
        writeln!(out, "  {:.1} MB, {:.2} bits a weight", output.bytes as f64 / 1e6, output.bits_a_weight)?;
        writeln!(out, "  weights: {}", parts.join(", "))?;
        Ok(ExitCode::SUCCESS)
    }
}
