//! Compares models on a device with the CPU, and measures their speed:
//! `cargo run --release -p verdigris-tests --bin device [DEVICE]`.
//!
//! A device is `cpu`, `cuda` or `cuda:1`; the latter two need `--features cuda`. `candle:cpu`, `candle:cuda` and
//! `candle:cuda:1` are candle's (`--features candle`, `candle-cuda`). `tests/scripts/gpu-check` runs this on a machine
//! with a GPU and keeps the output.
#![forbid(unsafe_code)]

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Instant;

use verdigris::decoding::limits::Limits;
use verdigris::decoding::plain::Plain;
use verdigris::decoding::target::Target;
use verdigris::logits::warp::{Temperature, TopK, TopP};
use verdigris::logits::{Chain, Forbid, Random, Row, Sampler, Steps, Transform};
use verdigris::models::{Batch, BatchItem, Format, LanguageModel, ModelError, Rows, SampleRequest, Sequence, Wanted};
use verdigris::watermark::{Context, Embed, Native};
use verdigris::{Device, Engine, Gamma, Key, Marking, ModelFolder, Stop, Strength, device};
use verdigris_tests::harness;
use verdigris_tests::random_model::{RandomModel, Shape};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

type Suite = fn(&Device) -> Result<()>;

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_else(|| "cpu".into());
    let device = match find(&name) {
        Ok(device) => device,
        Err(fault) => {
            eprintln!("error: {fault}");
            return ExitCode::from(2);
        }
    };
    println!("# Device {name}\n");
    let suites: [(&str, Suite); 6] = [
        ("Rows in f32 are those of the CPU", rows_in_f32),
        ("Rows of weights in blocks", rows_of_blocks),
        ("Greedy texts", greedy_texts),
        ("Everything at once", everything_at_once),
        ("Speed of the fixtures", fixtures),
        ("Speed of shapes that people use", shapes),
    ];
    let mut failed = 0;
    for (title, suite) in suites {
        println!("## {title}\n");
        if let Err(fault) = suite(&device) {
            println!("FAILED: {fault}");
            failed += 1;
        }
        println!();
    }
    harness::counted(suites.len(), failed)
}

/// A device by its name.
fn find(name: &str) -> Result<Device, ModelError> {
    match name.strip_prefix("candle:") {
        None => device(name),
        #[cfg(feature = "candle")]
        Some(name) => Ok(Device::Backend(Arc::new(verdigris::Candle::new(name)?))),
        #[cfg(not(feature = "candle"))]
        Some(_) => {
            let fault = "this program was built without candle (feature `candle`)".into();
            Err(ModelError::Device { name: name.into(), fault })
        }
    }
}

fn folder(name: &str) -> ModelFolder {
    fixture(&format!("models/{name}"))
}

fn fixture(name: &str) -> ModelFolder {
    // On another machine the program runs in the root of a copy of the repository.
    let here = std::path::Path::new("fixtures").join(name);
    ModelFolder::at(if here.exists() { here } else { harness::path("fixtures").join(name) })
}

fn check(ok: bool, fault: impl FnOnce() -> String) -> Result<()> {
    if ok { Ok(()) } else { Err(fault().into()) }
}

const TEXT: [u32; 24] =
    [7, 1000, 3, 42, 4095, 512, 77, 7, 1000, 3, 9, 2048, 64, 65, 66, 1, 2, 300, 301, 302, 5, 6, 7, 8];

fn all_rows(sequence: &mut dyn Sequence, batches: &[Batch<'_>]) -> Result<Vec<Vec<f32>>, ModelError> {
    let (mut all, mut rows) = (Vec::new(), Rows::default());
    for batch in batches {
        sequence.forward(batch, &mut rows)?;
        all.extend((0..rows.count()).map(|i| rows.row(i).to_vec()));
    }
    Ok(all)
}

fn distance(a: &[Vec<f32>], b: &[Vec<f32>]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Rows are the same for any split of a text, in trees, after truncation and in forks.
fn rows_in_f32(device: &Device) -> Result<()> {
    let folder = folder("tale").cached_as(Format::F32);
    let [cpu, model] = [folder.model(&Device::Cpu)?, folder.model(device)?];
    let expected = all_rows(&mut *cpu.clone().begin(64)?, &[Batch::chain(&TEXT, Wanted::All)])?;
    let chunks =
        |size: usize| -> Vec<Batch<'_>> { TEXT.chunks(size).map(|part| Batch::chain(part, Wanted::All)).collect() };
    println!("| rows of `tale` | largest difference |\n|---|--:|");
    let mut worst = 0f32;
    let mut show = |name: &str, difference: f32| {
        worst = worst.max(difference);
        println!("| {name} | {difference:.1e} |");
    };
    for (name, size) in [("all at once", TEXT.len()), ("one at a time", 1), ("in chunks of 5", 5)] {
        show(name, distance(&all_rows(&mut *model.clone().begin(64)?, &chunks(size))?, &expected));
    }
    let mut sequence = model.clone().begin(64)?;
    all_rows(&mut *sequence, &chunks(7))?;
    let mut fork = sequence.fork()?;
    for (name, sequence) in [("after truncation", &mut sequence), ("in a fork", &mut fork)] {
        sequence.truncate(10);
        let rest = all_rows(&mut **sequence, &[Batch::chain(&TEXT[10..], Wanted::All)])?;
        show(name, distance(&rest, &expected[10..]));
    }
    let (tokens, parents) = ([11, 12, 13, 14, 15], [None, Some(0), Some(0), Some(2), None]);
    let tree = |model: &Arc<dyn LanguageModel>| -> Result<Vec<Vec<f32>>> {
        let mut sequence = model.clone().begin(64)?;
        all_rows(&mut *sequence, &[Batch::chain(&TEXT, Wanted::Last)])?;
        Ok(all_rows(&mut *sequence, &[Batch::tree(&tokens, &parents)])?)
    };
    show("in a tree", distance(&tree(&model)?, &tree(&cpu)?));
    check(worst < 2e-3, || format!("{worst} is more than 2e-3"))
}

/// Files of llama.cpp whose matrices are stored in blocks.
fn rows_of_blocks(device: &Device) -> Result<()> {
    println!("| file | largest difference | largest logit |\n|---|--:|--:|");
    for name in ["gemma2", "llama", "qwen2", "qwen3"] {
        let folder = fixture(&format!("golden/gguf/{name}.gguf"));
        let rows = |device: &Device| -> Result<Vec<Vec<f32>>> {
            let model = folder.model(device)?;
            let tokens: Vec<u32> = (0..20).map(|i| i * 7 % model.vocabulary_size() as u32).collect();
            Ok(all_rows(&mut *model.begin(64)?, &[Batch::chain(&tokens, Wanted::All)])?)
        };
        // candle only reads files of Llama.
        if matches!(device, Device::Backend(_)) && name != "llama" {
            println!("| {name} | SKIPPED | |");
            continue;
        }
        let (expected, got) = (rows(&Device::Cpu)?, rows(device)?);
        let (difference, scale) =
            (distance(&got, &expected), distance(&expected, &vec![vec![0.0; expected[0].len()]; 20]));
        println!("| {name} | {difference:.1e} | {scale:.1} |");
        // A CPU rounds rows to 8 bits where weights are in blocks.
        check(difference < 0.05 * scale, || "too far from the CPU".into())?;
    }
    Ok(())
}

/// Greedy decoding, plain and with drafts, gives the text of the CPU up to ties: a device may round a row differently
/// in a batch than alone.
fn greedy_texts(device: &Device) -> Result<()> {
    let cpu = Engine::from_folder(&folder("tale"), &Device::Cpu)?;
    let (engine, small) =
        (Engine::from_folder(&folder("tale"), device)?, Engine::from_folder(&folder("tale-small"), device)?);
    let (mut equal, mut texts, mut widest) = (0, 0, 0f32);
    for prompt in
        ["The captain", "", "'No,' said the", "In the morning the snow lay deep", "one two three one two three one"]
    {
        let expected = cpu.request(prompt).temperature(0.0).max_tokens(60).text()?;
        let request = || engine.request(prompt).temperature(0.0).max_tokens(60);
        for written in [request().text()?, request().draft(&small).draft_tokens(4).text()?, request().lookup().text()?]
        {
            texts += 1;
            let pairs = written.tokens.iter().zip(&expected.tokens);
            let Some(at) = pairs.clone().position(|(a, b)| a != b) else {
                equal += 1;
                continue;
            };
            // Where the texts part, the two tokens must be nearly equal.
            let prompt_tokens = cpu.reader().tokenizer().encode_prompt(prompt).expect("a token for every text");
            let prompt_tokens = if prompt_tokens.is_empty() { cpu.end().to_vec() } else { prompt_tokens };
            let before = [&prompt_tokens[..], &expected.tokens[..at]].concat();
            let rows =
                all_rows(&mut *cpu.model().clone().begin(before.len())?, &[Batch::chain(&before, Wanted::Last)])?;
            let gap = (rows[0][expected.tokens[at] as usize] - rows[0][written.tokens[at] as usize]).abs();
            widest = widest.max(gap);
        }
    }
    println!(
        "{equal} of {texts} texts are those of the CPU; where one parts, the two logits differ by at most {widest:.1e}."
    );
    check(widest < 0.1, || "a text parts where there is no tie".into())
}

fn everything_at_once(device: &Device) -> Result<()> {
    let load = |name: &str| Engine::from_folder(&folder(name), device);
    let (expert, anti) = (load("tale-expert")?, load("tale-small")?);
    let steered = load("tale")?.steered(&[(&expert, &anti, 0.75)])?;
    let key = Key::from_secret([4; 32], "device", Marking::lists(), steered.reader().vocabulary())?;
    let schema = serde_json::json!({
        "type": "array", "minItems": 5, "maxItems": 5,
        "items": {"type": "string", "minLength": 60, "maxLength": 120},
    });
    let request = steered.request("").json_schema(schema.clone()).max_tokens(900).temperature(1.0).top_p(1.0).seed(3);
    let written = request.watermark(&key).draft(&expert).draft_tokens(3).text()?;
    check(written.stop == Some(Stop::End), || format!("it did not end: {}", written.text))?;
    let judge = jsonschema::draft202012::new(&schema)?;
    check(judge.is_valid(&serde_json::from_str(&written.text)?), || format!("not valid: {}", written.text))?;
    let evidence = steered.reader().detect(&key, written.text.as_bytes())?;
    println!(
        "Valid JSON, steered, {} tokens; z {:.1}, p {:.0e}; {:?}.",
        written.tokens.len(),
        evidence.z,
        evidence.p(),
        written.acceptance
    );
    check(evidence.ln_p < -11.5, || "the mark is not found".into())
}

/// Seconds for each of `n` calls, after a few that warm up.
fn time(n: usize, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    for _ in 0..3 {
        call()?;
    }
    let begun = Instant::now();
    for _ in 0..n {
        call()?;
    }
    Ok(begun.elapsed().as_secs_f64() / n as f64)
}

fn fixtures(device: &Device) -> Result<()> {
    println!("| model | written | tokens/s |\n|---|---|--:|");
    let small = Engine::from_folder(&folder("tale-small"), device)?;
    for name in ["tale", "tale-small"] {
        let engine = Engine::from_folder(&folder(name), device)?;
        let key = Key::from_secret([4; 32], "device", Marking::lists(), engine.reader().vocabulary())?;
        let request = || engine.request("The captain").temperature(0.8).top_p(0.95).through_end().max_tokens(200);
        let mut seed = 0;
        let ways = ["plainly", "marked", "with 4 drafts a call"];
        for how in ways {
            let seconds = time(4, || {
                seed += 1;
                let request = match how {
                    "plainly" => request(),
                    "marked" => request().watermark(&key),
                    _ => request().draft(&small).draft_tokens(4),
                };
                request.seed(seed).text()?;
                Ok(())
            })?;
            println!("| {name} | {how} | {:.0} |", 200.0 / seconds);
        }
    }
    transforms(4096)?;
    Ok(())
}

/// The cost of the steps on a row, which run on the CPU.
fn transforms(vocabulary: usize) -> Result<()> {
    let scheme = Native::new(&[1; 32], "", "", Gamma::new(0.25)?, Context::default(), vocabulary);
    let watermark = Embed::new(Arc::new(scheme), Strength::soft(2.0)?);
    let logits: Vec<f32> = (0..vocabulary).map(|i| ((i * 7919) % 1013) as f32 / 100.0).collect();
    let mut row = Row::default();
    println!("\n| steps on a row of {vocabulary} | microseconds |\n|---|--:|");
    let chains = [
        ("watermark", Chain::new().then(watermark)),
        ("temperature, top-p", Chain::new().then(Temperature::new(0.8)?).then(TopP::new(0.95)?)),
    ];
    for (name, chain) in chains {
        let state = chain.start(&[1, 2, 3, 4, 5]);
        let seconds = time(200, || {
            row.load(&logits);
            chain.apply(&state, &mut row);
            Ok(())
        })?;
        println!("| {name} | {:.1} |", 1e6 * seconds);
    }
    Ok(())
}

/// Two common shapes with random weights: their texts mean nothing, only their speed matters.
fn shapes(device: &Device) -> Result<()> {
    if device.to_string().ends_with("cpu") {
        println!("SKIPPED on a CPU, for which there is the program `decode`.");
        return Ok(());
    }
    // The numbers of formats in GGUF files. candle is measured in one format.
    let formats: &[(&str, Option<(Format, u32)>)] = match device {
        Device::Backend(_) => &[("bf16", None)],
        _ => &[("bf16", None), ("q8_0", Some((Format::Q8_0, 8))), ("q4_k", Some((Format::Q4K, 12)))],
    };
    for (name, shape) in [("Llama 3.2 1B", Shape::LLAMA_1B), ("Llama 3.1 8B", Shape::LLAMA_8B)] {
        for &(format_name, format) in formats {
            println!("### {name}, {format_name}\n");
            let folder = match format {
                None => RandomModel::write(shape)?,
                Some((format, number)) => RandomModel::write_in_blocks(shape, format, number)?,
            };
            let begun = Instant::now();
            let model = folder.folder().model(device)?;
            println!("Loaded in {:.1} s; {} bytes of weights.\n", begun.elapsed().as_secs_f64(), folder.bytes());
            prompts(&model)?;
            rows_a_call(&model, 128, folder.bytes(), &[1, 2, 4, 8, 16, 32, 64])?;
            rows_a_call(&model, 2048, folder.bytes(), &[1, 8])?;
            if format.is_none() {
                texts_together(&model, &[1, 16, 64])?;
                tokens_drawn(device, &model)?;
            }
        }
    }
    #[cfg(feature = "cuda")]
    println!("GPUs: {:?}", verdigris::models::gpus());
    println!("\nMemory of the device: {}", device_memory());
    Ok(())
}

fn some_tokens(model: &Arc<dyn LanguageModel>, count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| i * 37 % model.vocabulary_size() as u32).collect()
}

/// The time to read prompts.
fn prompts(model: &Arc<dyn LanguageModel>) -> Result<()> {
    println!("| prompt | milliseconds | tokens/s |\n|--:|--:|--:|");
    for length in [128, 512, 2048, 8000] {
        let (mut sequence, mut rows) = (model.clone().begin(length)?, Rows::default());
        let prompt = some_tokens(model, length);
        let seconds = time(3, || {
            sequence.truncate(0);
            Ok(sequence.forward(&Batch::chain(&prompt, Wanted::Last), &mut rows)?)
        })?;
        println!("| {length} | {:.1} | {:.0} |", 1e3 * seconds, length as f64 / seconds);
    }
    println!();
    Ok(())
}

/// Texts that are continued by one token each, in one call, after 128 tokens.
fn texts_together(model: &Arc<dyn LanguageModel>, counts: &[usize]) -> Result<()> {
    println!("| texts a call | milliseconds | tokens/s |\n|--:|--:|--:|");
    let prompt = some_tokens(model, 128);
    for &count in counts {
        let mut sequences = Vec::new();
        for _ in 0..count {
            let mut sequence = model.clone().begin(256)?;
            sequence.forward(&Batch::chain(&prompt, Wanted::Last), &mut Rows::default())?;
            sequences.push(sequence);
        }
        let (mut all, steps, token) = (vec![Rows::default(); count], Steps::default(), [5]);
        let seconds = time(20, || {
            let items = sequences.iter_mut().zip(&mut all);
            let batch = Batch::chain(&token, Wanted::Last);
            let mut items: Vec<BatchItem<'_>> =
                items.map(|(sequence, rows)| BatchItem { sequence: &mut **sequence, batch, rows }).collect();
            let draw = |item| SampleRequest {
                item,
                row: 0,
                steps: &steps,
                sampler: Sampler::Greedy,
                number: 0.0,
                token: None,
            };
            let mut draws: Vec<SampleRequest<'_>> = (0..count).map(draw).collect();
            if !model.draw_each(&mut items, &mut draws)? {
                model.forward_each(&mut items)?;
            }
            Ok(())
        })?;
        println!("| {count} | {:.3} | {:.0} |", 1e3 * seconds, count as f64 / seconds);
    }
    println!();
    Ok(())
}

/// The cost of calls with one row and with more.
fn rows_a_call(model: &Arc<dyn LanguageModel>, held: usize, bytes: u64, counts: &[usize]) -> Result<()> {
    let tokens = |n: usize| some_tokens(model, n);
    let (mut sequence, mut rows) = (model.clone().begin(held + 64)?, Rows::default());
    sequence.forward(&Batch::chain(&tokens(held), Wanted::Last), &mut rows)?;
    println!("{held} tokens held.\n");
    println!("| rows a call | milliseconds | v(m) | rows/s | weights, GB/s |\n|--:|--:|--:|--:|--:|");
    let (mut one, steps) = (None, Steps::default());
    for &m in counts {
        let next = tokens(m);
        let seconds = time(30, || {
            // Sampled on the device, which returns a token for each row. If the device cannot sample, rows are
            // returned.
            let draw =
                |row| SampleRequest { item: 0, row, steps: &steps, sampler: Sampler::Greedy, number: 0.0, token: None };
            let mut draws: Vec<SampleRequest<'_>> = (0..m).map(draw).collect();
            let batch = Batch::chain(&next, Wanted::All);
            if !sequence.draw(&batch, &mut draws)? {
                sequence.forward(&batch, &mut rows)?;
            }
            sequence.truncate(held);
            Ok(())
        })?;
        let one = *one.get_or_insert(seconds);
        println!(
            "| {m} | {:.3} | {:.2} | {:.0} | {:.0} |",
            1e3 * seconds,
            seconds / one,
            m as f64 / seconds,
            bytes as f64 / seconds / 1e9
        );
    }
    println!();
    Ok(())
}

/// Texts with more and more transforms, and the number of launches on the device per token.
fn tokens_drawn(device: &Device, model: &Arc<dyn LanguageModel>) -> Result<()> {
    let size = model.vocabulary_size();
    let scheme = Native::new(&[1; 32], "", "", Gamma::new(0.25)?, Context::default(), size);
    let scheme = Arc::new(scheme);
    let mark = || Embed::new(scheme.clone(), Strength::soft(2.0).expect("a bias"));
    let every_other: Vec<u32> = (0..size as u32).step_by(2).collect();
    let allow = || Forbid::new(&every_other, size);
    let ways = [
        ("nothing", Chain::new()),
        ("watermark", Chain::new().then(mark())),
        ("watermark, allowed set", Chain::new().then(allow()).then(mark())),
        (
            "watermark, allowed set, temperature, top-k, top-p",
            Chain::new()
                .then(allow())
                .then(mark())
                .then(Temperature::new(0.8)?)
                .then(TopK::new(50)?)
                .then(TopP::new(0.95)?),
        ),
    ];
    println!("| distribution | microseconds a token | launches a token |\n|---|--:|--:|");
    for (name, transforms) in ways {
        let target = Target { transforms, sampler: Sampler::Categorical, random: Random::new(1) };
        let limits = Limits { max_tokens: 200, end: Vec::new() };
        let mut before = 0;
        let seconds = time(3, || {
            before = launches(device);
            let text: Result<Vec<u32>, _> =
                Plain::new(model.clone(), &target, &[1, 2, 3, 4, 5], limits.clone())?.collect();
            text?;
            Ok(())
        })?;
        let each = (launches(device) - before) as f64 / 200.0;
        println!("| {name} | {:.1} | {each:.1} |", 1e6 * seconds / 200.0);
    }
    println!();
    Ok(())
}

/// The number of kernels and graphs that the device was asked to run.
fn launches(device: &Device) -> u64 {
    match device {
        #[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
        Device::Gpu(gpu) => gpu.launches(),
        _ => 0,
    }
}

/// The memory that `nvidia-smi` reports.
fn device_memory() -> String {
    let arguments = ["--query-gpu=name,memory.used,memory.total", "--format=csv,noheader"];
    match Command::new("nvidia-smi").args(arguments).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown: `nvidia-smi` does not run".into(),
    }
}
