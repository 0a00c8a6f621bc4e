//! SQL queries of the table of all documents.

use std::io::{self, Write, stdout};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::prelude::SessionContext;
use futures_util::TryStreamExt;
use indicatif::ProgressBar;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use verdigris_datafusion::Keys;

use crate::documents::{Columns, Opened, documents};
use crate::error::Failure;
use crate::folder::parquet;
use crate::inputs::{CsvTypes, Input};
use crate::options::Options;
use crate::print::json;
use crate::progress::progress;

pub(crate) async fn query(
    options: &Options,
    sql: &str,
    context: &SessionContext,
    keys: Keys,
    inputs: Vec<Input>,
) -> Result<ExitCode, Failure> {
    if let Some(path) = options.output.as_deref().filter(|path| path.exists()) {
        let is_read = inputs.iter().any(|input| input.is_at(path));
        if path.is_dir() || is_read || !options.force {
            let why =
                if path.is_dir() { "is a folder" } else { "exists already; --force replaces it if it is not an input" };
            return Err(Failure::Usage(format!("{} {why}", path.display())));
        }
    }
    verdigris_datafusion::register(context, &Arc::new(keys.judges(options.level)?));
    let mut files = Vec::with_capacity(inputs.len());
    for input in inputs {
        files.push(Opened::new(context, input, CsvTypes::Inferred).await?);
    }
    if !options.quiet {
        files.iter().for_each(Opened::note);
    }
    let columns = Columns::of(&files)?;
    context.register_table("documents", documents(context, &columns, &files)?.into_view())?;
    // Queries are read-only.
    let allowed = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    let answer = context.sql_with_options(sql, allowed).await?;
    let mut rows = answer.execute_stream().await?;
    let bar = progress(options.quiet, None);
    if let Some(path) = &options.output {
        write(path, rows, &bar).await?;
        bar.finish_and_clear();
        return Ok(ExitCode::SUCCESS);
    }
    if options.json {
        let mut out = stdout();
        while let Some(batch) = rows.try_next().await? {
            bar.suspend(|| json(&mut out, &[batch]))?;
        }
    } else {
        let schema = rows.schema();
        let mut all: Vec<RecordBatch> = rows.try_collect().await?;
        if all.is_empty() {
            all.push(RecordBatch::new_empty(schema));
        }
        bar.finish_and_clear();
        writeln!(stdout(), "{}", pretty_format_batches(&all).map_err(DataFusionError::from)?)?;
    }
    bar.finish_and_clear();
    Ok(ExitCode::SUCCESS)
}

/// Writes rows as one Parquet file, which appears when all are written. If this is dropped, the file is removed.
async fn write(path: &Path, mut rows: SendableRecordBatchStream, bar: &ProgressBar) -> Result<(), Failure> {
    let (send, mut receive) = mpsc::channel::<Option<RecordBatch>>(1);
    let (path, schema) = (path.to_owned(), rows.schema());
    let written = spawn_blocking(move || {
        parquet(&path, schema, |writer| {
            loop {
                match receive.blocking_recv() {
                    Some(Some(batch)) => writer.write(&batch).map_err(Failure::write_parquet(&path))?,
                    Some(None) => return Ok(()),
                    None => return Err(Failure::Usage("the query was stopped".into())),
                }
            }
        })
    });
    while let Some(batch) = rows.try_next().await? {
        let count = batch.num_rows() as u64;
        // It ends early only if it failed, with the error below.
        if send.send(Some(batch)).await.is_err() {
            break;
        }
        bar.inc(count);
    }
    let _ = send.send(None).await;
    written.await.map_err(io::Error::other)?
}
