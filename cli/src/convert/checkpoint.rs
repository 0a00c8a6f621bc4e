//! Converts a checkpoint of a sharded training to a model folder.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use verdigris::models::whole_file::Beginning;
use verdigris_checkpoint::{Checkpoint, Dtype, Kind, ModelFiles, ModelFolder};

use crate::choice::{Choice, OneOf};
use crate::error::Failure;
use crate::progress;
use crate::report::print_json;

#[derive(Args)]
pub(super) struct CheckpointOptions {
    /// The kind of checkpoint [default: detected from its files]
    #[arg(long, value_name = "KIND", value_parser = OneOf(KINDS))]
    from: Option<Kind>,
    /// Take the configuration and the tokenizer from this model folder [default: from next to the checkpoint]
    #[arg(long, value_name = "FOLDER")]
    like: Option<PathBuf>,
    /// Store all weights in this type [default: that of the checkpoint; for zero: f32]
    #[arg(long, value_name = "TYPE", value_parser = OneOf(DTYPES))]
    dtype: Option<Dtype>,
}

const KINDS: &[Choice<Kind>] = &[
    ("zero", Kind::Zero, "DeepSpeed with ZeRO 1, 2 or 3: global_stepN"),
    ("dcp", Kind::Dcp, "torch.distributed.checkpoint, as of FSDP 2: .metadata"),
];

const DTYPES: &[Choice<Dtype>] = &[("f32", Dtype::F32, ""), ("bf16", Dtype::BF16, ""), ("f16", Dtype::F16, "")];

#[derive(Serialize)]
struct Output<'a> {
    folder: &'a Path,
    checkpoint: &'a str,
    files: usize,
    bytes: u64,
    /// The number of weights of each type.
    weights: serde_json::Map<String, serde_json::Value>,
}

impl CheckpointOptions {
    /// The kind of the checkpoint in a folder: that of `--from`, or else as detected from its files.
    pub(super) fn kind(&self, folder: &Path) -> Option<Kind> {
        self.from.or_else(|| Checkpoint::recognise(folder))
    }

    /// An option that was given and applies to checkpoints only.
    pub(super) fn given(&self) -> Option<&'static str> {
        self.like.as_ref().map(|_| "--like").or(self.dtype.map(|_| "--dtype"))
    }

    pub(super) fn convert(&self, folder: &Path, kind: Kind, out: &Path, json: bool) -> Result<ExitCode, Failure> {
        let checkpoint = Checkpoint::open(folder, Some(kind))?;
        let files = match &self.like {
            Some(like) => ModelFiles::of(like),
            None => ModelFiles::beside(&checkpoint),
        };
        let files = files.map_err(|fault| match fault {
            verdigris_checkpoint::CheckpointError::NoModelFile { file, looked } => Failure::Usage(format!(
                "there is no {file} in {looked}: give a folder of the trained model with --like"
            )),
            fault => fault.into(),
        })?;
        let mut model = ModelFolder::new(&checkpoint, &files);
        if let Some(dtype) = self.dtype {
            model = model.stored_as(dtype);
        }
        let bar = progress::of_conversion();
        let beginning = Beginning::new();
        let written = model.write(
            out,
            |folder| beginning.begun(folder),
            |done, of| {
                bar.set_length(of);
                bar.set_position(done);
            },
        )?;
        bar.finish_and_clear();
        let output = Output {
            folder: out,
            checkpoint: checkpoint.description(),
            files: written.files,
            bytes: written.bytes,
            weights: written.numbers.iter().map(|(dtype, count)| (dtype.to_string(), (*count).into())).collect(),
        };
        if json {
            return print_json(&output);
        }
        let mut to = anstream::stdout();
        let parts: Vec<String> = output.weights.iter().map(|(dtype, count)| format!("{count} as {dtype}")).collect();
        writeln!(to, "{}", out.display())?;
        writeln!(to, "  {:.1} MB from {}", output.bytes as f64 / 1e6, output.checkpoint)?;
        writeln!(to, "  weights: {}", parts.join(", "))?;
        Ok(ExitCode::SUCCESS)
    }
}
