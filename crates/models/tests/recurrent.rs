//! Layers with a state of fixed size: whatever was read, cut back, kept, forked and read together, the rows have the
//! bits of a text that is read token by token.

use std::path::Path;
use std::sync::Arc;

use verdigris_logits::{Purpose, Random};
use verdigris_models::{Batch, BatchItem, Device, LanguageModel, ModelFolder, Rows, Sequence, Wanted};

use crate::golden::rows;

const VOCABULARY: u64 = 61;

/// A golden model with another context length.
fn model(name: &str) -> Arc<dyn LanguageModel> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/architectures").join(name);
    let copy = tempfile::tempdir().unwrap();
    let config = std::fs::read_to_string(folder.join("config.json")).unwrap();
    let config = config.replace("\"max_position_embeddings\": 64", "\"max_position_embeddings\": 4096");
    let config = config.replace("\"max_position_embeddings\": 256", "\"max_position_embeddings\": 4096");
    std::fs::write(copy.path().join("config.json"), config).unwrap();
    std::fs::copy(folder.join("model.safetensors"), copy.path().join("model.safetensors")).unwrap();
    ModelFolder::at(copy.path()).model(&Device::Cpu).unwrap()
}

const MODELS: [&str; 7] = [
    "lfm2_moe",
    "qwen3_next",
    "qwen3_5_text",
    "qwen3_5_moe",
    "mamba2",
    "granitemoehybrid-experts",
    "nemotron_h-latent",
];

struct Noise(Random, u64);

impl Noise {
    fn below(&mut self, n: usize) -> usize {
        self.1 += 1;
        (self.0.uniform(self.1, Purpose::Token) * n as f64) as usize
    }

    fn tokens(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.below(VOCABULARY as usize) as u32).collect()
    }
}

fn alone(model: &Arc<dyn LanguageModel>, tokens: &[u32]) -> Vec<Vec<f32>> {
    let mut sequence = model.clone().begin(tokens.len()).unwrap();
    tokens.iter().flat_map(|token| rows(&mut *sequence, Batch::chain(&[*token], Wanted::All))).collect()
}

/// A long prompt, of which the end and then the middle is read again: past what is kept, and past snapshots.
#[test]
fn a_text_is_cut_back_to_any_length() {
    for name in MODELS {
        let model = model(name);
        let tokens = Noise(Random::new(1), 0).tokens(1300);
        let whole = alone(&model, &tokens);
        let mut sequence = model.clone().begin(1400).unwrap();
        assert!(rows(&mut *sequence, Batch::chain(&tokens, Wanted::All)) == whole, "{name}: in one prompt");
        for (length, more) in [(1299, 1), (1290, 10), (1270, 7), (1100, 20), (700, 5), (3, 4), (0, 40)] {
            let mut fork = sequence.fork_at(length).unwrap();
            let mut prepared = fork.fork_at(length).unwrap();
            prepared.read_again().unwrap();
            sequence.truncate(length);
            for of in [&mut sequence, &mut fork, &mut prepared] {
                let got = rows(&mut **of, Batch::chain(&tokens[length..length + more], Wanted::All));
                assert!(got == whole[length..length + more], "{name}: {more} after {length}");
            }
        }
    }
}

/// Random reads, cuts, trees, kept branches and forks of several texts, in one pass each.
#[test]
fn random_operations_change_no_bit() {
    for (seed, name) in MODELS.into_iter().enumerate() {
        let model = model(name);
        let mut noise = Noise(Random::new(seed as u64 + 7), 0);
        let mut texts: Vec<(Box<dyn Sequence>, Vec<u32>)> =
            (0..3).map(|_| (model.clone().begin(600).unwrap(), Vec::new())).collect();
        for _ in 0..40 {
            let mut batches = Vec::new();
            for (sequence, text) in &mut texts {
                if noise.below(4) == 0 {
                    let length = text.len() - noise.below(text.len().min(50) + 1);
                    sequence.truncate(length);
                    text.truncate(length);
                }
                let count = [1, 1, 2, 5, 40][noise.below(5)].min(590 - text.len());
                let tokens = noise.tokens(count);
                let is_tree = (2..=8).contains(&count) && noise.below(2) == 0;
                let parents: Vec<Option<usize>> =
                    (0..count).map(|i| noise.below(i + 1).checked_sub(1).or((i > 0).then(|| i - 1))).collect();
                batches.push((tokens, is_tree.then_some(parents)));
            }
            let mut all: Vec<Rows> = texts.iter().map(|_| Rows::default()).collect();
            let mut items: Vec<BatchItem<'_>> = texts
                .iter_mut()
                .zip(&batches)
                .zip(&mut all)
                .map(|(((sequence, _), (tokens, parents)), rows)| {
                    let batch = match parents {
                        Some(parents) => Batch::tree(tokens, parents),
                        None => Batch::chain(tokens, Wanted::All),
                    };
                    BatchItem { sequence: &mut **sequence, batch, rows }
                })
                .collect();
            model.forward_each(&mut items).unwrap();
            for (((sequence, text), (tokens, parents)), rows) in texts.iter_mut().zip(&batches).zip(&all) {
                let path = match parents {
                    None => (0..tokens.len()).collect(),
                    Some(parents) => {
                        let end = noise.below(tokens.len());
                        let mut path: Vec<usize> = std::iter::successors(Some(end), |&at| parents[at]).collect();
                        path.reverse();
                        sequence.keep(text.len(), &path).unwrap();
                        path
                    }
                };
                let from = text.len();
                text.extend(path.iter().map(|&at| tokens[at]));
                let expected = alone(&model, text);
                for (i, at) in path.iter().enumerate() {
                    assert!(rows.row(*at) == expected[from + i], "{name}: token {} of {}", from + i, text.len());
                }
            }
            if noise.below(5) == 0 {
                let (from, to) = (noise.below(3), noise.below(3));
                let (sequence, text) = &texts[from];
                texts[to] = match noise.below(2) {
                    0 => (sequence.fork().unwrap(), text.clone()),
                    _ => {
                        let length = text.len() - noise.below(text.len().min(50) + 1);
                        (sequence.fork_at(length).unwrap(), text[..length].to_vec())
                    }
                };
            }
        }
    }
}
