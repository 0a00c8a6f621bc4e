//! The library's readers, wrapped in checks of the memory that a part of the file would take.
//!
//! The library allocates what page headers claim before it reads the data.

use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::bloom_filter::Sbbf;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, FileReader, Length, RowGroupReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::schema::types::{ColumnDescPtr, Type};

use super::budget::{Budget, MOST_UNPACKED, room};
use super::delta::packed_numbers;
use super::header::Header;
use super::schema;

/// The length of the footer in bytes: the length of the metadata, and four letters.
const FOOTER: u64 = 8;

/// The bytes that are read of a page header at first, and at most. Headers with the least and the greatest text of the
/// page can be long.
const HEADER: u64 = 4 << 10;
const LONGEST_HEADER: u64 = 16 << 20;

/// The bytes that the library allocates for a dictionary value and for a length.
const VALUE: u64 = 32;
const LENGTH: u64 = 4;

/// A Parquet file.
pub(super) struct File<R: ChunkReader> {
    inner: SerializedFileReader<Chunks<R>>,
    budget: Arc<Budget>,
}

impl<R: ChunkReader + 'static> File<R> {
    /// Reads the metadata of the file.
    ///
    /// # Errors
    /// If it is not a Parquet file, or its metadata is damaged.
    pub(super) fn new(file: R, budget: Arc<Budget>) -> Result<Self> {
        let chunks = Chunks { inner: file, budget: budget.clone() };
        if chunks.metadata()?.is_some_and(|metadata| !schema::is_sound(&metadata)) {
            return Err(damaged("its metadata is damaged"));
        }
        Ok(Self { inner: SerializedFileReader::new(chunks)?, budget })
    }
}

impl<R: ChunkReader + 'static> FileReader for File<R> {
    fn metadata(&self) -> &ParquetMetaData {
        self.inner.metadata()
    }

    fn num_row_groups(&self) -> usize {
        self.inner.num_row_groups()
    }

    fn get_row_group(&self, i: usize) -> Result<Box<dyn RowGroupReader + '_>> {
        Ok(Box::new(Group { inner: self.inner.get_row_group(i)?, budget: self.budget.clone() }))
    }

    fn get_row_iter(&self, projection: Option<Type>) -> Result<RowIter<'_>> {
        RowIter::from_file(projection, self)
    }
}

/// A row group of a file.
struct Group<'a> {
    inner: Box<dyn RowGroupReader + 'a>,
    budget: Arc<Budget>,
}

impl RowGroupReader for Group<'_> {
    fn metadata(&self) -> &RowGroupMetaData {
        self.inner.metadata()
    }

    fn num_columns(&self) -> usize {
        self.inner.num_columns()
    }

    fn get_column_page_reader(&self, i: usize) -> Result<Box<dyn PageReader>> {
        Ok(Box::new(Pages {
            inner: self.inner.get_column_page_reader(i)?,
            budget: self.budget.clone(),
            column: self.metadata().column(i).column_descr_ptr(),
            rows_left: u64::try_from(self.metadata().num_rows())?,
        }))
    }

    fn get_column_bloom_filter(&self, i: usize) -> Option<&Sbbf> {
        self.inner.get_column_bloom_filter(i)
    }

    fn get_row_iter(&self, projection: Option<Type>) -> Result<RowIter<'_>> {
        RowIter::from_row_group(projection, self)
    }
}

/// The pages of one column in a row group.
struct Pages {
    inner: Box<dyn PageReader>,
    budget: Arc<Budget>,
    column: ColumnDescPtr,
    /// The number of rows that were not in a page yet.
    rows_left: u64,
}

impl Pages {
    /// Checks a page before its values are read.
    ///
    /// # Errors
    /// If the library would allocate too much for them.
    fn check(&mut self, page: &Page) -> Result<()> {
        let (values, bytes) = (u64::from(page.num_values()), page.buffer().len() as u64);
        if page.is_dictionary_page() {
            // Each value that the library allocates for takes at least one byte.
            if values > bytes {
                return Err(damaged("a dictionary has more values than bytes"));
            }
            return self.budget.take(values * VALUE);
        }
        self.rows_left = self.rows_left.saturating_sub(values);
        let lists = match page.encoding() {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
            Encoding::DELTA_BYTE_ARRAY => 2,
            _ => return Ok(()),
        };
        let damage = || damaged("lengths of strings are damaged");
        let mut rest = self.values(page).ok_or_else(damage)?;
        for _ in 0..lists {
            let (lengths, end) = packed_numbers(rest).ok_or_else(damage)?;
            if lengths > values || lengths * LENGTH > MOST_UNPACKED + bytes * LENGTH {
                return Err(damage());
            }
            self.budget.take(lengths * LENGTH)?;
            rest = &rest[end..];
        }
        Ok(())
    }

    /// The bytes after the levels of a data page.
    fn values<'p>(&self, page: &'p Page) -> Option<&'p [u8]> {
        let mut rest: &[u8] = page.buffer();
        match page {
            Page::DataPageV2 { rep_levels_byte_len, def_levels_byte_len, .. } => {
                rest.get((*rep_levels_byte_len as usize).checked_add(*def_levels_byte_len as usize)?..)
            }
            Page::DataPage { num_values, rep_level_encoding, def_level_encoding, .. } => {
                let levels = [
                    (self.column.max_rep_level(), rep_level_encoding),
                    (self.column.max_def_level(), def_level_encoding),
                ];
                for (most, encoding) in levels.into_iter().filter(|(most, _)| *most > 0) {
                    let length = if *encoding == Encoding::RLE {
                        let (length, behind) = rest.split_first_chunk()?;
                        rest = behind;
                        u32::from_le_bytes(*length) as usize
                    } else {
                        let width = u64::from(u16::BITS - (most as u16).leading_zeros());
                        usize::try_from((u64::from(*num_values) * width).div_ceil(8)).ok()?
                    };
                    rest = rest.get(length..)?;
                }
                Some(rest)
            }
            Page::DictionaryPage { .. } => None,
        }
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.inner.get_next_page()?;
        match &page {
            Some(page) => self.check(page)?,
            // A page of levels alone could represent any number of rows.
            None if self.rows_left > 0 && self.column.max_rep_level() == 0 => {
                return Err(damaged("a column has fewer values than rows"));
            }
            None => {}
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.inner.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.inner.skip_next_page()
    }
}

/// The bytes of a file.
struct Chunks<R> {
    inner: R,
    budget: Arc<Budget>,
}

impl<R: ChunkReader> Chunks<R> {
    /// The metadata of the file; `None` if it is not a Parquet file, which the library reports.
    fn metadata(&self) -> Result<Option<Bytes>> {
        let Some(footer) = self.len().checked_sub(FOOTER) else { return Ok(None) };
        let end = self.get_bytes(footer, FOOTER as usize)?;
        let (length, letters) = end.split_first_chunk().expect("four bytes and four more");
        let length = u64::from(u32::from_le_bytes(*length));
        let Some(start) = footer.checked_sub(length).filter(|_| letters == b"PAR1") else { return Ok(None) };
        self.get_bytes(start, length as usize).map(Some)
    }

    /// The header of the page at an offset.
    fn header(&self, start: u64) -> Result<Option<Header>> {
        let mut most = HEADER;
        loop {
            let mut data = Vec::new();
            self.inner.get_read(start)?.take(most).read_to_end(&mut data)?;
            let header = Header::of(&data);
            if header.is_some() || (data.len() as u64) < most || most >= LONGEST_HEADER {
                return Ok(header);
            }
            most *= 8;
        }
    }
}

impl<R: Length> Length for Chunks<R> {
    fn len(&self) -> u64 {
        self.inner.len()
    }
}

impl<R: ChunkReader> ChunkReader for Chunks<R> {
    type T = R::T;

    /// The library requests a reader at the end of the metadata, and at the beginning of each page header.
    fn get_read(&self, start: u64) -> Result<Self::T> {
        if start < self.len().saturating_sub(FOOTER) {
            let header = self.header(start)?.ok_or_else(|| damaged("the header of a page is damaged"))?;
            if header.unpacked > room(header.packed) {
                return Err(damaged("a page unpacks to far more than it could hold"));
            }
            self.budget.take(header.unpacked.saturating_add(header.length))?;
        }
        self.inner.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.len()) {
            return Err(ParquetError::EOF("the file ends too early".into()));
        }
        self.inner.get_bytes(start, length)
    }
}

fn damaged(what: &str) -> ParquetError {
    ParquetError::General(what.into())
}
