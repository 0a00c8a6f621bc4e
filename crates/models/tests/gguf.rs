//! GGUF files that ggml's own library wrote (`fixtures/golden/gguf_files.py`).

use std::path::{Path, PathBuf};

use verdigris_kernels::{Format, Weights};
use verdigris_models::{Batch, Device, ModelFolder, Rows, Wanted};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden").join(name)
}

#[test]
fn blocks_are_decoded_as_ggml_does() {
    let blocks = crate::golden::load(fixture("gguf/blocks.safetensors"));
    for (name, format) in [
        ("Q8_0", Format::Q8_0),
        ("Q4_0", Format::Q4_0),
        ("Q4_1", Format::Q4_1),
        ("Q5_0", Format::Q5_0),
        ("Q5_1", Format::Q5_1),
        ("Q2_K", Format::Q2K),
        ("Q3_K", Format::Q3K),
        ("Q4_K", Format::Q4K),
        ("Q5_K", Format::Q5K),
        ("Q6_K", Format::Q6K),
        ("IQ4_NL", Format::Iq4Nl),
        ("IQ4_XS", Format::Iq4Xs),
        ("MXFP4", Format::Mxfp4),
    ] {
        let bytes = blocks[&format!("{name}.bytes")].bytes();
        let numbers = blocks[&format!("{name}.numbers")].numbers();
        let mut got = vec![0.0; numbers.len()];
        Weights::new(format, bytes, numbers.len()).decode(0, &mut got);
        let worst = got.iter().zip(&numbers).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        // Some of these are far smaller, and decoding them is exact.
        let bound = if format == Format::Mxfp4 { 0.0 } else { 1e-6 };
        assert!(worst <= bound, "{name}: {worst}");
    }
}

fn rows(model: &ModelFolder, ids: &[u32]) -> Vec<f32> {
    let mut rows = Rows::default();
    let mut sequence = model.model(&Device::Cpu).unwrap_or_else(|error| panic!("{error}")).begin(64).unwrap();
    sequence.forward(&Batch::chain(ids, Wanted::All), &mut rows).unwrap();
    (0..rows.count()).flat_map(|i| rows.row(i).to_vec()).collect()
}

/// The same weights as in the folders, except for rounding.
#[test]
fn models_are_those_of_their_folders() {
    for (name, bound) in [("llama", 1e-5), ("qwen2", 0.02), ("gemma2", 0.08), ("qwen3", 0.4)] {
        let ids: Vec<u32> = (1..25).map(|i| i * 7 % 61).collect();
        let ours = rows(&ModelFolder::at(fixture(&format!("gguf/{name}.gguf"))), &ids);
        let folder = rows(&ModelFolder::at(fixture(&format!("architectures/{name}"))), &ids);
        let worst = ours.iter().zip(&folder).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        println!("{name}: largest difference {worst}");
        assert!(worst < bound, "{name}: {worst}");
    }
}

/// A model in several files: the first leads to the others, and a missing or misplaced file is named.
#[test]
fn several_files_are_one_model() {
    let ids: Vec<u32> = (1..25).map(|i| i * 7 % 61).collect();
    let first = fixture("gguf/shards-00001-of-00003.gguf");
    assert_eq!(rows(&ModelFolder::at(&first), &ids), rows(&ModelFolder::at(fixture("gguf/qwen2.gguf")), &ids));

    let folder = tempfile::tempdir().unwrap();
    let name = |i: usize| format!("shards-0000{i}-of-00003.gguf");
    let put = |from: usize, to: &str| {
        std::fs::copy(fixture("gguf").join(name(from)), folder.path().join(to)).unwrap();
    };
    let fault = |of: &str| ModelFolder::at(folder.path().join(of)).model(&Device::Cpu).err().unwrap().to_string();
    put(1, &name(1));
    put(3, &name(3));
    assert!(fault(&name(1)).contains("it has no shards-00002-of-00003.gguf"), "{}", fault(&name(1)));
    assert!(fault(&name(3)).contains("it is file 3 of 3 of a model; give the first, shards-00001-of-00003.gguf"));
    put(1, "other.gguf");
    assert!(fault("other.gguf").contains("one of the 3 files of a model, which are found by names like"));
    put(3, &name(2));
    assert!(fault(&name(1)).contains("it does not say that it is file 2 of 3"), "{}", fault(&name(1)));
    let in_memory = ModelFolder::gguf_in_memory(std::fs::read(&first).unwrap());
    assert!(in_memory.model(&Device::Cpu).err().unwrap().to_string().contains("one of the 3 files"));
    // The count of tensors is increased by one.
    let mut bytes = std::fs::read(&first).unwrap();
    let key = b"split.tensors.count";
    let at = bytes.windows(key.len()).position(|window| window == key).unwrap() + key.len() + 4;
    bytes[at] += 1;
    std::fs::write(folder.path().join(name(1)), bytes).unwrap();
    put(2, &name(2));
    assert!(fault(&name(1)).contains("are said to be there"), "{}", fault(&name(1)));
}

#[test]
fn the_tokenizer_is_that_of_its_folder() {
    let ours = ModelFolder::at(fixture("gguf/tokenizer.gguf")).tokenizer().unwrap();
    let theirs = ModelFolder::at(fixture("../models/tale")).tokenizer().unwrap();
    assert_eq!(ours.vocabulary().fingerprint(), theirs.vocabulary().fingerprint());
    for text in ["The captain lifted his lantern.", "  two  spaces\n\n\"É\" 1851, don't", "αβγ 😀 <|endoftext|>"]
    {
        assert_eq!(ours.encode(text).unwrap(), theirs.encode(text).unwrap(), "{text:?}");
    }
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let fault = |bytes: &[u8]| {
        let path = folder.path().join("a.gguf");
        std::fs::write(&path, bytes).unwrap();
        ModelFolder::at(path).model(&Device::Cpu).err().expect("it must not load").to_string()
    };
    let whole = std::fs::read(fixture("gguf/qwen2.gguf")).unwrap();
    assert!(fault(b"").contains("a.gguf is truncated or damaged (it ends too soon)"));
    assert!(fault(&whole[..whole.len() / 2]).contains("lies outside of the file"));
    assert!(fault(&std::fs::read(fixture("gguf/tokenizer.gguf")).unwrap()).contains("missing"));
    let edited = |from: &str, to: &str| {
        let at = whole.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        let mut bytes = whole.clone();
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        bytes
    };
    let twice = fault(&edited("blk.1.ffn_up.weight", "blk.0.ffn_up.weight"));
    assert!(twice.contains("the tensor \"blk.0.ffn_up.weight\" occurs twice"), "{twice}");
    assert!(
        fault(&edited("blk.1.ffn_up.weight", "blk.7.ffn_up.weight"))
            .contains("model.layers.1.mlp.up_proj.weight is missing")
    );
    let missing = ModelFolder::at(folder.path().join("none.gguf")).model(&Device::Cpu).err().unwrap().to_string();
    assert!(missing.contains("there is nothing at that path"), "{missing}");
}
