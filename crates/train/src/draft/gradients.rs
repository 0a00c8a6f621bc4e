//! Compares every gradient with finite differences, in f64, and networks in training with networks in use.

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use verdigris_logits::{Purpose, Random};
use verdigris_models as models;
use verdigris_models::{DraftHead, DraftTarget, ModelFolder, Wanted};

use super::agreement::Judge;
use super::examples::Batch;
use super::feature::{Feature, NORMS, Shape};
use super::head::{Guesses, Head};
use super::medusa::Medusa;

const WIDTH: usize = 8;

/// Arbitrary numbers.
struct Noise(u64);

impl Noise {
    fn tensor(&mut self, shape: &[usize]) -> Tensor {
        let next = |at: &mut u64| {
            *at += 1;
            Random::new(3).uniform(*at, Purpose::Weight) - 0.4
        };
        let values: Vec<f64> = (0..shape.iter().product()).map(|_| next(&mut self.0)).collect();
        Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
    }
}

/// Two texts of different lengths.
fn batch(noise: &mut Noise) -> Batch {
    let texts: [(usize, &[u32]); 2] = [(2, &[1, 5, 2, 3, 0, 4, 6]), (1, &[3, 3, 1, 2, 5])];
    Batch::new(&texts, noise.tensor(&[2, 7, WIDTH]))
}

fn feature(noise: &mut Noise) -> Feature {
    let shape = Shape { width: WIDTH, heads: 4, kv_heads: 2, head_dim: 4, inner: 6, epsilon: 1e-5, theta: 100.0 };
    let mut weights: BTreeMap<String, Tensor> =
        shape.matrices().map(|(name, shape)| (name.to_owned(), noise.tensor(&shape))).into();
    weights.extend(NORMS.map(|name| (name.to_owned(), noise.tensor(&[WIDTH]))));
    let embedding = noise.tensor(&[7, WIDTH]);
    let embed = move |tokens: &[u32]| embedding.index_select(&Tensor::new(tokens, &Device::Cpu)?, 0);
    Feature::new(shape, Arc::new(embed), weights).unwrap()
}

fn medusa(noise: &mut Noise, own: bool) -> Medusa {
    let mut weights = BTreeMap::new();
    for head in 0..3 {
        weights.insert(format!("medusa_head.{head}.0.linear.weight"), noise.tensor(&[WIDTH, WIDTH]));
        weights.insert(format!("medusa_head.{head}.0.linear.bias"), noise.tensor(&[WIDTH]));
        if own {
            weights.insert(format!("medusa_head.{head}.1.weight"), noise.tensor(&[5, WIDTH]));
        }
    }
    Medusa::new(3, weights).unwrap()
}

#[test]
fn every_weight_has_the_gradient_of_finite_differences() {
    let noise = &mut Noise(0);
    let batch = batch(noise);
    let output = noise.tensor(&[5, WIDTH]);
    let heads: [(Box<dyn Head>, Option<f64>); 4] = [
        (Box::new(feature(noise)), None),
        (Box::new(feature(noise)), Some(0.7)),
        (Box::new(medusa(noise, false)), Some(0.7)),
        (Box::new(medusa(noise, true)), None),
    ];
    for (head, cap) in heads {
        let judge = Judge { output: output.clone(), cap };
        let loss = || judge.loss(&head.guesses(&batch).unwrap(), |further| 0.8f64.powi(further as i32)).unwrap();
        let value = || loss().to_scalar::<f64>().unwrap();
        let gradients = loss().backward().unwrap();
        for (name, var) in head.variables() {
            let gradient = gradients.get(var.as_tensor()).unwrap_or_else(|| panic!("{name} has no gradient"));
            let gradient = gradient.flatten_all().unwrap().to_vec1::<f64>().unwrap();
            let values = var.flatten_all().unwrap().to_vec1::<f64>().unwrap();
            let shape = var.shape().clone();
            let set =
                |values: &[f64]| var.set(&Tensor::from_slice(values, shape.clone(), &Device::Cpu).unwrap()).unwrap();
            for i in 0..values.len() {
                let step = 1e-5;
                let mut moved = values.clone();
                moved[i] += step;
                set(&moved);
                let above = value();
                moved[i] -= 2.0 * step;
                set(&moved);
                let slope = (above - value()) / (2.0 * step);
                let near = (slope - gradient[i]).abs() < 1e-7 + 1e-6 * slope.abs();
                assert!(near, "{} {name}[{i}]: {} and {slope}", head.name(), gradient[i]);
            }
            set(&values);
        }
    }
}

/// The number of positions of all texts at which each guess counts.
fn counted(guesses: &Guesses) -> Vec<usize> {
    guesses.each.iter().map(|guess| guess.counts.iter().filter(|&&counts| counts).count()).collect()
}

/// The first text has five tokens after its prompt. The second has four, of which the first follows only one token, so
/// a drafter has no state and token to continue from.
#[test]
fn guesses_count_where_they_can_be_made() {
    let noise = &mut Noise(0);
    let batch = batch(noise);
    assert_eq!(batch.answers(), 9);
    assert_eq!(counted(&feature(noise).guesses(&batch).unwrap()), [8, 6, 4, 2]);
    assert_eq!(counted(&medusa(noise, false).guesses(&batch).unwrap()), [7, 5, 3]);
}

fn close(got: &[f32], expected: &[f32], what: &str) {
    assert_eq!(got.len(), expected.len());
    let worst = got.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
    // Networks in use keep keys and values in f16.
    assert!(worst < 1e-3, "{what}: {worst}");
}

/// The heads that are compared with torch, and a text with the target's states.
fn golden(name: &str) -> (DraftHead, DraftTarget, BTreeMap<String, Tensor>, Batch) {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let folder = fixtures.join("golden/draft_heads").join(name);
    let target = ModelFolder::at(fixtures.join("models/tale-small"));
    let head = DraftHead::load(&ModelFolder::at(&folder), &target).unwrap();
    let tensors = |path: std::path::PathBuf| candle_core::safetensors::load(path, &Device::Cpu).unwrap();
    let mut weights = tensors(folder.join("model.safetensors"));
    weights.remove("draft_tokens");
    let weights = weights.into_iter().map(|(name, weight)| (name, weight.to_dtype(DType::F32).unwrap())).collect();
    let expected = tensors(fixtures.join("golden/draft_heads/expected.safetensors"));
    let ids: Vec<u32> = expected["ids"].to_vec1::<i64>().unwrap().into_iter().map(|id| id as u32).collect();
    let hidden = expected["hidden"].unsqueeze(0).unwrap();
    (head, DraftTarget::of(&target).unwrap(), weights, Batch::new(&[(1, &ids)], hidden))
}

fn numbers(states: &Tensor) -> Vec<Vec<f32>> {
    states.to_vec2().unwrap()
}

/// A draft, token by token, has the states that training computes for all positions at once.
#[test]
fn a_drafter_is_trained_as_it_is_run() {
    let (head, target, weights, batch) = golden("feature");
    let DraftHead::Feature(model) = head else { panic!("it is a feature drafter") };
    let shape = Shape { inner: 64, heads: 4, kv_heads: 1, head_dim: 16, ..Shape::of(target.config(), None) };
    let width = shape.width;
    let embed = move |tokens: &[u32]| Tensor::from_vec(target.embeddings(tokens), (tokens.len(), width), &Device::Cpu);
    let guesses = Feature::new(shape, Arc::new(embed), weights).unwrap().guesses(&batch).unwrap();
    let states: Vec<_> = guesses.each.iter().map(|guess| numbers(&guess.states)).collect();
    let hidden: Vec<f32> = batch.hidden.flatten_all().unwrap().to_vec1().unwrap();
    let mut rows = models::Rows::with_hidden();
    for at in [1, 2, 9, 15] {
        let mut sequence = model.begin(batch.length).unwrap();
        let read = models::Batch::chain(&batch.tokens[1..=at], Wanted::Last);
        sequence.forward(&read, &hidden[..at * width], &mut rows).unwrap();
        let mut own = rows.hidden(at - 1).to_vec();
        for (shift, states) in states.iter().enumerate() {
            // Positions are counted from the second token on.
            close(&states[at + shift - 1], &own, &format!("token {shift} of a draft from {at}"));
            let next = [batch.tokens[at + shift + 1]];
            sequence.forward(&models::Batch::chain(&next, Wanted::Last), &own, &mut rows).unwrap();
            own = rows.hidden(0).to_vec();
        }
    }
}

#[test]
fn heads_are_trained_as_they_are_run() {
    let (head, target, weights, batch) = golden("medusa");
    let DraftHead::Medusa(heads) = head else { panic!("they are Medusa heads") };
    let guesses = Medusa::new(2, weights).unwrap().guesses(&batch).unwrap();
    let shared = target.output_rows(heads.tokens());
    let shared = Tensor::from_vec(shared, (heads.tokens().len(), heads.hidden_size()), &Device::Cpu).unwrap();
    let hidden = numbers(&batch.hidden.squeeze(0).unwrap());
    let mut rows = models::Rows::default();
    for (k, guess) in guesses.each.iter().enumerate() {
        let output = guess.output.as_ref().unwrap_or(&shared);
        let logits = numbers(&guess.states.matmul(&output.t().unwrap()).unwrap());
        // The distribution after token `at` is guessed from the state `k + 1` tokens before it.
        for at in [k + 1, 7, 20] {
            heads.guess(&hidden[at - k - 1], 2, &mut rows);
            close(&logits[at - 1], rows.row(k), &format!("head {k} at {at}"));
        }
    }
}
