//! Keys, schemes and tails are those of docs/spec.md: compares with `fixtures/spec/vectors.json`, made by a second
//! implementation.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha3::{Digest, Sha3_256};
use verdigris_logits::{Row, TokenId};
use verdigris_watermark::kdf::{Purpose, derive};
use verdigris_watermark::real::ln_1p;
use verdigris_watermark::{Gamma, Key, Observation, Scheme, ScoreDistribution, Strength};

/// The inputs and answers of a section.
fn section<I: DeserializeOwned, A: DeserializeOwned>(name: &str) -> Vec<(I, A)> {
    #[derive(Deserialize)]
    struct Case<I, A> {
        input: I,
        answer: A,
    }
    let mut vectors: Value = serde_json::from_str(include_str!("../../../fixtures/spec/vectors.json")).unwrap();
    let cases: Vec<Case<I, A>> = serde_json::from_value(vectors[name].take()).unwrap();
    assert!(!cases.is_empty(), "{name}");
    cases.into_iter().map(|case| (case.input, case.answer)).collect()
}

/// A scheme, by the name of its key.
#[derive(Debug, Deserialize)]
struct Marked {
    key: String,
    #[serde(default)]
    variant: u8,
    payload: Option<u32>,
    #[serde(default)]
    contexts: Vec<Vec<TokenId>>,
    #[serde(default)]
    context: Vec<TokenId>,
    #[serde(default)]
    tokens: Vec<TokenId>,
}

impl Marked {
    fn key(&self) -> Key {
        let vectors: Value = serde_json::from_str(include_str!("../../../fixtures/spec/vectors.json")).unwrap();
        Key::parse(vectors["keys"][&self.key].as_str().unwrap().as_bytes()).unwrap()
    }

    fn scheme(&self) -> std::sync::Arc<dyn Scheme> {
        match self.payload {
            Some(payload) => self.key().carrier(payload).unwrap(),
            None => self.key().variant(self.variant).scheme().unwrap(),
        }
    }
}

fn observe(scheme: &dyn Scheme, tokens: &[TokenId]) -> Vec<Observation> {
    let mut observations = Vec::new();
    scheme.observe(tokens, &mut observations);
    observations
}

#[test]
fn derived_keys_are_those_of_the_specification() {
    #[derive(Deserialize)]
    struct Input {
        secret: String,
        id: String,
        tenant: String,
        variant: String,
    }
    #[derive(Deserialize)]
    struct Answer {
        keys: BTreeMap<String, String>,
        tenant_secret: String,
        variant_secret: String,
    }
    for (input, answer) in section::<Input, Answer>("derivations") {
        let secret = HEXLOWER.decode(input.secret.as_bytes()).unwrap();
        let hex = |purpose, id: &str, tenant: &str| HEXLOWER.encode(&*derive(&secret, purpose, id, tenant));
        assert_eq!(answer.keys.len(), 4);
        for (name, purpose) in [
            ("context", Purpose::Context),
            ("list", Purpose::List),
            ("noise context", Purpose::NoiseContext),
            ("noise", Purpose::Noise),
        ] {
            assert_eq!(hex(purpose, &input.id, &input.tenant), answer.keys[name], "{name}");
        }
        let of_tenant = [Purpose::TenantLow, Purpose::TenantHigh].map(|half| hex(half, "", &input.tenant));
        assert_eq!(of_tenant.concat(), answer.tenant_secret);
        let of_variant = [Purpose::VariantLow, Purpose::VariantHigh].map(|half| hex(half, "", &input.variant));
        assert_eq!(of_variant.concat(), answer.variant_secret);
    }
}

#[test]
fn public_parts_are_those_of_the_specification() {
    for (input, answer) in section::<Marked, Value>("public_parts") {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("public.key");
        input.key().published().unwrap().save(&file).unwrap();
        let written: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        assert_eq!((&written["id"], &written["secret"]), (&answer["id"], &answer["secret"]));
        assert_eq!(written["scheme"]["part"], "public");
    }
}

#[test]
fn key_files_that_the_specification_refuses_are_refused() {
    for (input, answer) in section::<Value, Value>("bad_keys") {
        let file = input["file"].as_str().unwrap();
        assert_eq!(Key::parse(file.as_bytes()).is_err(), answer["refused"].as_bool().unwrap(), "{file}");
    }
}

/// Existing marked texts depend on these lists, so they never change.
#[test]
fn green_lists_are_those_of_the_specification() {
    for (input, answer) in section::<Marked, Value>("green_lists") {
        let (scheme, mut digest) = (input.scheme(), Sha3_256::new());
        for context in &input.contexts {
            let mut row = Row::from(vec![0.0; scheme.vocabulary_size()]);
            scheme.mark(context, Strength::soft(1.0).unwrap(), &mut row);
            let bits = row.logits().chunks(8);
            let bytes = bits.map(|bits| bits.iter().rev().fold(0, |byte, &z| byte << 1 | u8::from(z > 0.0)));
            digest.update(bytes.collect::<Vec<u8>>());
        }
        assert_eq!(HEXLOWER.encode(&digest.finalize()), answer["sha3_256"], "{input:?}");
    }
}

#[test]
fn noise_is_that_of_the_specification() {
    #[derive(Deserialize)]
    struct Answer {
        seed: String,
        numbers: Vec<u64>,
    }
    for (input, answer) in section::<Marked, Answer>("uniforms") {
        let (scheme, seed) = (input.scheme(), HEXLOWER.decode(answer.seed.as_bytes()).unwrap());
        let low = u64::from_le_bytes(seed[..8].try_into().unwrap());
        assert_eq!(answer.numbers.len(), input.tokens.len());
        for (&token, number) in input.tokens.iter().zip(answer.numbers) {
            let [observed] = observe(&*scheme, &[&input.context[..], &[token]].concat())[..] else { panic!("one") };
            // Contexts whose tokens all decide are named by these.
            assert_eq!(observed.context == low, scheme.by_position().is_none(), "{input:?}");
            let score = -ln_1p(-(number as f64 / (1u64 << 53) as f64));
            assert_eq!(observed.score, score as f32, "{token}: {input:?}");
        }
    }
}

#[test]
fn observations_are_those_of_the_specification() {
    #[derive(Deserialize)]
    struct Answer {
        observations: Vec<(String, String, Option<f64>)>,
    }
    for (input, answer) in section::<Marked, Answer>("observations") {
        let score = |score: f32| (!score.is_nan()).then_some(f64::from(score));
        let named = |o: Observation| (format!("{:016x}", o.context), format!("{:016x}", o.identity), score(o.score));
        let observed: Vec<_> = observe(&*input.scheme(), &input.tokens).into_iter().map(named).collect();
        assert_eq!(observed, answer.observations, "{input:?}");
    }
}

#[test]
fn tails_are_those_of_the_specification() {
    #[derive(Debug, Deserialize)]
    struct Input {
        m: Option<u16>,
        #[serde(default)]
        k: i32,
        n: u64,
        sum: f64,
    }
    #[derive(Deserialize)]
    struct Answer {
        ln_p: f64,
        z: f64,
    }
    for (input, answer) in section::<Input, Answer>("tails") {
        let green =
            |m| ScoreDistribution::Green { gamma: Gamma::new(f64::from(m) / 2f64.powi(input.k)).unwrap().value() };
        let distribution = input.m.map_or(ScoreDistribution::Exponential, green);
        let near = |found: f64, expected: f64| (found - expected).abs() <= 1e-9 * expected.abs().max(1e-3);
        let (ln_p, z) = (distribution.ln_tail(input.n, input.sum), distribution.z_score(input.n, input.sum));
        assert!(near(ln_p, answer.ln_p) && near(z, answer.z), "{input:?}: {ln_p} {z}");
    }
}
