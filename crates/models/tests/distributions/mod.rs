//! Tests of the contract of [`Sequence`], for any model.

use std::sync::Arc;

use verdigris_models::{Batch, BatchItem, LanguageModel, ModelError, Rows, Sequence, Wanted};

/// A text of `length` tokens.
pub(crate) fn text(length: usize, seed: u32, size: usize) -> Vec<u32> {
    (0..length as u32).map(|i| (i * i * 31 + i * 7 + seed * 113) % size as u32).collect()
}

/// The rows of a batch, one after the other.
pub(crate) fn read(sequence: &mut dyn Sequence, batch: Batch<'_>) -> Vec<f32> {
    let mut rows = Rows::default();
    sequence.forward(&batch, &mut rows).unwrap();
    (0..rows.count()).flat_map(|i| rows.row(i).to_vec()).collect()
}

/// Several sequences in one call have the rows that each has alone, bit for bit, or within 1e-4 those that each has by
/// another model: of different lengths, with a chunk of a prompt, a tree, one token, and nothing at all. With another
/// model this is repeated, so that recorded graphs are replayed for other texts.
pub(crate) fn together_as_alone(name: &str, model: &Arc<dyn LanguageModel>, other: Option<&Arc<dyn LanguageModel>>) {
    let size = model.vocabulary_size();
    let (rounds, capacity) = if other.is_some() { (4, 60) } else { (2, 40) };
    let tokens: Vec<Vec<u32>> = (0..5).map(|i| text([3, 11, 1, 6, 0][i], i as u32, size)).collect();
    let parents = [None, Some(0), Some(0), Some(1), None, Some(4)];
    let batches = [
        Batch::chain(&tokens[0], Wanted::Last),
        Batch::chain(&tokens[1], Wanted::All),
        Batch::chain(&tokens[2], Wanted::Last),
        Batch::tree(&tokens[3], &parents),
        Batch::chain(&tokens[4], Wanted::Last),
    ];
    let begin = |model: &Arc<dyn LanguageModel>| -> Vec<Box<dyn Sequence>> {
        let one = |i: u32| {
            let mut sequence = model.clone().begin(capacity).unwrap();
            read(&mut *sequence, Batch::chain(&text(1 + 4 * i as usize, 9 + i, size), Wanted::Last));
            sequence
        };
        (0..5).map(one).collect()
    };
    let mut together = begin(model);
    let mut alone: Vec<_> = match other {
        None => together.iter().map(|sequence| sequence.fork().unwrap()).collect(),
        Some(other) => begin(other),
    };
    for _ in 0..rounds {
        let mut rows: [Rows; 5] = Default::default();
        let items = together.iter_mut().zip(&batches).zip(&mut rows);
        let mut items: Vec<BatchItem<'_>> =
            items.map(|((sequence, &batch), rows)| BatchItem { sequence: &mut **sequence, batch, rows }).collect();
        model.forward_each(&mut items).unwrap();
        for ((sequence, batch), rows) in alone.iter_mut().zip(batches).zip(&rows) {
            let expected = read(&mut **sequence, batch);
            let got: Vec<f32> = (0..rows.count()).flat_map(|i| rows.row(i).to_vec()).collect();
            match other {
                None => assert!(got == expected, "{name}"),
                Some(_) => {
                    assert_eq!(got.len(), expected.len(), "{name}");
                    let is_near = got.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-4);
                    assert!(is_near, "{name}");
                }
            }
        }
        let lengths = |all: &[Box<dyn Sequence>]| all.iter().map(|sequence| sequence.len()).collect::<Vec<_>>();
        assert_eq!(lengths(&together), lengths(&alone));
        // Only a path of the tree remains.
        for sequence in [&mut together[3], &mut alone[3]] {
            let held = sequence.len() - 6;
            sequence.truncate(held + 1);
        }
    }
    let mut rows: [Rows; 2] = Default::default();
    let [first, second, ..] = &mut together[..] else { unreachable!() };
    let lengths = [first.len(), second.len()];
    let [rows, other] = &mut rows;
    let bad = [size as u32];
    let mut items = [
        BatchItem { sequence: &mut **first, batch: Batch::chain(&[1], Wanted::Last), rows },
        BatchItem { sequence: &mut **second, batch: Batch::chain(&bad, Wanted::Last), rows: other },
    ];
    assert!(matches!(model.forward_each(&mut items), Err(ModelError::UnknownToken { .. })), "{name}");
    assert_eq!([first.len(), second.len()], lengths, "{name}: all or none");
}

/// After a tree, the kept path is as if it had been read alone: bit for bit, or within a bound.
pub(crate) fn a_path_of_a_tree_is_kept(name: &str, model: &Arc<dyn LanguageModel>, bound: Option<f32>) {
    let size = model.vocabulary_size();
    let mut trunk = model.clone().begin(60).unwrap();
    read(&mut *trunk, Batch::chain(&text(18, 1, size), Wanted::Last));
    let tokens = text(9, 5, size);
    let parents = [None, None, Some(1), Some(1), Some(3), Some(0), Some(4), Some(4), Some(7)];
    let after = text(4, 8, size);
    for path in [&[1, 3, 4, 7, 8][..], &[0, 5], &[1, 2], &[0], &[]] {
        let mut tree = trunk.fork().unwrap();
        read(&mut *tree, Batch::tree(&tokens, &parents));
        tree.keep(18, path).unwrap();
        let mut alone = trunk.fork().unwrap();
        let chain: Vec<u32> = path.iter().map(|&i| tokens[i]).collect();
        read(&mut *alone, Batch::chain(&chain, Wanted::Last));
        assert_eq!(tree.len(), alone.len());
        let [got, expected] = [tree, alone].map(|mut sequence| read(&mut *sequence, Batch::chain(&after, Wanted::All)));
        match bound {
            None => assert!(got == expected, "{name}: {path:?}"),
            Some(bound) => {
                let worst = got.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
                assert!(worst < bound, "{name}: {path:?}: {worst}");
            }
        }
    }
}

/// Several texts continue from one beginning, and so does the beginning itself.
#[allow(dead_code, reason = "not every suite has models with room for that")]
pub(crate) fn forks_go_their_own_ways(name: &str, model: &Arc<dyn LanguageModel>) {
    let size = model.vocabulary_size();
    let (beginning, endings) = (text(33, 2, size), [text(9, 3, size), text(40, 4, size), text(1, 5, size)]);
    let mut origin = model.clone().begin(80).unwrap();
    read(&mut *origin, Batch::chain(&beginning, Wanted::Last));
    let mut forks: Vec<_> = endings.iter().map(|_| origin.fork().unwrap()).collect();
    for half in 0..2 {
        for (fork, ending) in forks.iter_mut().zip(&endings).rev() {
            let (first, second) = ending.split_at(ending.len() / 2);
            let got = read(&mut **fork, Batch::chain([first, second][half], Wanted::All));
            let mut alone = model.clone().begin(80).unwrap();
            read(&mut *alone, Batch::chain(&[&beginning[..], &first[..first.len() * half]].concat(), Wanted::Last));
            assert!(got == read(&mut *alone, Batch::chain([first, second][half], Wanted::All)), "{name}");
        }
        read(&mut *origin, Batch::chain(&[7], Wanted::Last));
    }
}
