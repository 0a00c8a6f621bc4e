//! Files as one table, with all columns that any of them has, and a column for the name of the file.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::ScalarValue;
use datafusion::datasource::TableProvider;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::logical_expr::{TableType, cast, lit};
use datafusion::logical_expr_common::type_coercion::binary::type_union_coercion;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{DataFrame, Expr, SessionContext, ident};

use crate::error::{Failure, line};
use crate::inputs::{CsvTypes, Input};

/// A file and its columns.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) input: Input,
    schema: SchemaRef,
    /// The number of its rows, if its metadata contain it.
    pub(crate) rows: Option<u64>,
    /// The fields that have only empty objects, which Parquet does not support. They are not read.
    pub(crate) left_out: Vec<String>,
}

impl Opened {
    /// Reads the schema and statistics of a file.
    pub(crate) async fn new(context: &SessionContext, input: Input, csv: CsvTypes) -> Result<Self, Failure> {
        let state = context.state();
        let store = context.runtime_env().object_store(&input.store)?;
        let format = input.format.reader(csv);
        let cannot = |error| Failure::Usage(format!("cannot read {}: {}", input.name, line(&error)));
        let schema = format.infer_schema(&state, &store, std::slice::from_ref(&input.meta)).await.map_err(cannot)?;
        let mut left_out = Vec::new();
        let fields: Fields = schema.fields().iter().filter_map(|field| filled(field, &mut left_out)).collect();
        let schema = Arc::new(Schema::new(fields));
        let cannot = |error| Failure::Usage(format!("cannot read {}: {}", input.name, line(&error)));
        let known = format.infer_stats(&state, &store, schema.clone(), &input.meta).await.map_err(cannot)?;
        let rows = known.num_rows.get_value().map(|&rows| rows as u64);
        Ok(Self { input, schema, rows, left_out })
    }

    /// Says on standard error which fields are not read.
    pub(crate) fn note(&self) {
        if !self.left_out.is_empty() {
            let (file, fields) = (&self.input.name, self.left_out.join(", "));
            eprintln!("note: {file}: left out, since it has only empty objects: {fields}");
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.schema.fields().iter().map(|field| field.name().as_str())
    }

    /// The type of a column, if the file has it.
    pub(crate) fn kind(&self, name: &str) -> Option<&DataType> {
        self.schema.column_with_name(name).map(|(_, field)| field.data_type())
    }
}

/// A field without the objects in it that are always empty; `None` if nothing is left. Adds their names to `left_out`.
fn filled(field: &FieldRef, left_out: &mut Vec<String>) -> Option<FieldRef> {
    let kind = match field.data_type() {
        DataType::Struct(fields) => {
            let some: Fields = fields.iter().filter_map(|field| filled(field, left_out)).collect();
            if some.is_empty() {
                left_out.push(field.name().clone());
                return None;
            }
            DataType::Struct(some)
        }
        DataType::List(items) => {
            let before = left_out.len();
            let Some(items) = filled(items, left_out) else {
                // Its items have no name of their own.
                left_out.truncate(before);
                left_out.push(field.name().clone());
                return None;
            };
            DataType::List(items)
        }
        _ => return Some(field.clone()),
    };
    Some(Arc::new(field.as_ref().clone().with_data_type(kind)))
}

/// The columns of all files together.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    fields: Fields,
    /// The name of the column with the file's name: `file`, or `verdigris_file` if a file has a column of that name.
    pub(crate) file: String,
}

impl Columns {
    /// # Errors
    /// If the types of a column in two files have no common type.
    pub(crate) fn of(files: &[Opened]) -> Result<Self, Failure> {
        let mut fields: Vec<FieldRef> = Vec::new();
        for file in files {
            for field in file.schema.fields() {
                let Some(place) = fields.iter().position(|known| known.name() == field.name()) else {
                    fields.push(Arc::new(field.as_ref().clone().with_nullable(true)));
                    continue;
                };
                let known = fields[place].data_type();
                let Some(kind) = common(known, field.data_type()) else {
                    return Err(Failure::Usage(format!(
                        "the column {:?} is of type {} in {}, but {known} in others: scan these files separately",
                        field.name(),
                        field.data_type(),
                        file.input.name
                    )));
                };
                fields[place] = Arc::new(Field::new(field.name(), kind, true));
            }
        }
        let taken = fields.iter().any(|field| field.name() == "file");
        Ok(Self { fields: fields.into(), file: if taken { "verdigris_file" } else { "file" }.into() })
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| field.name().as_str())
    }

    /// Selects the columns of all files from a table of some of them, cast to the common types.
    fn select(&self, schema: &Schema) -> Vec<Expr> {
        let of = |field: &FieldRef| match schema.column_with_name(field.name()) {
            Some((_, own)) if own.data_type() == field.data_type() => ident(field.name()),
            Some(_) => cast(ident(field.name()), field.data_type().clone()).alias(field.name()),
            None => cast(lit(ScalarValue::Null), field.data_type().clone()).alias(field.name()),
        };
        self.fields.iter().map(of).chain([ident(&self.file)]).collect()
    }
}

fn common(one: &DataType, other: &DataType) -> Option<DataType> {
    if one == other { Some(one.clone()) } else { type_union_coercion(one, other) }
}

/// Returns the documents of some files.
pub(crate) fn documents(context: &SessionContext, columns: &Columns, files: &[Opened]) -> Result<DataFrame> {
    let mut tables: Vec<Table> = Vec::new();
    for file in files {
        match tables.iter_mut().find(|table| table.is_like(file)) {
            Some(table) => table.files.push(file.clone()),
            None => tables.push(Table { columns: columns.clone(), files: vec![file.clone()] }),
        }
    }
    let mut all: Option<DataFrame> = None;
    for table in tables {
        let select = columns.select(&table.files[0].schema);
        let frame = context.read_table(Arc::new(table))?.select(select)?;
        all = Some(match all {
            Some(others) => others.union(frame)?,
            None => frame,
        });
    }
    all.map_or_else(|| context.read_empty(), Ok)
}

/// Files that are read in one way: of one format, in one store, with the same columns. There is at least one.
#[derive(Debug)]
struct Table {
    columns: Columns,
    files: Vec<Opened>,
}

impl Table {
    fn is_like(&self, file: &Opened) -> bool {
        let first = &self.files[0];
        let same = first.input.format == file.input.format && first.input.store == file.input.store;
        same && first.schema.fields() == file.schema.fields()
    }

    fn table_schema(&self) -> TableSchema {
        let file = Arc::new(Field::new(&self.columns.file, DataType::Utf8, false));
        TableSchema::builder(self.files[0].schema.clone()).with_table_partition_cols(vec![file]).build()
    }
}

#[async_trait]
impl TableProvider for Table {
    fn schema(&self) -> SchemaRef {
        self.table_schema().table_schema().clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Input { format, store, .. } = &self.files[0].input;
        // The types are known.
        let reader = format.reader(CsvTypes::Text);
        let files = self.files.iter().map(|file| {
            let name = ScalarValue::Utf8(Some(file.input.name.clone()));
            PartitionedFile::new_from_meta(file.input.meta.clone()).with_partition_values(vec![name])
        });
        let groups = FileGroup::new(files.collect()).split_files(state.config().target_partitions());
        let config = FileScanConfigBuilder::new(store.clone(), reader.file_source(self.table_schema()))
            .with_file_groups(groups)
            .with_file_compression_type(format.compression.into())
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        reader.create_physical_plan(state, config).await
    }
}
