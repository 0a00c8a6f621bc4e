//! The command-line options of `verdigris-scan`.

use std::path::PathBuf;

use clap::Parser;
use verdigris_detector::Level;

/// Judge the texts of a data lake: any number of Parquet, JSON lines and CSV files
#[derive(Parser)]
#[command(
    name = "verdigris-scan",
    version,
    term_width = 100,
    after_help = "\
Exit status: 0 if everything was read and judged, 2 if something could not be.

The format follows from the file name: .parquet; .jsonl, .ndjson and .json hold a JSON object on each line; .csv and
.tsv have a header line. All but Parquet may be compressed: .gz, .bz2, .xz, .zst. Folders are read recursively.

Without --sql the columns of the verdict are added to each document's own. With --output they are written to a folder
of Parquet files, as Spark and others write them. To resume a scan that was stopped, give the same command again.

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
    /// The key to look for; may be given again
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
    /// Run this query on the table `documents`, instead of judging each document
    #[arg(long, value_name = "QUERY")]
    pub(crate) sql: Option<String>,
    /// Write Parquet: a folder of parts, or with --sql one file
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON: one object per row, or with --output one summary
    #[arg(long)]
    pub(crate) json: bool,
    /// Largest expected share of false finds among the documents called marked (Benjamini and Hochberg)
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, conflicts_with = "sql")]
    pub(crate) fdr: f64,
    /// The p-value at which the columns `marked` and `verdict` call a single document marked
    #[arg(long, value_name = "P", default_value_t)]
    pub(crate) level: Level,
    /// Let --output replace an existing file
    #[arg(long, requires = "sql")]
    pub(crate) force: bool,
    /// Number of threads, 1 to 1024 [default: one for each core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Print only the requested output: no progress, no summary
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
