//! Checkpoints that DeepSpeed and torch wrote (`fixtures/golden/sharded.py`), compared with the output of their own
//! tools.

use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use verdigris_checkpoint::{Checkpoint, Dtype, Kind, ModelFiles, ModelFolder, Written};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/sharded").join(name)
}

fn model_files() -> ModelFiles {
    ModelFiles::of(&fixture("model")).unwrap()
}

/// The names, types, shapes and bytes in a file, sorted by name.
fn tensors(path: &Path) -> Vec<(String, Dtype, Vec<usize>, Vec<u8>)> {
    let bytes = fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    for (name, it) in file.iter() {
        let at = it.data().as_ptr().addr() - bytes.as_ptr().addr();
        assert!(at.is_multiple_of(it.dtype().bitsize() / 8), "{name} is not aligned");
    }
    let all = file.iter().map(|(name, it)| (name.to_owned(), it.dtype(), it.shape().to_vec(), it.data().to_vec()));
    let mut all: Vec<_> = all.collect();
    all.sort();
    all
}

fn write(folder: &ModelFolder<'_>, to: &Path) -> Written {
    let mut heard = Vec::new();
    let written = folder.write(to, |_| (), |done, of| heard.push((done, of))).unwrap();
    assert!(heard.is_sorted() && heard.iter().all(|&(_, of)| of == written.bytes));
    assert_eq!(heard.last().map(|&(done, _)| done), Some(written.bytes));
    written
}

#[test]
fn weights_are_those_of_zero_to_fp32_and_dcp_to_torch_save() {
    let kinds = [
        ("zero1", Kind::Zero),
        ("zero2", Kind::Zero),
        ("zero3", Kind::Zero),
        ("fsdp2", Kind::Dcp),
        ("grid", Kind::Dcp),
    ];
    for (name, kind) in kinds {
        let checkpoint = Checkpoint::open(&fixture(name), None).unwrap();
        assert_eq!(checkpoint.kind(), kind, "{name}");
        let out = tempfile::tempdir().unwrap();
        let to = out.path().join("model");
        let written = write(&ModelFolder::new(&checkpoint, &model_files()), &to);
        let expected = tensors(&fixture(&format!("{name}.safetensors")));
        assert!(expected.len() >= 12, "{name}");
        assert_eq!(tensors(&to.join("model.safetensors")), expected, "{name}");
        assert_eq!(written.bytes, expected.iter().map(|(.., bytes)| bytes.len() as u64).sum::<u64>());
        for file in ["config.json", "tokenizer.json"] {
            assert_eq!(fs::read(to.join(file)).unwrap(), fs::read(fixture("model").join(file)).unwrap());
        }
    }
}

#[test]
fn what_a_checkpoint_is_called() {
    let described = |name: &str| Checkpoint::open(&fixture(name), None).unwrap().description().to_owned();
    assert_eq!(described("zero1"), "DeepSpeed ZeRO 1, 2 ranks");
    assert_eq!(described("zero3/global_step1"), "DeepSpeed ZeRO 3, 2 ranks");
    assert_eq!(described("grid"), "torch DCP, 2 files");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn folders_as_trainers_have_them() {
    for none in ["model", "none", "zero1.safetensors"] {
        assert_eq!(Checkpoint::recognise(&fixture(none)), None, "{none}");
    }
    let out = tempfile::tempdir().unwrap();
    let at = |name: &str| out.path().join(name);
    let refused = |name: &str| Checkpoint::open(&at(name), None).unwrap_err().to_string();
    // A checkpoint of accelerate, where the optimizer's part is not a model.
    copy(&fixture("grid"), &at("accelerate/pytorch_model_fsdp_0"));
    copy(&fixture("fsdp2"), &at("accelerate/optimizer_0"));
    let checkpoint = Checkpoint::open(&at("accelerate"), None).unwrap();
    assert_eq!(checkpoint.weights()[0].dtype(), Dtype::BF16);
    // Several steps of torchtitan.
    copy(&fixture("grid"), &at("steps/step-2"));
    copy(&fixture("grid"), &at("steps/step-1"));
    assert_eq!(Checkpoint::recognise(&at("steps")), Some(Kind::Dcp));
    assert!(refused("steps").contains("it holds 2 checkpoints: name one of step-1, step-2"), "{}", refused("steps"));
    // DeepSpeed's without `latest`: one, then two.
    copy(&fixture("zero3/global_step1"), &at("zero/global_step1"));
    assert_eq!(Checkpoint::open(&at("zero"), None).unwrap().kind(), Kind::Zero);
    copy(&fixture("zero3/global_step1"), &at("zero/global_step2"));
    assert!(refused("zero").contains("it holds 2 checkpoints and no file `latest`"), "{}", refused("zero"));
    fs::write(at("zero/latest"), "global_step2\n").unwrap();
    assert_eq!(Checkpoint::open(&at("zero"), None).unwrap().kind(), Kind::Zero);
    // A model folder is not converted again.
    fs::write(at("zero/model.safetensors"), "").unwrap();
    assert_eq!(Checkpoint::recognise(&at("zero")), None);
    assert!(refused("zero").contains("it is a model folder already"));
    for (file, said) in [("common.pt", "Megatron Bridge"), ("pytorch_model.bin", "save_pretrained")] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(file), "").unwrap();
        let fault = Checkpoint::open(folder.path(), None).unwrap_err().to_string();
        assert!(fault.contains(said), "{fault}");
    }
}

#[test]
fn several_files_with_an_index() {
    let checkpoint = Checkpoint::open(&fixture("zero2"), None).unwrap();
    let out = tempfile::tempdir().unwrap();
    let to = out.path().join("model");
    let written = write(&ModelFolder::new(&checkpoint, &model_files()).shard_bytes(2000), &to);
    assert!(written.files >= 4, "{written:?}");
    let index: serde_json::Value =
        serde_json::from_slice(&fs::read(to.join("model.safetensors.index.json")).unwrap()).unwrap();
    assert_eq!(index["metadata"]["total_size"], written.bytes);
    let mut all = Vec::new();
    for n in 1..=written.files {
        let file = format!("model-{n:05}-of-{:05}.safetensors", written.files);
        let some = tensors(&to.join(&file));
        assert!(some.len() == 1 || some.iter().map(|(.., bytes)| bytes.len()).sum::<usize>() <= 2000, "{file}");
        assert!(some.iter().all(|(name, ..)| index["weight_map"][name] == file), "{file}");
        all.extend(some);
    }
    all.sort();
    assert_eq!(all, tensors(&fixture("zero2.safetensors")));
    assert_eq!(index["weight_map"].as_object().unwrap().len(), all.len());
}

/// The expected rounding is computed bit by bit: to the nearest, ties to even.
#[test]
fn other_types() {
    let checkpoint = Checkpoint::open(&fixture("zero1"), None).unwrap();
    let out = tempfile::tempdir().unwrap();
    let expected = tensors(&fixture("zero1.safetensors"));
    let to = out.path().join("bf16");
    let written = write(&ModelFolder::new(&checkpoint, &model_files()).stored_as(Dtype::BF16), &to);
    let found = tensors(&to.join("model.safetensors"));
    let integers = expected.iter().filter(|(_, dtype, ..)| *dtype == Dtype::I64).count();
    assert_eq!((integers, written.numbers.len()), (1, 2), "{:?}", written.numbers);
    for ((name, dtype, shape, bytes), (_, _, theirs, as_f32)) in found.iter().zip(&expected) {
        assert_eq!(shape, theirs);
        if *dtype == Dtype::I64 {
            assert_eq!(bytes, as_f32, "{name}");
            continue;
        }
        assert_eq!(*dtype, Dtype::BF16, "{name}");
        let rounded = as_f32.as_chunks().0.iter().flat_map(|&x| {
            let bits = u32::from_le_bytes(x);
            ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).to_le_bytes()[..2].to_vec()
        });
        assert_eq!(*bytes, rounded.collect::<Vec<u8>>(), "{name}");
    }
    // 16-bit numbers are widened without change.
    let grid = Checkpoint::open(&fixture("grid"), None).unwrap();
    let to = out.path().join("f32");
    write(&ModelFolder::new(&grid, &model_files()).stored_as(Dtype::F32), &to);
    let wide = tensors(&to.join("model.safetensors"));
    for ((name, dtype, _, bytes), (.., half)) in wide.iter().zip(tensors(&fixture("grid.safetensors"))) {
        let widened: Vec<u8> = half.as_chunks().0.iter().flat_map(|&[a, b]| [0, 0, a, b]).collect();
        assert_eq!((*dtype, bytes), (Dtype::F32, &widened), "{name}");
    }
}

#[test]
fn nothing_is_replaced_and_nothing_is_half_written() {
    let checkpoint = Checkpoint::open(&fixture("zero3"), None).unwrap();
    let out = tempfile::tempdir().unwrap();
    let files = model_files();
    let folder = ModelFolder::new(&checkpoint, &files);
    fs::write(out.path().join("file"), "mine").unwrap();
    fs::create_dir(out.path().join("full")).unwrap();
    fs::write(out.path().join("full/file"), "mine").unwrap();
    for there in ["file", "full"] {
        let fault = folder.write(&out.path().join(there), |_| (), |_, _| ()).unwrap_err().to_string();
        assert!(fault.ends_with("exists already: choose another name, or remove it"), "{fault}");
    }
    let fault = folder.write(&out.path().join("none/model"), |_| (), |_, _| ()).unwrap_err().to_string();
    assert!(fault.starts_with("cannot write"), "{fault}");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 2, "nothing else stays");
    assert_eq!(fs::read_to_string(out.path().join("full/file")).unwrap(), "mine");
    fs::create_dir(out.path().join("empty")).unwrap();
    write(&folder, &out.path().join("empty"));
    assert!(out.path().join("empty/model.safetensors").is_file());
}

#[cfg(unix)]
#[test]
fn files_have_the_mode_of_any_new_file() {
    use std::os::unix::fs::PermissionsExt;
    let checkpoint = Checkpoint::open(&fixture("grid"), None).unwrap();
    let out = tempfile::tempdir().unwrap();
    write(&ModelFolder::new(&checkpoint, &model_files()), &out.path().join("model"));
    fs::create_dir(out.path().join("usual")).unwrap();
    fs::write(out.path().join("usual/file"), "").unwrap();
    let mode = |path: &str| fs::metadata(out.path().join(path)).unwrap().permissions().mode();
    assert_eq!(mode("model"), mode("usual"));
    assert_eq!(mode("model/model.safetensors"), mode("usual/file"));
}
