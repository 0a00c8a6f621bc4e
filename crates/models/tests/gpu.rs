//! Every architecture and format on a GPU, or its emulation, compared with `transformers` and the CPU:
//! `VERDIGRIS_GPU=0` selects a real one.
#![cfg(feature = "emulated-cuda")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use verdigris_logits::steps::Steps;
use verdigris_logits::warp::{Temperature, TopK, TopP};
use verdigris_logits::{Chain, Forbid, Purpose, Random, Row, Sampler, Transform};
use verdigris_models::{
    Batch, BatchItem, CacheLayout, Device, Format, LanguageModel, ModelError, ModelFolder, Rows, SampleRequest, Wanted,
    device,
};

#[allow(dead_code, reason = "the other distributions are tried with models on CPUs")]
mod distributions;
mod golden;
#[path = "../../../tests/src/sampled.rs"]
mod sampled;

use distributions::{read, text};
use sampled::sampled;

fn gpu() -> Device {
    let number = std::env::var("VERDIGRIS_GPU").unwrap_or_else(|_| "emulated".into());
    device(&format!("cuda:{number}")).unwrap()
}

fn fixtures() -> PathBuf {
    // When the test is copied to another machine, it runs in the root of the repository there.
    let there = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    if there.exists() { there } else { "fixtures".into() }
}

fn architectures() -> Vec<PathBuf> {
    let all = std::fs::read_dir(fixtures().join("golden/architectures")).unwrap();
    let mut all: Vec<PathBuf> = all.map(|entry| entry.unwrap().path()).collect();
    all.sort();
    assert!(all.len() >= 25, "{all:?}");
    all
}

/// The same model on the CPU and on the GPU.
fn both(folder: &ModelFolder) -> [Arc<dyn LanguageModel>; 2] {
    // Small pages, so that texts have several.
    let folder = folder.clone().cache_layout(CacheLayout::Paged { tokens: 8 });
    [Device::Cpu, gpu()].map(|device| folder.model(&device).unwrap_or_else(|error| panic!("{error}")))
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, |worst, d| if d > worst || d.is_nan() { d } else { worst })
}

/// All at once, one token at a time, in chunks, after truncating, and as a branch of a tree, also after a path of it is
/// kept.
#[test]
fn logits_are_those_of_transformers() {
    let mut compared = 0;
    for folder in sampled(architectures(), 3) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let golden = golden::load(folder.join("logits.safetensors"));
        let ids = golden["ids"].integers();
        let logits = golden["logits"].numbers();
        // Some models are refused by name.
        if let Err(ModelError::NotOnGpu(_)) = ModelFolder::at(&folder).model(&gpu()) {
            continue;
        }
        compared += 1;
        let [_, model] = both(&ModelFolder::at(&folder));
        let size = model.vocabulary_size();
        let begin = || model.clone().begin(ids.len() + 3).unwrap();
        let close = |got: &[f32], from: usize, how: &str| {
            let worst = distance(got, &logits[from * size..]);
            assert!(worst <= 1e-4, "{name} {how}: {worst}");
        };
        let mut exactly = model.clone().begin(ids.len()).unwrap();
        close(&read(&mut *exactly, Batch::chain(&ids, Wanted::All)), 0, "at once");
        // The angles of some depend on how long a text may become; all texts below have the same capacity.
        if name.contains("dynamic") || name.contains("long") || name.contains("short") {
            continue;
        }
        for chunk in [1, 5] {
            let mut sequence = begin();
            let all = ids.chunks(chunk).flat_map(|ids| read(&mut *sequence, Batch::chain(ids, Wanted::All)));
            close(&all.collect::<Vec<_>>(), 0, "in chunks");
        }
        let mut sequence = begin();
        read(&mut *sequence, Batch::chain(&ids, Wanted::Last));
        sequence.truncate(9);
        let mut fork = sequence.fork().unwrap();
        close(&read(&mut *sequence, Batch::chain(&ids[9..], Wanted::All)), 9, "after cutting back");
        // Two branches: a wrong one, and the text.
        let tokens: Vec<u32> = [1, 2].into_iter().chain(ids[9..].iter().copied()).collect();
        let parent = |i: usize| if i == 0 || i == 2 { None } else { Some(i - 1) };
        let parents: Vec<Option<usize>> = (0..tokens.len()).map(parent).collect();
        let mut tree = fork.fork().unwrap();
        let rows = read(&mut *tree, Batch::tree(&tokens, &parents));
        close(&rows[2 * size..], 9, "as a branch");
        let path: Vec<usize> = (2..8).collect();
        tree.keep(9, &path).unwrap();
        close(&read(&mut *tree, Batch::chain(&ids[15..], Wanted::All)), 15, "after a path that is kept");
        close(&read(&mut *fork, Batch::chain(&ids[9..], Wanted::All)), 9, "in a fork");
    }
    let least = if sampled::seed().is_some() { 8 } else { 25 };
    assert!(compared >= least, "{compared}");
}

/// Adapters, which are merged on a GPU.
#[test]
fn logits_of_adapters_are_those_of_peft() {
    for entry in std::fs::read_dir(fixtures().join("golden/adapters")).unwrap() {
        let folder = entry.unwrap().path();
        // The adapter that tests of whole programs use has no logits.
        let Some(logits) = Some(folder.join("logits.safetensors")).filter(|path| path.exists()) else { continue };
        let golden = golden::load(logits);
        let ids = golden["ids"].integers();
        let [_, model] = both(&ModelFolder::find(&folder, |_| ()).unwrap());
        let rows = read(&mut *model.begin(ids.len()).unwrap(), Batch::chain(&ids, Wanted::All));
        let worst = distance(&rows, &golden["logits"].numbers());
        assert!(worst <= 1e-4, "{}: {worst}", folder.display());
    }
}

/// Files of llama.cpp, in all the formats that they have.
#[test]
fn stored_weights_are_those_of_the_cpu() {
    for name in ["gemma2", "llama", "qwen2", "qwen3"] {
        let folder = ModelFolder::at(fixtures().join(format!("golden/gguf/{name}.gguf")));
        let [cpu, gpu] = both(&folder);
        let ids = text(20, 1, cpu.vocabulary_size());
        let [expected, got] =
            [cpu, gpu].map(|model| read(&mut *model.begin(20).unwrap(), Batch::chain(&ids, Wanted::All)));
        let scale = expected.iter().fold(0f32, |most, x| most.max(x.abs()));
        let worst = distance(&got, &expected);
        println!("{name}: {worst} of {scale}");
        // A CPU rounds rows to 8 bits if weights are in blocks; a GPU does not.
        assert!(worst <= 0.05 * scale, "{name}: {worst} of {scale}");
    }
}

#[test]
fn caches_may_be_in_fewer_bits() {
    let folder = ModelFolder::at(fixtures().join("models/tale-small"));
    let ids = text(40, 2, 4096);
    for (format, bound) in [(Format::F32, 1e-3), (Format::F16, 0.02), (Format::Bf16, 0.1), (Format::Q8_0, 0.3)] {
        let [cpu, gpu] = both(&folder.clone().cached_as(format));
        let [expected, got] =
            [cpu, gpu].map(|model| read(&mut *model.begin(40).unwrap(), Batch::chain(&ids, Wanted::All)));
        let worst = distance(&got, &expected);
        println!("{format:?}: {worst}");
        assert!(worst <= bound, "{format:?}: {worst}");
    }
    let in_one_piece = folder.cache_layout(CacheLayout::Contiguous).model(&gpu()).err().unwrap().to_string();
    assert!(in_one_piece.contains("in pages"), "{in_one_piece}");
}

#[test]
fn memory_that_is_not_there_is_an_error_that_says_how_much() {
    let Device::Gpu(gpu) = gpu() else { unreachable!("a GPU was asked for") };
    let error = ModelError::from(gpu.allocate(1 << 50).expect_err("nobody has so much")).to_string();
    assert!(error.contains("1048576.0 GiB are needed"), "{error}");
}

/// Only on the emulation, since other processes use a GPU too.
#[test]
fn memory_of_texts_that_have_ended_is_free() {
    if std::env::var_os("VERDIGRIS_GPU").is_some() {
        return;
    }
    let [_, model] = both(&ModelFolder::at(fixtures().join("models/tale-small")));
    let free = || model.free_bytes().unwrap().unwrap();
    let page = model.pages().bytes.unwrap() as u64;
    let prompt = text(300, 3, model.vocabulary_size());
    let mut short = model.clone().begin(10).unwrap();
    read(&mut *short, Batch::chain(&[5], Wanted::Last));
    for token in [6, 7] {
        let mut long = model.clone().begin(320).unwrap();
        read(&mut *long, Batch::chain(&prompt, Wanted::Last));
        let with_both = free();
        drop(long);
        read(&mut *short, Batch::chain(&[token], Wanted::Last));
        assert!(free() >= with_both + 300 / 8 * page, "{} {with_both}", free());
    }
    let before = free();
    let most = (before - (1 << 30)) / page * 8;
    model.check_room(most as usize).unwrap();
    let error = model.check_room(most as usize + 1).unwrap_err().to_string();
    assert!(error.contains(&format!("free; hold at most {most} tokens")), "{error}");
}

#[test]
fn several_sequences_have_the_rows_that_each_has_alone() {
    for name in ["bloom", "gemma2", "mistral"] {
        let [cpu, gpu] = both(&ModelFolder::at(fixtures().join("golden/architectures").join(name)));
        distributions::together_as_alone(name, &gpu, Some(&cpu));
    }
}

/// A prompt that is longer than one pass through the layers, and then token by token.
#[test]
fn a_long_prompt_is_read_in_chunks() {
    let [cpu, gpu] = both(&ModelFolder::at(fixtures().join("models/tale-small")).cached_as(Format::F32));
    let size = cpu.vocabulary_size();
    let prompt = text(cpu.context_length().min(540), 3, size);
    assert!(prompt.len() > 516, "longer than a chunk");
    let [expected, got] = [&cpu, &gpu].map(|model| {
        let mut sequence = model.clone().begin(prompt.len()).unwrap();
        let first = read(&mut *sequence, Batch::chain(&prompt[..prompt.len() - 4], Wanted::Last));
        let rest =
            prompt[prompt.len() - 4..].iter().flat_map(|&id| read(&mut *sequence, Batch::chain(&[id], Wanted::All)));
        [first, rest.collect()].concat()
    });
    let worst = distance(&got, &expected);
    assert!(worst < 1e-3, "{worst}");
}

/// A row has the same bits alone, with guesses after it, with other texts, and at the end of a prompt, where sums over
/// the keys of a long text are split. Passes of the same size differ in the number of wanted rows, so that graphs
/// differ too.
#[test]
fn company_changes_no_bit() {
    let [_, model] = both(&ModelFolder::at(fixtures().join("models/tale-small")));
    let size = model.vocabulary_size();
    let (prompt, next) = (text(300, 3, size), [7, 8, 9, 10, 11]);
    let mut held = model.clone().begin(320).unwrap();
    read(&mut *held, Batch::chain(&prompt, Wanted::Last));
    let others: Vec<Vec<u32>> = [13, 10, 1].iter().map(|&length| text(length, 5, size)).collect();
    for round in 0..3 {
        let alone = read(&mut *held.fork().unwrap(), Batch::chain(&next[..1], Wanted::Last));
        let guessed = read(&mut *held.fork().unwrap(), Batch::chain(&next, Wanted::All));
        assert!(alone == guessed[..size], "with guesses, round {round}");
        for wanted in [Wanted::Last, Wanted::All] {
            let mut sequences = vec![held.fork().unwrap()];
            sequences.extend(others.iter().map(|_| model.clone().begin(60).unwrap()));
            let tokens: Vec<&[u32]> = std::iter::once(&next[..1]).chain(others.iter().map(Vec::as_slice)).collect();
            let mut rows: [Rows; 4] = Default::default();
            let items = sequences.iter_mut().zip(&tokens).zip(&mut rows);
            let mut items: Vec<BatchItem<'_>> = items
                .map(|((sequence, tokens), rows)| BatchItem {
                    sequence: &mut **sequence,
                    batch: Batch::chain(tokens, wanted),
                    rows,
                })
                .collect();
            model.forward_each(&mut items).unwrap();
            assert!(alone == rows[0].row(0), "with others, {wanted:?}, round {round}");
        }
    }
    let alone = read(&mut *held.fork().unwrap(), Batch::chain(&next[..1], Wanted::Last));
    let mut whole = model.clone().begin(320).unwrap();
    let at_once = read(&mut *whole, Batch::chain(&[&prompt[..], &next[..1]].concat(), Wanted::Last));
    assert!(alone == at_once, "at the end of a prompt");
}

/// Tokens sampled on the GPU are those sampled from the rows that it returns.
#[test]
fn tokens_are_drawn_where_the_rows_are() {
    let [_, model] = both(&ModelFolder::at(fixtures().join("golden/architectures/qwen3")));
    let size = model.vocabulary_size();
    let distribution = Chain::new()
        .then(Forbid::new(&[5, 6], size))
        .then(Temperature::new(0.8).unwrap())
        .then(TopK::new(40).unwrap())
        .then(TopP::new(0.9).unwrap());
    let (mut row, mut steps) = (Row::default(), Steps::default());
    assert!(row.record(size, &mut steps, |row| distribution.apply(&distribution.start(&[]), row)));
    let ids = text(6, 4, size);
    let (mut drawing, mut reading) = (model.clone().begin(40).unwrap(), model.clone().begin(40).unwrap());
    for round in 0..6 {
        let number = |i: usize| Random::new(round).uniform(i as u64, Purpose::Token);
        let sampler = |i: usize| if i == 2 { Sampler::Greedy } else { Sampler::Categorical };
        let draw = |i: usize| SampleRequest {
            item: 0,
            row: i,
            steps: &steps,
            sampler: sampler(i),
            number: number(i),
            token: None,
        };
        let mut draws: Vec<SampleRequest<'_>> = (0..ids.len()).map(draw).collect();
        let batch = Batch::chain(&ids, Wanted::All);
        assert!(drawing.draw(&batch, &mut draws).unwrap());
        let mut rows = Rows::default();
        reading.forward(&batch, &mut rows).unwrap();
        for (i, drawn) in draws.iter().enumerate() {
            row.load(rows.row(i));
            distribution.apply(&distribution.start(&[]), &mut row);
            assert_eq!(drawn.token, sampler(i).sample(&row, number(i)), "round {round}, row {i}");
        }
    }
    assert_eq!(drawing.len(), reading.len());
}
