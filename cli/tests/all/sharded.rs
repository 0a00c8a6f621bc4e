//! Checkpoints of sharded training, from the command line: converted, used to generate, and damaged.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::Folder;
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/golden/sharded").join(name)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() { copy(&from, &to) } else { fs::copy(&from, &to).map(drop).unwrap() }
    }
}

/// A folder with a checkpoint in `run`, and the model's other files in `model`.
fn with(name: &str) -> Folder {
    let folder = Folder::new();
    copy(&fixture(name), &folder.path("run"));
    copy(&fixture("model"), &folder.path("model"));
    folder
}

fn texts(folder: &Folder, model: &str) -> Value {
    let generate = ["generate", "The ", "--model", model, "--max-tokens", "16", "--seed", "1", "--json"];
    let mut written = folder.run(&generate).succeeds().json();
    written.as_object_mut().unwrap().retain(|key, _| key == "tokens" || key == "text");
    assert_eq!(written["tokens"].as_array().map(Vec::len), Some(16), "{written}");
    written
}

#[test]
fn a_checkpoint_becomes_a_model_that_writes() {
    for (name, called) in [
        ("zero1", "DeepSpeed ZeRO 1, 2 ranks"),
        ("zero2", "DeepSpeed ZeRO 2, 2 ranks"),
        ("zero3", "DeepSpeed ZeRO 3, 2 ranks"),
        ("fsdp2", "torch DCP, 2 files"),
        ("grid", "torch DCP, 2 files"),
    ] {
        let folder = with(name);
        // The weights that the trainers' own tools write.
        copy(&fixture("model"), &folder.path("expected"));
        fs::copy(fixture(&format!("{name}.safetensors")), folder.path("expected/model.safetensors")).unwrap();
        let run = folder.run(&["convert", "run", "--like", "model", "--out", "out"]).succeeds();
        assert!(run.out.starts_with("out\n") && run.out.contains(&format!("MB from {called}\n")), "{}", run.out);
        assert_eq!(texts(&folder, "out"), texts(&folder, "expected"), "{name}");
    }
}

#[test]
fn files_beside_the_checkpoint_and_other_types() {
    let folder = with("zero2");
    copy(&fixture("model"), &folder.path("run"));
    let arguments = ["convert", "run/global_step1", "--from", "zero", "--dtype", "bf16", "--out", "out", "--json"];
    let said = folder.run(&arguments).succeeds().json();
    assert_eq!((&said["folder"], &said["files"]), (&"out".into(), &1.into()), "{said}");
    assert!(said["weights"]["BF16"].as_u64() > Some(1000) && said["weights"]["F32"].is_null(), "{said}");
    texts(&folder, "out");
    // The folder can be converted to a GGUF file.
    assert_eq!(folder.run(&["convert", "out", "--out", "out.gguf", "--format", "f32"]).status, 0);
    texts(&folder, "out.gguf");
}

#[test]
fn options_that_do_not_go_together() {
    let folder = with("grid");
    let fails = |more: &[&str], said: &str| {
        folder.run(&[&["convert", "run", "--out", "out"], more].concat()).fails(said);
        assert!(!folder.path("out").exists());
    };
    fails(&["--format", "q8_0"], "--format is for GGUF files");
    fails(&["--force"], "--force replaces files");
    fails(&[], "there is no config.json in run or /");
    fails(&["--like", "none"], "give a folder of the trained model with --like");
    fails(&["--from", "zero", "--like", "model"], "run is not a checkpoint of DeepSpeed or torch");
    folder.run(&["convert", "model", "--dtype", "f16", "--out", "out"]).fails("--dtype is for checkpoints");
    folder.run(&["convert", "model", "--from", "dcp", "--out", "out"]).fails("files *_optim_states.pt");
    fs::create_dir(folder.path("full")).unwrap();
    folder.write("full/mine", "");
    folder.run(&["convert", "run", "--like", "model", "--out", "full"]).fails("full exists already");
}

/// Asserts that converting a damaged checkpoint fails with this message and leaves nothing behind.
fn damaged(name: &str, damage: impl FnOnce(&Folder), said: &str) {
    let folder = with(name);
    damage(&folder);
    folder.run(&["convert", "run", "--like", "model", "--out", "out"]).fails(said);
    let names = fs::read_dir(folder.path(".")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| name == "run" || name == "model"), "nothing is left behind");
}

const RANK_1: &str = "run/global_step1/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt";

#[test]
fn ranks_that_are_missing_or_too_many() {
    damaged("zero2", |it| fs::remove_file(it.path(RANK_1)).unwrap(), "saved by 2 ranks, and files of 1 are here: copy");
    let rank_0 = RANK_1.replace("rank_1", "rank_0");
    damaged(
        "zero3",
        |it| fs::remove_file(it.path(&rank_0)).unwrap(),
        "zero_pp_rank_0_mp_rank_00_optim_states.pt is missing",
    );
    let model = "run/global_step1/zero_pp_rank_1_mp_rank_00_model_states.pt";
    damaged("zero3", |it| fs::remove_file(it.path(model)).unwrap(), "copy it from the machine of rank 1");
    let third = RANK_1.replace("rank_1", "rank_2");
    let said = "saved by 2 ranks, but files of 3 are here: take away those of another training, from zero_pp_rank_2";
    damaged("zero1", |it| fs::copy(it.path(RANK_1), it.path(&third)).map(drop).unwrap(), said);
    damaged("zero1", |it| it.write("run/latest", "global_step7"), "`latest` names \"global_step7\"");
    damaged("fsdp2", |it| fs::remove_file(it.path("run/__1_0.distcp")).unwrap(), "__1_0.distcp is missing: copy it");
    let half = RANK_1.replace("bf16_", "fp16_");
    let said = "are of the same rank: take away the one of another training";
    damaged("zero1", |it| fs::copy(it.path(RANK_1), it.path(&half)).map(drop).unwrap(), said);
    // A file of another stage.
    let other = fixture("zero3/global_step1/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt");
    let said = "one rank says stage 2 of 2 ranks, another stage 3 of 2: some files are of another training";
    damaged("zero2", |it| fs::copy(&other, it.path(RANK_1)).map(drop).unwrap(), said);
}

#[test]
fn ranks_that_share_more_than_data() {
    let to = |name: &'static str| move |it: &Folder| fs::copy(it.path(RANK_1), it.path(name)).map(drop).unwrap();
    let split = "run/global_step1/bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt";
    damaged("zero1", to(split), "split by the model's parallelism too (mp_rank_01)");
    damaged("zero1", to("run/global_step1/layer_01-model_00-model_states.pt"), "trained in a pipeline");
    damaged("zero1", to("run/global_step1/layer_0_expert_0_mp_rank_00_model_states.pt"), "experts of a mixture");
}

#[test]
fn files_that_are_cut_short() {
    for (name, file) in [("zero1", RANK_1), ("fsdp2", "run/__0_0.distcp"), ("grid", "run/.metadata")] {
        let cut = |it: &Folder| {
            let bytes = fs::read(it.path(file)).unwrap();
            fs::write(it.path(file), &bytes[..bytes.len() / 2]).unwrap();
        };
        damaged(name, cut, "is truncated or damaged");
    }
}

/// Replaces the first or the last occurrence of some bytes with the same number of others.
fn exchange_at(folder: &Folder, file: &str, from: &[u8], to: &[u8], first: bool) {
    let mut bytes = fs::read(folder.path(file)).unwrap();
    let mut windows = bytes.windows(from.len());
    let at = if first { windows.position(|window| window == from) } else { windows.rposition(|window| window == from) };
    let at = at.expect("the file contains the bytes");
    bytes[at..at + from.len()].copy_from_slice(to);
    fs::write(folder.path(file), bytes).unwrap();
}

fn exchange(folder: &Folder, file: &str, from: &[u8], to: &[u8]) {
    exchange_at(folder, file, from, to, false);
}

#[test]
fn pickles_that_attack() {
    let said = "names subprocess.call, which runs code where Python loads it; do not load it";
    damaged("zero1", |it| exchange(it, RANK_1, b"ctorch\nFloatStorage\n", b"csubprocess\ncall\nNNN"), said);
    // Its names are strings, and the module's name appears once for all of its classes.
    let module = b"torch.distributed.checkpoint.metadata";
    let other = b"subprocess.checkpoint.metadata.aaaaaa";
    damaged(
        "fsdp2",
        |it| exchange(it, "run/.metadata", module, other),
        "subprocess.checkpoint.metadata.aaaaaa.Metadata",
    );
}

#[test]
fn shapes_that_do_not_add_up() {
    // 259 rows of an embedding, in 16 bits.
    let (rows, more, fewer) = (b"M\x03\x01K\x03\x86", b"M\x03\x02K\x03\x86", b"M\x03\x00K\x03\x86");
    let model = "run/global_step1/mp_rank_00_model_states.pt";
    damaged("zero1", |it| exchange(it, model, rows, more), "would end beyond; save the checkpoint again");
    damaged("zero1", |it| exchange(it, model, rows, fewer), "the parameters of group 0 have");
    let model = "run/global_step1/zero_pp_rank_0_mp_rank_00_model_states.pt";
    damaged("zero3", |it| exchange(it, model, rows, more), "its share of");
    damaged("zero3", |it| exchange(it, model, rows, fewer), "a rank's shares of all parameters have");
    // The last occurrence is in the output layer, whose strides come before its size.
    let of = "of lm_head.weight";
    damaged(
        "fsdp2",
        |it| exchange(it, "run/.metadata", rows, more),
        &format!("the chunks {of} hold 777 of its 1545 numbers"),
    );
    damaged("fsdp2", |it| exchange(it, "run/.metadata", rows, fewer), &format!("{of} lies outside of it"));
}

/// The embedding of 259 rows is in two chunks, of which the second begins at row 130.
#[test]
fn chunks_that_overlap_or_leave_holes() {
    let change =
        |from: &'static [u8], to: &'static [u8]| move |it: &Folder| exchange_at(it, "run/.metadata", from, to, true);
    let said = "the chunk at [0, 0] of size [130, 3] and the chunk at [129, 0] of size [129, 3] of \
                model.embed_tokens.weight overlap; save the checkpoint again";
    damaged("fsdp2", change(b"K\x82K\x00\x86", b"K\x81K\x00\x86"), said);
    let said = "the chunks of model.embed_tokens.weight hold 774 of its 777 numbers";
    damaged("fsdp2", change(b"K\x82K\x03\x86", b"K\x81K\x03\x86"), said);
    // The position of the output layer's second chunk is recorded for another offset.
    let moved = |it: &Folder| exchange(it, "run/.metadata", b"K\x82K\x00\x86", b"K\x80K\x00\x86");
    damaged("fsdp2", moved, "it does not say where the chunk of lm_head.weight at [130, 0] is");
}
