//! Compares every dialect with the package or repository that defines it: `fixtures/golden/dialects.json` and
//! `repositories.json`, made by the scripts next to them.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use serde::Deserialize;
use sha3::{Digest, Sha3_256};
use verdigris_logits::{Row, TokenId};

use super::gumbel::Noise;
use super::kgw;
use super::sglang::{self, Sglang};
use super::synthid::{self, Score, SynthId};
use super::three_bricks::{self, Uniforms};
use super::vllm::{self, Vllm};
use crate::{Dialect, Observation, Strength};

#[derive(Deserialize)]
struct Case {
    scheme: Dialect,
    secret: String,
    vocabulary: usize,
    contexts: Vec<Vec<TokenId>>,
    sha3_256: String,
}

impl Case {
    fn secret(&self) -> Vec<u8> {
        HEXLOWER.decode(self.secret.as_bytes()).unwrap()
    }

    fn numbers(&self) -> Vec<u64> {
        self.secret().chunks(8).map(|number| u64::from_be_bytes(number.try_into().unwrap())).collect()
    }

    /// The answers in the script's format.
    fn answers(&self) -> Vec<u8> {
        let all = || 0..self.vocabulary as TokenId;
        let words = |answer: &dyn Fn(&[TokenId]) -> Vec<u32>| {
            self.contexts.iter().flat_map(|context| answer(context)).flat_map(u32::to_le_bytes).collect()
        };
        let (numbers, vocabulary) = (self.numbers(), self.vocabulary);
        match self.scheme {
            Dialect::Vllm(_) => {
                let noise = Vllm::single(numbers[0]);
                words(&|context| {
                    let context = noise.context(context);
                    all().flat_map(|token| noise.mantissas(&context, token)).collect()
                })
            }
            Dialect::VllmDual(vllm::DualParameters { alpha, .. }) => {
                let noise = Vllm::dual(numbers[0], alpha);
                words(&|context| {
                    let context = noise.context(context);
                    let key = |i: usize| all().map(|token| noise.mantissas(&context, token)[i]).collect::<Vec<_>>();
                    [key(0), key(1)].concat()
                })
            }
            Dialect::Sglang(_) => {
                let noise = Sglang::new([numbers[0], 0], None);
                words(&|context| all().map(|token| sglang::hash(noise.context(context), token)).collect())
            }
            Dialect::SglangDual(sglang::DualParameters { mixing, .. }) => {
                let noise = Sglang::new([numbers[0], numbers[1]], Some(mixing));
                words(&|context| all().map(|token| sglang::hash(noise.context(context), token)).collect())
            }
            Dialect::ThreeBricksOpenai(three_bricks::OpenaiParameters { width }) => {
                let noise = Uniforms::new([numbers[0], numbers[1]], width, vocabulary);
                words(&|context| {
                    let context = noise.context(context);
                    // Zero is replaced by a half here, which changes the noise of one token in 2^24 only.
                    all().map(|token| (noise.uniform(&context, token) * f64::from(1 << 24)) as u32).collect()
                })
            }
            Dialect::Synthid(synthid::Parameters { bits, ngram_len, .. }) => {
                let keys: Vec<i64> = numbers.iter().map(|&key| key as i64).collect();
                let scheme = SynthId::new(&keys, bits, ngram_len, Score::Mean, vocabulary).unwrap();
                let g = |context: &[TokenId], token| scheme.g_values(scheme.hash(&[context, &[token]].concat()));
                let answers = self.contexts.iter().flat_map(|context| all().map(move |token| g(context, token)));
                answers.flat_map(u64::to_le_bytes).collect()
            }
            _ => self.colours(),
        }
    }

    /// Colours both ways: whole lists as a writer makes them, and single tokens as a reader judges them.
    fn colours(&self) -> Vec<u8> {
        let scheme = self.scheme.scheme(&self.secret(), "", "", self.vocabulary).unwrap();
        let mut bytes = Vec::new();
        for context in &self.contexts {
            let reads = |token: TokenId| {
                let mut observations: Vec<Observation> = Vec::new();
                scheme.observe(&[context, &[token][..]].concat(), &mut observations);
                observations[0].score == 1.0
            };
            let mut row = Row::from(vec![0.0; self.vocabulary]);
            scheme.mark(context, Strength::soft(1.0).unwrap(), &mut row);
            let written: Vec<bool> = row.logits().iter().map(|&z| z > 0.0).collect();
            // Self-salted writers judge only the best candidates: here, where all are equal, the first ones.
            let salted = matches!(&self.scheme, Dialect::Kgw(kgw::Parameters { seeding, .. }) if seeding.self_salt)
                || format!("{}", self.scheme).contains("selfhash");
            let whole = !salted || format!("{}", self.scheme).contains("fullvocab");
            let colours: Vec<bool> = match whole {
                true => written.clone(),
                false => (0..self.vocabulary as TokenId).map(reads).collect(),
            };
            let judged = if whole { self.vocabulary } else { 40 };
            for token in (0..judged).step_by((judged / 40).max(1)) {
                assert_eq!(reads(token as TokenId), written[token], "{} {token}", self.scheme);
            }
            if !whole {
                let count = written.iter().rposition(|&green| green).unwrap();
                assert!(count <= 40, "{}: candidate {count} was judged", self.scheme);
            }
            bytes.extend(
                colours.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit))),
            );
        }
        bytes
    }
}

#[test]
fn every_dialect_equals_its_package_in_a_million_answers() {
    let read = |file: &str| serde_json::from_str::<Vec<Case>>(file).unwrap();
    let mut cases = read(include_str!("../../../../fixtures/golden/dialects.json"));
    cases.extend(read(include_str!("../../../../fixtures/golden/repositories.json")));
    let mut answers = BTreeMap::<&str, usize>::new();
    for case in &cases {
        let bytes = case.answers();
        let each = match &case.scheme {
            Dialect::Synthid(_) => case.numbers().len(),
            Dialect::VllmDual(_) => 2,
            _ => 1,
        };
        *answers.entry(case.scheme.name()).or_default() += case.contexts.len() * case.vocabulary * each;
        assert_eq!(HEXLOWER.encode(&Sha3_256::digest(bytes)), case.sha3_256, "{}", case.scheme);
    }
    assert_eq!(answers.len(), 12, "all but our own: {:?}", answers.keys());
    assert!(answers.values().all(|&n| n >= 1_000_000), "{answers:?}");
}

/// The writer's result for a row of logits.
#[derive(Deserialize)]
struct Marking {
    scheme: Dialect,
    secret: String,
    contexts: Vec<Vec<TokenId>>,
    raised: Option<Vec<Vec<usize>>>,
    taken: Option<Vec<usize>>,
    distributions: Option<Vec<Vec<f64>>>,
}

/// Compares with `fixtures/golden/marking.json`, made by the packages' own writers on the same rows.
#[test]
fn rows_are_marked_as_by_the_packages_own_writers() {
    const VOCABULARY: usize = 300;
    let cases: Vec<Marking> = serde_json::from_str(include_str!("../../../../fixtures/golden/marking.json")).unwrap();
    assert_eq!(cases.len(), 6);
    for case in cases {
        let secret = HEXLOWER.decode(case.secret.as_bytes()).unwrap();
        let scheme = case.scheme.scheme(&secret, "", "", VOCABULARY).unwrap();
        for (n, context) in case.contexts.iter().enumerate() {
            let logits: Vec<f32> = (0..VOCABULARY).map(|t| ((t * 7919 + 13 * n) % 1000) as f32 / 100.0).collect();
            let mut row = Row::from(logits.clone());
            scheme.mark(context, Strength::default(), &mut row);
            if let Some(raised) = &case.raised {
                let ours: Vec<usize> = (0..VOCABULARY).filter(|&t| row.logits()[t] > logits[t] + 1.0).collect();
                assert_eq!(ours, raised[n], "{} after {context:?}", case.scheme);
            }
            if let Some(taken) = &case.taken {
                let left: Vec<usize> = (0..VOCABULARY).filter(|&t| row.logits()[t] > f32::NEG_INFINITY).collect();
                assert_eq!(left, [taken[n]], "{} after {context:?}", case.scheme);
            }
            if let Some(distributions) = &case.distributions {
                for (ours, theirs) in row.distribution().iter().zip(&distributions[n]) {
                    assert!((ours - theirs).abs() < 1e-6, "{} after {context:?}: {ours} {theirs}", case.scheme);
                }
            }
        }
    }
}
