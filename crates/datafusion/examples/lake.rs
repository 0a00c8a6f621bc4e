//! Writes a data lake with known labels. Arguments: CORPUS MARKED DOCUMENTS FOLDER. Documents are random chains of
//! words from a corpus, some 100 to 600 tokens long and unmarked; every thousandth is one of the marked texts of MARKED
//! (lines of JSON). The column `truth` says which are marked. Equal arguments give equal files.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::WriterProperties;

/// The number of documents in a file, and in a row group.
const FILE: usize = 100_000;
const GROUP: usize = 10_000;

/// The number of bytes of the corpus that are read.
const CORPUS: usize = 24 << 20;

/// Marsaglia, *Xorshift RNGs*, 2003.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * n as u128) >> 64) as usize
    }
}

/// A chain of words: each is followed by a word that follows it somewhere in the corpus.
struct Chain<'c> {
    words: Vec<&'c str>,
    /// The positions of words, grouped by word, and for each position the range of its group.
    places: Vec<u32>,
    equal: Vec<(u32, u32)>,
}

impl<'c> Chain<'c> {
    fn new(corpus: &'c str) -> Self {
        let words: Vec<&str> = corpus.split_whitespace().collect();
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let ids: Vec<u32> = words
            .iter()
            .map(|word| {
                let next = numbers.len() as u32;
                *numbers.entry(word).or_insert(next)
            })
            .collect();
        let mut places: Vec<u32> = (0..words.len() as u32).collect();
        places.sort_by_key(|&place| ids[place as usize]);
        let mut equal = vec![(0, 0); words.len()];
        let mut from = 0;
        for run in places.chunk_by(|&a, &b| ids[a as usize] == ids[b as usize]) {
            let to = from + run.len() as u32;
            run.iter().for_each(|&place| equal[place as usize] = (from, to));
            from = to;
        }
        Self { words, places, equal }
    }

    fn text(&self, chance: &mut Chance) -> String {
        let count = 75 + chance.below(375);
        let mut place = chance.below(self.words.len());
        let mut text = String::with_capacity(6 * count);
        for _ in 0..count {
            text.push_str(self.words[place]);
            text.push(' ');
            let (from, to) = self.equal[place];
            place = self.places[from as usize + chance.below((to - from) as usize)] as usize + 1;
            if place == self.words.len() {
                place = chance.below(self.words.len());
            }
        }
        text
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [corpus, marked, documents, folder] = &arguments[..] else {
        return Err("usage: lake CORPUS MARKED DOCUMENTS FOLDER".into());
    };
    let mut corpus = std::fs::read(corpus)?;
    corpus.truncate(CORPUS);
    let corpus = String::from_utf8_lossy(&corpus);
    let lines = std::fs::read_to_string(marked)?;
    let text = |line| Ok::<_, serde_json::Error>(serde_json::from_str::<serde_json::Value>(line)?["text"].clone());
    let marked: Vec<serde_json::Value> = lines.lines().map(text).collect::<Result<_, _>>()?;
    let documents: usize = documents.parse()?;
    let mut left = marked.iter().filter_map(serde_json::Value::as_str);
    let (chain, mut chance) = (Chain::new(&corpus), Chance(0x9e37_79b9_7f4a_7c15));
    for (number, from) in (0..documents).step_by(FILE).enumerate() {
        let file = File::create(Path::new(folder).join(format!("documents-{number:03}.parquet")))?;
        let mut writer: Option<ArrowWriter<File>> = None;
        let mut file = Some(file);
        for from in (from..documents.min(from + FILE)).step_by(GROUP) {
            let ids = from..documents.min(from + GROUP);
            let truth: Vec<bool> = ids.clone().map(|id| id % 1000 == 500).collect();
            let texts = truth.iter().map(|&truth| match truth {
                true => left.next().map(str::to_owned).ok_or("there are too few marked texts"),
                false => Ok(chain.text(&mut chance)),
            });
            let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
            let authors = ids.clone().map(|id| if id % 1000 == 500 { 0 } else { 1 + (id % 997) as i64 });
            let columns: [(&str, ArrayRef); 4] = [
                ("id", Arc::new(Int64Array::from_iter_values(ids.clone().map(|id| id as i64)))),
                ("author", Arc::new(Int64Array::from_iter_values(authors))),
                ("truth", Arc::new(BooleanArray::from(truth))),
                ("text", Arc::new(StringArray::from_iter_values(texts))),
            ];
            let batch = RecordBatch::try_from_iter(columns)?;
            let writer = match &mut writer {
                Some(writer) => writer,
                none => {
                    let zstd = Compression::ZSTD(ZstdLevel::try_new(1)?);
                    let properties = WriterProperties::builder().set_compression(zstd);
                    let properties = properties.set_max_row_group_row_count(Some(GROUP)).build();
                    let file = file.take().expect("there is one writer per file");
                    none.insert(ArrowWriter::try_new(file, batch.schema(), Some(properties))?)
                }
            };
            writer.write(&batch)?;
        }
        if let Some(writer) = writer {
            writer.close()?;
        }
    }
    Ok(())
}
