//! SQL queries of the table of all documents.

use std::io::{Write, stdout};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::prelude::SessionContext;
use futures_util::{StreamExt, TryStreamExt};
use indicatif::ProgressBar;
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use verdigris_datafusion::Keys;

use crate::documents::{Columns, Opened, documents};
use crate::error::Failure;
use crate::folder::parquet;
use crate::inputs::Input;
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
        let is_read = path.canonicalize().is_ok_and(|path| inputs.iter().any(|input| path == Path::new(&input.name)));
        if path.is_dir() || is_read || !options.force {
            let why =
                if path.is_dir() { "is a folder" } else { "exists already; --force replaces it if it is not an input" };
            return Err(Failure::Usage(format!("{} {why}", path.display())));
        }
    }
    verdigris_datafusion::register(context, &Arc::new(keys.judges(options.level)?));
    let mut files = Vec::with_capacity(inputs.len());
    for input in inputs {
        files.push(Opened::new(context, input).await?);
    }
    let columns = Columns::of(&files)?;
    context.register_table("documents", documents(context, &columns, &files)?.into_view())?;
    // Queries are read-only.
    let allowed = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    let answer = context.sql_with_options(sql, allowed).await?;
    let mut rows = answer.execute_stream().await?;
    let bar = progress(options.quiet, None);
    if let Some(path) = &options.output {
        block_in_place(|| write(path, rows, &bar))?;
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

/// Writes rows as one Parquet file, which appears when all are written.
fn write(path: &Path, mut rows: SendableRecordBatchStream, bar: &ProgressBar) -> Result<(), Failure> {
    let engine = Handle::current();
    parquet(path, rows.schema(), |writer| {
        while let Some(batch) = engine.block_on(rows.next()).transpose()? {
            writer.write(&batch).map_err(Failure::write_parquet(path))?;
            bar.inc(batch.num_rows() as u64);
        }
        Ok(())
    })
}
