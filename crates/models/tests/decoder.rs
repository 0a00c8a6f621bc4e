//! The decoder on the fixture models: correct numbers, and the contract of a sequence.

use std::path::Path;
use std::sync::Arc;

use verdigris_models::{Batch, Device, Format, LanguageModel, ModelFolder, Rows, Sequence, Wanted};

use crate::golden::{distance, rows};

fn folder(name: &str) -> ModelFolder {
    ModelFolder::at(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models").join(name))
}

fn decoder(name: &str) -> Arc<dyn LanguageModel> {
    folder(name).cached_as(Format::F32).load(&Device::Cpu).unwrap().model
}

fn sequence(decoder: &Arc<dyn LanguageModel>) -> Box<dyn Sequence> {
    decoder.clone().begin(400).unwrap()
}

const TEXT: [u32; 12] = [412, 7, 1999, 88, 1024, 300, 12, 12, 4095, 2, 777, 51];

/// `fixtures/golden/tale_logits.safetensors` holds the logits of `transformers`, in f32.
#[test]
fn logits_equal_transformers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/tale_logits.safetensors");
    let golden = crate::golden::load(path);
    let ids = golden["ids"].integers();
    let got = rows(&mut *sequence(&decoder("tale")), Batch::chain(&ids, Wanted::All));
    assert_eq!(got.len(), 320);
    let positions = golden["positions"].integers();
    let some: Vec<Vec<f32>> = positions.iter().map(|&position| got[position as usize].clone()).collect();
    let worst = distance(&some, &golden["logits"].rows());
    println!("largest difference to transformers: {worst:e}");
    assert!(worst <= 1e-4, "{worst}");
}

/// A cache in fewer bits is close to an exact one, and each format keeps the contract of a sequence.
#[test]
fn caches_of_fewer_bits() {
    let exact = rows(&mut *sequence(&decoder("tale-small")), Batch::chain(&TEXT, Wanted::All));
    for (format, bound) in [(Format::F16, 0.01), (Format::Bf16, 0.1), (Format::Q8_0, 0.1)] {
        let model = folder("tale-small").cached_as(format).model(&Device::Cpu).unwrap();
        let got = rows(&mut *sequence(&model), Batch::chain(&TEXT, Wanted::All));
        let worst = distance(&got, &exact);
        println!("{format:?}: largest difference {worst}");
        assert!(worst > 0.0 && worst < bound, "{format:?}: {worst}");
        let mut split = sequence(&model);
        let one_by_one: Vec<_> =
            TEXT.iter().flat_map(|token| rows(&mut *split, Batch::chain(&[*token], Wanted::All))).collect();
        assert!(one_by_one == got, "{format:?}");
    }
    assert!(folder("tale-small").cached_as(Format::Q4K).model(&Device::Cpu).is_err());
}

/// Latent vectors and the rotated elements of keys are all that is stored of a token: 16 + 8 numbers in each of two
/// layers. Blocks of 32 do not fit.
#[test]
fn latent_vectors_are_cached() {
    for name in ["deepseek_v3", "deepseek_v3-whole", "glm4_moe_lite"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/architectures").join(name);
        let golden = crate::golden::load(path.join("logits.safetensors"));
        let ids = golden["ids"].integers();
        for (format, bytes, most) in [(Format::F32, 4, 1e-5), (Format::F16, 2, 1e-2), (Format::Bf16, 2, 1e-1)] {
            let model = ModelFolder::at(&path).cached_as(format).model(&Device::Cpu).unwrap();
            let pages = model.pages();
            assert_eq!(pages.bytes, Some(pages.tokens * 2 * (16 + 8) * bytes), "{name} {format:?}");
            let got = rows(&mut *model.begin(ids.len()).unwrap(), Batch::chain(&ids, Wanted::All));
            let rows = got.chunks(1).zip(golden["logits"].rows()).map(|(got, exact)| distance(got, &[exact]));
            let mut differences: Vec<f32> = rows.collect();
            differences.sort_by(f32::total_cmp);
            // A row whose experts change is far off.
            let (usual, worst) = (differences[differences.len() / 2], differences[differences.len() - 1]);
            println!("{name} {format:?}: {usual:e}, at most {worst:e}");
            assert!(usual > 0.0 && usual < most, "{name} {format:?}: {differences:?}");
        }
        let fault = ModelFolder::at(&path).cached_as(Format::Q8_0).model(&Device::Cpu).err().unwrap().to_string();
        assert!(fault.contains("16 elements cannot be kept as Q8_0"), "{fault}");
    }
}

#[test]
fn splitting_a_text_into_batches_changes_no_bit() {
    let decoder = decoder("tale-small");
    let whole = rows(&mut *sequence(&decoder), Batch::chain(&TEXT, Wanted::All));
    for sizes in [vec![1; 12], vec![5, 7], vec![3, 1, 8], vec![11, 1]] {
        let (mut split, mut at) = (sequence(&decoder), 0);
        let mut got = Vec::new();
        for size in sizes {
            got.extend(rows(&mut *split, Batch::chain(&TEXT[at..at + size], Wanted::All)));
            at += size;
        }
        assert!(got == whole);
        assert_eq!(split.len(), 12);
    }
    let last = rows(&mut *sequence(&decoder), Batch::chain(&TEXT, Wanted::Last));
    assert!(last == whole[11..]);
}

#[test]
fn truncated_tokens_never_came() {
    let decoder = decoder("tale-small");
    let mut sequence = sequence(&decoder);
    let first = rows(&mut *sequence, Batch::chain(&TEXT, Wanted::All));
    sequence.truncate(4);
    rows(&mut *sequence, Batch::chain(&[9; 20], Wanted::Last));
    sequence.truncate(4);
    assert_eq!(sequence.len(), 4);
    assert!(rows(&mut *sequence, Batch::chain(&TEXT[4..], Wanted::All)) == first[4..]);
}

#[test]
fn a_fork_and_its_origin_are_apart() {
    let decoder = decoder("tale-small");
    let mut origin = sequence(&decoder);
    rows(&mut *origin, Batch::chain(&TEXT[..6], Wanted::Last));
    let mut fork = origin.fork().unwrap();
    rows(&mut *fork, Batch::chain(&[1, 2, 3, 4, 5, 6], Wanted::Last));
    let after = rows(&mut *origin, Batch::chain(&TEXT[6..], Wanted::All));
    assert!(after == rows(&mut *sequence(&decoder), Batch::chain(&TEXT, Wanted::All))[6..]);
    fork.truncate(6);
    assert!(rows(&mut *fork, Batch::chain(&TEXT[6..], Wanted::All)) == after);
}

/// Each node of a token tree has, bit for bit, the row that it has at the end of its path alone.
#[test]
fn a_tree_is_its_paths() {
    let decoder = decoder("tale-small");
    let tokens = [10, 20, 30, 40, 50, 60];
    let parents = [None, Some(0), Some(0), Some(2), None, Some(1)];
    let mut trunk = sequence(&decoder);
    rows(&mut *trunk, Batch::chain(&TEXT, Wanted::Last));
    let tree = rows(&mut *trunk.fork().unwrap(), Batch::tree(&tokens, &parents));
    for node in 0..tokens.len() {
        let mut path = vec![tokens[node]];
        let mut at = node;
        while let Some(parent) = parents[at] {
            path.insert(0, tokens[parent]);
            at = parent;
        }
        let alone = rows(&mut *trunk.fork().unwrap(), Batch::chain(&path, Wanted::Last));
        assert!(tree[node] == alone[0], "node {node}");
    }
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let decoder = decoder("tale-small");
    let mut sequence = decoder.clone().begin(5).unwrap();
    let mut rows = Rows::default();
    let error = sequence.forward(&Batch::chain(&[4096], Wanted::Last), &mut rows).unwrap_err();
    assert!(error.to_string().contains("token 4096 is outside"), "{error}");
    sequence.forward(&Batch::chain(&[1; 5], Wanted::Last), &mut rows).unwrap();
    let error = sequence.forward(&Batch::chain(&[1], Wanted::Last), &mut rows).unwrap_err();
    assert!(error.to_string().contains("6 tokens do not fit"), "{error}");
    assert_eq!(sequence.len(), 5);
    assert!(decoder.begin(1 << 20).is_err());
}
