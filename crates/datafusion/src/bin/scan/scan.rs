//! A verdict for each document, in parts: read, judged, written.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{Field, FieldRef, Float64Type, Schema, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::prelude::SessionContext;
use futures_util::{StreamExt, TryStreamExt, stream};
use verdigris_datafusion::{Judge, check_text, text_bytes, verdict_fields, verdicts};

use crate::documents::{Columns, Opened, documents};
use crate::error::{Failure, line};
use crate::folder::{Folder, parquet};
use crate::inputs::Input;
use crate::keys::Keys;
use crate::manifest::Manifest;
use crate::options::Options;
use crate::parts::{Part, parts};
use crate::print::Printer;
use crate::progress::progress;
use crate::tally::{Run, Summary, Tally, Unreadable};

/// Parts that are worked on at a time: one is judged on all cores while another is read or written.
const AT_A_TIME: usize = 2;

/// What every part needs.
struct Work {
    judge: Judge,
    folder: Option<Folder>,
    schema: SchemaRef,
    /// Where the text is, and where the columns of the verdict begin.
    text: usize,
    verdict: usize,
    fdr: f64,
    /// Whether rows are wanted once they are judged.
    shown: bool,
}

/// What became of a part.
struct Done {
    tally: Tally,
    bytes: u64,
    resumed: bool,
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
    let (files, mut unreadable) = open(context, inputs).await;
    let readable: Vec<Opened> = files.iter().map(|(_, file)| file.clone()).collect();
    if let (true, Some(first)) = (readable.is_empty(), unreadable.first()) {
        return Err(Failure::Usage(first.error.clone()));
    }
    let columns = Columns::of(&readable)?;
    let text = find_text(&options.text_column, &columns, &readable)?;
    let folder = options.output.as_deref().map(|path| Folder::open(path, &manifest)).transpose()?;
    let total = readable.iter().map(|file| file.rows).sum();
    let bar = progress(options.quiet, total);
    let schema = schema(context, &columns, &readable)?;
    let verdict = schema.fields().len() - verdict_fields().len();
    let shown = folder.is_none();
    let judge = keys.judge(options.level)?;
    let work = Arc::new(Work { judge, folder, schema: schema.clone(), text, verdict, fdr: options.fdr, shown });
    let mut printer = shown.then(|| Printer::new(options.json, &columns.file, verdict));

    let (mut tally, mut resumed, mut bytes) = (Tally::default(), 0, 0);
    let (finished, todo): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|(index, _)| work.folder.as_ref().is_some_and(|folder| folder.is_finished(*index)));
    for (index, _) in &finished {
        let (work, index) = (work.clone(), *index);
        let before = blocking(move || work.before(index)).await?;
        resumed += before.documents;
        bar.inc(before.documents);
        tally.add(before);
    }
    let names: Vec<(usize, String)> = todo.iter().map(|(index, file)| (*index, file.input.name.clone())).collect();
    let mut jobs = stream::iter(todo)
        .then(async |(index, file)| (index, rows(context, &columns, &file).await))
        .flat_map(|(index, rows)| {
            let parts = match rows {
                Ok(rows) => parts(rows, move |batch| text_bytes(batch.column(text)).unwrap_or(0)).left_stream(),
                Err(fault) => stream::once(async { Err(fault) }).right_stream(),
            };
            parts.map(move |part| (index, part))
        })
        .map(|(index, part)| {
            let work = work.clone();
            async move {
                let done = match part {
                    Ok(part) => Ok(blocking(move || work.part(index, part)).await?),
                    Err(fault) => Err(fault),
                };
                Ok::<_, Failure>((index, done))
            }
        })
        .boxed_local()
        .buffered(AT_A_TIME);
    let mut of_file = (0, 0);
    while let Some((index, done)) = jobs.try_next().await? {
        if of_file.0 != index {
            of_file = (index, 0);
        }
        match done {
            Ok(done) => {
                let documents = done.tally.documents;
                of_file.1 += documents;
                resumed += if done.resumed { documents } else { 0 };
                bytes += done.bytes;
                tally.add(done.tally);
                if let Some(printer) = &mut printer {
                    bar.suspend(|| printer.rows(&done.rows))?;
                }
                bar.inc(documents);
            }
            Err(fault) => {
                let (_, file) = names.iter().find(|(known, _)| *known == index).expect("it is one of the files");
                unreadable.push(cut_short(file, of_file.1, &fault));
            }
        }
    }
    drop(jobs);
    bar.finish_and_clear();
    let run = Run { resumed, bytes, took: began.elapsed(), unreadable: unreadable.clone() };
    let summary = Summary::new(tally, options.fdr, options.level, run);
    if let Some(folder) = &work.folder {
        folder.write_summary(&summary.json())?;
    }
    report(options, &summary)?;
    for file in &unreadable {
        eprintln!("error: {}", file.error);
    }
    Ok(ExitCode::from(if unreadable.is_empty() { 0 } else { 2 }))
}

/// To standard output where that is free for it.
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

/// The files that can be opened, with their places among all, and the others.
async fn open(context: &SessionContext, inputs: Vec<Input>) -> (Vec<(usize, Opened)>, Vec<Unreadable>) {
    let (mut files, mut unreadable) = (Vec::new(), Vec::new());
    for (index, input) in inputs.into_iter().enumerate() {
        let file = input.name.clone();
        match Opened::new(context, input).await {
            Ok(opened) => files.push((index, opened)),
            Err(error) => {
                let error = format!("{error}; it is left out: repair it, and scan it into another folder");
                unreadable.push(Unreadable { file, documents: 0, error });
            }
        }
    }
    (files, unreadable)
}

fn cut_short(file: &str, documents: u64, fault: &DataFusionError) -> Unreadable {
    let error = format!(
        "{file} cannot be read beyond its first {documents} documents, which are judged: {}; repair it, and scan it into \
         another folder",
        line(fault)
    );
    Unreadable { file: file.to_owned(), documents, error }
}

/// The place of the column that holds the texts.
fn find_text(name: &str, columns: &Columns, files: &[Opened]) -> Result<usize, Failure> {
    for file in files {
        let Some(kind) = file.kind(name) else {
            let there: Vec<&str> = file.names().collect();
            return Err(Failure::Usage(format!(
                "{} has no column {name:?}: name one of its own with --text-column ({})",
                file.input.name,
                there.join(", ")
            )));
        };
        check_text(kind, "a scan")
            .map_err(|error| Failure::Usage(format!("{}, column {name:?}: {error}", file.input.name)))?;
    }
    Ok(columns.names().position(|known| known == name).expect("every file has it"))
}

/// The rows of one file, in their order.
async fn rows(
    context: &SessionContext,
    columns: &Columns,
    file: &Opened,
) -> datafusion::error::Result<datafusion::execution::SendableRecordBatchStream> {
    documents(context, columns, std::slice::from_ref(file))?.execute_stream().await
}

/// The columns of the documents, the file, and the verdict. A name that is taken gets `verdigris_` before it.
fn schema(context: &SessionContext, columns: &Columns, files: &[Opened]) -> Result<SchemaRef, Failure> {
    let documents = documents(context, columns, files)?;
    let mut fields: Vec<FieldRef> = documents.schema().fields().iter().cloned().collect();
    for field in &verdict_fields() {
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
    /// What an earlier run has made of a file, all of whose parts are there.
    fn before(&self, file: usize) -> Result<Tally, Failure> {
        let mut tally = Tally::default();
        for (_, path) in self.folder.iter().flat_map(|folder| folder.parts(file)) {
            tally.add(self.tally_of(&path)?);
        }
        Ok(tally)
    }

    fn part(&self, file: usize, part: Part) -> Result<Done, Failure> {
        let Part { index, last, batches } = part;
        let documents: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if let Some(folder) = self.folder.as_ref().filter(|folder| folder.has(file, index)) {
            let path = folder.place(file, index, last);
            let tally = self.tally_of(&path)?;
            if tally.documents != documents as u64 {
                return Err(Failure::Usage(format!(
                    "{} was cut otherwise by another version of the program: write to a new folder",
                    path.display()
                )));
            }
            return Ok(Done { tally, bytes: 0, resumed: true, rows: Vec::new() });
        }
        let (mut tally, mut bytes) = (Tally::default(), 0);
        let mut judged = Vec::with_capacity(batches.len());
        for batch in batches {
            bytes += text_bytes(batch.column(self.text))? as u64;
            let batch = self.judged(&batch)?;
            let of = |place: usize| batch.column(self.verdict + place);
            self.count(&mut tally, of(0).as_string(), of(1).as_boolean(), of(2).as_primitive());
            judged.push(batch);
        }
        if let Some(folder) = &self.folder {
            let path = folder.place(file, index, last);
            parquet(&path, self.schema.clone(), |writer| {
                let write = |error| Failure::Write { path: path.clone(), source: std::io::Error::other(error) };
                judged.iter().try_for_each(|batch| writer.push(batch)).map_err(write)
            })?;
        }
        Ok(Done { tally, bytes, resumed: false, rows: if self.shown { judged } else { Vec::new() } })
    }

    /// A batch with its verdicts.
    fn judged(&self, batch: &RecordBatch) -> Result<RecordBatch, Failure> {
        let found = self.judge.column(batch.column(self.text), "a scan")?;
        let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
        columns.extend(verdicts(&found).columns().iter().cloned());
        Ok(RecordBatch::try_new(self.schema.clone(), columns).map_err(DataFusionError::from)?)
    }

    fn count(&self, tally: &mut Tally, verdict: &StringArray, marked: &BooleanArray, p: &Float64Array) {
        for row in 0..verdict.len() {
            if p.is_valid(row) {
                tally.judged(p.value(row), marked.value(row), self.fdr);
            } else {
                tally.documents += 1;
                tally.missing += u64::from(verdict.is_null(row));
            }
        }
    }

    /// What a part says that is there.
    fn tally_of(&self, path: &Path) -> Result<Tally, Failure> {
        let cannot = |error: &dyn std::fmt::Display| {
            Failure::Usage(format!("{}: {error}; take it out, and its texts are judged again", path.display()))
        };
        let file = File::open(path).map_err(Failure::read(path))?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| cannot(&error))?;
        let names = (0..3).map(|place| self.schema.field(self.verdict + place).name().as_str());
        let mask = ProjectionMask::columns(builder.parquet_schema(), names);
        let mut tally = Tally::default();
        for batch in builder.with_projection(mask).build().map_err(|error| cannot(&error))? {
            let batch = batch.map_err(|error| cannot(&error))?;
            let columns = (batch.num_columns() == 3).then(|| batch.columns());
            let [verdict, marked, p] = columns.ok_or_else(|| cannot(&"it has other columns"))? else {
                unreachable!("there are three")
            };
            let columns = (verdict.as_string_opt(), marked.as_boolean_opt(), p.as_primitive_opt::<Float64Type>());
            let (Some(verdict), Some(marked), Some(p)) = columns else {
                return Err(cannot(&"its columns are of other types"));
            };
            self.count(&mut tally, verdict, marked, p);
        }
        Ok(tally)
    }
}
