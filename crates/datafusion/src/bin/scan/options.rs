//! What `verdigris-scan` is asked.

use std::path::PathBuf;

use clap::Parser;
use verdigris_detector::Level;

/// Judge the texts of a lake: Parquet, JSON lines and CSV, as many files as there are
#[derive(Parser)]
#[command(
    name = "verdigris-scan",
    version,
    term_width = 100,
    after_help = "\
Exit status: 0 when all was read and judged, 2 where something could not be.

A file's name says what is in it: .parquet; .jsonl, .ndjson and .json hold a JSON object on each line; .csv and .tsv
have a line of names. All but Parquet may be compressed: .gz, .bz2, .xz, .zst. Folders are read with all below them.

Without --sql each document gets the columns of its verdict, behind those that it has. With --output they go to a
folder of Parquet files, as Spark and others write them. A scan that was stopped goes on where it was when the same
command is given again.

With --sql the table `documents` has all documents and the column `file`. Functions: verdigris_p(text, key_id),
verdigris_detect(text, key_id) and the aggregate verdigris_combine(text, key_id). Keys are named by their ids.

Examples:
  verdigris-scan lake/ --key my.key --output judged.parquet
  verdigris-scan 'lake/2026-*.jsonl.zst' --key my.key --json | head
  verdigris-scan lake/ --ring keys/ --sql \"SELECT author,
      verdigris_combine(text, 'my')['p'] AS p FROM documents GROUP BY author\""
)]
pub(crate) struct Options {
    /// Files, folders and patterns such as 'lake/*.parquet'; with the feature s3 also s3://bucket/folder/
    #[arg(value_name = "INPUT", required = true)]
    pub(crate) inputs: Vec<String>,
    /// The key to look for; give it again for more keys
    #[arg(short, long, value_name = "FILE", required_unless_present = "ring")]
    pub(crate) key: Vec<PathBuf>,
    /// A folder of keys (files that end in .key or .json), all of which are looked for
    #[arg(long, value_name = "DIR")]
    pub(crate) ring: Option<PathBuf>,
    /// The tokenizer.json of the model that the keys are for, or its folder; several with --sql [default: that of tale]
    #[arg(long, value_name = "PATH")]
    pub(crate) tokenizer: Vec<PathBuf>,
    /// The column that holds the texts
    #[arg(long, alias = "column", value_name = "NAME", default_value = "text", conflicts_with = "sql")]
    pub(crate) text_column: String,
    /// Ask this of the table `documents`, instead of a verdict for each document
    #[arg(long, value_name = "QUERY")]
    pub(crate) sql: Option<String>,
    /// Write Parquet: a folder of parts, or with --sql one file
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON: an object a row, or with --output one that sums up
    #[arg(long)]
    pub(crate) json: bool,
    /// Of the documents called marked, let at most this share be so by chance (Benjamini and Hochberg)
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, conflicts_with = "sql")]
    pub(crate) fdr: f64,
    /// The p-value at which the columns `marked` and `verdict` call a single document marked
    #[arg(long, value_name = "P", default_value_t)]
    pub(crate) level: Level,
    /// Let --output replace a file that is there
    #[arg(long, requires = "sql")]
    pub(crate) force: bool,
    /// Compute on so many threads, 1 to 1024 [default: one for each core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Say nothing but what is asked for: no progress, no summary
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
