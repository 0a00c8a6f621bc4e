//! Splits a file into parts, each of which is judged and written, and found again by a resumed scan, as a whole.

use std::panic::AssertUnwindSafe;

use datafusion::arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use futures_util::{FutureExt, Stream, StreamExt, stream};

/// A part ends with the batch that brings it to this number of rows or of bytes of text. The split must depend on the
/// file alone, since a resumed scan relies on it.
const ROWS: usize = 16 << 10;
const BYTES: usize = 32 << 20;

/// Consecutive rows of a file.
pub(crate) struct FilePart {
    pub(crate) index: usize,
    /// Whether it is the last part of the file.
    pub(crate) last: bool,
    /// Whether the rows after it cannot be read.
    pub(crate) is_cut: bool,
    pub(crate) batches: Vec<RecordBatch>,
}

/// Splits a stream of rows into parts, at least one. `bytes` returns the number of bytes of text in a batch. If a row
/// cannot be read, the rows before it are a part, and the error follows.
pub(crate) fn parts(
    rows: SendableRecordBatchStream,
    bytes: impl Fn(&RecordBatch) -> usize,
) -> impl Stream<Item = Result<FilePart>> {
    let reading = PartReader { rows, next: None, index: 0, done: false, fault: None };
    stream::unfold((reading, bytes), async |(mut reading, bytes)| {
        let part = reading.part(&bytes).await?;
        Some((part, (reading, bytes)))
    })
}

struct PartReader {
    rows: SendableRecordBatchStream,
    /// The first batch of the next part.
    next: Option<RecordBatch>,
    index: usize,
    done: bool,
    fault: Option<DataFusionError>,
}

impl PartReader {
    /// Returns the next batch that has rows. A library's panic on a damaged file is an error like any other.
    async fn batch(&mut self) -> Option<RecordBatch> {
        if self.fault.is_some() {
            return None;
        }
        loop {
            let next = AssertUnwindSafe(self.rows.next()).catch_unwind().await;
            match next {
                Ok(Some(Ok(batch))) if batch.num_rows() == 0 => {}
                Ok(Some(Ok(batch))) => return Some(batch),
                Ok(None) => return None,
                Ok(Some(Err(fault))) => self.fault = Some(fault),
                Err(_) => self.fault = Some(DataFusionError::Execution("the file is damaged".into())),
            }
            if self.fault.is_some() {
                return None;
            }
        }
    }

    async fn part(&mut self, bytes: &impl Fn(&RecordBatch) -> usize) -> Option<Result<FilePart>> {
        if let Some(fault) = self.fault.take() {
            self.done = true;
            return Some(Err(fault));
        }
        if self.done {
            return None;
        }
        let mut next = match self.next.take() {
            Some(batch) => Some(batch),
            None => self.batch().await,
        };
        let (mut batches, mut size, mut rows) = (Vec::new(), 0, 0);
        while let Some(batch) = next {
            size += bytes(&batch);
            rows += batch.num_rows();
            batches.push(batch);
            next = self.batch().await;
            if size >= BYTES || rows >= ROWS {
                break;
            }
        }
        if batches.is_empty()
            && let Some(fault) = self.fault.take()
        {
            self.done = true;
            return Some(Err(fault));
        }
        self.next = next;
        let last = self.next.is_none() && self.fault.is_none();
        self.done = last;
        self.index += 1;
        let is_cut = self.next.is_none() && self.fault.is_some();
        Some(Ok(FilePart { index: self.index - 1, last, is_cut, batches }))
    }
}
