//! Verdicts for all documents: parts are read, judged and written.

use std::cmp::Ordering;
use std::fs::{self, File};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Schema, SchemaRef, UInt64Type};
use datafusion::error::DataFusionError;
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::prelude::SessionContext;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use indicatif::ProgressBar;
use verdigris_datafusion::{Judge, Keys, check_text, text_bytes, verdict_fields, verdicts};
use verdigris_detector::Column;

use crate::documents::{Columns, Opened, documents};
use crate::error::{Failure, line};
use crate::folder::{Folder, parquet};
use crate::inputs::{CsvTypes, Input};
use crate::manifest::Manifest;
use crate::options::Options;
use crate::parts::{FilePart, parts};
use crate::print::Printer;
use crate::progress::progress;
use crate::tally::{Run, Summary, Tally, Unreadable};

/// The number of parts in progress: one is judged on all cores while another is read or written.
const AT_A_TIME: usize = 2;

/// The state shared by all parts.
struct Work {
    judge: Judge,
    folder: Option<Folder>,
    schema: SchemaRef,
    /// The indices of the column of texts and of the first column of the verdict, which follows the number of
    /// manifests.
    text: usize,
    verdict: usize,
    fdr: f64,
}

/// The result for a part.
struct Done {
    tally: Tally,
    bytes: u64,
    resumed: bool,
    /// The rows, if they are printed.
    rows: Vec<RecordBatch>,
}

pub(crate) async fn scan(
    options: &Options,
    context: &SessionContext,
    keys: Keys,
    inputs: Vec<Input>,
) -> Result<ExitCode, Failure> {
    let began = Instant::now();
    let manifest = Manifest::new(options, &keys, &inputs)?;
    let (files, unreadable) = open(context, inputs).await;
    let readable: Vec<Opened> = files.iter().map(|(_, file)| file.clone()).collect();
    if let (true, Some(first)) = (readable.is_empty(), unreadable.first()) {
        return Err(Failure::Usage(first.error.clone()));
    }
    if !options.quiet {
        readable.iter().for_each(Opened::note);
    }
    let columns = Columns::of(&readable)?;
    let text = find_text(&options.text_column, &columns, &readable)?;
    let schema = schema(context, &columns, &readable)?;
    let verdict = schema.fields().len() - verdict_fields().len();
    let judge = keys.judge(options.level)?;
    let folder = options.output.as_deref().map(|path| Folder::open(path, &manifest)).transpose()?;
    let printer = folder.is_none().then(|| Printer::new(options.json, &columns.file, verdict));
    let work = Arc::new(Work { judge, folder, schema, text, verdict, fdr: options.fdr });

    let bar = progress(options.quiet, readable.iter().map(|file| file.rows).sum());
    let (tally, at) = (Tally::default(), (String::new(), 0));
    let mut so_far = SoFar { bar, printer, tally, resumed: 0, bytes: 0, at, unreadable };
    let is_finished = |file| work.folder.as_ref().is_some_and(|folder| folder.is_finished(file));
    let (finished, todo): (Vec<_>, Vec<_>) = files.into_iter().partition(|&(file, _)| is_finished(file));
    for (file, _) in finished {
        let work = work.clone();
        so_far.before(blocking(move || work.before(file)).await?);
    }
    let mut jobs = jobs(context, &columns, &work, &todo).boxed_local();
    while let Some((file, done)) = jobs.try_next().await? {
        so_far.take(&file.input.name, done)?;
    }
    let summary = so_far.summary(options, began.elapsed());
    if let Some(folder) = &work.folder {
        folder.write_summary(&summary.json())?;
    }
    report(options, &summary)?;
    summary.unreadable.iter().for_each(|file| eprintln!("error: {}", file.error));
    Ok(ExitCode::from(if summary.unreadable.is_empty() { 0 } else { 2 }))
}

/// Returns the result for each part of each file, in order; if a file cannot be read to its end, the error is its last
/// result.
fn jobs<'a>(
    context: &'a SessionContext,
    columns: &'a Columns,
    work: &'a Arc<Work>,
    files: &'a [(usize, Opened)],
) -> impl Stream<Item = Result<(&'a Opened, datafusion::error::Result<Done>), Failure>> {
    let text = work.text;
    let opened =
        stream::iter(files).then(async move |(index, file)| (*index, file, rows(context, columns, file).await));
    let parts = opened.flat_map(move |(index, file, rows)| {
        let parts = match rows {
            Ok(rows) => parts(rows, move |batch| text_bytes(batch.column(text)).unwrap_or(0)).left_stream(),
            Err(fault) => stream::once(async { Err(fault) }).right_stream(),
        };
        parts.map(move |part| (index, file, part))
    });
    let done = parts.map(move |(index, file, part)| {
        let work = work.clone();
        async move {
            let done = match part {
                Ok(part) => Ok(blocking(move || work.part(index, part)).await?),
                Err(fault) => Err(fault),
            };
            Ok((file, done))
        }
    });
    done.boxed_local().buffered(AT_A_TIME)
}

/// The state of a run so far.
struct SoFar {
    bar: ProgressBar,
    printer: Option<Printer>,
    tally: Tally,
    resumed: u64,
    bytes: u64,
    /// The file that is being read, and the number of its documents so far.
    at: (String, u64),
    unreadable: Vec<Unreadable>,
}

impl SoFar {
    /// Adds a file that an earlier run finished.
    fn before(&mut self, tally: Tally) {
        self.resumed += tally.documents;
        self.bar.inc(tally.documents);
        self.tally.add(tally);
    }

    /// Adds a part of a file, or the error that cuts the file short.
    fn take(&mut self, file: &str, done: datafusion::error::Result<Done>) -> Result<(), Failure> {
        if self.at.0 != file {
            self.at = (file.to_owned(), 0);
        }
        match done {
            Ok(Done { tally, bytes, resumed, rows }) => {
                self.at.1 += tally.documents;
                self.resumed += if resumed { tally.documents } else { 0 };
                self.bytes += bytes;
                if let Some(printer) = &mut self.printer {
                    self.bar.suspend(|| printer.rows(&rows))?;
                }
                self.bar.inc(tally.documents);
                self.tally.add(tally);
            }
            Err(fault) => self.unreadable.push(cut_short(file, self.at.1, &fault)),
        }
        Ok(())
    }

    fn summary(self, options: &Options, took: Duration) -> Summary {
        self.bar.finish_and_clear();
        let run = Run { resumed: self.resumed, bytes: self.bytes, took, unreadable: self.unreadable };
        Summary::new(self.tally, options.fdr, options.level, run)
    }
}

/// Prints the summary, to standard output unless rows are printed there as JSON.
fn report(options: &Options, summary: &Summary) -> Result<(), Failure> {
    use std::io::Write;
    match (options.json, options.output.is_some()) {
        (true, true) => writeln!(std::io::stdout(), "{}", summary.json())?,
        _ if options.quiet => {}
        (true, false) => eprintln!("{}", summary.words()),
        (false, true) => writeln!(std::io::stdout(), "{}", summary.words())?,
        (false, false) => writeln!(std::io::stdout(), "\n{}", summary.words())?,
    }
    Ok(())
}

/// Opens the files. Returns those that can be opened, with their indices among all, and the others.
async fn open(context: &SessionContext, inputs: Vec<Input>) -> (Vec<(usize, Opened)>, Vec<Unreadable>) {
    let (mut files, mut unreadable) = (Vec::new(), Vec::new());
    for (index, input) in inputs.into_iter().enumerate() {
        let file = input.name.clone();
        match Opened::new(context, input, CsvTypes::Text).await {
            Ok(opened) => files.push((index, opened)),
            Err(error) => {
                let error = format!("{error}; it is skipped: repair it, and scan it into another folder");
                unreadable.push(Unreadable { file, documents: 0, error });
            }
        }
    }
    (files, unreadable)
}

fn cut_short(file: &str, documents: u64, fault: &DataFusionError) -> Unreadable {
    let error = format!(
        "{file} cannot be read beyond its first {documents} documents, which are judged: {}; repair it, and scan it \
         into another folder",
        line(fault)
    );
    Unreadable { file: file.to_owned(), documents, error }
}

/// Returns the index of the column of texts.
fn find_text(name: &str, columns: &Columns, files: &[Opened]) -> Result<usize, Failure> {
    for file in files {
        let Some(kind) = file.kind(name) else {
            let there: Vec<&str> = file.names().collect();
            return Err(Failure::Usage(format!(
                "{} has no column {name:?}: name one of its columns with --text-column ({})",
                file.input.name,
                there.join(", ")
            )));
        };
        check_text(kind, "a scan")
            .map_err(|error| Failure::Usage(format!("{}, column {name:?}: {error}", file.input.name)))?;
    }
    Ok(columns.names().position(|known| known == name).expect("every file has the column"))
}

/// Returns the rows of one file, in order.
async fn rows(
    context: &SessionContext,
    columns: &Columns,
    file: &Opened,
) -> datafusion::error::Result<datafusion::execution::SendableRecordBatchStream> {
    documents(context, columns, std::slice::from_ref(file))?.execute_stream().await
}

/// Returns the columns of the documents, the file, the number of manifests, and the verdict. A column of these whose
/// name is taken is prefixed with `verdigris_`.
fn schema(context: &SessionContext, columns: &Columns, files: &[Opened]) -> Result<SchemaRef, Failure> {
    let documents = documents(context, columns, files)?;
    let mut fields: Vec<FieldRef> = documents.schema().fields().iter().cloned().collect();
    let manifests = Arc::new(Field::new("manifests", DataType::UInt64, true));
    for field in std::iter::once(&manifests).chain(&verdict_fields()) {
        let taken = fields.iter().any(|known| known.name() == field.name());
        let name = if taken { format!("verdigris_{}", field.name()) } else { field.name().clone() };
        fields.push(Arc::new(Field::new(name, field.data_type().clone(), true)));
    }
    Ok(Arc::new(Schema::new(fields)))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

impl Work {
    /// Returns the totals of a file of which an earlier run wrote all parts.
    fn before(&self, file: usize) -> Result<Tally, Failure> {
        let mut tally = Tally::default();
        for (_, path) in self.folder.iter().flat_map(|folder| folder.parts(file)) {
            tally.add(self.tally_of(&path)?);
        }
        Ok(tally)
    }

    fn part(&self, file: usize, part: FilePart) -> Result<Done, Failure> {
        let FilePart { index, last, is_cut, batches } = part;
        let documents: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let before = self.folder.as_ref().and_then(|folder| Some((folder, folder.part(file, index)?)));
        if let Some((folder, path)) = &before {
            let tally = self.tally_of(path)?;
            // Where a file could not be read further, now or then, the longer part counts.
            match tally.documents.cmp(&(documents as u64)) {
                Ordering::Less => {}
                Ordering::Greater if !is_cut => {
                    return Err(Failure::Usage(format!(
                        "{} was split differently by another version of the program: write to a new folder",
                        path.display()
                    )));
                }
                order => {
                    let place = folder.place(file, index, last);
                    if order.is_eq() && *path != place {
                        fs::rename(path, &place).map_err(Failure::write(&place))?;
                    }
                    return Ok(Done { tally, bytes: 0, resumed: true, rows: Vec::new() });
                }
            }
        }
        let (mut tally, mut bytes) = (Tally::default(), 0);
        let mut judged = Vec::with_capacity(batches.len());
        for batch in batches {
            bytes += text_bytes(batch.column(self.text))? as u64;
            let batch = self.judged(&batch)?;
            let of = |name| batch.column(self.verdict + Column::index(name));
            let manifests = batch.column(self.verdict - 1).as_primitive();
            let (verdict, marked, p) = (of("verdict").as_string(), of("marked").as_boolean(), of("p").as_primitive());
            self.count(&mut tally, manifests, verdict, marked, p);
            judged.push(batch);
        }
        if let Some(folder) = &self.folder {
            let path = folder.place(file, index, last);
            parquet(&path, self.schema.clone(), |writer| {
                judged.iter().try_for_each(|batch| writer.write(batch)).map_err(Failure::write_parquet(&path))
            })?;
            if let Some((_, cut)) = before.filter(|(_, cut)| *cut != path) {
                fs::remove_file(&cut).map_err(Failure::write(&cut))?;
            }
        }
        Ok(Done { tally, bytes, resumed: false, rows: if self.folder.is_none() { judged } else { Vec::new() } })
    }

    /// Returns a batch with its verdicts.
    fn judged(&self, batch: &RecordBatch) -> Result<RecordBatch, Failure> {
        let found = self.judge.column(batch.column(self.text), "a scan")?;
        let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
        let manifests = found.iter().map(|row| row.verdict().map(|verdict| verdict.manifests.len() as u64));
        columns.push(Arc::new(manifests.collect::<UInt64Array>()));
        columns.extend(verdicts(&found).columns().iter().cloned());
        Ok(RecordBatch::try_new(self.schema.clone(), columns).map_err(DataFusionError::from)?)
    }

    fn count(
        &self,
        tally: &mut Tally,
        manifests: &UInt64Array,
        verdict: &StringArray,
        marked: &BooleanArray,
        p: &Float64Array,
    ) {
        tally.with_manifests += manifests.iter().filter(|count| count.is_some_and(|count| count > 0)).count() as u64;
        for row in 0..verdict.len() {
            if p.is_valid(row) {
                tally.judged(p.value(row), marked.value(row), self.fdr);
            } else {
                tally.documents += 1;
                tally.missing += u64::from(verdict.is_null(row));
            }
        }
    }

    /// Returns the totals of an existing part.
    fn tally_of(&self, path: &Path) -> Result<Tally, Failure> {
        let cannot = |error: &dyn std::fmt::Display| {
            Failure::Usage(format!("{}: {error}; delete it, and its texts are judged again", path.display()))
        };
        let file = File::open(path).map_err(Failure::read(path))?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| cannot(&error))?;
        let names = (self.verdict - 1..self.verdict + 3).map(|index| self.schema.field(index).name().as_str());
        let mask = ProjectionMask::columns(builder.parquet_schema(), names);
        let mut tally = Tally::default();
        for batch in builder.with_projection(mask).build().map_err(|error| cannot(&error))? {
            let batch = batch.map_err(|error| cannot(&error))?;
            let columns = (batch.num_columns() == 4).then(|| batch.columns());
            let [manifests, verdict, marked, p] = columns.ok_or_else(|| cannot(&"it has other columns"))? else {
                unreachable!("there are four")
            };
            let manifests = manifests.as_primitive_opt::<UInt64Type>();
            let columns = (verdict.as_string_opt(), marked.as_boolean_opt(), p.as_primitive_opt::<Float64Type>());
            let (Some(manifests), (Some(verdict), Some(marked), Some(p))) = (manifests, columns) else {
                return Err(cannot(&"its columns have other types"));
            };
            self.count(&mut tally, manifests, verdict, marked, p);
        }
        Ok(tally)
    }
}
