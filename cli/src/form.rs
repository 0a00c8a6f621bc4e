//! What a text must look like, as options.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use verdigris::Request;

use crate::error::Failure;

/// What the text must look like.
#[derive(Args)]
#[group(multiple = false)]
pub(crate) struct FormOptions {
    /// Write a text that matches this regular expression as a whole
    #[arg(long, value_name = "PATTERN")]
    regex: Option<String>,
    /// Write one of these texts
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    choice: Option<Vec<String>>,
    /// Write JSON that obeys this JSON Schema
    #[arg(long, value_name = "FILE")]
    json_schema: Option<PathBuf>,
}

/// No schema is longer than this.
const MAX_SCHEMA: u64 = 16 << 20;

impl FormOptions {
    pub(crate) fn apply<'a>(&self, request: Request<'a>) -> Result<Request<'a>, Failure> {
        Ok(if let Some(pattern) = &self.regex {
            request.regex(pattern)
        } else if let Some(texts) = &self.choice {
            request.choice(texts)
        } else if let Some(path) = &self.json_schema {
            request.json_schema(read_schema(path)?)
        } else {
            request
        })
    }
}

fn read_schema(path: &Path) -> Result<serde_json::Value, Failure> {
    let open = |source| Failure::Open { path: path.into(), source };
    let file = File::open(path).map_err(open)?;
    let mut json = Vec::new();
    file.take(MAX_SCHEMA + 1).read_to_end(&mut json).map_err(open)?;
    if json.len() as u64 > MAX_SCHEMA {
        return Err(Failure::Usage(format!("{}: a schema of more than {MAX_SCHEMA} bytes", path.display())));
    }
    serde_json::from_slice(&json).map_err(|error| Failure::Usage(format!("{} is not JSON: {error}", path.display())))
}
