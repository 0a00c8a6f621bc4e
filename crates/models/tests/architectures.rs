//! Every architecture compared with `transformers`: tiny random checkpoints that it saved, and the logits that it
//! computed in f32 (`fixtures/golden/architectures.py`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use verdigris_models::{Batch, Device, LanguageModel, ModelFolder, Sequence, Wanted};

use crate::golden::{distance, rows};

fn folders() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/architectures");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert!(folders.len() >= 25, "{folders:?}");
    folders
}

struct Case {
    name: String,
    model: Arc<dyn LanguageModel>,
    ids: Vec<u32>,
    logits: Vec<Vec<f32>>,
}

impl Case {
    fn all() -> impl Iterator<Item = Self> {
        folders().into_iter().map(Self::of)
    }

    fn of(folder: PathBuf) -> Self {
        let golden = crate::golden::load(folder.join("logits.safetensors"));
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        Self {
            model: ModelFolder::at(&folder).model(&Device::Cpu).unwrap_or_else(|error| panic!("{name}: {error}")),
            name,
            ids: golden["ids"].integers(),
            logits: golden["logits"].rows(),
        }
    }

    fn begin(&self) -> Box<dyn Sequence> {
        self.model.clone().begin(self.ids.len() + 12).unwrap()
    }
}

#[test]
fn logits_are_those_of_transformers() {
    let mut worst_of_all = 0f32;
    for case in Case::all() {
        // Some positions depend on how long the text may become.
        let mut sequence = case.model.clone().begin(case.ids.len()).unwrap();
        let got = rows(&mut *sequence, Batch::chain(&case.ids, Wanted::All));
        let worst = distance(&got, &case.logits);
        println!("{}: largest difference {worst:e}", case.name);
        worst_of_all = worst_of_all.max(worst);
        assert!(worst <= 1e-4, "{}: {worst}", case.name);
    }
    assert!(worst_of_all > 0.0);
}

/// Experts in blocks of 4 bits, as published. Rows are rounded to 8 bits, which is the difference.
#[test]
fn published_blocks_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/mxfp4/gpt_oss");
    let case = Case::of(folder);
    let got = rows(&mut *case.begin(), Batch::chain(&case.ids, Wanted::All));
    let difference = |other: &dyn Fn(usize, usize) -> f32| {
        let all = got.iter().enumerate().flat_map(|(i, row)| row.iter().enumerate().map(move |(j, x)| (i, j, *x)));
        all.map(|(i, j, x)| f64::from(x - other(i, j)).powi(2)).sum::<f64>().sqrt()
    };
    let share = difference(&|i, j| case.logits[i][j]) / difference(&|_, _| 0.0);
    println!("difference in percent of the logits: {}", 100.0 * share);
    assert!(share > 0.0 && share < 0.03, "{share}");
}

/// One token at a time, in chunks, after truncating the cache, and as a branch of a tree: the same bits.
#[test]
fn however_a_text_is_read_its_rows_are_the_same() {
    for case in Case::all() {
        let (name, ids) = (&case.name, &case.ids);
        let whole = rows(&mut *case.begin(), Batch::chain(ids, Wanted::All));
        for size in [1, 5, 16] {
            let mut sequence = case.begin();
            let split: Vec<_> =
                ids.chunks(size).flat_map(|ids| rows(&mut *sequence, Batch::chain(ids, Wanted::All))).collect();
            assert!(split == whole, "{name} by {size}");
        }
        let mut sequence = case.begin();
        let few = rows(&mut *sequence, Batch::chain(ids, Wanted::From(ids.len() - 3)));
        assert!(few == whole[ids.len() - 3..], "{name}, only the last rows");
        let next = rows(&mut *sequence, Batch::chain(&[1, 2], Wanted::All));
        let mut alone = case.begin();
        rows(&mut *alone, Batch::chain(ids, Wanted::All));
        assert!(next == rows(&mut *alone, Batch::chain(&[1, 2], Wanted::All)), "{name} after the last rows");
        let mut sequence = case.begin();
        rows(&mut *sequence, Batch::chain(ids, Wanted::Last));
        sequence.truncate(9);
        rows(&mut *sequence, Batch::chain(&[7; 11], Wanted::Last));
        sequence.truncate(9);
        let mut fork = sequence.fork().unwrap();
        let again = rows(&mut *sequence, Batch::chain(&ids[9..], Wanted::All));
        assert!(again == whole[9..], "{name} after cutting back");
        // Two branches: a wrong one, and the text.
        let tokens: Vec<u32> = [1, 2].into_iter().chain(ids[9..].iter().copied()).collect();
        let parent = |i: usize| if i == 0 || i == 2 { None } else { Some(i - 1) };
        let parents: Vec<Option<usize>> = (0..tokens.len()).map(parent).collect();
        let tree = rows(&mut *fork, Batch::tree(&tokens, &parents));
        assert!(tree[2..] == whole[9..], "{name} as a branch");
    }
}
