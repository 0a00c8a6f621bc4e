//! The files to read, and their formats.

use std::path::Path;
use std::sync::Arc;

use datafusion::common::parsers::CompressionTypeVariant;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::SessionContext;
use futures_util::TryStreamExt;
use object_store::ObjectMeta;

use crate::error::{Failure, line};

/// A file of documents.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) store: ObjectStoreUrl,
    pub(crate) meta: ObjectMeta,
    pub(crate) format: Format,
}

impl Input {
    /// Whether this is the file at a path, under any names.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let own = Path::new(&self.name);
        #[cfg(unix)]
        if let (Ok(own), Ok(other)) = (own.metadata(), path.metadata()) {
            use std::os::unix::fs::MetadataExt;
            return (own.dev(), own.ino()) == (other.dev(), other.ino());
        }
        matches!((own.canonicalize(), path.canonicalize()), (Ok(own), Ok(other)) if own == other)
    }
}

/// The types of the columns of CSV files, which do not say them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CsvTypes {
    /// Text, as it is written: zeros before a number and the digits of long ones are kept.
    Text,
    /// Inferred from all rows: numbers and dates can be computed with.
    Inferred,
}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) layout: Layout,
    pub(crate) compression: CompressionTypeVariant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Parquet,
    JsonLines,
    /// With this delimiter.
    Csv(u8),
}

impl Format {
    fn of(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let (stem, ending) = name.rsplit_once('.')?;
        let compression = match ending {
            "gz" => CompressionTypeVariant::GZIP,
            "bz2" => CompressionTypeVariant::BZIP2,
            "xz" => CompressionTypeVariant::XZ,
            "zst" | "zstd" => CompressionTypeVariant::ZSTD,
            _ => CompressionTypeVariant::UNCOMPRESSED,
        };
        let plain = compression == CompressionTypeVariant::UNCOMPRESSED;
        let ending = if plain { ending } else { stem.rsplit_once('.')?.1 };
        let layout = match ending {
            "parquet" | "pq" if plain => Layout::Parquet,
            "jsonl" | "ndjson" | "json" => Layout::JsonLines,
            "csv" => Layout::Csv(b','),
            "tsv" => Layout::Csv(b'\t'),
            _ => return None,
        };
        Some(Self { layout, compression })
    }

    /// Returns the engine's reader. The types of the columns of JSON lines are inferred from all rows.
    pub(crate) fn reader(self, csv: CsvTypes) -> Arc<dyn FileFormat> {
        let compression = FileCompressionType::from(self.compression);
        match self.layout {
            Layout::Parquet => Arc::new(ParquetFormat::default()),
            Layout::JsonLines => Arc::new(
                JsonFormat::default().with_schema_infer_max_rec(usize::MAX).with_file_compression_type(compression),
            ),
            Layout::Csv(delimiter) => Arc::new(
                CsvFormat::default()
                    .with_delimiter(delimiter)
                    .with_has_header(true)
                    .with_newlines_in_values(true)
                    // With 0 all columns are text.
                    .with_schema_infer_max_rec(if csv == CsvTypes::Text { 0 } else { usize::MAX })
                    .with_file_compression_type(compression),
            ),
        }
    }
}

/// Returns all requested files, each once, in the order of their names within each argument, except those in `output`.
pub(crate) async fn inputs(
    context: &SessionContext,
    asked: &[String],
    output: Option<&Path>,
) -> Result<Vec<Input>, Failure> {
    let output = output.and_then(|path| path.canonicalize().ok());
    let is_output = |input: &Input| {
        let path = Path::new(&input.name);
        output.as_ref().is_some_and(|output| path.canonicalize().is_ok_and(|path| path.starts_with(output)))
    };
    let mut all: Vec<Input> = Vec::new();
    for argument in asked {
        let mut found = files(context, argument).await?;
        found.retain(|input| !is_output(input));
        if found.is_empty() {
            return Err(Failure::Usage(format!(
                "no file of documents at {argument}: names end in .parquet, .jsonl, .ndjson, .json, .csv or .tsv, all \
                 but Parquet also in .gz, .bz2, .xz or .zst"
            )));
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        for input in found {
            if !all.iter().any(|other| other.store == input.store && other.meta.location == input.meta.location) {
                all.push(input);
            }
        }
    }
    Ok(all)
}

async fn files(context: &SessionContext, argument: &str) -> Result<Vec<Input>, Failure> {
    let cannot = |error: &_| Failure::Usage(format!("cannot read {argument}: {}", line(error)));
    // The name of an existing file is not a pattern, whatever characters it has.
    let literal = match Path::new(argument).exists() {
        true => argument.replace('[', "[[]").replace('*', "[*]").replace('?', "[?]"),
        false => argument.to_owned(),
    };
    let url = ListingTableUrl::parse(&literal).map_err(|error| cannot(&error))?;
    #[cfg(feature = "s3")]
    crate::s3::register(context, &url)?;
    let store = context.runtime_env().object_store(&url).map_err(|error| cannot(&error))?;
    let state = context.state();
    let listed = url.list_all_files(&state, &*store, "").await.map_err(|error| cannot(&error))?;
    let found: Vec<ObjectMeta> = listed.try_collect().await.map_err(|error| cannot(&error))?;
    let local = url.scheme() == "file";
    let inputs = found.into_iter().filter_map(|meta| {
        let hidden = below(&url, &meta).split('/').any(|part| part.starts_with(['.', '_']));
        let format = Format::of(meta.location.as_ref()).filter(|_| !hidden)?;
        let name = match local {
            true => format!("/{}", meta.location),
            false => format!("{}{}", url.object_store().as_str(), meta.location),
        };
        Some(Input { name, store: url.object_store(), meta, format })
    });
    Ok(inputs.collect())
}

/// The part of a file's path below the requested path.
fn below<'a>(url: &ListingTableUrl, meta: &'a ObjectMeta) -> &'a str {
    let location = meta.location.as_ref();
    location.strip_prefix(url.prefix().as_ref()).unwrap_or(location).trim_start_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_in_a_file() {
        let of = |name| Format::of(name).map(|format| (format.layout, format.compression));
        let plain = CompressionTypeVariant::UNCOMPRESSED;
        assert_eq!(of("a/b.parquet"), Some((Layout::Parquet, plain)));
        assert_eq!(of("a/B.JSONL.GZ"), Some((Layout::JsonLines, CompressionTypeVariant::GZIP)));
        assert_eq!(of("t.tsv.zst"), Some((Layout::Csv(b'\t'), CompressionTypeVariant::ZSTD)));
        assert_eq!([of("b.parquet.gz"), of("b.gz"), of("b.txt"), of("parquet")], [None; 4]);
    }
}
