//! Models that several ranks compute: the rows of one process, and the contract of a sequence.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use verdigris_models::collective::{Collective, CollectiveError, Listener, Tcp};
use verdigris_models::{
    BadSplit, Batch, Deadlines, Device, Format, LanguageModel, ModelError, ModelFolder, Ranks, Rows, Split, Wanted,
};

use crate::distributions::{read, text};

const DEADLINES: Deadlines = Deadlines { call: Duration::from_secs(20), idle: Duration::from_secs(60) };

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// Keys and values are exact: with half precision, a difference in the last bit may become one in the tenth.
fn tale_small() -> ModelFolder {
    ModelFolder::at(fixtures().join("models/tale-small")).cached_as(Format::F32)
}

type Served = JoinHandle<Result<(), ModelError>>;

/// A model on ranks that are connected by loopback.
fn on_ranks(folder: &ModelFolder, split: Split, world: usize) -> (Arc<dyn LanguageModel>, Vec<Served>) {
    let mut addresses = Vec::new();
    let others = (1..world).map(|_| {
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        addresses.push(listener.address().to_string());
        let shared = folder.shared().unwrap();
        std::thread::spawn(move || shared.wait(listener, split, Some(world), DEADLINES, |_| ())?.serve())
    });
    let others = others.collect();
    let ranks = Ranks { addresses, split, deadlines: DEADLINES };
    (folder.model(&Device::Ranks(Arc::new(ranks))).unwrap(), others)
}

/// The other ranks end when the model is dropped.
fn end(model: Arc<dyn LanguageModel>, others: Vec<Served>) {
    assert_eq!(Arc::strong_count(&model), 1);
    drop(model);
    others.into_iter().for_each(|other| other.join().unwrap().unwrap());
}

/// The rows of a text that is read in several ways: a prompt, a tree, truncated tokens, one token.
fn rows_of(model: &Arc<dyn LanguageModel>) -> Vec<f32> {
    let size = model.vocabulary_size();
    let tokens = text(24, 6, size);
    let parents = [None, Some(0), Some(0), Some(1)];
    let mut sequence = model.clone().begin(40).unwrap();
    let mut rows = read(&mut *sequence, Batch::chain(&tokens[..13], Wanted::All));
    rows.extend(read(&mut *sequence, Batch::tree(&tokens[13..17], &parents)));
    sequence.keep(13, &[0, 2]).unwrap();
    rows.extend(read(&mut *sequence, Batch::chain(&tokens[17..22], Wanted::Last)));
    sequence.truncate(11);
    rows.extend(read(&mut *sequence, Batch::chain(&tokens[22..], Wanted::All)));
    rows
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Every architecture: split by layers bit for bit, split within layers up to rounding; otherwise the split is refused
/// by name.
#[test]
fn every_architecture_has_the_rows_of_one_process() {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(fixtures().join("golden/architectures"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.sort();
    let (mut worst, mut refused) = (0f32, Vec::new());
    for path in &folders {
        let (folder, name) = (ModelFolder::at(path), path.file_name().unwrap().to_string_lossy());
        let alone = rows_of(&folder.model(&Device::Cpu).unwrap());
        for (split, world) in [(Split::Tensor, 2), (Split::Tensor, 4), (Split::Layers, 2)] {
            if let Err(fault) = folder.shared().unwrap().check(split, world) {
                // Only layers of attention and one network are cut, and layers with states are on one rank, as are
                // layers that read more of others than the residual stream.
                let config = folder.config().unwrap();
                let said = fault.to_string();
                let is_whole = config.per_layer.is_some() || config.attentions().any(|one| one.reads.is_some());
                match config.alike() {
                    _ if is_whole => assert!(said.contains("cannot be split across ranks"), "{name}: {said}"),
                    _ if config.is_recurrent() => assert!(said.contains("run it on one rank"), "{name}: {said}"),
                    Some((attention, _)) if !attention.sinks => refused.push(format!("{name} {split} {world}: {said}")),
                    _ => assert!(split == Split::Tensor && said.contains("take --split layers"), "{name}: {said}"),
                }
                continue;
            }
            let (model, others) = on_ranks(&folder, split, world);
            let got = rows_of(&model);
            end(model, others);
            let difference = largest_difference(&got, &alone);
            match split {
                Split::Layers => assert!(got == alone, "{name}: {difference}"),
                Split::Tensor => assert!(difference <= 1e-4, "{name} on {world}: {difference}"),
            }
            worst = worst.max(difference);
        }
    }
    println!("{} architectures, largest difference {worst:e}; refused: {refused:#?}", folders.len());
    assert!(worst > 0.0, "parts are summed in another order");
    assert!(refused.iter().all(|line| line.contains("tensor 4: ") && line.contains("attention heads")), "{refused:#?}");
}

/// Up to one rank per head or layer.
#[test]
fn more_ranks_have_the_rows_too() {
    let folder = tale_small();
    let alone = rows_of(&folder.model(&Device::Cpu).unwrap());
    for (split, world) in [(Split::Tensor, 2), (Split::Tensor, 4), (Split::Layers, 2), (Split::Layers, 4)] {
        if folder.shared().unwrap().check(split, world).is_err() {
            continue;
        }
        let (model, others) = on_ranks(&folder, split, world);
        let difference = largest_difference(&rows_of(&model), &alone);
        end(model, others);
        println!("{split} on {world}: {difference:e}");
        assert!(difference <= if split == Split::Layers { 0.0 } else { 1e-4 }, "{split} {world}: {difference}");
    }
}

#[test]
fn one_rank_is_the_model() {
    let alone = rows_of(&tale_small().model(&Device::Cpu).unwrap());
    for split in [Split::Tensor, Split::Layers] {
        let (model, others) = on_ranks(&tale_small(), split, 1);
        assert!(rows_of(&model) == alone);
        end(model, others);
    }
}

/// Weights in blocks: a rank has whole blocks, or the split is refused by name.
#[test]
fn blocks_are_shared_out_whole_or_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let converted = |model: &str, format| {
        let path = folder.path().join(format!("{model}-{format:?}.gguf"));
        ModelFolder::at(fixtures().join("models").join(model)).convert(&path, format, false, |_, _| ()).unwrap();
        ModelFolder::at(path).cached_as(Format::F32)
    };
    for (model, format) in [("tale-small", Format::Q8_0), ("tale-small", Format::Q4_0), ("tale", Format::Q8_0)] {
        let folder = converted(model, format);
        let alone = rows_of(&folder.model(&Device::Cpu).unwrap());
        for (split, world) in [(Split::Tensor, 2), (Split::Tensor, 4), (Split::Layers, 3)] {
            let (model, others) = on_ranks(&folder, split, world);
            let difference = largest_difference(&rows_of(&model), &alone);
            end(model, others);
            println!("{format:?}, {split} on {world}: {difference:e}");
            // Activations are rounded to 8 bits before each product, so a difference in the last bit may change the
            // rounding.
            assert!(difference <= if split == Split::Layers { 0.0 } else { 0.2 }, "{format:?} {split}: {difference}");
        }
    }
    let fault = converted("tale", Format::Q4K).shared().unwrap().check(Split::Tensor, 2).unwrap_err();
    assert!(matches!(fault, BadSplit::Blocks { layer: 0, format: Format::Q4K, .. }), "{fault}");
    assert!(fault.to_string().contains("in blocks of 256"), "{fault}");
}

/// The matrices of an adapter are split with the weights that it changes.
#[test]
fn adapters_are_shared_out_too() {
    let all = fixtures().join("golden/adapters");
    let (mut worst, mut models) = (0f32, Vec::new());
    for entry in std::fs::read_dir(all).unwrap() {
        let path = entry.unwrap().path();
        if !path.join("adapter_config.json").is_file() {
            continue;
        }
        let folder = ModelFolder::find(&path, |_| ()).unwrap().cached_as(Format::F32);
        let alone = rows_of(&folder.model(&Device::Cpu).unwrap());
        for split in [Split::Tensor, Split::Layers] {
            let (model, others) = on_ranks(&folder, split, 2);
            let difference = largest_difference(&rows_of(&model), &alone);
            end(model, others);
            assert!(difference <= if split == Split::Layers { 0.0 } else { 1e-4 }, "{}: {difference}", path.display());
            worst = worst.max(difference);
        }
        models.push(folder.shared().unwrap().terms(Split::Tensor)[1].1.clone());
    }
    println!("{} adapters, largest difference {worst:e}", models.len());
    let count = models.len();
    models.sort();
    models.dedup();
    assert!(count > 3 && models.len() == count, "ranks tell models with different adapters apart: {models:?}");
}

/// Models of the same shape that were trained differently.
#[test]
fn models_of_one_shape_are_told_apart() {
    let terms =
        |name: &str| ModelFolder::at(fixtures().join("models").join(name)).shared().unwrap().terms(Split::Tensor);
    let [small, again, expert] = ["tale-small", "tale-small", "tale-expert"].map(terms);
    assert_eq!(small, again);
    assert_ne!(small[1], expert[1]);
}

/// The contract of a sequence.
#[test]
fn ranks_keep_the_distributions_of_sequences() {
    for (name, split, world) in [("tensor", Split::Tensor, 2), ("layers", Split::Layers, 2)] {
        let (model, others) = on_ranks(&tale_small(), split, world);
        crate::distributions::together_as_alone(name, &model, None);
        crate::distributions::a_path_of_a_tree_is_kept(name, &model, None);
        crate::distributions::forks_go_their_own_ways(name, &model);
        // In chunks, several of which the ranks process at a time.
        let prompt = text(700.min(model.context_length()), 3, model.vocabulary_size());
        let mut sequence = model.clone().begin(prompt.len()).unwrap();
        let mut alone = tale_small().model(&Device::Cpu).unwrap().begin(prompt.len()).unwrap();
        let [got, expected] =
            [&mut sequence, &mut alone].map(|sequence| read(&mut **sequence, Batch::chain(&prompt, Wanted::Last)));
        assert!(largest_difference(&got, &expected) <= 1e-4);
        drop(sequence);
        end(model, others);
    }
}

/// An invalid request is refused before the other ranks are asked, and changes nothing.
#[test]
fn faults_of_a_request_are_not_faults_of_the_ranks() {
    let (model, others) = on_ranks(&tale_small(), Split::Tensor, 2);
    let mut sequence = model.clone().begin(5).unwrap();
    let mut rows = Rows::default();
    let error = sequence.forward(&Batch::chain(&[u32::MAX], Wanted::Last), &mut rows).unwrap_err();
    assert!(matches!(error, ModelError::UnknownToken { .. }), "{error}");
    assert!(matches!(model.clone().begin(1 << 20), Err(ModelError::ContextFull { .. })));
    sequence.forward(&Batch::chain(&[1; 5], Wanted::Last), &mut rows).unwrap();
    let error = sequence.forward(&Batch::chain(&[1], Wanted::Last), &mut rows).unwrap_err();
    assert!(matches!(error, ModelError::ContextFull { .. }), "{error}");
    assert_eq!(sequence.len(), 5);
    drop(sequence);
    end(model, others);
}

/// A rank that ends in the middle of a text, at any call, causes an error; the text is unchanged, and nothing hangs.
#[test]
fn a_rank_that_is_gone_is_an_error_and_the_text_is_as_before() {
    // Beginning a text takes two calls, and each token three or more.
    for (split, calls) in [Split::Tensor, Split::Layers].into_iter().flat_map(|split| (3..24).map(move |i| (split, i)))
    {
        let (first, other) = connected(split, move |own| Watched::fails_after(calls, own));
        let model: Arc<dyn LanguageModel> = tale_small().shared().unwrap().lead(split, Box::new(first)).unwrap();
        let mut sequence = model.clone().begin(200).unwrap();
        let (mut rows, started) = (Rows::default(), Instant::now());
        let error = loop {
            let before = sequence.len();
            if let Err(error) = sequence.forward(&Batch::chain(&[5], Wanted::Last), &mut rows) {
                assert_eq!(sequence.len(), before, "{split}, {calls} calls");
                break error;
            }
        };
        assert!(matches!(error, ModelError::Ranks(_)) && error.to_string().contains("rank 1"), "{error}");
        let error = sequence.forward(&Batch::chain(&[5], Wanted::Last), &mut rows).unwrap_err();
        assert!(matches!(error, ModelError::Ranks(CollectiveError::Over)), "{error}");
        assert!(sequence.fork().is_err() && model.clone().begin(3).is_err());
        assert!(started.elapsed() < DEADLINES.call, "{:?}", started.elapsed());
        assert!(other.join().unwrap().is_err());
    }
}

/// A wrapper of a rank that fails after some calls, or reports at its end how much it has sent.
struct Watched {
    own: Tcp,
    calls: usize,
    sent: Arc<AtomicU64>,
}

impl Watched {
    fn fails_after(calls: usize, own: Tcp) -> Self {
        Self { own, calls, sent: Arc::default() }
    }

    fn counts(sent: &Arc<AtomicU64>, own: Tcp) -> Self {
        Self { own, calls: usize::MAX, sent: sent.clone() }
    }

    fn next(&mut self) -> &mut Tcp {
        self.calls -= 1;
        if self.calls == 0 {
            self.own.abort("the power went out");
        }
        &mut self.own
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.sent.store(self.own.sent(), Ordering::Relaxed);
    }
}

impl Collective for Watched {
    fn rank(&self) -> usize {
        self.own.rank()
    }

    fn world(&self) -> usize {
        self.own.world()
    }

    fn all_reduce_sum(&mut self, x: &mut [f32]) -> Result<(), CollectiveError> {
        self.next().all_reduce_sum(x)
    }

    fn gather(&mut self, part: &[f32], all: &mut [f32]) -> Result<(), CollectiveError> {
        self.next().gather(part, all)
    }

    fn broadcast(&mut self, message: &mut Vec<u8>) -> Result<(), CollectiveError> {
        self.next().broadcast(message)
    }

    fn send(&mut self, to: usize, x: &[f32]) -> Result<(), CollectiveError> {
        self.next().send(to, x)
    }

    fn receive(&mut self, from: usize, x: &mut [f32]) -> Result<(), CollectiveError> {
        self.next().receive(from, x)
    }

    fn abort(&mut self, why: &str) {
        self.own.abort(why);
    }

    fn sent(&self) -> u64 {
        self.own.sent()
    }
}

/// Rank 0 of two, and the other one, a worker that is watched.
fn connected(split: Split, watch: impl FnOnce(Tcp) -> Watched + Send + 'static) -> (Tcp, Served) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().to_string();
    let terms = tale_small().shared().unwrap().terms(split);
    let of_worker = terms.clone();
    let other = std::thread::spawn(move || {
        let own = listener.follow(Some(2), &of_worker, DEADLINES, |_| ()).unwrap();
        tale_small().shared().unwrap().follow(split, Box::new(watch(own))).unwrap().serve()
    });
    (Tcp::lead(&[address], &terms, DEADLINES).unwrap(), other)
}

/// The bytes that each of two ranks sends for a text of `tokens` tokens, read one by one.
fn sent(split: Split, tokens: usize) -> [u64; 2] {
    let sent = [0; 2].map(|_| Arc::new(AtomicU64::new(0)));
    let of_worker = sent[1].clone();
    let (own, other) = connected(split, move |own| Watched::counts(&of_worker, own));
    let own = Watched::counts(&sent[0], own);
    let model: Arc<dyn LanguageModel> = tale_small().shared().unwrap().lead(split, Box::new(own)).unwrap();
    let mut sequence = model.clone().begin(50).unwrap();
    (0..tokens).for_each(|_| drop(read(&mut *sequence, Batch::chain(&[5], Wanted::Last))));
    drop(sequence);
    end(model, vec![other]);
    sent.map(|sent| sent.load(Ordering::Relaxed))
}

/// The figures per token in `docs/parallel.md`: the formula, and the count.
#[test]
fn what_is_sent_for_a_token_is_what_the_page_says() {
    let config = tale_small().config().unwrap();
    let (layers, width, vocabulary) = (config.blocks.len() as u64, config.width as u64, config.vocabulary as u64);
    for split in [Split::Tensor, Split::Layers] {
        let (none, ten) = (sent(split, 0), sent(split, 10));
        let a_token = [0, 1].map(|rank| (ten[rank] - none[rank]) / 10);
        let (command, hidden) = (8 + 4 * 8, 8 + 4 * width);
        let expected = match split {
            Split::Tensor => [command + 2 * layers * hidden, 2 * layers * hidden + 8 + 4 * vocabulary / 2],
            Split::Layers => [command + hidden, hidden],
        };
        println!("{split}: {a_token:?} bytes a token, {layers} layers of {width}, {vocabulary} tokens");
        assert_eq!(a_token, expected, "{split}");
    }
}
